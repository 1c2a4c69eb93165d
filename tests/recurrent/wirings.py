"""The choices of wiring, score, window, cell and encoder, a tiny model of each, and its translation by the loop."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnzoo import (
    AttentionalRNNConfig,
    AttentionalRNNForConditionalGeneration,
    attention,
    recurrent_cells,
    recurrent_decoder,
)
from tests.attention.tensors import assert_equal, randomize
from tests.reference import attentional_rnn as reference
from tests.reference import copying

# All that are registered: a new one is tested with every other choice, and needs its loop in ``tests/reference``.
WIRINGS, CELLS = list(recurrent_decoder.WIRINGS), list(recurrent_cells.CELLS)
SCORES, WINDOWS = list(attention.SCORES), list(attention.WINDOWS)


DIRECTIONS = {
    "both": {},
    "forward": {"bidirectional": False},
    "backward": {"bidirectional": False, "reverse_source": True},
}


DEPTHS = [(1, 1), (2, 2), (1, 2), (2, 1)]  # of encoder and decoder


# Every place for padding, no padding, and a row with nothing else.
MASK = torch.tensor(
    [
        [1, 1, 1, 1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 1, 1, 1],
        [0, 1, 1, 0, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 0, 0],
    ]
)


BATCH, SOURCE = MASK.shape


TARGET = 6


LABEL_LENGTHS = [6, 4, 2, 5, 3]  # longer than the source in some rows, where local-m has to stop


# All different, so that no two can be mixed up. With D = 1 and a table of 4 positions the windows of location scores
# move past the table, and leave a word with nothing to attend to.
SIZES = {
    "vocab_size": 13,
    "embedding_size": 3,
    "encoder_hidden_size": 2,
    "decoder_hidden_size": 9,
    "attention_size": 7,
    "readout_size": 10,
    "window_size": 1,
    "max_source_positions": 4,
}


COPIED = {"decoder_hidden_size": 4}  # as wide as the encoder's outputs: the dot score asks for it, other starts copy


def configuration(case: dict[str, Any]) -> AttentionalRNNConfig:
    fields = SIZES | case
    if fields["wiring"] == "sutskever":  # which reads words from its state as it is
        fields["readout_size"] = fields["decoder_hidden_size"]
    return AttentionalRNNConfig(**fields)


def wired_model(case: dict[str, Any]) -> AttentionalRNNForConditionalGeneration:
    return randomize(AttentionalRNNForConditionalGeneration(configuration(case)), seed=1)


def batch() -> dict[str, Tensor]:
    """A batch with words at every place, also under the padding: only the mask decides what is read."""
    generator = torch.Generator().manual_seed(2)
    input_ids, labels = (
        torch.randint(3, SIZES["vocab_size"], (BATCH, length), generator=generator) for length in (SOURCE, TARGET)
    )
    labels[torch.arange(TARGET) >= torch.tensor(LABEL_LENGTHS).unsqueeze(1)] = -100
    return {"input_ids": input_ids, "attention_mask": MASK, "labels": labels}


def words_read(model: nn.Module, labels: Tensor) -> Tensor:
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    return torch.tensor([reference.shift_right(row, start, pad) for row in labels.tolist()])


def loop_translation(model: nn.Module, inputs: dict[str, Tensor], fix_context: bool = False) -> reference.Translation:
    read = words_read(model, inputs["labels"])
    return reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read, fix_context)


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


def assert_same_gradients(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        assert_equal(gradient, expected[name], f"gradients of {name}")
        assert expected[name].any(), f"{name} has no part in the loss; the comparison says nothing about it"


def assert_same_alignments(outputs: Any, expected: reference.Translation) -> None:
    if expected.alignments is None:
        assert outputs.cross_attentions is None
    else:
        assert len(outputs.cross_attentions) == 1
        assert_equal(outputs.cross_attentions[0], expected.alignments.unsqueeze(1), "alignments")


# The whole product of the choices


def choices(wirings: list[str], scores: list[str], windows: list[str], feeding: list[bool]) -> list[dict[str, Any]]:
    names = "wiring", "score", "window", "cell", "input_feeding"
    rows = product(wirings, scores, windows, CELLS, feeding)
    return [dict(zip(names, row, strict=True)) for row in rows]


# Written from the papers, not asked of the config: a decoder without attention has no score and no window, one with
# attention has any of both, input feeding is Luong's, and every cell goes with everything.
ACCEPTED = [
    *choices(["cho", "sutskever"], ["none"], ["global"], [False]),
    *choices(["bahdanau"], SCORES, WINDOWS, [False]),
    *choices(["luong"], SCORES, WINDOWS, [False, True]),
]


WHOLE = choices(WIRINGS, ["none", *SCORES], WINDOWS, [False, True])


REFUSED = [choice for choice in WHOLE if choice not in ACCEPTED]


def case_id(case: dict[str, Any]) -> str:
    names = [case["wiring"], "feeding" if case.get("input_feeding") else "", case.get("score", ""), case["cell"]]
    names += [case.get("window", "global"), "copied" if "decoder_hidden_size" in case else ""]
    names += [name for name in ("copy", "coverage") if case.get(name)]
    if "encoder_layers" in case and "decoder_layers" in case:
        directions = "forward" if "bidirectional" in case else "both"
        names.append("backward" if "reverse_source" in case else directions)
        names.append(f"{case['encoder_layers']}to{case['decoder_layers']}")
    return "-".join(name for name in names if name)


def params(cases: list[dict[str, Any]]) -> list[Any]:
    """The cases with their names. Of a long list ``make quick`` runs every seventh, which covers every choice."""
    is_long = len(cases) > 50
    return [
        pytest.param(case, id=case_id(case), marks=[pytest.mark.grid] if is_long and at % 7 else [])
        for at, case in enumerate(cases)
    ]


def assert_equals_the_loop(case: dict[str, Any]) -> None:
    """Compare the loss and its gradients in a training step with logits, and in one without, which runs only over rows
    that have not ended; and logits and alignments, in training and in evaluation.
    """
    model, inputs = wired_model(case).train(), batch()
    expected = loop_translation(model, inputs)
    expected_loss = reference.cross_entropy(expected.logits, inputs["labels"])
    if model.config.coverage:
        of_coverage = copying.coverage_loss(expected.alignments, inputs["labels"])
        expected_loss = expected_loss + model.config.coverage_loss_coefficient * of_coverage
    expected_gradients = gradients(expected_loss, model)
    outputs, packed = model(**inputs, output_attentions=True), model(**inputs, skip_logits=True)
    assert packed.logits is None
    for step in (outputs, packed):
        assert_equal(step.loss, expected_loss, "loss")
        assert_same_gradients(gradients(step.loss, model), expected_gradients)
    with torch.no_grad():  # the steps then share no products
        evaluated = model.eval()(**inputs, output_attentions=True)
    for one in (outputs, evaluated):
        assert_equal(one.logits, expected.logits, "logits")
        assert_same_alignments(one, expected)


# Of See et al. (2017): copying over every score, window and order of steps, coverage over every way through the loop.
ADDITIVE = [
    {"wiring": "bahdanau", "score": "additive", "cell": "cho_gru"},
    {"wiring": "luong", "score": "concat", "cell": "lstm"},
    {"wiring": "luong", "score": "concat", "cell": "gru", "input_feeding": True, "decoder_layers": 2},
]
COPYING = [
    *(case | {"copy": True, "coverage": coverage} for case in ADDITIVE for coverage in (False, True)),
    {"wiring": "luong", "score": "location", "cell": "rnn", "copy": True, "window": "monotonic"},
    {"wiring": "bahdanau", "score": "general", "cell": "lstm", "copy": True, "tie_word_embeddings": True}
    | {"embedding_size": SIZES["readout_size"]},
    {"wiring": "bahdanau", "score": "additive", "cell": "gru", "coverage": True, "coverage_loss_coefficient": 0.3}
    | {"window": "predictive"},
]


LOSS_CASES = [
    {"wiring": "cho", "cell": "gru"},
    {"wiring": "sutskever", "cell": "lstm"},
    {"wiring": "bahdanau", "score": "additive", "cell": "cho_gru"},
    {"wiring": "luong", "score": "general", "cell": "lstm", "window": "predictive"},
    {"wiring": "luong", "score": "dot", "cell": "gru", "input_feeding": True, **COPIED},
]


def copy_weights(source: nn.Module, target: nn.Module, *not_copied: str) -> None:
    """Copy the weights of ``source`` into ``target``, except those of the parts in ``not_copied``."""
    weights = {name: weight for name, weight in source.state_dict().items() if not name.startswith(not_copied)}
    missing, unexpected = target.load_state_dict(weights, strict=False)
    assert unexpected == []
    assert all(name.startswith(not_copied) for name in missing), missing


def assert_same_model(actual: nn.Module, expected: nn.Module) -> None:
    """Compare two models with the same parameters: values and gradients."""
    inputs = batch()
    outputs, others = (model(**inputs, output_attentions=True) for model in (actual, expected))
    assert_equal(outputs.logits, others.logits, "logits")
    assert_equal(outputs.cross_attentions[0], others.cross_attentions[0], "alignments")
    assert_same_gradients(gradients(outputs.loss, actual), gradients(others.loss, expected))


ATTENTIONAL = {
    "bahdanau": {"wiring": "bahdanau", "cell": "cho_gru"},
    "luong": {"wiring": "luong", "cell": "lstm"},
    "luong-feeding": {"wiring": "luong", "cell": "lstm", "input_feeding": True},
}
