"""The attentional RNN against the papers: cells, encoder and every wiring equal their loop references."""

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnzoo import AttentionalRNNConfig, AttentionalRNNForConditionalGeneration
from attnzoo.recurrent_cells import ChoGRU, recurrent_layer
from attnzoo.recurrent_encoder import RecurrentEncoder

from .reference import attentional_rnn as reference
from .test_attention import assert_equal, assert_equal_with_gradients, random, randomize

CELLS = ["cho_gru", "gru", "lstm"]
SCORES = ["additive", "dot", "general", "concat", "location"]
WINDOWS = ["global", "monotonic", "predictive"]

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
COPIED = {"decoder_hidden_size": 4}  # as wide as the encoder's outputs: the dot score asks for it, Luong's start copies


def cases() -> list[Any]:
    """Every wiring, score, cell and window; for Luong with a start that is copied and one that is bridged; depth."""
    bahdanau, luong, feeding = {"wiring": "bahdanau"}, {"wiring": "luong"}, {"wiring": "luong", "input_feeding": True}
    fields = []
    for score, cell, window in product(SCORES, CELLS, WINDOWS):
        choice = {"score": score, "cell": cell, "window": window}
        fields.append(bahdanau | choice | (COPIED if score == "dot" else {}))
        fields += [wiring | choice | COPIED for wiring in (luong, feeding)]
        if score != "dot":
            fields += [wiring | choice for wiring in (luong, feeding)]
    for cell, (encoder_layers, decoder_layers) in product(CELLS, [(2, 2), (1, 2), (2, 1)]):
        depth = {"cell": cell, "encoder_layers": encoder_layers, "decoder_layers": decoder_layers}
        fields += [
            bahdanau | depth | {"score": "additive"},
            luong | depth | COPIED | {"score": "dot", "window": "monotonic"},
            feeding | depth | COPIED | {"score": "general", "window": "predictive"},
            feeding | depth | {"score": "concat"},
        ]
    return [pytest.param(case, id=case_id(case)) for case in fields]


def case_id(case: dict[str, Any]) -> str:
    names = [case["wiring"], "feeding" if case.get("input_feeding") else "", case["score"], case["cell"]]
    names.append(case.get("window", "global"))
    names.append("copied" if case["wiring"] == "luong" and "decoder_hidden_size" in case else "")
    names.append(f"{case['encoder_layers']}to{case['decoder_layers']}" if "encoder_layers" in case else "")
    return "-".join(name for name in names if name)


def tiny_model(case: dict[str, Any]) -> AttentionalRNNForConditionalGeneration:
    return randomize(AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(**SIZES | case)), seed=1)


def batch() -> dict[str, Tensor]:
    """Words at every place, under the padding too: the mask alone says what is read."""
    generator = torch.Generator().manual_seed(2)
    input_ids, labels = (
        torch.randint(3, SIZES["vocab_size"], (BATCH, length), generator=generator) for length in (SOURCE, TARGET)
    )
    labels[torch.arange(TARGET) >= torch.tensor(LABEL_LENGTHS).unsqueeze(1)] = -100
    return {"input_ids": input_ids, "attention_mask": MASK, "labels": labels}


def loop_translation(model: nn.Module, inputs: dict[str, Tensor]) -> reference.Translation:
    start, pad = model.config.decoder_start_token_id, model.config.pad_token_id
    read = torch.tensor([reference.shift_right(row, start, pad) for row in inputs["labels"].tolist()])
    return reference.translate(model, inputs["input_ids"], inputs["attention_mask"], read)


def gradients(loss: Tensor, model: nn.Module) -> dict[str, Tensor]:
    parameters = dict(model.named_parameters())
    return dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))


def assert_same_gradients(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in actual.items():
        assert_equal(gradient, expected[name], f"gradients of {name}")
        assert expected[name].any(), f"{name} has no part in the loss; the comparison says nothing about it"


# The model


@pytest.mark.parametrize("case", cases())
def test_a_wiring_equals_the_loop(case: dict[str, Any]) -> None:
    """Logits, alignments and the gradient of every parameter, for training and for evaluation."""
    model, inputs = tiny_model(case), batch()
    expected = loop_translation(model, inputs)
    expected_gradients = gradients(reference.cross_entropy(expected.logits, inputs["labels"]), model)
    for mode in (model.train, model.eval):
        mode()
        outputs = model(**inputs, output_attentions=True)
        assert_equal(outputs.logits, expected.logits, "logits")
        assert len(outputs.cross_attentions) == 1
        assert_equal(outputs.cross_attentions[0], expected.alignments.unsqueeze(1), "alignments")
        # torch's cross-entropy on the logits, in float64; the loss of the model is compared below
        loss = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), inputs["labels"].flatten())
        assert_same_gradients(gradients(loss, model), expected_gradients)


LOSS_CASES = [
    {"wiring": "bahdanau", "score": "additive", "cell": "cho_gru"},
    {"wiring": "luong", "score": "general", "cell": "lstm", "window": "predictive"},
    {"wiring": "luong", "score": "dot", "cell": "gru", "input_feeding": True, **COPIED},
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case_id(case)) for case in LOSS_CASES])
def test_the_loss_equals_the_loop(case: dict[str, Any]) -> None:
    """The model's own loss, averaged over the words of the batch, and through it the gradient of every parameter."""
    model, inputs = tiny_model(case).train(), batch()
    expected = reference.cross_entropy(loop_translation(model, inputs).logits, inputs["labels"])
    loss = model(**inputs).loss
    assert_equal(loss, expected, "loss")
    assert_same_gradients(gradients(loss, model), gradients(expected, model))


@pytest.mark.parametrize("case", [pytest.param(case, id=case_id(case)) for case in LOSS_CASES])
def test_without_a_mask_every_token_is_real(case: dict[str, Any]) -> None:
    model, inputs = tiny_model(case).eval(), batch()
    expected = loop_translation(model, inputs | {"attention_mask": torch.ones_like(MASK)})
    actual = model(input_ids=inputs["input_ids"], labels=inputs["labels"], output_attentions=True)
    assert_equal(actual.logits, expected.logits, "logits")
    assert_equal(actual.cross_attentions[0][:, 0], expected.alignments, "alignments")


@pytest.mark.parametrize("case", [pytest.param(case, id=case_id(case)) for case in LOSS_CASES])
def test_tied_embeddings_equal_the_loop(case: dict[str, Any]) -> None:
    """One matrix in three places: its gradient is the sum of all three."""
    tied = {"tie_word_embeddings": True, "embedding_size": SIZES["readout_size"]}
    model, inputs = tiny_model(case | tied), batch()
    expected = loop_translation(model, inputs).logits
    actual = model(**inputs).logits
    assert_equal(actual, expected, "logits")
    flat = inputs["labels"].flatten()
    loss = nn.functional.cross_entropy(actual.flatten(0, 1), flat)
    names = dict(model.named_parameters())
    assert sum(name.endswith("embed_tokens.weight") or name == "lm_head.weight" for name in names) == 1
    assert_same_gradients(gradients(loss, model), gradients(reference.cross_entropy(expected, inputs["labels"]), model))


AUTOCAST_CASES = [case | {"cell": cell} for case, cell in product(LOSS_CASES, CELLS)]


@pytest.mark.parametrize("case", [pytest.param(case, id=case_id(case)) for case in AUTOCAST_CASES])
def test_autocast_computes_the_same_in_less_precision(case: dict[str, Any]) -> None:
    """Mixed precision as a training loop switches it on: every part takes the dtypes that the others hand it."""
    model, inputs = tiny_model(case).float().train(), batch()
    expected = model(**inputs).logits
    with torch.autocast("cpu", torch.bfloat16):
        outputs = model(**inputs, output_attentions=True)
    if case.get("window") != "predictive":  # whose windows jump by a token where rounding moves p_t past an integer
        # bfloat16 has 8 bits, and the logits, of size 1, are some ten roundings away from the embeddings
        torch.testing.assert_close(outputs.logits.float(), expected, rtol=0.05, atol=0.1)
    assert outputs.cross_attentions[0].dtype == torch.float32
    for name, gradient in gradients(outputs.loss, model).items():
        assert gradient.isfinite().all(), name


# The encoder


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("padded", [False, True])
def test_the_encoder_equals_the_loop(padded: bool, depth: int, cell: str) -> None:
    width, size = 3, 2
    encoder = randomize(RecurrentEncoder(cell, width, size, depth, dropout=0.0), seed=1)
    inputs = random(BATCH, SOURCE, width, seed=2)
    mask = MASK.bool() if padded else torch.ones_like(MASK, dtype=torch.bool)
    outputs, state = encoder(inputs, mask)
    annotations, hidden, memory = reference.encode(reference.weights_of(encoder), cell, size, depth, inputs, mask)
    actual, expected = [*outputs, state.hidden], [*annotations, hidden]
    if cell == "lstm":
        actual.append(state.cell)
        expected.append(memory)
    else:
        assert state.cell is None
    assert_equal_with_gradients(actual, expected, {"inputs": inputs, **dict(encoder.named_parameters())})
    if not padded:
        unmasked, _ = encoder(inputs)
        assert_equal(unmasked[-1], outputs[-1])


# The cells, and what anchors their references


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_equals_the_loop(cell: str, with_state: bool, packed: bool) -> None:
    """For "gru" and "lstm" this anchors the reference in torch's own modules; for "cho_gru" it tests ours."""
    width, size, lengths = 3, 4, [4, 2, 5, 1]  # not sorted: packing sorts them, and the states with them
    layer = randomize(recurrent_layer(cell, width, size), seed=1)
    inputs = random(len(lengths), max(lengths), width, seed=2)
    leaves = {"inputs": inputs, **dict(layer.named_parameters())}
    start: list[Tensor] = []
    if with_state:
        start = [random(1, len(lengths), size, seed=seed) for seed in range(3, 5 if cell == "lstm" else 4)]
        leaves |= {f"state {index}": part for index, part in enumerate(start)}
    state = None if not start else tuple(start) if cell == "lstm" else start[0]
    if packed:
        outputs, last = layer(pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False), state)
        outputs, read_lengths = pad_packed_sequence(outputs, batch_first=True)
        assert read_lengths.tolist() == lengths
    else:
        lengths = [max(lengths)] * len(lengths)
        outputs, last = layer(inputs, state)

    weights = reference.weights_of(layer)
    expected_outputs = torch.zeros_like(outputs)
    finals = []
    for row, length in enumerate(lengths):
        first = reference.State(*(part[0, row] for part in start)) if start else reference.zero_state(cell, size)
        states = reference.read(cell, weights, list(inputs[row, :length]), first)
        for step, after in enumerate(states):
            expected_outputs[row, step] = after.hidden
        finals.append(states[-1])
    actual_last = list(last) if cell == "lstm" else [last]
    expected_last = [torch.stack([part[i] for part in finals]).unsqueeze(0) for i in range(len(actual_last))]
    assert_equal_with_gradients([outputs, *actual_last], [expected_outputs, *expected_last], leaves)


def test_cho_gru_by_hand() -> None:
    """The reset gate before U, and z that lets the new state in; U swaps the units, so that the place of r shows."""
    # x has no weight. z = sigma(ln 3) = 3/4. r = (sigma(0), sigma(ln 3)) = (1/2, 3/4). s = (2 ln 2, 4/3 ln 2), so
    # r * s = (ln 2, ln 2), U swaps and doubles the first: (ln 2, 2 ln 2), tanh: (3/5, 15/17).
    # After U it would have been r * (4/3 ln 2, 4 ln 2) = (2/3 ln 2, 3 ln 2).
    layer = ChoGRU(1, 2).double()
    ln2, ln3 = torch.tensor([2.0, 3.0], dtype=torch.float64).log()
    with torch.no_grad():
        layer.weight_input.zero_()
        layer.weight_hidden.zero_()
        layer.weight_hidden[4:] = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
        layer.bias.copy_(torch.stack([ln3, ln3, 0 * ln3, ln3, 0 * ln3, 0 * ln3]))
    state = torch.stack([2 * ln2, 4 / 3 * ln2])
    expected = state / 4 + 3 / 4 * torch.tensor([3 / 5, 15 / 17], dtype=torch.float64)
    outputs, last = layer(torch.ones(1, 1, 1, dtype=torch.float64), state.view(1, 1, 2))
    assert_equal(outputs[0, 0], expected)
    assert_equal(last[0, 0], expected)


def test_with_open_reset_gates_the_two_grus_are_one() -> None:
    """Where r = 1 its place does not matter: Cho's GRU is then torch's, with 1 - z for z."""
    width, size = 3, 4
    theirs, ours = randomize(nn.GRU(width, size, batch_first=True), seed=1), ChoGRU(width, size).double()
    with torch.no_grad():
        theirs.bias_ih_l0[:size] = 1000.0  # r = sigma(1000 + ...) = 1
        for name, weight in (("weight_input", theirs.weight_ih_l0), ("weight_hidden", theirs.weight_hh_l0)):
            r, z, n = weight.split(size)
            getattr(ours, name).copy_(torch.cat([-z, r, n]))
        r, z, n = (theirs.bias_ih_l0 + theirs.bias_hh_l0).split(size)
        ours.bias.copy_(torch.cat([-z, r, n]))
    inputs = random(2, 5, width, seed=2)
    assert_equal(ours(inputs)[0], theirs(inputs)[0])


# Initialisation


INITIALISED = {
    "vocab_size": 150,
    "embedding_size": 50,
    "encoder_hidden_size": 30,
    "decoder_hidden_size": 60,
    "attention_size": 70,
    "readout_size": 40,
}


def assert_spread(parameter: Tensor, std: float, name: str) -> None:
    """Mean 0 and this standard deviation, within five standard errors (of a normal; a uniform's are smaller)."""
    assert abs(parameter.mean()) < 5 * std / parameter.numel() ** 0.5, name
    assert abs(parameter.std() / std - 1) < 5 / (2 * parameter.numel()) ** 0.5, name


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("score", SCORES)
def test_bahdanaus_initialisation(score: str, cell: str) -> None:
    """Bahdanau et al., 2014, appendix B.1."""
    torch.manual_seed(0)
    choice = {"score": score, "cell": cell, "window": "predictive", "encoder_layers": 2, "decoder_layers": 2}
    model = AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(wiring="bahdanau", **INITIALISED, **choice))
    seen = set()
    for name, parameter in model.named_parameters():
        leaf = name.rsplit(".", 1)[-1]
        if leaf.startswith("bias") or name.endswith("score.score_proj.weight"):
            kind = "zero"
            assert not parameter.any(), name
        elif leaf in ("weight_hidden", "weight_hh_l0"):
            kind = "orthogonal"
            gates = parameter.split(parameter.shape[1])
            assert len(gates) == (4 if cell == "lstm" else 3)
            for index, gate in enumerate(gates):
                torch.testing.assert_close(gate @ gate.T, torch.eye(len(gate)), rtol=0, atol=1e-5)
                assert all(not torch.allclose(gate, other, atol=0.01) for other in gates[:index]), name
        elif name.endswith(("score.query_proj.weight", "score.key_proj.weight")) and score in ("additive", "concat"):
            kind = "alignment"
            assert_spread(parameter, 0.001, name)
        else:
            kind = "normal"
            assert_spread(parameter, 0.01, name)
            if parameter.numel() > 1000:
                assert parameter.abs().max() > 0.025, name  # normal: a uniform of this spread ends at 0.017
        seen.add(kind)
    assert seen == {"zero", "orthogonal", "normal"} | ({"alignment"} if score in ("additive", "concat") else set())


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("score", SCORES)
def test_luongs_initialisation(score: str, cell: str) -> None:
    """Luong et al., 2015, section 4.1: everything uniform in [-0.1, 0.1], biases too."""
    torch.manual_seed(0)
    choice = {"score": score, "cell": cell, "window": "predictive", "encoder_layers": 2, "input_feeding": True}
    model = AttentionalRNNForConditionalGeneration(AttentionalRNNConfig(wiring="luong", **INITIALISED, **choice))
    for name, parameter in model.named_parameters():
        assert parameter.abs().max() <= 0.1, name
        assert_spread(parameter, 0.1 / 3**0.5, name)


# What cuDNN asks for and the CPU does not


@pytest.mark.parametrize("wiring", ["bahdanau", "luong"])
@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_states_reach_torchs_rnns_contiguous(cell: str, wiring: str) -> None:
    model = tiny_model({"wiring": wiring, "cell": cell, "score": "additive", "encoder_layers": 2, "decoder_layers": 2})
    seen = []

    def look(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        state = arguments[1] if len(arguments) > 1 else None
        seen.extend(
            part.is_contiguous() for part in (state if isinstance(state, tuple) else (state,)) if part is not None
        )

    for module in model.modules():
        if isinstance(module, nn.RNNBase):
            module.register_forward_pre_hook(look)
    model(**batch())
    assert seen
    assert all(seen)
