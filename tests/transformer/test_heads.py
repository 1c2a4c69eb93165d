"""Special to the Transformer: its classifier's token, its backends, tokens that a loss does not need, its
initialisation.
"""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo import (
    SmallTransformerConfig,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForSequenceClassification,
)
from tests.factory import EVERY_PADDING, MODELS, SEQ2SEQ, TRANSFORMER_VARIANTS, inputs, padded, tiny_model, words

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
every_transformer = pytest.mark.parametrize(
    "name", [name for name in MODELS if MODELS[name][1] in TRANSFORMER_VARIANTS]
)
every_variant = pytest.mark.parametrize("variant", TRANSFORMER_VARIANTS)


# Padding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", SEQ2SEQ)
def test_a_padded_target_does_not_change_its_real_tokens(variant: str) -> None:
    """The decoder's own mask, with padding on the left of the target."""
    model = tiny_model(variant)
    source, target = words(2, 5), words(2, 4, seed=1)
    expected = model(input_ids=source, decoder_input_ids=target).logits
    mask = torch.tensor([[0, 0, 1, 1, 1, 1]] * 2)
    longer = torch.cat([words(2, 2, seed=3), target], dim=1)
    result = model(input_ids=source, decoder_input_ids=longer, decoder_attention_mask=mask).logits
    torch.testing.assert_close(result[:, 2:], expected, **CLOSE)


def test_the_classifier_reads_the_first_or_the_last_real_token() -> None:
    for variant, read in (("bidirectional-post-learned", [0, 2, 0, 1, 0]), ("causal-pre-learned", [5, 5, 2, 4, 5])):
        model = tiny_model(variant, SmallTransformerForSequenceClassification)
        batch = padded(EVERY_PADDING[:5])
        states = model.model(**batch).last_hidden_state
        expected = model.classifier(states[torch.arange(5), torch.tensor(read)])
        torch.testing.assert_close(model(**batch).logits, expected, **CLOSE)


# Backends -------------------------------------------------------------------------------------------------------------


@every_transformer
def test_sdpa_is_eager(name: str) -> None:
    """Values and gradients are equal, also after a switch on the same model."""
    model = tiny_model(name, attention="eager").train()
    batch = inputs(model.config)
    results = []
    for attention in ("eager", "sdpa"):
        model.set_attn_implementation(attention)
        assert model.config._attn_implementation == attention
        states = model(**batch)[0]
        results.append([states, *torch.autograd.grad(states.square().sum(), list(model.parameters()))])
    for eager, sdpa in zip(*results, strict=True):
        torch.testing.assert_close(sdpa, eager, rtol=1e-9, atol=1e-10)


def test_some_of_the_states() -> None:
    model = tiny_model("bidirectional-post-learned")
    every = model(words(2, 4), output_hidden_states=True).hidden_states
    some = model(words(2, 4), output_hidden_states=[1]).hidden_states
    assert [state is None for state in some] == [True, False, True]
    assert torch.equal(some[1], every[1])


# Embeddings -----------------------------------------------------------------------------------------------------------


# Losses ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_recorded", [False, True])
@every_variant
def test_nothing_is_computed_of_tokens_that_the_loss_does_not_need(variant: str, is_recorded: bool) -> None:
    model = tiny_model(variant).train()
    batch, seen = padded(EVERY_PADDING), []
    batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    if model.config.is_encoder_decoder:
        batch["labels"] = torch.full((6, 4), 5)
        batch["labels"][0, 1:] = batch["labels"][1] = -100
    for name, module in model.named_modules():
        if name.endswith("layers.0.feed_forward"):
            module.register_forward_hook(lambda _, args, __: seen.append(args[0].shape[:-1].numel()))
    expected = model(**batch).loss
    seen.clear()
    loss = model(**batch, skip_logits=True, output_hidden_states=is_recorded).loss
    torch.testing.assert_close(loss, expected, **CLOSE)
    real = int(batch["attention_mask"].sum())
    if model.config.is_encoder_decoder:
        assert seen == ([36, 24] if is_recorded else [real, 17])  # 1 + 0 + 4 * 4
    elif model.config.attention_pattern == "causal":
        before_a_word = 4  # padding that stands before a word, which is predicted from it as in any causal model
        assert seen == [36 if is_recorded else real + before_a_word]
    else:
        assert seen == [36 if is_recorded else real]


# Training -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_stands_on_the_embeddings_and_on_every_sublayers_output(norm: str, monkeypatch: Any) -> None:
    """A dropout that doubles its input acts like doubled weights where the dropped values are made."""
    expected = tiny_model("encoder_decoder-post-sinusoidal", norm=norm, position_embedding="learned")
    with torch.no_grad():
        for name, parameter in expected.named_parameters():
            if "embed_tokens" in name or "position_embedding" in name or ".output_proj." in name:
                parameter *= 2
        expected.lm_head.weight = nn.Parameter(expected.lm_head.weight / 2)  # it was the embeddings' own
    batch = inputs(expected.config)
    result = expected(**batch).logits

    def double(values: Tensor, rate: float) -> Tensor:
        return 2 * values

    monkeypatch.setattr(torch.nn.functional, "dropout", double)
    model = tiny_model("encoder_decoder-post-sinusoidal", norm=norm, position_embedding="learned", dropout=0.5).train()
    torch.testing.assert_close(model(**batch).logits, result, **CLOSE)


# The start ------------------------------------------------------------------------------------------------------------


def test_a_new_model_starts_as_the_released_code() -> None:
    torch.manual_seed(0)
    config = SmallTransformerConfig(vocab_size=1000, hidden_size=64, intermediate_size=128, num_attention_heads=4)
    model = SmallTransformerForConditionalGeneration(config)
    for name, weight in model.named_parameters():
        if name.endswith("norm.weight"):
            assert (weight == 1).all()
        elif name.endswith("bias"):
            assert (weight == 0).all()
        elif "embed_tokens" in name:
            assert weight.std().item() == pytest.approx(64**-0.5, rel=0.02)
        else:  # Glorot and Bengio, 2010, eq. 16
            bound = (6 / sum(weight.shape)) ** 0.5
            assert weight.abs().max() <= bound
            assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
    logits = model(words(4, 8), decoder_input_ids=words(4, 8)).logits
    assert 0.5 < logits.std() < 2


# Files ----------------------------------------------------------------------------------------------------------------


# The config -----------------------------------------------------------------------------------------------------------
