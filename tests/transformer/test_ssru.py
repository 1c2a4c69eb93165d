"""The decoder with SSRUs, and the other parts of Marian's models that Firefox translates with."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from peft import PrefixTuningConfig, get_peft_model
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

from attnzoo import SmallTransformerConfig, SmallTransformerForConditionalGeneration
from attnzoo.cell_cache import CellCache
from attnzoo.loss import CLOSED, token_cross_entropy
from attnzoo.transformer_layers import sinusoidal_halves
from tests.factory import BOS, EOS, EVERY_PADDING, padded, refused, tiny_model, words
from tests.reference import small_transformer as reference
from tests.reference.attentional_rnn import weights_of

MARIAN = "encoder_decoder-post-halves-ssru"
ATTENTION = "encoder_decoder-post-sinusoidal"
EXACT = {"rtol": 1e-10, "atol": 1e-12}
SOURCE, TARGET = words(3, 5), words(3, 6, seed=1)


def marian_model(**overrides: Any) -> Any:
    """Two layers on either side."""
    return tiny_model(MARIAN, num_decoder_layers=2, **overrides)


def started(target: Tensor = TARGET) -> Tensor:
    return torch.cat([torch.full((len(target), 1), BOS), target], dim=1)


# The facts ------------------------------------------------------------------------------------------------------------


def by_loops(config: Any, weights: dict[str, Tensor]) -> Tensor:
    rows = zip(SOURCE.tolist(), started().tolist(), strict=True)
    return torch.stack([torch.stack(reference.marian_logits(config, weights, *row)) for row in rows])


def test_logits_and_gradients_are_those_of_the_loops() -> None:
    model = marian_model().train()
    logits = model(SOURCE, decoder_input_ids=started()).logits
    expected = by_loops(model.config, weights_of(model))
    torch.testing.assert_close(logits, expected, **EXACT)
    readout = torch.randn(logits.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    parameters = dict(model.named_parameters())
    found, others = (
        torch.autograd.grad((values * readout).sum(), list(parameters.values())) for values in (logits, expected)
    )
    for name, gradient, other in zip(parameters, found, others, strict=True):
        if "embed_tokens" in name:  # the loops read the row of the start token, which must not change
            assert not gradient[BOS].any()
            gradient, other = (torch.cat([part[:BOS], part[BOS + 1 :]]) for part in (gradient, other))
        torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-10, msg=name)


def transformers_rates(position: int, size: int) -> Tensor:
    """As ``MarianSinusoidalPositionalEmbedding`` has them."""
    angles = position / 10000 ** (torch.arange(0, size, 2, dtype=torch.float64) / size)
    return torch.cat([angles.sin(), angles.cos()])


def ssru(change: str) -> Callable[..., Any]:
    def run(weights: Any, xs: list[Tensor]) -> list[Tensor]:
        cell, outputs = torch.zeros_like(xs[0]), []
        for x in xs:
            gate = torch.sigmoid(weights["forget_gate_proj.weight"] @ x + weights["forget_gate_proj.bias"])
            new = weights["candidate_proj.weight"] @ x
            if change == "the gate is reversed":
                gate = 1 - gate
            cell = gate * cell + (1 - gate) * new
            if change == "the cell is after the ReLU":
                cell = cell.relu()
            outputs.append(cell if change == "no ReLU" else cell.relu())
        return outputs

    return run


def unbiased_norm(config: Any, weights: Any, x: Tensor) -> Tensor:
    return weights["weight"] * (x - x.mean()) / torch.sqrt(x.var() + config.layer_norm_eps) + weights["bias"]


def changed_weights(weights: dict[str, Tensor], change: str) -> dict[str, Tensor]:
    weights = dict(weights)
    for name, weight in weights.items():
        if change == "the start is the end token" and "embed_tokens" in name:
            weights[name] = weight.index_copy(0, torch.tensor([BOS]), weight[EOS : EOS + 1])
        if change == "embeddings are not scaled" and "embed_tokens" in name:
            weights[name] = weight / weight.shape[1] ** 0.5
        if change == "no output bias" and name == "lm_head.bias":
            weights[name] = torch.zeros_like(weight)
        if change == "no attention bias" and name.endswith(("query_proj.bias", "value_proj.bias", "output_proj.bias")):
            weights[name] = torch.zeros_like(weight)
        if change == "no gate bias" and name.endswith("forget_gate_proj.bias"):
            weights[name] = torch.zeros_like(weight)
    return weights


FIELDS: dict[str, dict[str, Any]] = {
    "interleaved positions": {"position_embedding": "sinusoidal"},
    "no positions": {"position_embedding": "none"},
    "norms before the sublayers": {"norm": "pre"},
    "one head": {"num_attention_heads": 1},
    "scores are not scaled": {"scale_scores": False},
    "GELU": {"activation": "gelu"},
    "a larger epsilon": {"layer_norm_eps": 1e-3},
}
FUNCTIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    "the rates of Transformers": ("position_encoding_in_halves", transformers_rates),
    "the variance is unbiased": ("layer_norm", unbiased_norm),
    **{name: ("ssru", ssru(name)) for name in ("the gate is reversed", "the cell is after the ReLU", "no ReLU")},
}
WEIGHTS = ["the start is the end token", "embeddings are not scaled", "no output bias", "no attention bias"]
WEIGHTS += ["no gate bias"]


@pytest.mark.usefixtures("no_gradients")
@pytest.mark.parametrize("change", [*FIELDS, *FUNCTIONS, *WEIGHTS])
def test_every_fact_shows_in_the_logits(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops in which one fact is another one do not have the model's logits; by the test above, the right ones do."""
    model = marian_model()
    if change in FUNCTIONS:
        monkeypatch.setattr(reference, *FUNCTIONS[change])
    config = SmallTransformerConfig(**(model.config.to_dict() | FIELDS.get(change, {})))
    weights = changed_weights(weights_of(model), change)
    if config.norm == "pre":
        weights |= {f"model.{side}.final_norm.weight": torch.ones(8) for side in ("encoder", "decoder")}
        weights |= {f"model.{side}.final_norm.bias": torch.zeros(8) for side in ("encoder", "decoder")}
    difference = (by_loops(config, weights) - model(SOURCE, decoder_input_ids=started()).logits).abs()
    assert (difference.amax(dim=(1, 2)) > 1e-4).all()


def test_positions_in_halves() -> None:
    encoding = sinusoidal_halves(torch.arange(700), 6, torch.float64)
    expected = torch.stack([reference.position_encoding_in_halves(position, 6) for position in range(700)])
    torch.testing.assert_close(encoding, expected, **EXACT)
    assert encoding[0].tolist() == [0, 0, 0, 1, 1, 1]


# The start token ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("skip_logits", [True, False])
def test_the_start_row_stays_zero_in_training(skip_logits: bool, is_tied: bool) -> None:
    torch.manual_seed(0)
    config = marian_model(tie_word_embeddings=is_tied).config
    model = SmallTransformerForConditionalGeneration(config).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    source = SOURCE.clone()
    source[:, 2] = BOS
    for _ in range(3):
        optimizer.zero_grad()
        model(source, labels=TARGET, smoothing=0.1, skip_logits=skip_logits).loss.backward()
        optimizer.step()
    for stack in (model.model.encoder, model.model.decoder):
        assert not stack.embed_tokens.weight[BOS].any()
        assert stack.embed_tokens.weight[BOS + 2].any()
    assert (model(SOURCE, decoder_input_ids=started()).logits[..., BOS] == CLOSED).all()


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_that_of_a_vocabulary_without_the_start_token(smoothing: float, has_bias: bool) -> None:
    """With and without logits: loss and gradients. The others' logits are the same with and without a closed word."""
    model = marian_model(output_bias=has_bias)
    labels = TARGET.clone()
    labels[0, 3:], labels[1, 0] = -100, BOS - 1
    batch = {"input_ids": SOURCE, "labels": labels}
    logits = model(**batch).logits
    open_logits = torch.cat([logits[..., :BOS], logits[..., BOS + 1 :]], dim=-1)
    open_labels = torch.where(labels > BOS, labels - 1, labels)
    expected = token_cross_entropy(open_logits, open_labels, None, smoothing)
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    for skip_logits in (False, True):
        loss = model(**batch, smoothing=smoothing, skip_logits=skip_logits).loss
        torch.testing.assert_close(loss, expected, **EXACT)
        found = torch.autograd.grad(loss, list(model.parameters()))
        for (name, _), gradient, other in zip(model.named_parameters(), found, wanted, strict=True):
            torch.testing.assert_close(gradient, other, rtol=1e-9, atol=1e-11, msg=name)


@pytest.mark.usefixtures("no_gradients")
def test_the_start_token_is_never_generated() -> None:
    """Also if its logit would be the largest without ``zero_start``."""
    batch = padded(EVERY_PADDING)
    for zero_start in (True, False):
        model = marian_model(zero_start=zero_start)
        model.lm_head.bias[BOS] = 1e3
        for beams in (1, 3):
            generated = model.generate(**batch, num_beams=beams, max_new_tokens=5)[:, 1:]
            assert bool((generated == BOS).any()) != zero_start


def test_weights_with_a_start_row_are_refused(tmp_path: Path) -> None:
    model = marian_model()
    model.save_pretrained(tmp_path)
    type(model).from_pretrained(tmp_path)
    with torch.no_grad():
        model.lm_head.weight[BOS, 2] = 1
    model.save_pretrained(tmp_path)
    with refused(ValueError, f"embedding of the start token {BOS} that is not 0", "zero_start=True"):
        type(model).from_pretrained(tmp_path)


def test_resizing_keeps_the_start_token() -> None:
    model = marian_model()
    for size, multiple in ((BOS, None), (1, BOS)):
        with refused(ValueError, f"new_num_tokens={size} is without the start token", f"at least {BOS + 1} tokens"):
            model.resize_token_embeddings(size, multiple)
    model.resize_token_embeddings(BOS, BOS + 1)
    assert len(model.lm_head.weight) == BOS + 1


def test_the_start_token_as_a_label() -> None:
    labels = TARGET.clone()
    labels[1, 2] = BOS
    with refused(ValueError, "labels has the token 1", "zero_start=True", -100):
        marian_model()(SOURCE, labels=labels)


# Step by step ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_gradients")
@pytest.mark.parametrize("sizes", [[1] * 7, [3, 4], [1, 5, 1], [6, 1]], ids=str)
def test_steps_with_a_cache_are_all_steps_at_once(sizes: list[int]) -> None:
    """With padding before, within and after the target."""
    model = marian_model()
    mask = torch.tensor([[1] * 7, [0, 0, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 0, 0]])
    expected = model(SOURCE, decoder_input_ids=started(), decoder_attention_mask=mask).logits
    cache, logits, end = None, [], 0
    for tokens in started().split(sizes, dim=1):
        end += tokens.shape[1]
        outputs = model(
            SOURCE,
            decoder_input_ids=tokens,
            decoder_attention_mask=mask[:, :end],
            past_key_values=cache,
            use_cache=True,
        )
        cache = outputs.past_key_values
        logits.append(outputs.logits)
    torch.testing.assert_close(torch.cat(logits, dim=1), expected, **EXACT)
    assert cache.get_seq_length() == 7
    for row in (1, 2):  # padding is as if it were not there
        alone = model(SOURCE[row : row + 1], decoder_input_ids=started()[row : row + 1, mask[row].bool()]).logits
        torch.testing.assert_close(expected[row, mask[row].bool()], alone[0], **EXACT)


@pytest.mark.usefixtures("no_gradients")
def test_a_token_depends_on_those_before_it_alone() -> None:
    model = marian_model()
    logits = model(SOURCE, decoder_input_ids=started()).logits
    for place in range(1, 7):
        changed = started()
        changed[:, place] = (changed[:, place] - 2) % 10 + 3
        difference = (model(SOURCE, decoder_input_ids=changed).logits - logits).abs().amax(dim=(0, 2))
        assert (difference[:place] == 0).all()
        assert (difference[place:] > 1e-6).all()


@pytest.mark.usefixtures("no_gradients")
def test_the_rows_of_a_cache_change_as_those_of_a_batch() -> None:
    """Beams are reordered, rows are repeated and selected: the next logits are those of such a batch."""
    model, order = marian_model(), torch.tensor([2, 2, 0])
    start, last = started().split([6, 1], dim=1)
    whole = model(SOURCE, decoder_input_ids=started()).logits[:, -1]
    changes: dict[str, tuple[Any, Callable[[Tensor], Tensor]]] = {
        "reorder_cache": (order, lambda rows: rows[order]),
        "batch_select_indices": (order, lambda rows: rows[order]),
        "batch_repeat_interleave": (2, lambda rows: rows.repeat_interleave(2, dim=0)),
    }
    for method, (argument, change) in changes.items():
        cache = model(SOURCE, decoder_input_ids=start, use_cache=True).past_key_values
        getattr(cache, method)(argument)
        logits = model(change(SOURCE), decoder_input_ids=change(last), past_key_values=cache).logits[:, -1]
        torch.testing.assert_close(logits, change(whole), **EXACT)


@pytest.mark.usefixtures("no_gradients")
def test_a_cache_of_another_kind_or_batch() -> None:
    model, other = marian_model(), tiny_model(ATTENTION)
    caches = [m(SOURCE, decoder_input_ids=TARGET, use_cache=True).past_key_values for m in (model, other)]
    for continues, cache, kind in ((model, caches[1], "ssru"), (other, caches[0], "attention")):
        with refused(TypeError, "past_key_values", f"decoder_mixer={kind!r}", "the model that made the cache"):
            continues(SOURCE, decoder_input_ids=TARGET[:, :1], past_key_values=cache)
    with refused(ValueError, "past_key_values", (3, 8), (6, 8)):  # two targets of every source
        encoder_outputs = model.get_encoder()(SOURCE)
        two = TARGET[:, :1].repeat_interleave(2, dim=0)
        model(encoder_outputs=encoder_outputs, decoder_input_ids=two, past_key_values=caches[0])
    with refused(ValueError, "1 layers and the model 2"):
        cache = EncoderDecoderCache(CellCache(1), DynamicCache())
        model(SOURCE, decoder_input_ids=TARGET, past_key_values=cache)
    with refused(NotImplementedError, "cells cannot be cropped"):
        caches[0].crop(1)
    with refused(ValueError, "stateful"):
        model.generate(SOURCE[:1], assistant_model=other, max_new_tokens=3)
    adapted = get_peft_model(model, PrefixTuningConfig(task_type="SEQ_2_SEQ_LM", num_virtual_tokens=3))
    with refused(TypeError, "decoder_mixer='ssru'", "a prefix has keys and values"):
        adapted(input_ids=SOURCE, labels=TARGET)


# Errors ---------------------------------------------------------------------------------------------------------------


def test_masks_and_positions_of_attention_alone() -> None:
    model = marian_model()
    with refused(ValueError, "decoder_attention_mask of four dimensions", "decoder_mixer='ssru'"):
        model(SOURCE, decoder_input_ids=TARGET, decoder_attention_mask=torch.ones(3, 1, 6, 6).bool())
    with refused(ValueError, "several texts in a row"):
        model(SOURCE, decoder_input_ids=TARGET, decoder_position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]))


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ({"decoder_mixer": "gru"}, ["decoder_mixer", "gru"]),
        ({"decoder_mixer": "ssru", "attention_pattern": "causal"}, ["decoder_mixer='ssru'", "'causal'"]),
        ({"num_decoder_layers": 2, "attention_pattern": "causal"}, ["num_decoder_layers=2", "'causal'"]),
        ({"zero_start": True, "attention_pattern": "bidirectional"}, ["zero_start=True", "'bidirectional'"]),
        ({"num_decoder_layers": 0}, ["num_decoder_layers must be at least 1", "got 0"]),
        ({"num_decoder_layers": 257}, ["num_decoder_layers must be at most 256", "got 257"]),
        ({"zero_start": True, "decoder_start_token_id": 2}, ["decoder_start_token_id=2", "the end token"]),
        ({"zero_start": True, "copy": True}, ["zero_start=True", "copy=True"]),
        ({"position_embedding": "sinusoidal_halves", "hidden_size": 9, "num_attention_heads": 3}, ["even", 9]),
        ({"position_embedding": "sinusoidal_halves", "hidden_size": 2, "num_attention_heads": 1}, ["at least 4", 2]),
    ],
    ids=lambda value: str(value)[:60],
)
def test_fields_that_cannot_work(fields: dict[str, Any], fragments: list[Any]) -> None:
    with refused(StrictDataclassError, *fragments):
        SmallTransformerConfig(**fields)


@pytest.mark.parametrize(
    ("width", "inner", "depth", "words_of_both", "count"),
    [(256, 1536, 2, 32_000, 16_907_008), (384, 1536, 4, 32_000, 31_248_896), (512, 2048, 2, 32_000, 42_686_720)],
)
def test_firefoxs_sizes(width: int, inner: int, depth: int, words_of_both: int, count: int) -> None:
    """The numbers of parameters that Mozilla publishes, and one more word, the start token."""
    config = SmallTransformerConfig(
        vocab_size=words_of_both + 1,
        hidden_size=width,
        intermediate_size=inner,
        num_decoder_layers=depth,
        decoder_mixer="ssru",
        position_embedding="sinusoidal_halves",
        attention_bias=True,
        output_bias=True,
        zero_start=True,
    )
    with torch.device("meta"):
        assert SmallTransformerForConditionalGeneration(config).num_parameters() == count + width + 1


def test_a_decoder_of_another_depth() -> None:
    """Also with attention; generate() makes its cache as deep as the decoder."""
    for name in (MARIAN, ATTENTION):
        model = tiny_model(name, num_decoder_layers=3)
        assert (len(model.model.encoder.layers), len(model.model.decoder.layers)) == (2, 3)
        with torch.no_grad():
            expected = model.generate(SOURCE, max_new_tokens=6, use_cache=False)
            assert torch.equal(model.generate(SOURCE, max_new_tokens=6), expected)


def test_a_config_without_the_new_fields_is_the_model_that_it_was() -> None:
    config = tiny_model(ATTENTION).config
    fields = config.to_dict()
    for name in ("decoder_mixer", "num_decoder_layers", "output_bias", "zero_start"):
        del fields[name]
    assert SmallTransformerConfig.from_dict(fields).to_dict() == config.to_dict()
