"""Errors of wrong Transformers, configs and inputs: the name, the value, and what would be right."""

from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, DynamicCache

from attnzoo import (
    SmallTransformerConfig,
    SmallTransformerForCausalLM,
    SmallTransformerForConditionalGeneration,
    SmallTransformerForMaskedLM,
    SmallTransformerForSequenceClassification,
    SmallTransformerForTokenClassification,
    SmallTransformerModel,
)
from tests.factory import SEQ2SEQ, TRANSFORMER_VARIANTS, padded, refused, tiny_config, tiny_model, words

ENCODER_DECODER = "encoder_decoder-post-sinusoidal"
every_variant = pytest.mark.parametrize("variant", TRANSFORMER_VARIANTS)


# The config -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "value"), [("encoder_decoder", False), ("bidirectional", True), ("causal", True)], ids=str
)
def test_a_contradicting_is_encoder_decoder(pattern: Any, value: bool) -> None:
    with refused(StrictDataclassError, f"is_encoder_decoder={value}", f"attention_pattern={pattern!r}", "leave it out"):
        SmallTransformerConfig(attention_pattern=pattern, is_encoder_decoder=value)
    assert SmallTransformerConfig(attention_pattern=pattern, is_encoder_decoder=not value).is_encoder_decoder != value
    assert SmallTransformerConfig(attention_pattern=pattern).is_encoder_decoder != value


def test_heads_that_do_not_divide_the_width() -> None:
    with refused(StrictDataclassError, "num_attention_heads must divide hidden_size", "5 heads", "width of 512"):
        SmallTransformerConfig(num_attention_heads=5)


def test_sinusoids_of_an_odd_width() -> None:
    with refused(StrictDataclassError, "position_embedding='sinusoidal'", "even hidden_size", 9):
        SmallTransformerConfig(hidden_size=9, num_attention_heads=3)
    assert SmallTransformerConfig(hidden_size=9, num_attention_heads=3, position_embedding="learned").hidden_size == 9


# Heads ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "auto_class", "fitting"),
    [
        (SmallTransformerForConditionalGeneration, AutoModelForSeq2SeqLM, ["encoder_decoder"]),
        (SmallTransformerForCausalLM, AutoModelForCausalLM, ["causal"]),
        (SmallTransformerForMaskedLM, AutoModelForMaskedLM, ["bidirectional"]),
        (SmallTransformerForSequenceClassification, None, ["bidirectional", "causal"]),
    ],
)
@every_variant
def test_a_head_that_does_not_fit_the_pattern(variant: str, head: Any, auto_class: Any, fitting: list[str]) -> None:
    config = tiny_config(variant)
    if config.attention_pattern in fitting:
        assert type(head(config)) is head
        return
    needed = f"{head.__name__} needs attention_pattern={' or '.join(map(repr, fitting))}"
    with refused(ValueError, needed, f"got {config.attention_pattern!r}"):
        head(config)
    if auto_class is not None:
        with refused(ValueError, needed, f"got {config.attention_pattern!r}"):
            auto_class.from_config(config)


# Input ----------------------------------------------------------------------------------------------------------------


def forward(variant: str, **given: Any) -> Any:
    """Run with a valid text, and target if the model has one, except for the given arguments; None leaves one out."""
    model = tiny_model(variant)
    batch = {"input_ids": words(2, 4)}
    if model.config.is_encoder_decoder:
        batch["decoder_input_ids"] = words(2, 3, seed=1)
    return model(**{name: value for name, value in (batch | given).items() if value is not None})


def test_no_target_and_no_ids_to_make_it_of() -> None:
    with refused(ValueError, "give exactly one of decoder_input_ids and decoder_inputs_embeds"):
        forward(ENCODER_DECODER, decoder_input_ids=None, input_ids=None, inputs_embeds=torch.zeros(2, 4, 8).double())
    cache = forward(ENCODER_DECODER).past_key_values
    with refused(ValueError, "past_key_values continues a target; give its next tokens as decoder_input_ids"):
        forward(ENCODER_DECODER, decoder_input_ids=None, past_key_values=cache)


@pytest.mark.parametrize("variant", [name for name in TRANSFORMER_VARIANTS if name.endswith("learned")])
def test_longer_than_the_learned_positions(variant: str) -> None:
    with refused(ValueError, "a text of 5 tokens", "max_position_embeddings=4", "sinusoidal"):
        tiny_model(variant, max_position_embeddings=4)(
            input_ids=words(2, 5), **({"decoder_input_ids": words(2, 3)} if "encoder" in variant else {})
        )


def test_padding_does_not_count_as_length() -> None:
    model = tiny_model("bidirectional-post-learned", max_position_embeddings=4)
    text, mask = words(2, 6), torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 0, 0, 0, 0]])
    assert model(text, mask).logits.isfinite().all()


def test_generation_past_the_learned_positions() -> None:
    model = tiny_model("causal-pre-learned", max_position_embeddings=6)
    with refused(ValueError, "a text of 7 tokens", "max_position_embeddings=6"):
        model.generate(words(2, 4), max_new_tokens=8, suppress_tokens=[2])


def test_sinusoids_have_no_end() -> None:
    assert tiny_model(ENCODER_DECODER)(words(1, 700), decoder_input_ids=words(1, 600)).logits.isfinite().all()


@pytest.mark.parametrize(
    "given",
    [
        {"decoder_input_ids": words(2, 3)},
        {"decoder_attention_mask": torch.ones(2, 3)},
        {"encoder_outputs": (torch.zeros(2, 4, 8).double(),)},
        {"decoder_inputs_embeds": torch.zeros(2, 3, 8).double()},
    ],
    ids=lambda given: next(iter(given)),
)
@pytest.mark.parametrize("variant", [name for name in TRANSFORMER_VARIANTS if not name.startswith("encoder")])
def test_a_decoders_arguments_where_there_is_one_stack(variant: str, given: dict[str, Any]) -> None:
    name = next(iter(given))
    with refused(TypeError, f"has no argument {name}", "it takes input_ids, attention_mask"):
        forward(variant, **given)
    model = tiny_model(variant, SmallTransformerModel)
    with refused(ValueError, "one stack", f"attention_pattern={variant.split('-')[0]!r}", "'encoder_decoder'"):
        model(input_ids=words(2, 4), **given)


@pytest.mark.parametrize(
    ("variant", "cache", "kind"),
    [
        (ENCODER_DECODER, ((1, 2),), "EncoderDecoderCache"),
        (ENCODER_DECODER, DynamicCache(), "EncoderDecoderCache"),
        ("causal-pre-learned", ((1, 2),), "Cache"),
    ],
)
def test_another_kind_of_cache(variant: str, cache: Any, kind: str) -> None:
    with refused(TypeError, f"past_key_values must be of {kind}, got {type(cache).__name__}"):
        forward(variant, past_key_values=cache)


def test_labels_that_continue_a_cache() -> None:
    cache = forward(ENCODER_DECODER).past_key_values
    with refused(ValueError, "past_key_values continues"):
        forward(ENCODER_DECODER, decoder_input_ids=None, labels=words(2, 3), past_key_values=cache)


def test_a_cache_of_another_source() -> None:
    cache = forward(ENCODER_DECODER).past_key_values
    with refused(ValueError, "past_key_values comes from a source of 4 tokens, this one has 6"):
        forward(ENCODER_DECODER, input_ids=words(2, 6), past_key_values=cache)


def test_a_cache_of_another_batch() -> None:
    for variant in (ENCODER_DECODER, "causal-pre-learned"):
        cache = forward(variant).past_key_values
        target = "decoder_input_ids" if variant == ENCODER_DECODER else "input_ids"
        with refused(ValueError, "past_key_values has keys of (2, 2, 4)", (4, 2, 4), "continue with the batch"):
            forward(variant, **{target: words(4, 3)}, past_key_values=cache)


@pytest.mark.parametrize("size", [{"num_attention_heads": 4}, {"hidden_size": 16}, {"num_hidden_layers": 3}], ids=str)
def test_a_cache_of_another_model(size: dict[str, int]) -> None:
    for variant in (ENCODER_DECODER, "causal-pre-learned"):
        model = tiny_model(variant, **size)
        given = {"decoder_input_ids": words(2, 3)} if variant == ENCODER_DECODER else {}
        cache = model(words(2, 4), **given, use_cache=True).past_key_values
        expected = "3 layers and the model 2" if "num_hidden_layers" in size else "keys of (2, "
        with refused(ValueError, f"past_key_values has {expected}", "the model that made the cache"):
            forward(variant, past_key_values=cache)


@pytest.mark.parametrize("shape", [(2, 3), (3, 4), (4,), (2, 4, 1)], ids=str)
@every_variant
def test_positions_of_another_shape(variant: str, shape: tuple[int, ...]) -> None:
    with refused(ValueError, "position_ids must be (batch, length) = (2, 4) or (1, 4)", shape):
        forward(variant, position_ids=torch.zeros(shape, dtype=torch.long))


@every_variant
def test_positions_out_of_range(variant: str) -> None:
    with refused(ValueError, "position_ids must be at least 0, got -1"):
        forward(variant, position_ids=torch.arange(-1, 3).unsqueeze(0))
    if variant.endswith("learned"):
        with refused(ValueError, "position_ids up to 33", "max_position_embeddings=32"):
            forward(variant, position_ids=torch.arange(30, 34).unsqueeze(0))


def test_several_texts_in_a_row_of_an_encoder_decoder() -> None:
    restart = torch.tensor([[0, 1, 0, 1]])
    with refused(ValueError, "position_ids are not consecutive", "'bidirectional' or 'causal'"):
        forward(ENCODER_DECODER, position_ids=restart)
    with refused(ValueError, "decoder_position_ids are not consecutive"):
        forward(ENCODER_DECODER, decoder_input_ids=words(2, 4), decoder_position_ids=restart)
    assert forward(ENCODER_DECODER, position_ids=restart, attention_mask=torch.ones(2, 4)).logits.isfinite().all()


@pytest.mark.parametrize("shape", [(3, 1, 4, 4), (2, 3, 4, 4), (2, 1, 3, 4), (2, 1, 4, 5)], ids=str)
@pytest.mark.parametrize("variant", [name for name in TRANSFORMER_VARIANTS if not name.startswith("encoder")])
def test_a_mask_of_other_pairs(variant: str, shape: tuple[int, ...]) -> None:
    with refused(ValueError, "attention_mask of four dimensions must be", (2, 2, 4, 4), shape):
        forward(variant, attention_mask=torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize("variant", SEQ2SEQ)
def test_a_mask_of_pairs_for_the_encoder_alone(variant: str) -> None:
    """The advice of the error works: a mask of pairs for padding has the effect of the padding mask."""
    model, batch = (
        tiny_model(variant),
        padded([[1, 1, 1, 0], [1, 1, 1, 1]]),
    )  # a mask of pairs leaves positions as they are
    ids, mask = batch["input_ids"], batch["attention_mask"]
    pairs = mask.bool()[:, None, None].expand(2, 1, 4, 4)
    target = words(2, 3, seed=1)
    expected = model(**batch, decoder_input_ids=target).logits
    found = model(encoder_outputs=model.get_encoder()(ids, pairs), attention_mask=mask, decoder_input_ids=target).logits
    torch.testing.assert_close(found, expected)
    own = torch.eye(4, dtype=torch.bool).expand(2, 1, 4, 4)  # each token of the source reads itself alone
    other = model(encoder_outputs=model.get_encoder()(ids, own), attention_mask=mask, decoder_input_ids=target).logits
    assert not torch.allclose(other, expected)


def test_a_mask_of_pairs_where_it_says_too_little() -> None:
    """A decoder needs the mask of the source's tokens, and a classifier of texts needs the first or last real token."""
    pairs = torch.ones(2, 1, 4, 4, dtype=torch.bool)
    with refused(ValueError, "attention_mask of four dimensions does not tell the decoder"):
        forward(ENCODER_DECODER, attention_mask=pairs)
    with refused(ValueError, "attention_mask of four dimensions does not tell the decoder"):  # the source as target
        tiny_model(ENCODER_DECODER)(words(2, 4), attention_mask=pairs)
    for variant in ("bidirectional-post-learned", "causal-pre-learned"):
        model = tiny_model(variant, SmallTransformerForSequenceClassification)
        with refused(ValueError, "attention_mask must be (batch, length) to classify texts", (2, 1, 4, 4)):
            model(words(2, 4), attention_mask=pairs)


def test_a_stack_that_is_told_to_be_another() -> None:
    with refused(ValueError, "is_causal=False contradicts attention_pattern='causal'"):
        forward("causal-pre-learned", is_causal=False, position_ids=torch.arange(4).unsqueeze(0))


@pytest.mark.parametrize("shape", [(2, 3), (4,), (2, 4, 8, 1)], ids=str)
def test_states_of_a_source_of_another_shape(shape: tuple[int, ...]) -> None:
    with refused(ValueError, "encoder_outputs", "(batch, length, ", shape):
        forward(ENCODER_DECODER, encoder_outputs=(torch.zeros(shape).double(),))


def test_tags_that_do_not_fit() -> None:
    model = tiny_model("bidirectional-post-learned", SmallTransformerForTokenClassification, num_labels=3)
    with refused(ValueError, "labels of shape (2, 3) do not fit a text of shape (2, 4)"):
        model(words(2, 4), labels=torch.zeros(2, 3, dtype=torch.long))
    with refused(ValueError, "label 3 is out of range for num_labels=3"):
        model(words(2, 4), labels=torch.tensor([[0, 1, 2, -100], [3, 0, 0, 0]]))
