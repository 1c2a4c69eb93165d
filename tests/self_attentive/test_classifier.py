"""The self-attentive classifier for users: outputs, configs of the paper, bad pairs and labels, pipelines."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub.errors import StrictDataclassError
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast, pipeline
from transformers.utils import logging

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from tests.factory import CLASSIFIER_VARIANTS, refused, tiny_config, tiny_model, words

S = 6
# Three rows, one of them padded on the left and one on the right, each of two sentences.
MASK = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]])
TYPES = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1], [0, 1, 1, 1, 0, 0]])
BATCH = {"input_ids": words(3, S) * MASK, "attention_mask": MASK, "token_type_ids": TYPES}

every_variant = pytest.mark.parametrize("name", CLASSIFIER_VARIANTS)


def make(name: str = "single", **fields: Any) -> SelfAttentiveForSequenceClassification:
    return tiny_model(name, dtype=torch.float32, **fields)


# Outputs --------------------------------------------------------------------------------------------------------------


@every_variant
def test_names_and_shapes(name: str) -> None:
    model = make(name)
    config = model.config
    asked = {"output_attentions": True, "output_hidden_states": True}
    outputs = model(**BATCH, labels=torch.tensor([0, 2, 1]), **asked)
    assert list(outputs) == ["loss", "logits", "hidden_states", "attentions", "penalty"]
    assert outputs.loss.shape == ()
    assert outputs.logits.shape == (3, 3)
    assert outputs.penalty.shape == (3,)
    base = model.model(**BATCH, **asked)
    assert base.last_hidden_state.shape == (3, S, 8)
    assert torch.equal(base.last_hidden_state, base.hidden_states[-1])
    pair = (2,) if config.sentence_pair else ()
    assert base.sentence_matrix.shape == (3, *pair, config.num_hops, 8)
    assert base.pooler_output.shape == (3, config.pooler_size)
    assert set(model(**BATCH)) == {"logits", "penalty"}
    with torch.no_grad():
        assert set(model(**BATCH)) == {"logits"}
        assert set(model(**BATCH, output_attentions=True)) == {"logits", "attentions", "penalty"}


# The start ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("uninitialised_memory_is_nan")
@pytest.mark.parametrize("scale", [0.1, 0.5])
@every_variant
def test_a_new_model_is_initialised_as_documented(name: str, scale: float) -> None:
    """Biases 0; embeddings and cells from N(0, scale^2); other matrices from Glorot's uniform distribution."""
    states = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        config = tiny_config(name, initializer_range=scale)
        states.append(SelfAttentiveForSequenceClassification(config).state_dict())
    for key, tensor in states[0].items():
        assert torch.equal(tensor, states[1][key])
        assert "bias" in key or not torch.equal(tensor, states[2][key])
        if "bias" in key:
            assert (tensor == 0).all(), key
        elif "embed_tokens" in key or ".rnn." in key:
            assert tensor.abs().max() < 5 * scale, key
            assert scale / 2 < tensor.std() < 2 * scale, key
        else:
            bound = (6 / sum(tensor.shape[-2:])) ** 0.5
            assert bound / 4 < tensor.abs().max() <= bound, key


# The config -----------------------------------------------------------------------------------------------------------


YELP = {"hidden_size": 300, "attention_hidden_size": 350, "num_hops": 30, "classifier_size": 3000}
YELP |= {"penalty_coefficient": 1.0, "classifier_dropout": 0.5, "sentence_pair": False, "num_labels": 5}
SNLI = YELP | {"attention_hidden_size": 150, "classifier_size": 4000, "penalty_coefficient": 0.3}
SNLI |= {"classifier_dropout": 0.0, "sentence_pair": True, "num_labels": 3}
PAPERS = {"lin2017-age": YELP | {"classifier_size": 2000}, "lin2017-yelp": YELP, "lin2017-snli": SNLI}


@pytest.mark.parametrize("paper", PAPERS)
def test_the_papers_models_by_name(paper: str) -> None:
    config = SelfAttentiveConfig.from_paper(paper)
    assert {name: getattr(config, name) for name in PAPERS[paper]} == PAPERS[paper]
    assert config.encoder_output_size == 600
    assert config.pooler_size == 18_000
    with torch.device("meta"):
        model = SelfAttentiveForSequenceClassification(config)
    assert model.hidden_proj.weight.shape == (config.classifier_size, 18_000)  # most of the model: 54 M for Yelp
    changed = SelfAttentiveConfig.from_paper(paper, num_hops=2, num_labels=7)
    assert (changed.num_hops, changed.num_labels) == (2, 7)


def test_a_gate_of_one_sentence() -> None:
    with refused(StrictDataclassError, "gate_size=8", "sentence_pair=True"):
        SelfAttentiveConfig(gate_size=8)
    with refused(StrictDataclassError, "compare_hops=True", "sentence_pair=True"):
        SelfAttentiveConfig(compare_hops=True)


# Bad input ------------------------------------------------------------------------------------------------------------


def test_padding_without_a_mask_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logging.warning_once.cache_clear()
    logger = logging.get_logger("transformers")
    logger.addHandler(caplog.handler)
    try:
        make()(input_ids=words(3, S) * BATCH["attention_mask"])
    finally:
        logger.removeHandler(caplog.handler)
    assert "attention_mask" in caplog.text


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@every_variant
def test_nothing_but_padding_is_defined(name: str, training: bool) -> None:
    """A = 0 and M = 0; the penalty is ||-I||^2 = R for every sentence, a constant."""
    model = make(name).train(training)
    given = BATCH | {"attention_mask": torch.zeros(3, S, dtype=torch.long)}
    outputs = model(**given, labels=torch.tensor([0, 1, 2]), output_attentions=True)
    assert (outputs.attentions[0] == 0).all()
    assert (model.model(**given).sentence_matrix == 0).all()
    sentences = 2 if model.config.sentence_pair else 1
    assert outputs.penalty.tolist() == [sentences * model.config.num_hops] * 3
    assert outputs.logits.isfinite().all()
    outputs.loss.backward()
    assert all(parameter.grad is None or parameter.grad.isfinite().all() for parameter in model.parameters())


def test_thirty_hops_at_one_token() -> None:
    """Every hop has the weight 1 there: AA^T is 1 everywhere, and P has the R (R - 1) entries off the diagonal."""
    model = make(num_hops=30).train()
    outputs = model(words(2, 1), labels=torch.tensor([0, 1]), output_attentions=True)
    assert (outputs.attentions[0] == 1).all()
    assert outputs.penalty.tolist() == [30 * 29] * 2
    outputs.loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_pair_without_token_types() -> None:
    with refused(ValueError, "token_type_ids", "tokenizer(text, text_pair, return_token_type_ids=True)"):
        make("pair")(input_ids=words(3, S))


@pytest.mark.parametrize("empty", [0, 1])
def test_a_pair_with_one_sentence_empty(empty: int) -> None:
    types = BATCH["token_type_ids"].clone()
    types[1] = 1 - empty
    with refused(ValueError, f"row 1 of token_type_ids has no token with {empty}", "tokenizer(text, text_pair)"):
        make("pair")(**(BATCH | {"token_type_ids": types}))


def test_token_types_that_cannot_be() -> None:
    with refused(ValueError, "token_type_ids", (3, S), (3, S - 1)):
        make("pair")(**(BATCH | {"token_type_ids": torch.zeros(3, S - 1, dtype=torch.long)}))
    with refused(ValueError, "token_type_ids of a sentence pair are 0 or 1, got 2"):
        make("pair")(**(BATCH | {"token_type_ids": torch.full((3, S), 2)}))


@pytest.mark.parametrize("label", [3, 7, -1])
def test_labels_out_of_range(label: int) -> None:
    with refused(ValueError, f"label {label} is out of range for num_labels=3", "0 to 2"):
        make()(**BATCH, labels=torch.tensor([0, label, 1]))


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
        model(**BATCH, labels=labels)
    assert model.config.problem_type == before  # a refused batch leaves no trace


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
    """The problem type comes from the labels, and is then saved in the config, or from the config; the loss is the
    library's.
    """
    fields, labels, function = PROBLEMS[problem_type]
    model = make(penalty_coefficient=0.7, **fields)
    outputs = model(**BATCH, labels=labels)
    torch.testing.assert_close(outputs.loss, function(outputs.logits, labels) + 0.7 * outputs.penalty.mean())
    assert model.config.problem_type == problem_type
    theirs = model.loss_function(labels=labels, pooled_logits=outputs.logits, config=model.config)
    torch.testing.assert_close(outputs.loss, theirs + 0.7 * outputs.penalty.mean())
    model.save_pretrained(tmp_path)
    assert SelfAttentiveForSequenceClassification.from_pretrained(tmp_path).config.problem_type == problem_type
    told = make(penalty_coefficient=0.7, problem_type=problem_type, **fields)
    assert torch.equal(told(**BATCH, labels=labels).loss, outputs.loss)


# The pipeline ---------------------------------------------------------------------------------------------------------

WORDS = ["[PAD]", "[UNK]", "[SEP]", "a", "film", "to", "love", "hate", "and", "forget"]


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Spaces separate words; each sentence of a pair ends in [SEP], and has its own token type."""
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
    extract = pipeline(
        "feature-extraction",
        model=tiny_model("base-single", dtype=torch.float32),
        tokenizer=word_tokenizer(),
        device="cpu",
    )
    features = torch.tensor(extract(TEXTS[0]))
    assert features.shape == (1, 4, 8)
