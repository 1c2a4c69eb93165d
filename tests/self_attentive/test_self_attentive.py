"""The self-attentive encoder and classifier, compared with the paper, and invariances of their outputs."""

from itertools import product
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

from attnzoo import SelfAttentiveConfig, SelfAttentiveForSequenceClassification
from attnzoo.attention import StructuredSelfAttention, redundancy_penalty
from attnzoo.modeling_self_attentive import GatedEncoder
from tests.attention.tensors import assert_equal, assert_equal_with_gradients, random, randomize
from tests.reference import self_attentive as reference

# All different, so that no two can be mixed up.
SIZES: dict[str, Any] = {
    "vocab_size": 13,
    "embedding_size": 3,
    "hidden_size": 2,
    "attention_hidden_size": 7,
    "num_hops": 5,
    "classifier_size": 6,
    "num_labels": 3,
}
PAIR = {"sentence_pair": True, "gate_size": 8}
CELLS = list(get_args(SelfAttentiveConfig.__annotations__["cell"]))
# Every place for padding, no padding, one token, and a row with nothing else.
MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1],
        [0, 1, 1, 0, 1, 0, 1],
        [0, 0, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0],
    ]
)
# Of a pair the sentences stand one after the other, the second first, or mixed.
TYPES = torch.tensor(
    [
        [0, 0, 0, 0, 1, 1, 1],
        [0, 0, 1, 1, 1, 1, 1],
        [1, 1, 1, 1, 1, 0, 0],
        [0, 1, 0, 0, 0, 0, 1],
        [1, 0, 1, 0, 1, 0, 0],
        [0, 0, 0, 1, 1, 1, 1],
    ]
)
LABELS = torch.tensor([2, 0, -100, 1, 1, 0])
CLOSE = {"rtol": 1e-9, "atol": 1e-11}
single_or_pair = pytest.mark.parametrize("fields", [{}, PAIR], ids=["single", "pair"])


def make(seed: int = 1, **fields: Any) -> SelfAttentiveForSequenceClassification:
    """A model in eval mode with every weight from N(0, 0.5^2), in float64."""
    return randomize(SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**(SIZES | fields))), seed).eval()


def batch(seed: int = 2) -> dict[str, Tensor]:
    """A batch with words at every place, also under the padding: only the mask decides what is read."""
    generator = torch.Generator().manual_seed(seed)
    input_ids = torch.randint(3, SIZES["vocab_size"], MASK.shape, generator=generator)
    return {"input_ids": input_ids, "attention_mask": MASK, "token_type_ids": TYPES}


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


# The equations --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize("num_hops", [1, 3])
def test_attention_and_penalty_equal_the_loops(num_hops: int, length: int) -> None:
    attention = randomize(StructuredSelfAttention(6, 5, num_hops), seed=1)
    states = random(1, length, 6, seed=2)
    matrix, annotation = attention(states, torch.ones(1, length, dtype=torch.bool))
    rows = reference.annotate(list(states[0]), attention.key_proj.weight, attention.hops)
    expected = torch.stack([torch.stack(row) for row in rows])
    assert_equal_with_gradients(
        [annotation[0], matrix[0], redundancy_penalty(annotation)[0]],
        [expected, torch.stack(reference.embed(rows, list(states[0]), 6)), reference.penalty(rows)],
        {"states": states, **dict(attention.named_parameters())},
    )


def test_one_hop_is_the_vector_form() -> None:
    attention = randomize(StructuredSelfAttention(6, 5, 1), seed=1)
    states = random(1, 4, 6, seed=2)
    matrix, annotation = attention(states, torch.ones(1, 4, dtype=torch.bool))
    weights = reference.annotate_once(list(states[0]), attention.key_proj.weight, attention.hops[0])
    assert_equal(annotation[0, 0], torch.stack(weights))
    assert_equal(matrix[0, 0], sum(weight * state for weight, state in zip(weights, states[0], strict=True)))


def test_a_penalty_by_hand() -> None:
    """AA^T is [[1/2, 1/2], [1/2, 1]]: (1/2)^2 + 2 (1/2)^2 + 0 = 3/4; a norm without square would be 0.87."""
    annotation = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]]])
    assert redundancy_penalty(annotation).tolist() == [0.75]
    assert redundancy_penalty(torch.eye(3)[None, :2]).tolist() == [0.0]  # each hop at a token of its own


def test_a_penalty_keeps_its_precision_under_autocast() -> None:
    """AA^T - I is [[2e^2 - 2e]] with e = 2^-10: about 2^-18 squared, and 2^-16 or 0 of a product in bf16."""
    small = 2.0**-10
    annotation = torch.tensor([[[1 - small, small]]], requires_grad=True)
    exact = (2 * small - 2 * small**2) ** 2
    with torch.autocast("cpu", torch.bfloat16):
        penalty = redundancy_penalty(annotation)
    (gradient,) = torch.autograd.grad(penalty.sum(), annotation)
    assert penalty.dtype == gradient.dtype == torch.float32
    torch.testing.assert_close(penalty, torch.tensor([exact]), rtol=1e-3, atol=0)
    expected = 4 * (-2 * small + 2 * small**2) * annotation.detach()  # 4 (AA^T - I) A
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=0)


def test_a_penalty_of_half_precision_is_in_float32() -> None:
    annotation = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.984375, 0.015625]]])  # exact in bfloat16, their products not
    penalty = redundancy_penalty(annotation.bfloat16())
    assert penalty.dtype == torch.float32
    assert torch.equal(penalty, redundancy_penalty(annotation))


def test_gated_encoder_equals_the_loops() -> None:
    gate = randomize(GatedEncoder(3, 4, 5), seed=1)
    first, second = random(2, 3, 4, seed=2), random(2, 3, 4, seed=3)
    expected = [
        torch.stack(reference.gate(list(m_p), list(m_h), gate.first_weight, gate.second_weight))
        for m_p, m_h in zip(first, second, strict=True)
    ]
    inputs = {"first": first, "second": second, **dict(gate.named_parameters())}
    assert_equal_with_gradients([gate(first, second)], [torch.stack(expected)], inputs)


CASES = [
    {"cell": cell, "num_hidden_layers": layers, **pair} for cell, layers, pair in product(CELLS, (1, 2), ({}, PAIR))
]
CASES += [{"num_hops": 1}, {"num_hops": 1, **PAIR}, {"penalty_reduction": "sum", **PAIR}]


# The mode changes nothing but dropout, of which there is none: a third of the cases are in training.
@pytest.mark.parametrize(("case", "training"), [(case, at % 3 == 0) for at, case in enumerate(CASES)], ids=str)
def test_the_classifier_equals_the_loops(case: dict[str, Any], training: bool) -> None:
    """A, M, the penalty, the logits, the loss, and the gradient of every parameter are equal."""
    model = make(penalty_coefficient=0.7, classifier_dropout=0.0, **case).train(training)
    inputs = batch()
    outputs = model(**inputs, labels=LABELS, output_attentions=True)
    base = model.model(**inputs)
    expected = reference.classify(model, inputs["input_ids"], MASK, TYPES)
    assert_equal(outputs.logits, expected.logits, "logits")
    assert len(outputs.attentions) == 1
    assert_equal(outputs.attentions[0], expected.annotation_matrix.unsqueeze(1), "annotation matrices")
    matrices = torch.stack([torch.stack([torch.stack(matrix) for matrix in row]) for row in expected.sentence_matrices])
    assert_equal(base.sentence_matrix, matrices if model.config.sentence_pair else matrices[:, 0], "sentence matrices")
    assert_equal(base.penalty, expected.penalty, "penalties")
    assert_equal(outputs.penalty, expected.penalty, "penalties")
    counted = expected.penalty[LABELS != -100]  # the rows that the task's loss is of
    penalty = counted.mean() if model.config.penalty_reduction == "mean" else counted.sum()
    loss = reference.cross_entropy(expected.logits, LABELS.tolist()) + 0.7 * penalty
    assert_equal(outputs.loss, loss, "loss")
    theirs = gradients(loss, model)
    for name, gradient in gradients(outputs.loss, model).items():
        assert_equal(gradient, theirs[name], f"gradients of {name}")
        assert theirs[name].any(), f"{name} has no part in the loss; the comparison says nothing about it"


def test_the_sentence_vector_is_the_matrix_row_by_row() -> None:
    single, pair = make(), make(**PAIR)
    outputs = single.model(**batch())
    assert torch.equal(outputs.pooler_output, outputs.sentence_matrix.reshape(len(MASK), -1))
    outputs = pair.model(**batch())
    relation = pair.model.gate(outputs.sentence_matrix[:, 0], outputs.sentence_matrix[:, 1])
    assert torch.equal(outputs.pooler_output, relation.reshape(len(MASK), -1))


@single_or_pair
def test_hops_in_another_order_have_the_same_penalty(fields: dict[str, Any]) -> None:
    model = make(**fields)
    before = model.model(**batch(), output_attentions=True)
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        model.model.attention.hops.copy_(model.model.attention.hops[order])
    after = model.model(**batch(), output_attentions=True)
    torch.testing.assert_close(after.attentions[0], before.attentions[0][:, :, order], **CLOSE)
    torch.testing.assert_close(after.penalty, before.penalty, **CLOSE)


# What must not change the numbers -------------------------------------------------------------------------------------


@single_or_pair
def test_weights_sum_to_one_and_are_zero_on_padding(fields: dict[str, Any]) -> None:
    outputs = make(**fields).model(**batch(), output_attentions=True)
    weights = outputs.attentions[0][:, 0]  # (B, R, S)
    is_padding = (MASK == 0).unsqueeze(1).expand_as(weights)
    assert (weights[is_padding] == 0).all()
    assert (outputs.last_hidden_state[MASK == 0] == 0).all()
    sentences = [TYPES == 0, TYPES == 1] if fields else [MASK == MASK]
    for in_sentence in sentences:
        sums = (weights * in_sentence.unsqueeze(1)).sum(dim=-1)
        torch.testing.assert_close(sums[:-1], torch.ones_like(sums[:-1]), **CLOSE)
        assert (sums[-1] == 0).all()  # a row of padding


def test_one_sentence_does_not_read_token_types() -> None:
    model, inputs = make(), batch()
    expected = model(**inputs).logits
    del inputs["token_type_ids"]
    assert torch.equal(model(**inputs).logits, expected)


def test_the_order_of_a_pair_matters() -> None:
    model, inputs = make(**PAIR), batch()
    turned = model(**(inputs | {"token_type_ids": 1 - TYPES}))
    assert not torch.allclose(turned.logits[0], model(**inputs).logits[0])
    torch.testing.assert_close(turned.penalty, model(**inputs).penalty, **CLOSE)


# Training -------------------------------------------------------------------------------------------------------------


def test_dropout_stands_where_it_is_said_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dropout that doubles its input acts like doubled weights where the dropped values are read.

    These are the embeddings, the outputs between layers, and the inputs of both layers of the MLP.
    """
    for field, read in (("dropout", "weight_ih"), ("classifier_dropout", "hidden_proj.weight|classifier.weight")):
        rates = {"dropout": 0.0, "classifier_dropout": 0.0} | {field: 0.5}
        expected = make(num_hidden_layers=2)
        with torch.no_grad():
            for name, parameter in expected.named_parameters():
                if any(part in name for part in read.split("|")):
                    parameter *= 2

        def double(values: Tensor, rate: float, training: bool, inplace: bool) -> Tensor:
            return 2 * values if training and rate else values

        monkeypatch.setattr(torch.nn.functional, "dropout", double)
        model = make(num_hidden_layers=2, **rates).train()
        torch.testing.assert_close(model(**batch()).logits, expected(**batch()).logits, **CLOSE)
        monkeypatch.undo()
        assert torch.equal(model.eval()(**batch()).logits, make(num_hidden_layers=2)(**batch()).logits)


def test_the_penalty_sets_the_hops_apart() -> None:
    """Trained with the penalty only, hops that attended to the same tokens attend to different ones."""
    torch.manual_seed(0)
    model = SelfAttentiveForSequenceClassification(SelfAttentiveConfig(**(SIZES | {"num_hops": 3})))
    ids = torch.randint(3, SIZES["vocab_size"], (8, 7))
    start = model(ids).penalty.mean().item()
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(150):
        optimiser.zero_grad()
        model(ids).penalty.mean().backward()
        optimiser.step()
    assert model(ids).penalty.mean().item() < start / 3
