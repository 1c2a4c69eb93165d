"""The recurrent cells and a stack of them, shared by the encoder and the decoders.

Every cell is a one-layer, one-direction, batch-first module that is called as ``torch.nn.GRU`` is: with inputs
(B, T, I) and a state of shape (1, B, H). ``torch.nn``'s cells then run torch's own loop. Every cell also has the
equations of a single step, for loops in which a step waits for the attention of the step before, or for the next token:

- ``sums(products, width)`` returns the cell's gate sums, made by ``products``; the first ``width`` columns of the
  inputs are known before the loop
- ``step(sums, known, fed, *state)`` returns the next state. A state has the parts (n, H), the hidden one first.
  ``known`` has one term for each sum, from :meth:`GateSum.known`; the cell passes it to the sum. ``step`` calls
  each sum exactly once, since in training a sum counts its calls. ``fed`` has the inputs that only a step knows, such
  as (context,), or ()

Dimensions: B batch, T time, L layers, I input width, H hidden width, X width of the inputs that only a step knows, n
rows of one step, N rows of all steps.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .fast_products import is_untouched
from .fast_shared_gradients import loop_products
from .fast_weight_copies import copies_of
from .library_internals import blocked_lstm, blocked_lstm_weights, has_bfloat16, has_blocked_lstm, is_transformed
from .packed_rows import PackedRows
from .step_products import GateSum, StepProducts


class RecurrentState(NamedTuple):
    """The state of a stack, batch first, as caches and encoder outputs carry it.

    Shape:
        - hidden: (B, L, H)
        - cell: (B, L, H) for LSTMs, else None
    """

    hidden: Tensor
    cell: Tensor | None = None

    def map(self, change: Callable[[Tensor], Tensor]) -> "RecurrentState":
        """The state with ``change`` applied to both parts."""
        return RecurrentState(change(self.hidden), None if self.cell is None else change(self.cell))

    def of_layers(self) -> "LayerStates":
        """For every layer the parts of its state, (B, H)."""
        return tuple(zip(*(part.unbind(1) for part in self if part is not None), strict=True))


def stack_layers(states: Sequence[RecurrentState]) -> RecurrentState:
    """The states of layers, each part (B, H), as one state (B, L, H)."""
    hidden, cells = zip(*states, strict=True)
    return RecurrentState(torch.stack(hidden, dim=1), None if cells[0] is None else torch.stack(cells, dim=1))


Sums = tuple[GateSum, ...]
Known = tuple[Tensor, ...]  # the known term of each sum, (n, G)
Fed = Sequence[Tensor]  # the inputs that only a step knows: none, or one tensor (n, X)


def gates_of(layer: nn.RNNBase, products: StepProducts, width: int) -> GateSum:
    """The sum of all gates of a layer of torch, which has two biases."""
    weight_input, weight_hidden, bias_input, bias_hidden = layer_weights(layer)
    return products.sum(bias_input + bias_hidden, weight_input, width, weight_hidden)


def known_steps(sums: Sums, inputs: Tensor, sizes: Sequence[int]) -> list[Known]:
    """For each step, of ``sizes`` rows, the known term of each sum, from inputs (N, I)."""
    return list(zip(*[one.known(inputs, sizes) for one in sums], strict=True))


class ChoGRU(nn.Module):
    r"""The gated recurrent unit as published (Cho et al., 2014, section 2.3; Bahdanau et al., 2014, appendix A.1.1).

    .. math::
        z_t &= \sigma(W_z x_t + U_z s_{t-1} + b_z) \\
        r_t &= \sigma(W_r x_t + U_r s_{t-1} + b_r) \\
        \tilde s_t &= \tanh(W x_t + U [r_t \circ s_{t-1}] + b) \\
        s_t &= (1 - z_t) \circ s_{t-1} + z_t \circ \tilde s_t

    The reset gate acts on the state **before** U. ``torch.nn.GRU`` and cuDNN apply it after U, and have :math:`z_t` in
    place of :math:`1 - z_t`: weights of one do not fit the other. The last line is Bahdanau's; Cho et al. write
    :math:`z_t` and :math:`1 - z_t` the other way round, which is the same up to the sign of the gate's weights.

    Symbols: the rows of ``weight_input``, ``weight_hidden`` and ``bias`` are the gates z, r and the candidate, in this
    order. In a decoder the context is part of the input: :math:`W x_t` is :math:`W E y_{i-1} + C c_i`.

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
        for parameter in self.parameters():  # as in torch's own cells, until a model initialises them as its paper does
            nn.init.uniform_(parameter, -(hidden_size**-0.5), hidden_size**-0.5)

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        hidden = inputs.new_zeros(inputs.shape[0], self.hidden_size) if state is None else state[0].to(inputs.dtype)
        rows = PackedRows(inputs)
        sums = self.sums(loop_products(rows), inputs.shape[2])
        outputs = []
        for known in known_steps(sums, rows.pack(inputs), rows.sizes):
            (hidden,) = self.step(sums, known, (), hidden)
            outputs.append(hidden)
        device = inputs.device.type
        # Under autocast states have its precision, as in torch's own cells.
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
        return rows.join(outputs).to(dtype), hidden.unsqueeze(0).to(dtype)

    def sums(self, products: StepProducts, width: int) -> tuple[GateSum, ...]:
        """The sum of the gates z and r, and that of the candidate."""
        of_gates, of_candidate = slice(2 * self.hidden_size), slice(2 * self.hidden_size, None)
        return tuple(
            products.sum(self.bias[part], self.weight_input[part], width, self.weight_hidden[part])
            for part in (of_gates, of_candidate)
        )

    def step(self, sums: Sums, known: Known, fed: Fed, hidden: Tensor) -> tuple[Tensor, ...]:
        """The equations of the class."""
        (gates, candidate), (known_gates, known_candidate) = sums, known
        update_gate, reset_gate = gates(known_gates, *fed, hidden).sigmoid().chunk(2, dim=1)
        proposed = candidate(known_candidate, *fed, reset_gate * hidden).tanh()
        return (torch.lerp(hidden, proposed, update_gate),)  # (1 - z) s + z s~


class PaddedLSTM(nn.LSTM):
    r"""torch's LSTM of one layer and one direction, whose cell state passes over padding unchanged.

    On padding the input gate is 0 and the forget gate 1: :math:`c_t = 1 \circ c_{t-1} + 0 \circ g_t`. For this the LSTM
    has one more input, which is 1 on padding. Its weights are so large that the sigmoids of the two gates are exactly 0
    and 1. So the last cell state is the one after the last real token, without a packed sequence, which is slow. The
    hidden states on padding are meaningless.

    Shape:
        - inputs: (B, T, I)
        - state: (1, B, H) each, zeros if None
        - is_padding: (B, T) bool, after the real tokens of a row; None where there is none
        - returns: outputs (B, T, H), and the last hidden state and cell state, (1, B, H) each
    """

    SHUT = 1e4  # sigmoid(-1e4) = 0 and sigmoid(1e4) = 1 in every floating-point format

    def forward(  # type: ignore[override]
        self,
        inputs: Tensor,
        state: tuple[Tensor, Tensor] | None = None,
        is_padding: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        outputs, *last = run_lstms([self], inputs, is_padding, state)
        hidden, cell = (torch.stack(list(part)) for part in last)
        return outputs, (hidden, cell)

    def sums(self, products: StepProducts, width: int) -> tuple[GateSum, ...]:
        """The sum of the four gates."""
        return (gates_of(self, products, width),)

    def step(self, sums: Sums, known: Known, fed: Fed, hidden: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
        r"""One step of ``torch.nn.LSTM``. The gates are i, f, the candidate and o.

        .. math:: c_t = f_t \circ c_{t-1} + i_t \circ \tilde c_t, \qquad h_t = o_t \circ \tanh c_t
        """
        gates = sums[0](known[0], *fed, hidden)
        input_gate, forget_gate, candidate, output_gate = gates.chunk(4, dim=1)
        cell = torch.addcmul(forget_gate.sigmoid() * cell, input_gate.sigmoid(), candidate.tanh())
        return output_gate.sigmoid() * cell.tanh(), cell

    def weights_for(self, is_padding: Tensor | None) -> list[Tensor]:
        """The weights; with padding those of an LSTM with one more input, which is 1 on padding and 0 on tokens."""
        weight, *others = layer_weights(self)
        if is_padding is None:
            return [weight, *others]
        shut = weight.new_zeros(4, self.hidden_size)
        shut[0], shut[1] = -self.SHUT, self.SHUT  # gates i, f, g, o
        return [torch.cat([weight, shut.view(-1, 1)], dim=1), *others]


class TorchGRU(nn.GRU):
    """torch's GRU of one layer and one direction, run by :func:`run_torch_rnn`."""

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return _run_one_direction(self, inputs, state)

    def sums(self, products: StepProducts, width: int) -> tuple[GateSum, ...]:
        """The sum over the inputs, and that over the state."""
        weight_input, weight_hidden, bias_input, bias_hidden = layer_weights(self)
        of_state = products.sum(bias_hidden, weight_hidden, 0)  # nothing of the state is known before the loop
        return products.sum(bias_input, weight_input, width), of_state

    def step(self, sums: Sums, known: Known, fed: Fed, hidden: Tensor) -> tuple[Tensor, ...]:
        r"""One step of ``torch.nn.GRU``, with the reset gate after U. The gates are r, z and the candidate.

        .. math:: \tilde h_t = \tanh(W x_t + b + r_t \circ (U h_{t-1} + b')), \qquad
                  h_t = (1 - z_t) \circ \tilde h_t + z_t \circ h_{t-1}
        """
        sizes = [2 * self.hidden_size, self.hidden_size]
        gates, candidate = sums[0](known[0], *fed).split(sizes, dim=1)
        of_gates, of_candidate = sums[1](known[1], hidden).split(sizes, dim=1)
        reset_gate, update_gate = (gates + of_gates).sigmoid().chunk(2, dim=1)
        proposed = (candidate + reset_gate * of_candidate).tanh()
        return (torch.lerp(proposed, hidden, update_gate),)  # (1 - z) h~ + z h


class TorchRNN(nn.RNN):
    """torch's RNN of one layer and one direction, run by :func:`run_torch_rnn`."""

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return _run_one_direction(self, inputs, state)

    def sums(self, products: StepProducts, width: int) -> tuple[GateSum, ...]:
        """The one sum, over inputs and state."""
        return (gates_of(self, products, width),)

    def step(self, sums: Sums, known: Known, fed: Fed, hidden: Tensor) -> tuple[Tensor, ...]:
        r"""One step of ``torch.nn.RNN``: :math:`h_t = \tanh(W x_t + U h_{t-1} + b)`."""
        return (sums[0](known[0], *fed, hidden).tanh(),)


def _run_one_direction(layer: nn.RNNBase, inputs: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
    if state is None:
        state = inputs.new_zeros(1, inputs.shape[0], layer.hidden_size)
    outputs, last = run_torch_rnn(layer, inputs, state, layer_weights(layer))
    return outputs, last


def run_lstms(
    layers: Sequence[PaddedLSTM], inputs: Tensor, is_padding: Tensor | None, state: Any = None
) -> tuple[Tensor, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Run an LSTM from the first token to the last, and optionally another one back, without reversing the inputs.

    The backward one reads the padding first. Its state is zero there and stays zero.

    Shape:
        - inputs: (B, T, I)
        - is_padding: (B, T) bool, after the real tokens of a row; None where there is none
        - state: hidden states and cell states, (B, H) for every layer, as a tensor or a sequence; zeros if None
        - returns: outputs (B, T, H or 2H), and the last hidden states and cell states, (B, H) for every layer
    """
    if is_padding is not None:
        inputs = torch.cat([inputs, is_padding.unsqueeze(-1).to(inputs.dtype)], dim=-1)
    if state is None:
        state = ([inputs.new_zeros(inputs.shape[0], layers[0].hidden_size)] * len(layers),) * 2
    blocks = _blocks_of(layers, inputs, is_padding)
    if blocks is None:
        weights = [weight for layer in layers for weight in layer.weights_for(is_padding)]
        given = [part if isinstance(part, Tensor) else torch.stack(part) for part in state]
        outputs, hidden, cell = run_torch_rnn(layers[0], inputs, given, weights)
        return outputs, hidden.unbind(), cell.unbind()
    steps = inputs.transpose(0, 1).contiguous()
    found = [
        blocked_lstm(steps, of_layer, parts, is_backward)
        for is_backward, of_layer, *parts in zip((False, True), blocks, *state, strict=False)
    ]
    by_layer, hidden_states, cell_states = zip(*found, strict=True)
    return torch.cat(by_layer, dim=-1).transpose(0, 1), hidden_states, cell_states


def run_torch_rnn(layer: nn.RNNBase, inputs: Tensor, state: Any, weights: list[Tensor]) -> tuple[Tensor, ...]:
    """Run torch's own RNN of one layer, in one direction, or in both if there are weights for both.

    Under autocast on a GPU torch runs cuDNN in float16, even if autocast asks for bfloat16. Here it runs in the
    precision of autocast. cuDNN computes no gradients in eval mode, so it runs in training mode if gradients are
    needed.

    Shape:
        - inputs: (B, T, I)
        - state: (directions, B, H), for an LSTM a list of the hidden and the cell state
        - weights: those of :func:`layer_weights`, forward before backward
        - returns: outputs (B, T, directions * H), and the parts of the last state
    """
    kernel: Any = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh}[layer.mode]
    device, training = inputs.device.type, layer.training
    context: AbstractContextManager[Any] = nullcontext()
    if device == "cpu":
        context = _onednn_that_runs() if layer.mode == "LSTM" else context
    elif device != "meta":
        training = training or torch.is_grad_enabled()  # it changes no dropout, since layers have none
        context = torch.autocast(device, enabled=False)
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            inputs, weights = inputs.to(dtype), [weight.to(dtype) for weight in weights]
            state = [part.to(dtype) for part in state] if isinstance(state, list) else state.to(dtype)
        weights = _one_chunk(weights)
    with context:
        return kernel(inputs, state, weights, True, 1, 0.0, training, len(weights) == 8, batch_first=True)


def _one_chunk(weights: list[Tensor]) -> list[Tensor]:
    """The weights in one block of memory, as cuDNN reads them: all matrices, then all biases."""
    order = sorted(range(len(weights)), key=lambda index: index % 4 >= 2)
    sizes = [weights[index].numel() for index in order]
    parts = torch.cat([weights[index].flatten() for index in order]).split(sizes)
    found = {index: part.view(weights[index].shape) for index, part in zip(order, parts, strict=True)}
    return [found[index] for index in range(len(weights))]


def _onednn_that_runs() -> AbstractContextManager[None]:
    """A context in which torch's LSTM runs under autocast on every CPU.

    Under autocast to bfloat16 torch asks oneDNN for it, but on a CPU without AVX-512 oneDNN has no such LSTM and raises
    an error. There torch computes it without oneDNN.
    """
    if torch.compiler.is_compiling() or not torch.is_autocast_enabled("cpu"):
        return nullcontext()
    return nullcontext() if has_bfloat16() or not torch.backends.mkldnn.enabled else _without_onednn()


@contextmanager
def _without_onednn() -> Iterator[None]:
    torch.backends.mkldnn.set_flags(False)
    try:
        yield
    finally:
        torch.backends.mkldnn.set_flags(True)


def _blocks_of(layers: Sequence[PaddedLSTM], inputs: Tensor, is_padding: Tensor | None) -> list[list[Tensor]] | None:
    """For each layer its two weights in oneDNN's blocks and its two biases; None if ``torch.lstm`` must be called.

    ``torch.lstm`` runs oneDNN's LSTM, too, but reorders the weights in every call, a third of the time for one
    sentence.
    """
    is_plain = inputs.device.type == "cpu" and inputs.numel() and not torch.is_grad_enabled()
    if not is_plain or torch.compiler.is_compiling() or is_transformed() or not has_blocked_lstm():
        return None
    parts = [layer_weights(layer) for layer in layers]
    weights = [weight for of_layer in parts for weight in of_layer[:2]]
    copies = copies_of(weights)
    if copies is None or not copies.is_worthwhile(inputs):
        return None

    def lay_out() -> list[list[Tensor]]:
        found = [layer.weights_for(is_padding) for layer in layers]
        return [blocked_lstm_weights(of_layer[0], of_layer[1], bool(place)) for place, of_layer in enumerate(found)]

    blocks = copies.get("tokens" if is_padding is None else "tokens and padding", weights, lay_out)
    return [[*of_layer, *part[2:]] for of_layer, part in zip(blocks, parts, strict=True)]


def layer_weights(layer: nn.RNNBase) -> list[Tensor]:
    """The weights of a layer of torch, in torch's order: input and hidden weights, then the bias of each."""
    return [getattr(layer, f"{name}_l0") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


# Every cell by its name in the config: it makes one layer, in one direction, from input and hidden size. "cho_gru" is
# as published; the others are torch's.
CELLS: dict[str, Callable[[int, int], Any]] = {
    "cho_gru": ChoGRU,
    "gru": partial(TorchGRU, batch_first=True),
    "lstm": partial(PaddedLSTM, batch_first=True),
    "rnn": partial(TorchRNN, batch_first=True),
}
WITH_CELL_STATE = frozenset({"lstm"})  # these have a hidden and a cell state, the others a hidden state only


def find_cell(name: str) -> Callable[[int, int], Any]:
    """The constructor of a layer of this cell.

    Raises:
        ValueError: no cell has this name.
    """
    if name not in CELLS:
        raise ValueError(f"cell is {name!r}; it must be one of {', '.join(CELLS)}")
    return CELLS[name]


# For each layer of a stack the parts of its state, (B, H): hidden, or hidden and cell.
LayerStates = tuple[tuple[Tensor, ...], ...]


class RecurrentStack(nn.Module):
    """Layers of one cell in one direction. Each reads the outputs of the one below, with dropout in between.

    A call needs the inputs of all steps and reads them at once. :meth:`for_steps` reads one step after the other.

    Shape:
        - inputs: (B, T, I)
        - state: of every layer, bottom to top, (B, H)
        - returns: the outputs of every layer, bottom to top, each (B, T, H), and the last state
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, num_layers: int, dropout: float) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.cell = cell
        self.layers = nn.ModuleList(find_cell(cell)(size, hidden_size) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Tensor, state: LayerStates) -> tuple[list[Tensor], LayerStates]:
        if inputs.shape[1] == 1 and is_untouched(self):
            steps = StackSteps(self, StepProducts())
            (known,) = steps.known(inputs[:, 0], inputs.shape[:1])
            state = steps.step(known, (), tuple(tuple(part.to(inputs.dtype) for part in parts) for parts in state))
            return [parts[0].unsqueeze(1) for parts in state], state
        outputs, states = [], []
        for index, (layer, parts) in enumerate(zip(self.layers, state, strict=True)):
            # torch's RNNs need states (1, B, H) in the inputs' dtype, and cuDNN contiguous ones.
            before: Any = tuple(part.unsqueeze(0).to(inputs.dtype).contiguous() for part in parts)
            is_lstm = len(before) > 1
            inputs, after = layer(self.dropout(inputs) if index else inputs, before if is_lstm else before[0])
            outputs.append(inputs)
            states.append(tuple(part[0] for part in (after if is_lstm else (after,))))
        return outputs, tuple(states)

    def for_steps(self, products: StepProducts) -> "StackSteps | StackCalls":
        """The stack, one step at a time. If the layers have what their equations would skip, such as hooks, every step
        calls them.
        """
        return StackSteps(self, products) if is_untouched(self) else StackCalls(self)


class StackSteps:
    """The steps of a stack, computed by its cells' equations."""

    def __init__(self, stack: RecurrentStack, products: StepProducts) -> None:
        self.layers: Any = stack.layers
        self.dropout, self.products = stack.dropout, products
        self.sums: list[Sums] = []  # those of every layer

    def known(self, inputs: Tensor, sizes: Sequence[int]) -> list[tuple[Known, ...]]:
        """For each step, of ``sizes`` rows, the known terms of every layer's sums, from inputs (N, E). The first call
        makes the sums, which :meth:`step` needs.

        A layer above the first knows no input before the loop: its known term is its bias.
        """
        parts = [inputs] + [inputs[:, :0]] * (len(self.layers) - 1)
        if not self.sums:
            self.sums = [
                layer.sums(self.products, part.shape[1]) for layer, part in zip(self.layers, parts, strict=True)
            ]
        return list(zip(*map(known_steps, self.sums, parts, [sizes] * len(parts)), strict=True))

    def step(self, known: tuple[Known, ...], fed: Fed, states: LayerStates) -> LayerStates:
        """The next state of every layer. The bottom layer also reads ``fed``."""
        after: list[tuple[Tensor, ...]] = []
        for layer, sums, of_layer, state in zip(self.layers, self.sums, known, states, strict=True):
            after.append(layer.step(sums, of_layer, fed, *state))
            if len(after) < len(states):
                fed = (self.dropout(after[-1][0]),)
        return tuple(after)


class StackCalls:
    """The same as :class:`StackSteps`, but every step calls the stack's layers."""

    def __init__(self, stack: RecurrentStack) -> None:
        self.stack = stack

    def known(self, inputs: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
        """As in :class:`StackSteps`; here the inputs of every step."""
        return inputs.split(list(sizes))

    def step(self, known: Tensor, fed: Fed, states: LayerStates) -> LayerStates:
        """As in :class:`StackSteps`."""
        inputs = torch.cat([known, *(part.to(known.dtype) for part in fed)], dim=1)
        return self.stack(inputs.unsqueeze(1), states)[1]
