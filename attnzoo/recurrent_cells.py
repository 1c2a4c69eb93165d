"""The recurrent cells, and a stack of them, shared by the encoder and the decoders.

Every cell is a one-layer, one-direction, batch-first module that is called as ``torch.nn.GRU`` is: with a padded
tensor or a packed sequence, and a state of shape (1, B, H).

Letters in shapes: B batch, T time, L layers, I input width, H hidden width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence


class RecurrentState(NamedTuple):
    """The state of a stack, batch first, as caches and encoder outputs carry it.

    Shape:
        - hidden: (B, L, H)
        - cell: (B, L, H) for LSTMs, else None
    """

    hidden: Tensor
    cell: Tensor | None


class ChoGRU(nn.Module):
    r"""The gated recurrent unit as published (Cho et al., 2014, section 2.3; Bahdanau et al., 2014, appendix A.1.1).

    .. math::
        z_t &= \sigma(W_z x_t + U_z s_{t-1} + b_z) \\
        r_t &= \sigma(W_r x_t + U_r s_{t-1} + b_r) \\
        \tilde s_t &= \tanh(W x_t + U [r_t \circ s_{t-1}] + b) \\
        s_t &= (1 - z_t) \circ s_{t-1} + z_t \circ \tilde s_t

    The reset gate works on the state **before** U. ``torch.nn.GRU`` and cuDNN apply it after U, and have :math:`z_t`
    where this has :math:`1 - z_t`: weights cannot be carried over between the two. The last line is Bahdanau's; Cho
    et al. write :math:`z_t` and :math:`1 - z_t` the other way round, which is the same up to the sign of the gate's
    weights.

    Symbols: the rows of ``weight_input``, ``weight_hidden`` and ``bias`` are the gates z, r and the candidate, in this
    order. The decoder's context is part of its input: :math:`W x_t` is there :math:`W E y_{i-1} + C c_i`.

    Shape:
        - inputs: (B, T, I) or a packed sequence
        - state: (1, B, H), zeros if None
        - returns: outputs (B, T, H) or packed, and the last state (1, B, H)
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_input = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hidden = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(3 * hidden_size))
        for parameter in self.parameters():  # as torch's own cells, until a model initialises them as its paper does
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(
        self, inputs: Tensor | PackedSequence, state: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        if isinstance(inputs, PackedSequence):
            padded, lengths = pad_packed_sequence(inputs, batch_first=True)
            outputs = self._run(padded, state)
            last = outputs[torch.arange(len(lengths)), lengths - 1]  # padding comes after the last real step
            packed = pack_padded_sequence(outputs, lengths, batch_first=True, enforce_sorted=False)
            return packed, last.unsqueeze(0)
        outputs = self._run(inputs, state)
        return outputs, outputs[:, -1].unsqueeze(0)

    def _run(self, inputs: Tensor, state: Tensor | None) -> Tensor:
        input_part = nn.functional.linear(inputs, self.weight_input, self.bias)  # (B, T, 3H), all steps at once
        start = input_part.new_zeros(len(inputs), self.hidden_size) if state is None else state[0]
        hidden = start.to(input_part.dtype)  # under autocast a state may come in another precision
        weight_gates, weight_candidate = self.weight_hidden.split([2 * self.hidden_size, self.hidden_size])
        outputs = []
        for step_input in input_part.unbind(dim=1):
            gates_input, candidate_input = step_input.split([2 * self.hidden_size, self.hidden_size], dim=-1)
            gates = torch.sigmoid(gates_input + nn.functional.linear(hidden, weight_gates))
            update, reset = gates.chunk(2, dim=-1)
            candidate = torch.tanh(candidate_input + nn.functional.linear(reset * hidden, weight_candidate))
            hidden = torch.lerp(hidden, candidate, update)  # (1 - z) s + z s~
            outputs.append(hidden)
        return torch.stack(outputs, dim=1)  # (B, T, H)


def recurrent_layer(cell: str, input_size: int, hidden_size: int) -> nn.Module:
    """One layer in one direction: "cho_gru" (as published), or torch's fused "gru", "lstm" and "rnn" (tanh).

    Raises:
        ValueError: ``cell`` is none of these.
    """
    if cell == "cho_gru":
        return ChoGRU(input_size, hidden_size)
    if cell == "gru":
        return nn.GRU(input_size, hidden_size, batch_first=True)
    if cell == "lstm":
        return nn.LSTM(input_size, hidden_size, batch_first=True)
    if cell == "rnn":
        return nn.RNN(input_size, hidden_size, batch_first=True)
    raise ValueError(f"unknown cell {cell!r}; choose 'cho_gru', 'gru', 'lstm' or 'rnn'")


class RecurrentStack(nn.Module):
    """Layers of one cell in one direction, each reading the outputs of the one below, with dropout in between.

    Shape:
        - inputs: (B, T, I)
        - state: a :class:`RecurrentState` of this depth
        - returns: the outputs of every layer, bottom to top, each (B, T, H), and the last state
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(recurrent_layer(cell, size, hidden_size) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, state: RecurrentState) -> tuple[list[Tensor], RecurrentState]:
        outputs, hiddens, cells = [], [], []
        for index, layer in enumerate(self.layers):
            hidden = _layer_state(state.hidden, index, inputs)  # (1, B, H)
            if state.cell is None:
                inputs, hidden = layer(inputs, hidden)
            else:
                cell = _layer_state(state.cell, index, inputs)
                inputs, (hidden, cell) = layer(inputs, (hidden, cell))
                cells.append(cell[0])
            outputs.append(inputs)
            hiddens.append(hidden[0])
            if index + 1 < len(self.layers):
                inputs = self.dropout(inputs)
        return outputs, RecurrentState(torch.stack(hiddens, dim=1), torch.stack(cells, dim=1) if cells else None)


def _layer_state(states: Tensor, index: int, inputs: Tensor) -> Tensor:
    """One layer's part of (B, L, H) as torch's RNNs want it: (1, B, H), in the inputs' dtype, contiguous for cuDNN."""
    return states[:, index].unsqueeze(0).to(inputs.dtype).contiguous()
