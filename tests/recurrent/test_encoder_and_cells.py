"""The encoder, its padding and the cells, each equal to its loop."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attnzoo import recurrent_cells, recurrent_encoder
from attnzoo.fast_weight_copies import FEW_PRODUCTS
from attnzoo.library_internals import blocked_lstm_weights
from attnzoo.recurrent_cells import ChoGRU, PaddedLSTM
from attnzoo.recurrent_encoder import RecurrentEncoder
from tests.attention.tensors import assert_equal, assert_equal_with_gradients, random, randomize
from tests.recurrent.wirings import BATCH, CELLS, MASK, SOURCE, WIRINGS, batch, wired_model
from tests.reference import attentional_rnn as reference

# The encoder


def test_an_unknown_cell_is_named() -> None:
    with pytest.raises(ValueError, match=r"cell is 'foo'; it must be one of cho_gru, gru, lstm, rnn"):
        RecurrentEncoder("foo", 3, 4, num_layers=1, dropout=0.0)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("directions", [("forward", "backward"), ("forward",), ("backward",)], ids="-".join)
@pytest.mark.parametrize("padding", ["none", "much", "little", "after all"])
def test_the_encoder_equals_the_loop(
    padding: str, directions: tuple[str, ...], depth: int, cell: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Much padding: most rows end long before the longest. Padding after all rows: there are columns without a
    token.

    Rows run together, in groups of about two, and one by one; the gradient is that of the sum of all three.
    """
    width, size = 3, 2
    encoder = randomize(RecurrentEncoder(cell, width, size, depth, dropout=0.0, directions=directions), seed=1)
    inputs = random(BATCH, SOURCE, width, seed=2)
    mask = MASK.bool()
    if padding != "much":
        lengths = {"none": [8] * 5, "little": [7, 8, 6, 8, 7], "after all": [5, 6, 0, 6, 6]}[padding]
        mask = torch.arange(SOURCE) < torch.tensor(lengths).unsqueeze(1)
    annotations, hidden, memory = reference.encode(
        reference.weights_of(encoder), cell, size, depth, inputs, mask, directions
    )
    expected = [*annotations, hidden, *([memory] if cell == "lstm" else [])]
    actual: list[Tensor] = []
    groups = recurrent_encoder.GROUP, 2, 1
    for group in groups:
        monkeypatch.setattr(recurrent_encoder, "GROUP", group)
        outputs, state = encoder(inputs, mask)
        actual += [*outputs, *(part for part in state if part is not None)]
        assert (state.cell is not None) == (cell == "lstm")
    assert_equal_with_gradients(actual, expected * len(groups), {"inputs": inputs, **dict(encoder.named_parameters())})
    if padding == "none":
        unmasked, _ = encoder(inputs)
        assert_equal(unmasked[-1], outputs[-1])


@pytest.mark.parametrize("depth", [1, 2])
def test_an_encoder_keeps_its_weights_laid_out_while_they_are_the_same(
    depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = RecurrentEncoder("lstm", 5, 4, depth, dropout=0.0)
    inputs, mask = torch.randn(3, 6, 5), torch.arange(6) < torch.tensor([[6], [2], [4]])
    laid_out = 0

    def count(*given: Any) -> Any:
        nonlocal laid_out
        laid_out += 1
        return blocked_lstm_weights(*given)

    monkeypatch.setattr(recurrent_cells, "blocked_lstm_weights", count)

    def check() -> None:
        for given in (None, mask):
            expected, state = encoder(inputs, given)  # with gradients: by torch's own LSTM
            with torch.no_grad():
                for _ in range(FEW_PRODUCTS + 2):
                    found, last = encoder(inputs, given)
                    torch.testing.assert_close([*found, *last], [*expected, *state])

    check()
    assert laid_out == 4 * depth  # of every layer both directions, with padding and without
    for weight in encoder.parameters():
        weight.data[1] += 1.0  # which counts no version
        check()
    assert laid_out == 4 * depth + 4 * (
        4 * depth
    )  # a change of one of a layer's four matrices lays out that layer anew


def test_a_state_may_lie_in_any_order_in_memory() -> None:
    layer, inputs, is_padding = PaddedLSTM(5, 4, batch_first=True), torch.randn(3, 6, 5), torch.zeros(3, 6).bool()
    state = torch.randn(2, 4, 3, 1).transpose(1, 3).unbind()  # (1, 3, 4) each, not contiguous
    expected, _ = layer(inputs, state, is_padding)
    with torch.no_grad():
        for _ in range(FEW_PRODUCTS + 2):
            torch.testing.assert_close(layer(inputs, state, is_padding)[0], expected)


# The cells, and what anchors their references


def test_a_padded_lstm_ends_as_a_packed_one() -> None:
    lengths = torch.tensor([4, 2, 5, 1])
    layer = randomize(recurrent_cells.CELLS["lstm"](3, 4), seed=1)
    inputs = random(4, 6, 3, seed=2)
    packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
    expected_outputs, (_, expected_memory) = torch.nn.LSTM.forward(layer, packed)
    expected_outputs, _ = pad_packed_sequence(expected_outputs, batch_first=True, total_length=6)
    is_padding = torch.arange(6) >= lengths.unsqueeze(1)
    outputs, (_, memory) = layer(inputs, is_padding=is_padding)
    outputs = outputs.masked_fill(is_padding.unsqueeze(-1), 0.0)
    assert_equal_with_gradients(
        [outputs, memory], [expected_outputs, expected_memory], {"inputs": inputs, **dict(layer.named_parameters())}
    )
    first, state = layer(inputs[:, :2], is_padding=is_padding[:, :2])
    rest, (_, memory) = layer(inputs[:, 2:], state, is_padding[:, 2:])
    assert_equal(torch.cat([first, rest], dim=1).masked_fill(is_padding.unsqueeze(-1), 0.0), expected_outputs)
    assert_equal(memory, expected_memory)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_padding_leaves_the_memory_as_it_is_to_the_last_bit(dtype: torch.dtype) -> None:
    layer = randomize(recurrent_cells.CELLS["lstm"](3, 4), seed=1).to(dtype)
    inputs = random(2, 40, 3, seed=2).to(dtype)
    if dtype == torch.float32:  # products without rounding: some processors round it another way for another length
        inputs, layer.weight_ih_l0.data = ((part * 64).round() / 64 for part in (inputs, layer.weight_ih_l0.data))
    _, (_, memory) = layer(inputs[:, :7], is_padding=torch.zeros(2, 7, dtype=torch.bool))
    _, (_, held) = layer(100 * inputs, is_padding=torch.arange(40).expand(2, -1) >= 0)
    assert not held.any()
    inputs[:, 7:] *= 100
    _, (_, held) = layer(inputs, is_padding=torch.arange(40).expand(2, -1) >= 7)
    assert torch.equal(held, memory)


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "state"])
@pytest.mark.parametrize("cell", CELLS)
def test_a_cell_equals_the_loop(cell: str, with_state: bool) -> None:
    """For torch's cells this tests the reference against torch's own modules; for "cho_gru" it tests ours."""
    width, size, lengths = 3, 4, [5, 5, 5, 5]
    layer = randomize(recurrent_cells.CELLS[cell](width, size), seed=1)
    inputs = random(len(lengths), max(lengths), width, seed=2)
    leaves = {"inputs": inputs, **dict(layer.named_parameters())}
    start: list[Tensor] = []
    if with_state:
        start = [random(1, len(lengths), size, seed=seed) for seed in range(3, 5 if cell == "lstm" else 4)]
        leaves |= {f"state {index}": part for index, part in enumerate(start)}
    state = None if not start else tuple(start) if cell == "lstm" else start[0]
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
    """The reset gate is before U, and z is the share of the new state; U swaps the units, so that the place of r
    matters.
    """
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
    """If r = 1, its place does not matter: Cho's GRU is then torch's, with 1 - z for z."""
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


@pytest.mark.parametrize("wiring", WIRINGS)
@pytest.mark.parametrize("cell", ["gru", "lstm", "rnn"])
def test_states_reach_torchs_rnns_contiguous(cell: str, wiring: str) -> None:
    model = wired_model({"wiring": wiring, "cell": cell, "encoder_layers": 2, "decoder_layers": 2})
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
