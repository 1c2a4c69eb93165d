"""Errors of wrong models, configs and folders: the name, the value, and what would be right."""

from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from transformers import AutoModel, AutoModelForSeq2SeqLM, DynamicCache
from transformers.modeling_outputs import BaseModelOutput

from attnzoo import AttentionalRNNConfig
from attnzoo.recurrent_cache import RecurrentDecoderCache
from tests.factory import RNN_SIZES, RNN_VARIANTS, VOCAB_SIZE, refused, tiny_model, words

SOURCE, TARGET = words(2, 4), words(2, 3, seed=1)
NO_TOKENS = torch.zeros(2, 0, dtype=torch.long)


def forward(variant: str = "luong-lstm-general-feeding", **inputs: Any):
    """Run with a valid source and target, except for the test's arguments; None leaves one out."""
    given = {"input_ids": SOURCE, "decoder_input_ids": TARGET} | inputs
    return tiny_model(variant)(**{name: value for name, value in given.items() if value is not None})


# Inputs of the model --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (1, 3), (3,), (2, 1, 3)], ids=str)
def test_decoder_attention_mask_of_another_shape(shape: tuple[int, ...]) -> None:
    with refused(ValueError, "decoder_attention_mask", shape):
        forward(decoder_attention_mask=torch.ones(shape))


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.float32], ids=str)
@pytest.mark.parametrize("row", [[0, 1, 1], [1, 0, 1]], ids=str)
def test_decoder_padding_before_a_token(row: list[int], dtype: torch.dtype) -> None:
    with refused(ValueError, "decoder_attention_mask", "pad the target on the right"):
        forward(decoder_attention_mask=torch.tensor([[1, 1, 1], row]).to(dtype))


def test_decoder_padding_on_the_right_is_allowed() -> None:
    padded = forward(decoder_attention_mask=torch.tensor([[1, 1, 0], [1, 1, 1]])).logits
    assert torch.equal(padded[0, :2], forward().logits[0, :2])


@pytest.mark.parametrize("past", [((SOURCE,),), DynamicCache(), "yes"], ids=lambda past: type(past).__name__)
def test_past_key_values_of_another_type(past: Any) -> None:
    with refused(TypeError, "past_key_values", "RecurrentDecoderCache", type(past).__name__):
        forward(past_key_values=past)


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_past_key_values_of_another_batch(variant: str) -> None:
    model = tiny_model(variant)
    for rows in (1, 3):
        past = model(input_ids=words(rows, 4), decoder_input_ids=words(rows, 3)).past_key_values
        with refused(ValueError, "past_key_values", f"({rows},", f"({len(SOURCE)},"):
            model(input_ids=SOURCE, decoder_input_ids=TARGET, past_key_values=past)


@pytest.mark.parametrize("shape", [(1, 4), (3, 4), (2, 1), (2, 3), (2, 5)], ids=str)
@pytest.mark.parametrize("variant", ["bahdanau-cho_gru-additive", "luong-lstm-dot"])
def test_past_key_values_of_another_source(variant: str, shape: tuple[int, int]) -> None:
    """The projected keys of a source of one token would broadcast over any other source."""
    model = tiny_model(variant)
    rows, length = shape
    past = model(input_ids=words(rows, length), decoder_input_ids=words(rows, 3)).past_key_values
    with refused(ValueError, "past_key_values"):
        model(input_ids=SOURCE, decoder_input_ids=TARGET, past_key_values=past)


@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_past_key_values_of_another_model(variant: str) -> None:
    sizes = {"encoder_hidden_size": 8, "decoder_hidden_size": 16, "attention_size": 3}
    for other in ("luong-lstm-dot", "luong-gru-concat", "cho-cho_gru-forward"):
        given = sizes if "dot" in other else sizes | {"encoder_hidden_size": 4}
        past = tiny_model(other, **given)(input_ids=SOURCE, decoder_input_ids=TARGET).past_key_values
        with refused(ValueError, "past_key_values is from another model", "'decoder_hidden_size': 16"):
            tiny_model(variant)(input_ids=SOURCE, decoder_input_ids=TARGET, past_key_values=past)


def test_past_key_values_of_another_score_with_a_state_of_the_same_size() -> None:
    past = forward("luong-lstm-dot").past_key_values
    with refused(ValueError, "past_key_values is from another model", "'score': 'dot'", "'score': 'concat'"):
        tiny_model("luong-lstm-dot", score="concat")(input_ids=SOURCE, decoder_input_ids=TARGET, past_key_values=past)


def test_cache_takes_no_keys_and_values() -> None:
    with refused(NotImplementedError, "store"):
        RecurrentDecoderCache().update(torch.zeros(1), torch.zeros(1), 0)


@pytest.mark.parametrize(
    "encoder_outputs",
    [(torch.zeros(2, 4, 8),), BaseModelOutput(last_hidden_state=torch.zeros(2, 4, 8)), torch.zeros(2, 4, 8)],
    ids=lambda outputs: type(outputs).__name__,
)
def test_encoder_outputs_of_another_type(encoder_outputs: Any) -> None:
    with refused(TypeError, "encoder_outputs", "get_encoder()", type(encoder_outputs).__name__):
        forward(input_ids=None, encoder_outputs=encoder_outputs)


@pytest.mark.parametrize("as_tuple", [False, True])
@pytest.mark.parametrize("fields", [{"encoder_hidden_size": 3}, {"encoder_layers": 2}, {"cell": "gru"}], ids=str)
def test_encoder_outputs_of_another_model(fields: dict[str, Any], as_tuple: bool) -> None:
    others = tiny_model("luong-lstm-general-feeding", **fields).get_encoder()(SOURCE)
    with refused(
        (TypeError, ValueError), "encoder_outputs", "get_encoder()" if as_tuple and "cell" in fields else "shapes"
    ):
        forward(input_ids=None, encoder_outputs=others.to_tuple() if as_tuple else others)


def test_checkpointing_that_loses_gradients_is_refused() -> None:
    for name in ("luong-lstm-general-feeding", "base-cho-cho_gru-forward"):
        for options in ({"use_reentrant": True}, {"use_reentrant": None}):
            with refused(ValueError, "would lose the gradients of recurrent states"):
                tiny_model(name).activation_checkpointing_enable(options)


# Teacher forcing ------------------------------------------------------------------------------------------------------


def test_embeddings_cannot_be_mixed_with_own_words() -> None:
    """The model's own words are ids, which cannot be mixed with given embeddings."""
    model = tiny_model("luong-lstm-dot", teacher_forcing_ratio=0.5).train()
    embeddings = torch.zeros(2, 3, RNN_SIZES["embedding_size"], dtype=torch.float64)
    for labels in (None, TARGET):
        with refused(ValueError, "teacher_forcing_ratio=0.5", "decoder_input_ids", "decoder_inputs_embeds"):
            model(input_ids=SOURCE, decoder_inputs_embeds=embeddings, labels=labels)
    assert model.eval()(input_ids=SOURCE, decoder_inputs_embeds=embeddings).logits.isfinite().all()


@pytest.mark.parametrize("ids", [torch.full((2, 0), 3), torch.full((3, 3), 3), torch.full((2, 3, 1), 3)], ids=str)
def test_bad_targets_are_refused_before_they_are_mixed(ids: torch.Tensor) -> None:
    model = tiny_model("luong-lstm-dot", teacher_forcing_ratio=0.5).train()
    with pytest.raises(ValueError, match=r"decoder_input_ids must be|source and target are batches"):
        model(input_ids=SOURCE, decoder_input_ids=ids)


# generate() -----------------------------------------------------------------------------------------------------------


def test_generate_from_no_token() -> None:
    with refused(ValueError, "input_ids", (1, 0)):
        tiny_model("luong-lstm-dot").generate(NO_TOKENS[:1], max_new_tokens=3)


def test_generate_after_decoder_padding_on_the_left() -> None:
    with refused(ValueError, "decoder_attention_mask", "pad the target on the right"):
        mask = torch.tensor([[0, 1, 1], [1, 1, 1]])
        tiny_model("luong-lstm-dot").generate(SOURCE, decoder_input_ids=TARGET, decoder_attention_mask=mask)


@pytest.mark.parametrize("num_beams", [1, 3])
@pytest.mark.parametrize("variant", RNN_VARIANTS)
def test_generate_from_padding_only_is_defined(variant: str, num_beams: int) -> None:
    mask = torch.tensor([[0, 0, 0, 0], [1, 1, 1, 1]])
    result = tiny_model(variant).generate(
        SOURCE,
        attention_mask=mask,
        num_beams=num_beams,
        max_new_tokens=4,
        output_logits=True,
        return_dict_in_generate=True,
    )
    assert all(logits.isfinite().all() for logits in result.logits)
    assert result.sequences.max() < VOCAB_SIZE


def test_a_source_past_every_known_position_is_defined() -> None:
    """The location score has six positions: after the monotonic window has left them, there is nothing to attend to."""
    known, width = RNN_SIZES["max_source_positions"], RNN_SIZES["window_size"]
    source, target = words(2, 20), words(2, 15, seed=1)
    outputs = forward(
        "luong-gru-location-monotonic", input_ids=source, decoder_input_ids=target, output_attentions=True
    )
    weights = outputs.cross_attentions[0][:, 0]  # (B, T, S)
    assert outputs.logits.isfinite().all()
    torch.testing.assert_close(weights[:, : known + width].sum(dim=-1), torch.ones(2, known + width).double())
    assert (weights[:, known + width :] == 0).all()
    assert (weights[:, :, known:] == 0).all()


# The config -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["big", 2.5, True, None], ids=repr)
@pytest.mark.parametrize("name", ["hidden_size", "num_hidden_layers"])
def test_standard_names_of_another_type(name: str, value: Any) -> None:
    """They are aliases of fields, and their types are checked like those of the fields."""
    with pytest.raises(StrictDataclassError, match=f"{name}|{AttentionalRNNConfig.attribute_map[name]}"):
        AttentionalRNNConfig(**{name: value})


@pytest.mark.parametrize(("bidirectional", "width"), [(True, 14), (False, 7)])
def test_dot_score_of_unequal_sizes(bidirectional: bool, width: int) -> None:
    sizes = {"encoder_hidden_size": 7, "bidirectional": bidirectional}
    with refused(
        StrictDataclassError,
        "score='dot'",
        "decoder_hidden_size=10",
        "encoder_hidden_size=7",
        f"bidirectional={bidirectional}",
        f"makes {width}",
        "score='general'",
    ):
        AttentionalRNNConfig(wiring="luong", score="dot", decoder_hidden_size=10, **sizes)
    assert AttentionalRNNConfig(wiring="luong", score="dot", decoder_hidden_size=width, **sizes).score == "dot"


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ({"reverse_source": True}, ["reverse_source=True", "bidirectional=False"]),
        *(
            ({"cell": cell, "forget_gate_bias": value}, [f"forget_gate_bias={value}", f"cell={cell!r}", "cell='lstm'"])
            for cell, value in (("cho_gru", 0), ("gru", 1.0), ("rnn", 0))
        ),
        (
            {"wiring": "sutskever", "readout_size": 9, "hidden_size": 5},
            ["wiring='sutskever'", "readout_size", "9 and 5"],
        ),
        (
            {"tie_word_embeddings": True, "embedding_size": 9, "readout_size": 5},
            ["tie_word_embeddings=True", "9 and 5"],
        ),
        ({"is_encoder_decoder": False}, ["is_encoder_decoder must be True"]),
    ],
    ids=str,
)
def test_fields_that_contradict_each_other(fields: dict[str, Any], fragments: list[str]) -> None:
    with refused(StrictDataclassError, *fragments):
        AttentionalRNNConfig(**fields)


def test_a_config_that_was_changed_is_checked_again_by_the_model() -> None:
    config = tiny_model("luong-lstm-dot").config
    config.wiring = "sutskever"
    with pytest.raises(StrictDataclassError, match="has no attention and takes score='none' only"):
        AutoModelForSeq2SeqLM.from_config(config)


def test_a_field_given_under_two_names() -> None:
    with pytest.raises(ValueError, match="hidden_size is another name of decoder_hidden_size"):
        AttentionalRNNConfig.from_paper("bahdanau2014", hidden_size=64, decoder_hidden_size=32)


def test_positional_arguments() -> None:
    with refused(ValueError, "keyword arguments"):
        AttentionalRNNConfig("luong")


# Folders --------------------------------------------------------------------------------------------------------------


def test_a_damaged_config_file(tmp_path: Path) -> None:
    tiny_model("luong-lstm-dot", dtype=torch.float32).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    content = path.read_text()
    for damaged, error, fragments in (
        (content[:100], OSError, [path]),
        (content.replace('"score": "dot"', '"score": "dott"'), StrictDataclassError, ["score", "dott", "general"]),
        (content.replace('"attentional_rnn"', '"attentional_rn"'), ValueError, ["attentional_rn"]),
    ):
        path.write_text(damaged)
        with refused(error, *fragments):
            AutoModel.from_pretrained(tmp_path)
