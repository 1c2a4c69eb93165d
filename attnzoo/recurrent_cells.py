"""The recurrent cells, and a stack of them, shared by the encoder and the decoders.

Every cell is a one-layer, one-direction, batch-first module that is called as ``torch.nn.GRU`` is: with inputs
(B, T, I) and a state of shape (1, B, H).

Letters in shapes: B batch, T time, L layers, I input width, H hidden width.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .fused_cells import cho_gru
from .loss import is_untouched

FEW_ROWS = 8  # so few that on a CPU a product with a large weight waits for memory and not for arithmetic


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
        - inputs: (B, T, I)
        - state: (1, B, H), zeros if None
        - returns: outputs (B, T, H), and the last state (1, B, H)
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.weight_input = nn.Parameter(torch.empty(3 * hidden_size, input_size))
        self.weight_hidden = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(3 * hidden_size))
        for parameter in self.parameters():  # as torch's own cells, until a model initialises them as its paper does
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        start = inputs.new_zeros(len(inputs), self.hidden_size) if state is None else state[0]
        tensors: tuple[Tensor, ...] = inputs, self.weight_input, self.bias, self.weight_hidden, start
        device = inputs.device.type
        if torch.is_autocast_enabled(device):  # whose precision it has, as torch's own cells
            tensors = tuple(tensor.to(torch.get_autocast_dtype(device)) for tensor in tensors)
        with torch.autocast(device, enabled=False):
            outputs = cho_gru(*tensors)
        return outputs, outputs[:, -1].unsqueeze(0)


class PaddedLSTM(nn.LSTM):
    r"""torch's LSTM of one layer and one direction, whose memory passes over padding unchanged.

    Where a token is padding its input gate is 0 and its forget gate 1, :math:`c_t = 1 \circ c_{t-1} + 0 \circ g_t`, by
    one more input that is 1 there and adds so much to the two gates that their sigmoids are 0 and 1 to the last bit.
    Thus the last memory is that after the last real token, without the slow way over a packed sequence. The hidden
    states on padding are not to be used.

    Shape:
        - inputs: (B, T, I)
        - state: (1, B, H) each, zeros if None
        - is_padding: (B, T) bool, after the real tokens of a row; None where there is none
        - returns: outputs (B, T, H), and the last hidden state and memory, (1, B, H) each
    """

    SHUT = 1e4  # sigmoid(-1e4) = 0 and sigmoid(1e4) = 1 in every floating-point format

    def forward(  # type: ignore[override]
        self,
        inputs: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        is_padding: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        if is_padding is None and state is not None and inputs.shape[1] == 1:  # a step of a decoder: no set-up
            return self._step(inputs[:, 0], state[0][0], state[1][0])
        if is_padding is None:
            return super().forward(inputs, state)
        if state is None:
            state = (inputs.new_zeros(1, inputs.shape[0], self.hidden_size),) * 2
        inputs = torch.cat([inputs, is_padding.unsqueeze(-1).to(inputs.dtype)], dim=-1)
        outputs, hidden, cell = torch.lstm(
            inputs, state, self.padded_weights(), True, 1, 0.0, self.training, False, batch_first=True
        )
        return outputs, (hidden, cell)

    def padded_weights(self) -> list[Tensor]:
        """The weights of an LSTM that reads, after its other inputs, 1 on padding and 0 on tokens."""
        weight, *others = layer_weights(self)
        shut = weight.new_zeros(4, self.hidden_size)
        shut[0], shut[1] = -self.SHUT, self.SHUT  # gates i, f, g, o
        return [torch.cat([weight, shut.view(-1, 1)], dim=1), *others]

    def _step(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        weight_input, weight_hidden, bias_input, bias_hidden = layer_weights(self)
        is_for_all = torch.compiler.is_exporting()  # an exported graph must fit any number of rows
        if not is_for_all and len(inputs) <= FEW_ROWS and inputs.device.type == "cpu":
            gates = few_rows_product(inputs, weight_input) + few_rows_product(hidden, weight_hidden)
            gates = gates + bias_input + bias_hidden
            enter, forget, new, leave = gates.chunk(4, dim=1)
            cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
            hidden = leave.sigmoid() * cell.tanh()
        else:
            hidden, cell = torch.lstm_cell(inputs, [hidden, cell], weight_input, weight_hidden, bias_input, bias_hidden)
        return hidden.unsqueeze(1), (hidden.unsqueeze(0), cell.unsqueeze(0))


def bidirectional_lstm(
    forward: PaddedLSTM, backward: PaddedLSTM, inputs: Tensor, is_padding: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Two LSTMs in one call, one from the first token to the last, one back: nothing is turned round or put together.

    The one that comes back meets the padding first, with zeros for a state, which stay as they are there.

    Shape:
        - inputs: (B, T, I)
        - is_padding: (B, T) bool, after the real tokens of a row; None where there is none
        - returns: outputs (B, T, 2H), and the last memories (2, B, H)
    """
    weights = [layer_weights(layer) if is_padding is None else layer.padded_weights() for layer in (forward, backward)]
    zeros = inputs.new_zeros(2, inputs.shape[0], forward.hidden_size)
    if is_padding is not None:
        inputs = torch.cat([inputs, is_padding.unsqueeze(-1).to(inputs.dtype)], dim=-1)
    outputs, _, memory = torch.lstm(
        inputs, (zeros, zeros), weights[0] + weights[1], True, 1, 0.0, forward.training, True, batch_first=True
    )
    return outputs, memory


def few_rows_product(values: Tensor, weight: Tensor) -> Tensor:
    """Values (n, I) times the transpose of a large weight (G, I), for an n so small that memory is the limit.

    BLAS reads the weight about twice as fast as it lies, and for two columns than for one.
    """
    columns = values.expand(max(2, len(values)), -1).contiguous().t()
    return (weight @ columns)[:, : len(values)].t()


def many_rows_linear(layer: nn.Module, values: Tensor) -> Tensor:
    """A linear layer of many rows (n, I): in float32 on a CPU, without gradients, by oneDNN.

    It has two thirds to four fifths of the time of torch's BLAS here where the weight is large. Where a layer is more
    than a product and a bias (hooks, an adapter, a quantised layer) it is called as ever.
    """
    is_for_onednn = (
        not torch.compiler.is_compiling()
        and len(values) > FEW_ROWS
        and values.device.type == "cpu"
        and values.dtype == torch.float32
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cpu")
        and torch.backends.mkldnn.is_available()
        and type(layer) is nn.Linear
        and is_untouched(layer)
    )
    return layer(values.to_mkldnn()).to_dense() if is_for_onednn else layer(values)


def layer_weights(layer: nn.RNNBase) -> list[Tensor]:
    """The weights of one of torch's layers, in its own order: input, hidden, and the bias of either."""
    return [getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


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
        return PaddedLSTM(input_size, hidden_size, batch_first=True)
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
        self.cell = cell
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
