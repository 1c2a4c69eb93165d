"""Bad input of every model and config: the message has the argument's name, its value, and what would be right."""

import functools
import inspect
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError

from attnzoo import AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig
from attnzoo.attention import SCORES, WINDOWS
from attnzoo.recurrent_cells import CELLS
from attnzoo.recurrent_decoder import WIRINGS
from tests.factory import KINDS, VOCAB_SIZE, every_kind, refused, tiny_model, words

SEQ2SEQ_KINDS = ["attentional-rnn", "attentional-rnn-luong", "transformer-encoder-decoder"]
every_seq2seq = pytest.mark.parametrize("kind", SEQ2SEQ_KINDS)
cached_model = functools.cache(tiny_model)


def forward(kind: str, **given: Any) -> Any:
    """Call with a valid source (2, 4) and target (2, 3), except for the test's arguments; None leaves one out."""
    model = cached_model(kind)
    batch = {"input_ids": words(2, 4)}
    if kind in SEQ2SEQ_KINDS:
        batch["decoder_input_ids"] = words(2, 3, seed=1)
    if kind == "self-attentive-pair":
        batch["token_type_ids"] = torch.tensor([[0, 0, 1, 1]] * 2)
    return model(**{name: value for name, value in (batch | given).items() if value is not None})


def sides(kind: str) -> list[str]:
    return ["", "decoder_"] if kind in SEQ2SEQ_KINDS else [""]


FLAGS_OF_A_CALL = ("output_hidden_states", "output_attentions", "use_cache", "skip_logits")


@pytest.mark.parametrize("value", ["no", 1, torch.tensor(True)], ids=str)
@every_kind
def test_flags_of_a_call_of_another_type(kind: str, value: Any) -> None:
    """Any text would count as True."""
    parameters = inspect.signature(cached_model(kind).forward).parameters
    for name in (name for name in FLAGS_OF_A_CALL if name in parameters or name.startswith("output_")):
        with refused(TypeError, f"{name} must be True or False, got"):
            forward(kind, **{name: value})


# Inputs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 0), (0, 4), (4,), (1, 2, 3)], ids=str)
@every_kind
def test_ids_without_a_token_or_of_another_rank(kind: str, shape: tuple[int, ...]) -> None:
    for side in sides(kind):
        name = f"{side}input_ids"
        with refused(ValueError, f"{name} must be (batch, length) with at least one token", shape):
            forward(kind, **{name: torch.full(shape, 3)})


@every_kind
def test_embeddings_of_another_shape(kind: str) -> None:
    width = cached_model(kind).get_input_embeddings().embedding_dim
    for side in sides(kind):
        for shape in ((2, 0, width), (2, 4, width - 1), (2, width)):
            with refused(ValueError, f"{side}inputs_embeds must be (batch, length, {width})", shape):
                given = {f"{side}input_ids": None, f"{side}inputs_embeds": torch.zeros(shape).double()}
                forward(kind, **given)


@every_kind
def test_neither_or_both_of_ids_and_embeddings(kind: str) -> None:
    width = cached_model(kind).get_input_embeddings().embedding_dim
    for side in sides(kind):
        names = [f"{side}input_ids", f"{side}inputs_embeds"]
        # A source of ids is a target, too, where there is no other.
        source = {"input_ids": None, "inputs_embeds": torch.zeros(2, 4, width).double()} if side else {}
        with refused(ValueError, f"exactly one of {names[0]} and {names[1]}"):
            forward(kind, **source | {names[0]: None})
        with refused(ValueError, f"exactly one of {names[0]} and {names[1]}"):
            forward(kind, **{names[1]: torch.zeros(2, 3 if side else 4, width).double()})


@pytest.mark.parametrize("shape", [(2, 3), (2, 5), (3, 4), (1, 4), (4,)], ids=str)
@every_kind
def test_a_mask_of_another_shape(kind: str, shape: tuple[int, ...]) -> None:
    with refused(ValueError, "attention_mask must be (batch, ", "length) = (2, 4)", shape):
        forward(kind, attention_mask=torch.ones(shape, dtype=torch.long))
    if kind in SEQ2SEQ_KINDS:
        states = cached_model(kind).get_encoder()(words(2, 4))
        with refused(ValueError, "attention_mask", (2, 4), shape):
            forward(kind, input_ids=None, encoder_outputs=states, attention_mask=torch.ones(shape))


@pytest.mark.parametrize("token", [VOCAB_SIZE, -1])
@every_kind
def test_ids_out_of_the_vocabulary(kind: str, token: int) -> None:
    for side in sides(kind):
        name = f"{side}input_ids"
        with refused(ValueError, f"{name} has the id {token}", "out of range"):
            forward(kind, **{name: torch.full((2, 3 if side else 4), token)})


@pytest.mark.parametrize("shape", [(2, 6), (3, 4), (2, 3, 1)], ids=str)
@every_kind
def test_labels_of_another_shape(kind: str, shape: tuple[int, ...]) -> None:
    with refused(ValueError, "labels", shape):
        forward(kind, labels=torch.full(shape, 1))


@every_seq2seq
def test_labels_that_the_decoder_cannot_read(kind: str) -> None:
    for shape in ((3,), (2, 0), (2, 3, 1)):
        with refused(ValueError, "labels", "(batch, target length)", shape):
            forward(kind, decoder_input_ids=None, labels=torch.full(shape, 3))
    with refused(ValueError, "labels have a token after a -100", "pad them on the right", "padding_side='right'"):
        forward(kind, decoder_input_ids=None, labels=torch.tensor([[5, 6, 2], [-100, 5, 2]]))
    with refused(ValueError, "2 and 3 rows"):
        forward(kind, decoder_input_ids=None, labels=words(3, 3))
    with refused(ValueError, "labels has the id -1", "out of range"):
        forward(kind, decoder_input_ids=None, labels=torch.full((2, 3), -1))


@every_seq2seq
def test_source_and_target_of_different_batches(kind: str) -> None:
    with refused(ValueError, "source and target are batches of 2 and 3 rows"):
        forward(kind, decoder_input_ids=words(3, 3))


# Configs --------------------------------------------------------------------------------------------------------------

SIZE_FIELDS = {
    AttentionalRNNConfig: "window_size max_source_positions vocab_size embedding_size encoder_hidden_size "
    "decoder_hidden_size encoder_layers decoder_layers attention_size readout_size",
    SelfAttentiveConfig: "vocab_size embedding_size hidden_size num_hidden_layers attention_hidden_size num_hops "
    "classifier_size gate_size",
    SmallTransformerConfig: "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size "
    "max_position_embeddings",
}
FLAGS = {
    AttentionalRNNConfig: "input_feeding bidirectional reverse_source tie_word_embeddings is_encoder_decoder use_cache",
    SelfAttentiveConfig: "sentence_pair",
    SmallTransformerConfig: "attention_bias scale_scores tie_word_embeddings use_cache",
}
RATES = {
    AttentionalRNNConfig: "dropout",
    SelfAttentiveConfig: "dropout classifier_dropout",
    SmallTransformerConfig: "dropout attention_dropout",
}
CHOICES: dict[Any, dict[str, list[str]]] = {
    AttentionalRNNConfig: {
        "wiring": [*WIRINGS],
        "score": ["none", *SCORES],
        "window": [*WINDOWS],
        "cell": [*CELLS],
    },
    SelfAttentiveConfig: {"cell": [*CELLS], "penalty_reduction": ["mean", "sum"]},
    SmallTransformerConfig: {
        "attention_pattern": ["encoder_decoder", "bidirectional", "causal"],
        "activation": ["relu", "gelu"],
        "norm": ["pre", "post"],
        "position_embedding": ["sinusoidal", "learned", "none"],
    },
}
OPTIONAL = ("score", "readout_size", "gate_size")  # None leaves them to the config


def fields(of: dict[Any, str]) -> Any:
    """Every field of every config class."""
    pairs = [(config_class, name) for config_class, names in of.items() for name in names.split()]
    return pytest.mark.parametrize(
        ("config_class", "name"), pairs, ids=[f"{config_class.__name__}-{name}" for config_class, name in pairs]
    )


@fields(SIZE_FIELDS)
def test_sizes_below_one_or_of_another_type(config_class: Any, name: str) -> None:
    others = {"sentence_pair": True} if name == "gate_size" else {}
    for value in (0, -1):
        with refused(StrictDataclassError, name, f"must be at least 1, got {value}"):
            config_class(**others, **{name: value})
    for value in ("3", 2.5, True, *([] if name in OPTIONAL else [None])):
        with refused(StrictDataclassError, name, "int", repr(value)):
            config_class(**others, **{name: value})
        with refused(StrictDataclassError, name, "int", repr(value)):
            setattr(config_class(**others), name, value)


@fields(FLAGS)
def test_flags_of_another_type(config_class: Any, name: str) -> None:
    for value in (1, "yes", None):
        with refused(StrictDataclassError, name, "bool", repr(value)):
            config_class(**{name: value})


@fields({config_class: " ".join(choices) for config_class, choices in CHOICES.items()})
def test_unknown_choices(config_class: Any, name: str) -> None:
    for value in ("Luong", "", 1, *([] if name in OPTIONAL else [None])):
        with refused(StrictDataclassError, name, value, *CHOICES[config_class][name]):
            config_class(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("attn_implementation", value) for value in (1, True, 1.5)),
        *(("problem_type", value) for value in ("x", "", 1)),
        *(("output_hidden_states", value) for value in ("no", 0, [])),
        *((name, "no") for name in ("output_attentions", "return_dict")),
    ],
)
@pytest.mark.parametrize("config_class", [AttentionalRNNConfig, SelfAttentiveConfig, SmallTransformerConfig])
def test_fields_that_transformers_does_not_check(config_class: Any, name: str, value: Any) -> None:
    with refused(StrictDataclassError, f"{name} must be", repr(value)):
        config_class(**{name: value})


@fields(RATES)
def test_rates_out_of_range_or_of_another_type(config_class: Any, name: str) -> None:
    for value in (-0.1, 1, 1.0, 2, float("nan")):
        with refused(StrictDataclassError, f"{name} must be at least 0 and below 1, got {value}"):
            config_class(**{name: value})
    for value in ("half", None, True):
        with refused(StrictDataclassError, name, "float", repr(value)):
            config_class(**{name: value})


@pytest.mark.parametrize(
    ("config_class", "name", "accepted", "values"),
    [
        (
            AttentionalRNNConfig,
            "teacher_forcing_ratio",
            "between 0 and 1",
            [-0.1, 1.1, -1, 2, float("nan"), float("inf")],
        ),
        (AttentionalRNNConfig, "initializer_range", "", [0, -0.1, float("nan")]),
        (AttentionalRNNConfig, "forget_gate_bias", "between -1,000,000 and", [float("nan"), float("inf"), 10**400]),
        (AttentionalRNNConfig, "coverage_loss_coefficient", "between 0 and 1,000,000", [-1, 1e308]),
        (AttentionalRNNConfig, "confidence_temperature", "above 0 and at most 1,000,000", [0, 1e308]),
        (SelfAttentiveConfig, "initializer_range", "above 0 and at most 1,000,000", [0, float("inf"), 10**400]),
        (SelfAttentiveConfig, "penalty_coefficient", "between 0 and 1,000,000", [-1.0, 1e308, 10**400]),
        (SmallTransformerConfig, "layer_norm_eps", "above 0 and at most 1", [0.0, -1.0, 1.1, float("nan")]),
    ],
)
def test_numbers_out_of_range(config_class: Any, name: str, accepted: str, values: list[float]) -> None:
    others = {"cell": "lstm"} if name == "forget_gate_bias" else {}
    for value in values:
        with refused(StrictDataclassError, f"{name} must be {accepted}", value):
            config_class(**others, **{name: value})


@pytest.mark.parametrize("config_class", [AttentionalRNNConfig, SmallTransformerConfig])
@pytest.mark.parametrize("name", ["pad_token_id", "decoder_start_token_id"])
def test_token_ids_of_another_type(config_class: Any, name: str) -> None:
    """Both ids are used to shift labels, so neither may be missing."""
    for value in (None, "0", [0]):
        with refused(StrictDataclassError, name, "int"):
            config_class(**{name: value})


def test_the_kinds_here_are_all_that_decode() -> None:
    assert [kind for kind in KINDS if cached_model(kind).config.is_encoder_decoder] == SEQ2SEQ_KINDS
