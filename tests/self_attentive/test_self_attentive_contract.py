"""What Transformers' own common tests and its users ask of a classifier, asked of the self-attentive one.

Its equations and what must not change its numbers stand in ``test_self_attentive``, the Trainer in
``test_self_attentive_trainer``.
"""

import inspect
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    pipeline,
)
from transformers.utils import logging

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification, SelfAttentiveModel
from tests.hub.test_hub_roundtrip import aligned
from tests.recurrent.test_bad_input import refused

HEAD, BASE = SelfAttentiveForSequenceClassification, SelfAttentiveModel
SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "embedding_size": 6,
    "hidden_size": 4,
    "attention_hidden_size": 5,
    "num_hops": 3,
    "classifier_size": 7,
    "num_labels": 3,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "single": {},
    "pair": {"sentence_pair": True},
    "gru-2-layers": {"cell": "gru", "num_hidden_layers": 2},
    "pair-cho_gru-one-hop": {"sentence_pair": True, "cell": "cho_gru", "num_hops": 1, "gate_size": 5},
}
S = 6

every_variant = pytest.mark.parametrize("name", VARIANTS)
every_class = pytest.mark.parametrize("model_class", [HEAD, BASE], ids=["head", "base"])


def make(
    name: str = "single", model_class: type[PreTrainedModel] = HEAD, dtype: torch.dtype = torch.float32, **fields: Any
) -> PreTrainedModel:
    """A model in eval mode with every weight from N(0, 0.7^2), so that nothing hides behind a start at zero."""
    torch.manual_seed(0)
    model = model_class(SelfAttentiveConfig(**(SIZES | VARIANTS[name] | fields)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model.to(dtype).eval()


def words(rows: int = 3, length: int = S, seed: int = 0) -> Tensor:
    """Ordinary tokens, all below 9."""
    return torch.randint(3, 9, (rows, length), generator=torch.Generator().manual_seed(seed))


def inputs() -> dict[str, Tensor]:
    """Three rows, one of them padded on the left and one on the right, each of two sentences."""
    mask = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
    types = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 0, 0]])
    return {"input_ids": words() * mask, "attention_mask": mask, "token_type_ids": types}


def compute(model: PreTrainedModel) -> Tensor:
    """The logits of a head, the pooled vector of a base model."""
    with torch.no_grad():
        outputs = model(**inputs())
    return outputs.logits if isinstance(model, HEAD) else outputs.pooler_output


def assert_same(model: PreTrainedModel, other: PreTrainedModel) -> None:
    """The same weights to the bit, and the same output to the bit from weights that lie alike."""
    weights = other.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())
    assert torch.equal(compute(aligned(other)), compute(model))


# Outputs --------------------------------------------------------------------------------------------------------------


@every_class
def test_forward_begins_with_the_usual_arguments(model_class: type[PreTrainedModel]) -> None:
    names = list(inspect.signature(model_class.forward).parameters)
    assert names[:4] == ["self", "input_ids", "attention_mask", "token_type_ids"]
    assert [name for name in names if "label" in name] == (["labels"] if model_class is HEAD else [])
    assert model_class.main_input_name == "input_ids"


@every_variant
def test_names_and_shapes(name: str) -> None:
    model = make(name)
    config = model.config
    asked = {"output_attentions": True, "output_hidden_states": True}
    outputs = model(**inputs(), labels=torch.tensor([0, 2, 1]), **asked)
    assert list(outputs) == ["loss", "logits", "hidden_states", "attentions", "penalty"]
    assert outputs.loss.shape == ()
    assert outputs.logits.shape == (3, 3)
    assert outputs.penalty.shape == (3,)
    widths = [6] + [8] * config.num_hidden_layers
    base = model.model(**inputs(), **asked)
    for result in (outputs, base):
        assert [tuple(states.shape) for states in result.hidden_states] == [(3, S, width) for width in widths]
        assert [tuple(weights.shape) for weights in result.attentions] == [(3, 1, config.num_hops, S)]
    assert base.last_hidden_state.shape == (3, S, 8)
    assert torch.equal(base.last_hidden_state, base.hidden_states[-1])
    pair = (2,) if config.sentence_pair else ()
    assert base.sentence_matrix.shape == (3, *pair, config.num_hops, 8)
    assert base.pooler_output.shape == (3, config.pooler_size)
    assert set(model(**inputs())) == {"logits", "penalty"}


@every_class
def test_the_same_as_a_tuple_and_by_the_config(model_class: type[PreTrainedModel]) -> None:
    model = make(model_class=model_class)
    named = model(**inputs(), output_attentions=True).to_tuple()
    by_argument = model(**inputs(), output_attentions=True, return_dict=False)
    model.config.return_dict = False
    model.config.output_attentions = True
    by_config = model(**inputs())
    for outputs in (by_argument, by_config):
        assert type(outputs) is tuple
        assert len(outputs) == len(named)
        assert torch.equal(outputs[0], named[0])
    model.config.output_hidden_states = True
    assert len(model(**inputs())) == len(named) + 1


@every_class
def test_what_the_model_has_not_is_refused_in_words(model_class: type[PreTrainedModel]) -> None:
    model = make(model_class=model_class)
    assert not model.can_generate()
    for implementation in ("sdpa", "flash_attention_2"):
        with pytest.raises(ValueError, match=f"{model_class.__name__} does not support"):
            model.set_attn_implementation(implementation)
        with pytest.raises(ValueError, match=f"{model_class.__name__} does not support"):
            model_class._from_config(model.config, attn_implementation=implementation)


@every_variant
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_is_near_and_trains(name: str, dtype: torch.dtype) -> None:
    model, expected = make(name, dtype=dtype), compute(make(name))
    torch.testing.assert_close(compute(model).float(), expected, rtol=0.2, atol=0.2)
    loss = model.train()(**inputs(), labels=torch.tensor([0, 1, 2])).loss
    assert loss.dtype == torch.float32
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@every_variant
def test_autocast_is_near_and_trains(name: str) -> None:
    model, expected = make(name), compute(make(name))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compute(model).float(), expected, rtol=0.2, atol=0.2)
        model(**inputs(), labels=torch.tensor([0, 1, 2])).loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# Files and copies -----------------------------------------------------------------------------------------------------


@every_class
@every_variant
def test_a_saved_model_loads_as_it_was(name: str, model_class: type[PreTrainedModel], tmp_path: Path) -> None:
    model = make(name, model_class)
    model.save_pretrained(tmp_path)
    assert not (tmp_path / "generation_config.json").exists()
    auto_class = AutoModelForSequenceClassification if model_class is HEAD else AutoModel
    for loader in (model_class, auto_class):
        loaded, info = loader.from_pretrained(tmp_path, output_loading_info=True)
        assert type(loaded) is model_class
        assert not any(info.values())  # nothing missing, unexpected or of another shape
        assert_same(model, loaded)


@every_variant
def test_head_and_base_load_each_others_weights(name: str, tmp_path: Path) -> None:
    head = make(name)
    head.save_pretrained(tmp_path / "head")
    base = BASE.from_pretrained(tmp_path / "head")
    assert_same(head.model, base)
    base.save_pretrained(tmp_path / "base")
    again, info = HEAD.from_pretrained(tmp_path / "base", output_loading_info=True)
    of_head = {f"{layer}.{leaf}" for layer in ("hidden_proj", "classifier") for leaf in ("weight", "bias")}
    assert set(info["missing_keys"]) == of_head
    assert_same(head.model, again.model)


@pytest.fixture
def uninitialised_memory_is_nan() -> Iterator[None]:
    """Make torch.empty give NaN, so that a weight nobody initialises cannot pass by chance."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3).isnan().all()
    yield
    torch.use_deterministic_algorithms(False)


def check_initialised(name: str, tensor: Tensor, scale: float) -> None:
    """Biases 0; embeddings and cells from N(0, scale^2); other matrices from Glorot's uniform distribution."""
    if "bias" in name:
        assert (tensor == 0).all(), name
    elif "embed_tokens" in name or ".rnn." in name:
        assert tensor.abs().max() < 5 * scale, name
        assert scale / 2 < tensor.std() < 2 * scale, name
    else:
        bound = (6 / sum(tensor.shape[-2:])) ** 0.5
        assert bound / 4 < tensor.abs().max() <= bound, name


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@every_variant
def test_weights_that_a_checkpoint_lacks_are_initialised(name: str, tmp_path: Path) -> None:
    model = make(name)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert set(saved) == {key for key, _ in model.named_parameters()}
    for missing in [{key} for key in saved] + [set(saved)]:
        kept = {key: tensor for key, tensor in saved.items() if key not in missing}
        save_file(kept, tmp_path / "model.safetensors", metadata={"format": "pt"})
        loaded, info = HEAD.from_pretrained(tmp_path, output_loading_info=True)
        assert set(info["missing_keys"]) == missing
        for key, tensor in loaded.state_dict().items():
            if key in missing:
                check_initialised(key, tensor, 0.1)
            else:
                assert torch.equal(tensor, saved[key]), key


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@pytest.mark.parametrize("scale", [0.1, 0.5])
@every_variant
def test_a_new_model_is_initialised_as_it_is_said(name: str, scale: float) -> None:
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        config = SelfAttentiveConfig(**(SIZES | VARIANTS[name] | {"initializer_range": scale}))
        states.append(HEAD(config).state_dict())
    for key, tensor in states[0].items():
        check_initialised(key, tensor, scale)
        assert torch.equal(tensor, states[1][key])
        assert "bias" in key or not torch.equal(tensor, states[2][key])


@every_variant
def test_models_are_built_without_memory(name: str) -> None:
    with torch.device("meta"):
        model = HEAD(SelfAttentiveConfig(**(SIZES | VARIANTS[name])))
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
    assert list(model.buffers()) == []  # a buffer would have to be made again after loading


def test_another_number_of_labels_replaces_the_last_layer_alone(tmp_path: Path) -> None:
    model = make()
    model.save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        HEAD.from_pretrained(tmp_path, num_labels=5)
    other = AutoModelForSequenceClassification.from_pretrained(tmp_path, num_labels=5, ignore_mismatched_sizes=True)
    assert compute(other).shape == (3, 5)
    assert compute(other).isfinite().all()
    kept = set(model.state_dict()) - {"classifier.weight", "classifier.bias"}
    assert all(torch.equal(other.state_dict()[key], model.state_dict()[key]) for key in kept)


@every_variant
def test_a_model_on_disk_computes_the_same(name: str, tmp_path: Path) -> None:
    """Accelerate then brings a module's weights before its forward pass: no other module may read them."""
    model = make(name)
    model.save_pretrained(tmp_path)
    places = {"model": "disk", "hidden_proj": "disk", "classifier": "cpu"}
    loaded = HEAD.from_pretrained(tmp_path, device_map=places, offload_folder=tmp_path / "offloaded")
    assert {parameter.device.type for parameter in loaded.model.parameters()} == {"meta"}
    torch.testing.assert_close(compute(loaded), compute(model), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("size", "multiple", "expected"), [(17, None, 17), (10, None, 10), (None, 8, 16)])
@every_class
def test_resized_vocabulary(
    model_class: type[PreTrainedModel], size: int | None, multiple: int | None, expected: int, tmp_path: Path
) -> None:
    model = make(model_class=model_class)
    before = compute(model)
    model.resize_token_embeddings(size, pad_to_multiple_of=multiple)
    assert model.get_input_embeddings().weight.shape == (expected, 6)
    assert model.config.vocab_size == expected
    assert torch.equal(compute(model), before)  # words below 9
    assert model(input_ids=torch.full((2, 3), expected - 1))[0].isfinite().all()
    model.save_pretrained(tmp_path)
    assert_same(model, model_class.from_pretrained(tmp_path))


# The config -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paper", "expected"),
    [
        ("lin2017-age", [300, 350, 30, 2000, 1.0, 0.5, False, 5]),
        ("lin2017-yelp", [300, 350, 30, 3000, 1.0, 0.5, False, 5]),
        ("lin2017-snli", [300, 150, 30, 4000, 0.3, 0.0, True, 3]),
    ],
)
def test_the_papers_models_by_name(paper: str, expected: list[Any]) -> None:
    names = [
        "hidden_size",
        "attention_hidden_size",
        "num_hops",
        "classifier_size",
        "penalty_coefficient",
        "classifier_dropout",
        "sentence_pair",
        "num_labels",
    ]
    config = SelfAttentiveConfig.from_paper(paper)
    assert [getattr(config, name) for name in names] == expected
    assert config.encoder_output_size == 600
    assert config.pooler_size == 18_000
    with torch.device("meta"):
        model = HEAD(config)
    assert model.hidden_proj.weight.shape == (config.classifier_size, 18_000)  # most of the model: 54 M for Yelp
    changed = SelfAttentiveConfig.from_paper(paper, num_hops=2, num_labels=7)
    assert (changed.num_hops, changed.num_labels) == (2, 7)


def test_a_paper_or_a_field_that_is_not_there() -> None:
    with refused(ValueError, "'lin2018'", "lin2017-age", "lin2017-snli"):
        SelfAttentiveConfig.from_paper("lin2018")
    with refused(ValueError, "SelfAttentiveConfig has no field 'num_hop'", "did you mean 'num_hops'?"):
        SelfAttentiveConfig.from_paper("lin2017-age", num_hop=3)


@every_variant
def test_config_round_trip(name: str, tmp_path: Path) -> None:
    labels = {0: "neutral", 1: "for", 2: "against"}
    config = SelfAttentiveConfig(**(SIZES | VARIANTS[name] | {"id2label": labels, "dropout": 0.25}))
    config.save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text())
    assert set(SelfAttentiveConfig.__annotations__) <= set(saved)
    assert saved["model_type"] == "self_attentive"
    for loaded in (AutoConfig.from_pretrained(tmp_path), SelfAttentiveConfig.from_dict(config.to_dict())):
        assert type(loaded) is SelfAttentiveConfig
        assert loaded.to_dict() | {"_name_or_path": ""} == config.to_dict() | {"_name_or_path": ""}
    assert loaded.id2label == labels
    assert SelfAttentiveConfig.from_pretrained(tmp_path, num_hops=9).num_hops == 9


@pytest.mark.parametrize("value", [0, -1])
@pytest.mark.parametrize(
    "name",
    [
        "vocab_size",
        "embedding_size",
        "hidden_size",
        "num_hidden_layers",
        "attention_hidden_size",
        "num_hops",
        "classifier_size",
        "gate_size",
    ],
)
def test_sizes_below_one(name: str, value: int) -> None:
    with refused(StrictDataclassError, f"{name} must be at least 1, got {value}"):
        SelfAttentiveConfig(sentence_pair=True, **{name: value})


@pytest.mark.parametrize(
    ("fields", "fragments"),
    [
        ({"dropout": 1.0}, ["dropout must be at least 0 and below 1", "1.0"]),
        ({"classifier_dropout": -0.1}, ["classifier_dropout must be at least 0 and below 1", "-0.1"]),
        ({"penalty_coefficient": -1.0}, ["penalty_coefficient must be at least 0 and finite", "-1.0"]),
        ({"penalty_coefficient": float("inf")}, ["penalty_coefficient must be at least 0 and finite", "inf"]),
        ({"initializer_range": 0}, ["initializer_range must be above 0 and finite", "0"]),
        ({"penalty_reduction": "none"}, ["penalty_reduction", "none", "mean", "sum"]),
        ({"cell": "LSTM"}, ["cell", "LSTM", "lstm", "gru", "cho_gru", "rnn"]),
        ({"num_hops": "30"}, ["num_hops", "int", "'30'"]),
        ({"sentence_pair": "yes"}, ["sentence_pair", "bool", "'yes'"]),
        ({"gate_size": 8}, ["gate_size=8", "sentence_pair=True"]),
    ],
    ids=str,
)
def test_a_config_that_cannot_be(fields: dict[str, Any], fragments: list[str]) -> None:
    with refused(StrictDataclassError, *fragments):
        SelfAttentiveConfig(**fields)


def test_a_config_that_was_spoiled_makes_no_model() -> None:
    config = SelfAttentiveConfig(**SIZES)
    config.num_hops = 0
    with refused(StrictDataclassError, "num_hops must be at least 1, got 0"):
        HEAD(config)


# Bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 0), (0, 4), (4,), (1, 2, 3)], ids=str)
def test_no_token_or_another_rank(shape: tuple[int, ...]) -> None:
    with refused(ValueError, "input_ids", shape, "(batch, length) with at least one token"):
        make()(input_ids=torch.full(shape, 3))


def test_neither_or_both_of_ids_and_embeddings() -> None:
    for given in ({}, {"input_ids": words(), "inputs_embeds": torch.zeros(3, S, 6)}):
        with refused(ValueError, "exactly one of input_ids and inputs_embeds"):
            make()(**given)
    with refused(ValueError, "inputs_embeds", (3, S, 5), "(batch, length, 6)"):
        make()(inputs_embeds=torch.zeros(3, S, 5))


def test_a_mask_of_another_shape_or_kind() -> None:
    with refused(ValueError, "attention_mask", (3, S), (3, S - 1)):
        make()(input_ids=words(), attention_mask=torch.ones(3, S - 1))
    with refused(ValueError, "attention_mask", "got 0.5"):
        make()(input_ids=words(), attention_mask=torch.full((3, S), 0.5))


def test_padding_without_a_mask_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logging.warning_once.cache_clear()
    logger = logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    try:
        make()(input_ids=words() * inputs()["attention_mask"])
    finally:
        logger.removeHandler(caplog.handler)
    assert "attention_mask" in caplog.text


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@every_variant
def test_nothing_but_padding_is_defined(name: str, training: bool) -> None:
    """A = 0 and M = 0; the penalty of it is ||-I||^2 = R of every sentence, a constant."""
    model = make(name).train(training)
    given = inputs() | {"attention_mask": torch.zeros(3, S, dtype=torch.long)}
    outputs = model(**given, labels=torch.tensor([0, 1, 2]), output_attentions=True)
    assert (outputs.attentions[0] == 0).all()
    assert (model.model(**given).sentence_matrix == 0).all()
    sentences = 2 if model.config.sentence_pair else 1
    assert outputs.penalty.tolist() == [sentences * model.config.num_hops] * 3
    assert outputs.logits.isfinite().all()
    outputs.loss.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_thirty_hops_at_one_token() -> None:
    """Every hop has the weight 1 there: AA^T is 1 everywhere, and P the R (R - 1) entries beside the diagonal."""
    model = make(num_hops=30).train()
    outputs = model(words(2, 1), labels=torch.tensor([0, 1]), output_attentions=True)
    assert (outputs.attentions[0] == 1).all()
    assert outputs.penalty.tolist() == [30 * 29] * 2
    outputs.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_ids_out_of_the_vocabulary() -> None:
    with refused(ValueError, "input_ids has the id", "out of range"):
        make()(input_ids=torch.full((1, 3), SIZES["vocab_size"]))


def test_a_pair_without_token_types() -> None:
    with refused(ValueError, "token_type_ids", "tokenizer(text, text_pair, return_token_type_ids=True)"):
        make("pair")(input_ids=words())


@pytest.mark.parametrize("empty", [0, 1])
def test_a_pair_with_one_sentence_empty(empty: int) -> None:
    types = inputs()["token_type_ids"].clone()
    types[1] = 1 - empty
    with refused(ValueError, f"row 1 of token_type_ids has no token with {empty}", "tokenizer(text, text_pair)"):
        make("pair")(**(inputs() | {"token_type_ids": types}))


def test_token_types_that_cannot_be() -> None:
    with refused(ValueError, "token_type_ids", (3, S), (3, S - 1)):
        make("pair")(**(inputs() | {"token_type_ids": torch.zeros(3, S - 1, dtype=torch.long)}))
    with refused(ValueError, "token_type_ids of a sentence pair are 0 or 1, got 2"):
        make("pair")(**(inputs() | {"token_type_ids": torch.full((3, S), 2)}))


@pytest.mark.parametrize("label", [3, 7, -1])
def test_labels_out_of_range(label: int) -> None:
    with refused(ValueError, f"label {label} is out of range for num_labels=3", "0 to 2"):
        make()(**inputs(), labels=torch.tensor([0, label, 1]))


@pytest.mark.parametrize(
    ("fields", "labels", "fragments"),
    [
        ({}, torch.zeros(3), ["float32 of shape (3,)", "(3, 3)", "whole numbers of shape (3,)"]),
        ({"problem_type": "single_label_classification"}, torch.zeros(3), ["whole numbers", "float32 of shape (3,)"]),
        ({}, torch.zeros(2, dtype=torch.long), ["whole numbers of shape (3,)", "int64 of shape (2,)"]),
        ({}, torch.zeros(3, 3, dtype=torch.long), ["whole numbers of shape (3,)", "multi_label_classification"]),
        ({}, torch.zeros(3, 2), ["multi_label_classification", "(3, 3)", "(3, 2)"]),
        ({}, torch.full((3, 3), 1.5), ["multi-label classification are 0 or 1", "1.5"]),
        ({"num_labels": 1}, torch.zeros(3, 2), ["regression", "(3, 1)", "(3, 2)"]),
        ({"num_labels": 1}, torch.tensor([0.5, -100.0, 1.0]), ["target of regression is -100", "shift or scale"]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_labels_of_another_kind(fields: dict[str, Any], labels: Tensor, fragments: list[str]) -> None:
    model = make(**fields)
    before = model.config.problem_type
    with refused(ValueError, *fragments):
        model(**inputs(), labels=labels)
    assert model.config.problem_type == before  # a refused batch leaves no trace


def test_smoothing_is_for_single_labels() -> None:
    with refused(ValueError, "smoothing=0.1", "regression"):
        make(num_labels=1)(**inputs(), labels=torch.zeros(3), smoothing=0.1)


@pytest.mark.parametrize("options", [{}, {"num_items_in_batch": 7}, {"num_items_in_batch": 0}], ids=str)
def test_labels_with_nothing_to_predict(options: dict[str, Any]) -> None:
    model = make().train()
    loss = model(**inputs(), labels=torch.full((3,), -100), **options).loss
    assert loss == 0
    loss.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


# The loss -------------------------------------------------------------------------------------------------------------

PROBLEMS: dict[str, tuple[dict[str, Any], Tensor, Callable[[Tensor, Tensor], Tensor]]] = {
    "single_label_classification": ({}, torch.tensor([2, 0, 1]), torch.nn.functional.cross_entropy),
    "multi_label_classification": (
        {},
        torch.tensor([[0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]),
        torch.nn.functional.binary_cross_entropy_with_logits,
    ),
    "regression": (
        {"num_labels": 1},
        torch.tensor([0.5, -2.0, 1.0]),
        lambda logits, labels: torch.nn.functional.mse_loss(logits.squeeze(), labels),
    ),
}


@pytest.mark.parametrize("problem_type", PROBLEMS)
def test_the_loss_is_that_of_every_classifier(problem_type: str, tmp_path: Path) -> None:
    """Told by the labels, or by the config, which then has it saved; and the library's own function agrees."""
    fields, labels, function = PROBLEMS[problem_type]
    model = make(penalty_coefficient=0.7, **fields)
    outputs = model(**inputs(), labels=labels)
    torch.testing.assert_close(outputs.loss, function(outputs.logits, labels) + 0.7 * outputs.penalty.mean())
    assert model.config.problem_type == problem_type
    theirs = model.loss_function(labels=labels, pooled_logits=outputs.logits, config=model.config)
    torch.testing.assert_close(outputs.loss, theirs + 0.7 * outputs.penalty.mean())
    model.save_pretrained(tmp_path)
    assert HEAD.from_pretrained(tmp_path).config.problem_type == problem_type
    told = make(penalty_coefficient=0.7, problem_type=problem_type, **fields)
    assert torch.equal(told(**inputs(), labels=labels).loss, outputs.loss)


def test_regression_of_several_values() -> None:
    model, labels = make(problem_type="regression", penalty_coefficient=0.0), torch.randn(3, 3)
    outputs = model(**inputs(), labels=labels)
    torch.testing.assert_close(outputs.loss, torch.nn.functional.mse_loss(outputs.logits, labels))


def test_smoothing_mixes_in_all_labels_alike() -> None:
    model, labels = make(penalty_coefficient=0.0), torch.tensor([2, 0, 1])
    outputs = model(**inputs(), labels=labels, smoothing=0.3)
    expected = torch.nn.functional.cross_entropy(outputs.logits, labels, label_smoothing=0.3)
    torch.testing.assert_close(outputs.loss, expected)


# The pipeline ---------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[SEP]", "a", "film", "to", "love", "hate", "and", "forget"]


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Words between spaces; of a pair each sentence ends in [SEP], and has token types of its own."""
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A:0", pair="$A:0 [SEP]:0 $B:1 [SEP]:1", special_tokens=[("[SEP]", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


TEXTS = ["a film to love", "hate", "a film to love and forget and hate"]
LABELS = {"id2label": {0: "bad", 1: "fair", 2: "good"}}


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("batch_size", [1, 3])
@pytest.mark.parametrize("name", ["single", "pair"])
def test_the_pipeline_classifies(name: str, batch_size: int, side: str, tmp_path: Path) -> None:
    model, tokenizer = make(name, **LABELS), word_tokenizer()
    tokenizer.padding_side = side
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    classify = pipeline("text-classification", model=str(tmp_path), device="cpu")
    examples: list[Any] = TEXTS
    if name == "pair":
        examples = [{"text": text, "text_pair": pair} for text, pair in zip(TEXTS, TEXTS[::-1], strict=True)]
    answers = classify(examples, batch_size=batch_size)
    for example, answer in zip(examples, answers, strict=True):
        alone = tokenizer(**(example if name == "pair" else {"text": example}), return_tensors="pt")
        with torch.no_grad():
            probabilities = model(**alone).logits[0].softmax(dim=-1)
        assert answer["label"] == LABELS["id2label"][int(probabilities.argmax())]
        assert answer["score"] == pytest.approx(probabilities.max().item(), rel=1e-4)
    ranked = classify(examples[0], top_k=None)
    assert {row["label"] for row in ranked} == {"bad", "fair", "good"}
    assert sum(row["score"] for row in ranked) == pytest.approx(1)


def test_the_pipeline_of_many_labels_scores_each_alone() -> None:
    model, tokenizer = make(problem_type="multi_label_classification", **LABELS), word_tokenizer()
    rows = pipeline("text-classification", model=model, tokenizer=tokenizer, device="cpu")(TEXTS[0], top_k=None)
    with torch.no_grad():
        expected = model(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0].sigmoid()
    assert {row["label"]: row["score"] for row in rows} == pytest.approx(
        dict(zip(LABELS["id2label"].values(), expected.tolist(), strict=True)), rel=1e-4
    )


def test_an_empty_text_is_an_error_alone_and_defined_in_a_batch() -> None:
    classify = pipeline("text-classification", model=make(), tokenizer=word_tokenizer(), device="cpu")
    with refused(ValueError, "input_ids", (1, 0), "at least one token"):
        classify("")
    assert len(classify(["", TEXTS[0]], batch_size=2)) == 2


def test_a_pair_model_asked_about_one_text() -> None:
    classify = pipeline("text-classification", model=make("pair"), tokenizer=word_tokenizer(), device="cpu")
    with refused(ValueError, "row 0 of token_type_ids has no token with 1", "tokenizer(text, text_pair)"):
        classify(TEXTS[0])


def test_features_from_the_pipeline() -> None:
    extract = pipeline("feature-extraction", model=make(model_class=BASE), tokenizer=word_tokenizer(), device="cpu")
    features = torch.tensor(extract(TEXTS[0]))
    assert features.shape == (1, 4, 8)
