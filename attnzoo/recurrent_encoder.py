"""A recurrent encoder over padded batches that does not see the padding, wherever it stands.

Letters in shapes: B batch, S source length, L layers, D input width, H hidden width of one direction.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .recurrent_cells import RecurrentState, recurrent_layer


class RecurrentEncoder(nn.Module):
    r"""Bidirectional RNN encoder (Bahdanau et al., 2014, section 3.2 and appendix A.2.1), of any depth.

    .. math:: h_j = [\overrightarrow h_j ; \overleftarrow h_j]

    The real tokens of a row may stand anywhere in it: they are moved to the front, read in both directions, and put
    back. A row of padding only gives zeros, outputs and final state.

    Symbols: :math:`\overrightarrow h_j` comes from the ``forward_rnn`` of a layer, :math:`\overleftarrow h_j` from its
    ``backward_rnn``.

    Shape:
        - inputs: (B, S, D)
        - mask: (B, S) bool, True on real tokens, or None where all are real
        - returns: the outputs of every layer, bottom to top, each (B, S, 2H) and 0 on padding; and the final
          :class:`RecurrentState` (B, L, 2H): the forward RNN's after the last real token, then the backward RNN's after
          the first
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [input_size] + [2 * hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(BidirectionalLayer(cell, size, hidden_size) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> tuple[list[Tensor], RecurrentState]:
        if mask is None or bool(mask.all()):
            return self._run(inputs, None)
        to_front = mask.int().argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
        # A row without a real token is read for one step, as a packed sequence must be, and then set to zero.
        outputs, state = self._run(_take(inputs, to_front), mask.sum(dim=1).clamp(min=1))
        back = to_front.argsort(dim=1)
        outputs = [_take(output, back) * mask.unsqueeze(-1) for output in outputs]
        is_real = mask.any(dim=1)[:, None, None]
        cell = None if state.cell is None else state.cell * is_real
        return outputs, RecurrentState(state.hidden * is_real, cell)

    def _run(self, inputs: Tensor, lengths: Tensor | None) -> tuple[list[Tensor], RecurrentState]:
        outputs, hiddens, cells = [], [], []
        for index, layer in enumerate(self.layers):
            if index:
                inputs = self.dropout(inputs)
            inputs, state = layer(inputs, lengths)
            outputs.append(inputs)
            hiddens.append(state.hidden)
            if state.cell is not None:
                cells.append(state.cell)
        return outputs, RecurrentState(torch.stack(hiddens, dim=1), torch.stack(cells, dim=1) if cells else None)


class BidirectionalLayer(nn.Module):
    """One RNN from left to right and one from right to left, side by side.

    Shape:
        - inputs: (B, S, D), padding after the real tokens
        - lengths: (B,), or None where every row is S long
        - returns: outputs (B, S, 2H), and the final state, each part (B, 2H)
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forward_rnn = recurrent_layer(cell, input_size, hidden_size)
        self.backward_rnn = recurrent_layer(cell, input_size, hidden_size)

    def forward(self, inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, RecurrentState]:
        if lengths is None:
            forward_outputs, forward_state = self.forward_rnn(inputs)
            backward_outputs, backward_state = self.backward_rnn(inputs.flip(1))
            backward_outputs = backward_outputs.flip(1)
        else:
            steps = torch.arange(inputs.shape[1], device=inputs.device)
            reverse = lengths.unsqueeze(1) - 1 - steps  # (B, S): the last real token first
            reverse = torch.where(reverse >= 0, reverse, steps)  # padding stays where it is
            forward_outputs, forward_state = _run_packed(self.forward_rnn, inputs, lengths)
            backward_outputs, backward_state = _run_packed(self.backward_rnn, _take(inputs, reverse), lengths)
            backward_outputs = _take(backward_outputs, reverse)
        outputs = torch.cat([forward_outputs, backward_outputs], dim=-1)
        if isinstance(forward_state, tuple):
            hidden, cell = (torch.cat(parts, dim=-1)[0] for parts in zip(forward_state, backward_state, strict=True))
            return outputs, RecurrentState(hidden, cell)
        return outputs, RecurrentState(torch.cat([forward_state, backward_state], dim=-1)[0], None)


def _run_packed(rnn: nn.Module, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor | tuple[Tensor, Tensor]]:
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    outputs, state = rnn(packed)
    return pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])[0], state


def _take(values: Tensor, index: Tensor) -> Tensor:
    """``values`` (B, S, D) in the order of ``index`` (B, S), row by row."""
    return values.take_along_dim(index.unsqueeze(-1), dim=1)
