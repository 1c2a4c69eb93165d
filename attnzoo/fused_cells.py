"""The recurrent cells of a decoder's loop, step by step, with backward passes written by hand.

Values of all steps are *packed*: (N, ...), the rows of all steps one below the other. Step t has the first n_t rows of
the batch, which is sorted by length so that a row that has ended is not among them, and N is the sum of the n_t.
:class:`Rows` says where they are. A step's backward pass fills its rows of the gates' gradient; the gradient of a
weight is one matrix product of all of them at the end.

Letters in shapes: B batch, G width of the gates, H hidden width, I input width, X width of the extra input, n rows of
one step, N rows of all steps.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Rows:
    """Where a step's rows are among the packed ones.

    Args:
        lengths: of the rows' targets, longest first, none of them 0
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        self.sizes = [sum(length > step for length in lengths) for step in range(lengths[0])]
        self.starts = [sum(self.sizes[:step]) for step in range(len(self.sizes))]
        self.total = sum(self.sizes)

    def at(self, step: int) -> slice:
        return slice(self.starts[step], self.starts[step] + self.sizes[step])

    def before(self, step: int) -> slice:
        """Where the rows of ``step``, not the first, were one step earlier."""
        return slice(self.starts[step - 1], self.starts[step - 1] + self.sizes[step])

    def delayed(self, first: Tensor, packed: Tensor) -> Tensor:
        """``packed`` (N, ...) of the step before; at the first step it is ``first`` (B, ...)."""
        return torch.cat([first, *(packed[self.before(step)] for step in range(1, len(self.sizes)))])

    def padded_index(self, device: torch.device) -> Tensor:
        """(N,), the place of every packed row in (T, B, ...) flattened to (T * B, ...)."""
        places = [torch.arange(size) + step * self.sizes[0] for step, size in enumerate(self.sizes)]
        return torch.cat(places).to(device)


def add_product(sums: Tensor, values: Tensor, weight: Tensor) -> Tensor:
    """``sums`` (n, G) plus values (n, I) times the transpose of a weight (G, I), in place.

    Products are in the precision of the weight, which may be lower; sums are not.
    """
    if values.dtype == weight.dtype:
        return sums.addmm_(values, weight.t())
    return sums.add_(values.to(weight.dtype) @ weight.t())


def product(values: Tensor, weight: Tensor) -> Tensor:
    """Values (n, G) times a weight (G, I), in the precision of the weight."""
    return values @ weight if values.dtype == weight.dtype else (values.to(weight.dtype) @ weight).to(values.dtype)


def weight_gradient(grad_sums: Tensor, values: Tensor, weight: Tensor) -> Tensor:
    """(G, I): from the gradient of the sums (N, G) and the values (N, I) of all steps, in the weight's precision."""
    return product(grad_sums.t(), values.to(weight.dtype)) if weight.dtype != values.dtype else grad_sums.t() @ values


class LSTMSteps:
    r"""An LSTM, step by step: :math:`c_t = f \circ c_{t-1} + i \circ g`, :math:`h_t = o \circ \tanh c_t`.

    ``gates`` (N, 4H), in torch's order i, f, g, o, comes with what inputs and biases add; a step adds its state's part.
    ``hidden`` and ``cell`` (N, H) are filled step by step.
    """

    def __init__(
        self, rows: Rows, gates: Tensor, weight: Tensor, bias: Tensor | None, start: tuple[Tensor, ...]
    ) -> None:
        self.rows, self.gates, self.weight = rows, gates, weight
        self.first_hidden, self.first_cell = start
        self.hidden, self.cell = (gates.new_empty(len(gates), weight.shape[1]) for _ in range(2))

    def forward(self, step: int) -> Tensor:
        now = self.rows.at(step)
        hidden, cell = self._before(step)
        gates = add_product(self.gates[now], hidden, self.weight)
        enter, forget, new, leave = gates.chunk(4, dim=1)
        gates[:, : 2 * cell.shape[1]].sigmoid_()
        new.tanh_()
        leave.sigmoid_()
        torch.mul(forget, cell, out=self.cell[now]).addcmul_(enter, new)
        return torch.tanh(self.cell[now], out=self.hidden[now]).mul_(leave)

    def backward(self, step: int, grad_gates: Tensor, grad_state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Fill the step's rows of ``grad_gates`` (N, 4H); return the gradients (n, H) of the state before."""
        grad_hidden, grad_cell = grad_state
        now = self.rows.at(step)
        _, cell = self._before(step)
        enter, forget, new, leave = self.gates[now].chunk(4, dim=1)
        grad_enter, grad_forget, grad_new, grad_leave = grad_gates[now].chunk(4, dim=1)
        tanh_cell = self.cell[now].tanh()
        torch.mul(grad_hidden * tanh_cell, leave - leave.square(), out=grad_leave)
        grad_cell = torch.addcmul(grad_cell, grad_hidden * leave, 1 - tanh_cell.square_())
        torch.mul(grad_cell * new, enter - enter.square(), out=grad_enter)
        torch.mul(grad_cell * cell, forget - forget.square(), out=grad_forget)
        torch.mul(grad_cell * enter, 1 - new.square(), out=grad_new)
        return product(grad_gates[now], self.weight), grad_cell * forget

    def weight_gradients(self, grad_gates: Tensor) -> tuple[Tensor, Tensor | None]:
        return weight_gradient(grad_gates, self.rows.delayed(self.first_hidden, self.hidden), self.weight), None

    def _before(self, step: int) -> tuple[Tensor, Tensor]:
        if not step:
            return self.first_hidden, self.first_cell
        before = self.rows.before(step)
        return self.hidden[before], self.cell[before]


class GRUSteps:
    r"""torch's GRU, step by step: :math:`n = \tanh(x_n + r \circ (U_n h_{t-1} + b))`, the reset gate after :math:`U`.

    ``gates`` (N, 3H), in torch's order r, z, n, comes with what inputs and biases add, without the bias b (H,) that the
    reset gate multiplies: this is ``bias``.
    """

    def __init__(
        self, rows: Rows, gates: Tensor, weight: Tensor, bias: Tensor | None, start: tuple[Tensor, ...]
    ) -> None:
        self.rows, self.gates, self.weight, self.bias = rows, gates, weight, bias
        (self.first_hidden,) = start
        self.hidden, self.recurrent_new = (gates.new_empty(len(gates), weight.shape[1]) for _ in range(2))

    def forward(self, step: int) -> Tensor:
        now, hidden = self.rows.at(step), self._before(step)
        size = hidden.shape[1]
        recurrent = product(hidden, self.weight.t())
        gates = self.gates[now]
        gates[:, : 2 * size].add_(recurrent[:, : 2 * size]).sigmoid_()
        reset, update, new = gates.chunk(3, dim=1)
        recurrent_new = self.recurrent_new[now].copy_(recurrent[:, 2 * size :])
        if self.bias is not None:
            recurrent_new += self.bias
        new.addcmul_(reset, recurrent_new).tanh_()
        return torch.lerp(new, hidden, update, out=self.hidden[now])

    def backward(self, step: int, grad_gates: Tensor, grad_state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (grad_hidden,) = grad_state
        now, hidden = self.rows.at(step), self._before(step)
        size = hidden.shape[1]
        reset, update, new = self.gates[now].chunk(3, dim=1)
        grad_reset, grad_update, grad_new = grad_gates[now].chunk(3, dim=1)
        torch.mul(grad_hidden * (1 - update), 1 - new.square(), out=grad_new)
        torch.mul(grad_hidden * (hidden - new), update - update.square(), out=grad_update)
        torch.mul(grad_new * self.recurrent_new[now], reset - reset.square(), out=grad_reset)
        grad_before = add_product(grad_hidden * update, grad_gates[now, : 2 * size], self.weight[: 2 * size].t())
        return (add_product(grad_before, grad_new * reset, self.weight[2 * size :].t()),)

    def weight_gradients(self, grad_gates: Tensor) -> tuple[Tensor, Tensor | None]:
        size = self.weight.shape[1]
        before = self.rows.delayed(self.first_hidden, self.hidden)
        grad_recurrent_new = grad_gates[:, 2 * size :] * self.gates[:, :size]
        gradients = [
            weight_gradient(gradient, before, self.weight)
            for gradient in (grad_gates[:, : 2 * size], grad_recurrent_new)
        ]
        return torch.cat(gradients), None if self.bias is None else grad_recurrent_new.sum(dim=0)

    def _before(self, step: int) -> Tensor:
        return self.hidden[self.rows.before(step)] if step else self.first_hidden


class ChoGRUSteps:
    r"""The published GRU, step by step: :math:`\tilde s = \tanh(x + U [r \circ s_{t-1}])`, the reset gate before U.

    ``gates`` (N, 3H), in :class:`ChoGRU`'s order z, r, candidate, comes with what inputs and biases add.
    """

    def __init__(
        self, rows: Rows, gates: Tensor, weight: Tensor, bias: Tensor | None, start: tuple[Tensor, ...]
    ) -> None:
        self.rows, self.gates, self.weight = rows, gates, weight
        (self.first_hidden,) = start
        self.hidden = gates.new_empty(len(gates), weight.shape[1])

    def forward(self, step: int) -> Tensor:
        now, hidden = self.rows.at(step), self._before(step)
        size = hidden.shape[1]
        gates = self.gates[now]
        add_product(gates[:, : 2 * size], hidden, self.weight[: 2 * size]).sigmoid_()
        update, reset, candidate = gates.chunk(3, dim=1)
        add_product(candidate, reset * hidden, self.weight[2 * size :]).tanh_()
        return torch.lerp(hidden, candidate, update, out=self.hidden[now])

    def backward(self, step: int, grad_gates: Tensor, grad_state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        (grad_hidden,) = grad_state
        now, hidden = self.rows.at(step), self._before(step)
        size = hidden.shape[1]
        update, reset, candidate = self.gates[now].chunk(3, dim=1)
        grad_update, grad_reset, grad_candidate = grad_gates[now].chunk(3, dim=1)
        torch.mul(grad_hidden * update, 1 - candidate.square(), out=grad_candidate)
        grad_kept = product(grad_candidate, self.weight[2 * size :])  # of r * s
        torch.mul(grad_hidden * (candidate - hidden), update - update.square(), out=grad_update)
        torch.mul(grad_kept * hidden, reset - reset.square(), out=grad_reset)
        grad_before = torch.addcmul(grad_hidden * (1 - update), grad_kept, reset)
        return (add_product(grad_before, grad_gates[now, : 2 * size], self.weight[: 2 * size].t()),)

    def weight_gradients(self, grad_gates: Tensor) -> tuple[Tensor, Tensor | None]:
        size = self.weight.shape[1]
        before = self.rows.delayed(self.first_hidden, self.hidden)
        kept = self.gates[:, size : 2 * size] * before
        gradients = [
            weight_gradient(gradient, values, self.weight)
            for gradient, values in ((grad_gates[:, : 2 * size], before), (grad_gates[:, 2 * size :], kept))
        ]
        return torch.cat(gradients), None

    def _before(self, step: int) -> Tensor:
        return self.hidden[self.rows.before(step)] if step else self.first_hidden


Cell: TypeAlias = LSTMSteps | GRUSteps | ChoGRUSteps
CELLS: dict[str, type[Cell]] = {"lstm": LSTMSteps, "gru": GRUSteps, "cho_gru": ChoGRUSteps}


class Layer(NamedTuple):
    """One layer of the decoder.

    Shape:
        - weight_input: (G, I), bias: (G,) or None; weight_hidden: (G, H)
        - bias_new: (H,), what torch's GRU adds inside its reset gate, or None
        - hidden, cell: (B, H), the start; no cell but for LSTMs
        - kept: (N, H), the dropout's mask, scaled, on the hidden states of the layer below, or None
    """

    weight_input: Tensor
    bias: Tensor
    weight_hidden: Tensor
    bias_new: Tensor | None
    hidden: Tensor
    cell: Tensor | None
    kept: Tensor | None


class StackSteps:
    """Layers of one cell, step by step; the bottom one reads packed inputs (N, I) and an extra input of each step."""

    def __init__(self, rows: Rows, cell: str, inputs: Tensor, layers: list[Layer]) -> None:
        self.rows, self.inputs, self.layers = rows, inputs, layers
        self.cells: list[Cell] = []
        for index, layer in enumerate(layers):
            if index:  # the layer below is not known yet
                gates = inputs.new_empty(rows.total, len(layer.weight_hidden))
            else:
                gates = add_product(layer.bias.repeat(rows.total, 1), inputs, layer.weight_input[:, : inputs.shape[1]])
            start = (layer.hidden,) if layer.cell is None else (layer.hidden, layer.cell)
            self.cells.append(CELLS[cell](rows, gates, layer.weight_hidden, layer.bias_new, start))
        self.width = layers[0].hidden.shape[1]

    def forward(self, step: int, extra: Tensor) -> Tensor:
        """The top layer's hidden state (n, H)."""
        now = self.rows.at(step)
        add_product(self.cells[0].gates[now], extra, self._weight_extra())
        hidden = self.cells[0].forward(step)
        for layer, cell in zip(self.layers[1:], self.cells[1:], strict=True):
            if layer.kept is not None:
                hidden = hidden * layer.kept[now]
            add_product(cell.gates[now].copy_(layer.bias), hidden, layer.weight_input)
            hidden = cell.forward(step)
        return hidden

    def start_backward(self) -> None:
        self.grad_gates = [torch.empty_like(cell.gates) for cell in self.cells]
        # Of the states before the step that was last; a row whose target ended before it has zeros.
        self.grad_states = [
            tuple(torch.zeros_like(part) for part in (layer.hidden, layer.cell) if part is not None)
            for layer in self.layers
        ]

    def backward(self, step: int, grad_hidden: Tensor | None) -> Tensor:
        """The gradient of the step's extra input, from what its top hidden state has beside the next step's part."""
        now, size = self.rows.at(step), self.rows.sizes[step]
        for index in reversed(range(len(self.cells))):
            states = self.grad_states[index]
            later = [part[:size] for part in states]
            if grad_hidden is not None:
                later[0] = later[0] + grad_hidden
            before = self.cells[index].backward(step, self.grad_gates[index], tuple(later))
            for part, gradient in zip(states, before, strict=True):
                part[:size] = gradient
            if index:
                grad_hidden = product(self.grad_gates[index][now], self.layers[index].weight_input)
                kept = self.layers[index].kept
                if kept is not None:
                    grad_hidden *= kept[now]
        return product(self.grad_gates[0][now], self._weight_extra())

    def gradients(self, extra: Tensor) -> tuple[Tensor, list[Tensor | None]]:
        """After the first step's: of inputs (N, I), and of the layers' tensors; ``extra`` (N, X) is of all steps."""
        gradients: list[Tensor | None] = []
        for index, (layer, cell, grad_gates) in enumerate(zip(self.layers, self.cells, self.grad_gates, strict=True)):
            if index:
                below = self.cells[index - 1].hidden
                below = below if layer.kept is None else below * layer.kept
                grad_input = weight_gradient(grad_gates, below, layer.weight_input)
            else:
                parts = [weight_gradient(grad_gates, values, layer.weight_input) for values in (self.inputs, extra)]
                grad_input = torch.cat(parts, dim=1)
            states = [*self.grad_states[index], None][:2]
            gradients += [grad_input, grad_gates.sum(dim=0), *cell.weight_gradients(grad_gates), *states, None]
        grad_inputs = product(self.grad_gates[0], self.layers[0].weight_input[:, : self.inputs.shape[1]])
        return grad_inputs, gradients

    def _weight_extra(self) -> Tensor:
        return self.layers[0].weight_input[:, self.inputs.shape[1] :]


def cho_gru(inputs: Tensor, weight_input: Tensor, bias: Tensor, weight_hidden: Tensor, start: Tensor) -> Tensor:
    """The hidden states (B, T, H) of the published GRU over inputs (B, T, I), from a start (B, H)."""
    batch, length = inputs.shape[:2]
    packed = inputs.transpose(0, 1).flatten(0, 1)
    hidden = _ChoGRULoop.apply(Rows([length] * batch), packed, weight_input, bias, weight_hidden, start)
    return hidden.unflatten(0, (length, batch)).transpose(0, 1)


class _ChoGRULoop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Rows, inputs: Tensor, weight_input: Tensor, bias: Tensor, weight_hidden: Tensor, start: Tensor
    ) -> Tensor:
        steps = ChoGRUSteps(rows, torch.addmm(bias, inputs, weight_input.t()), weight_hidden, None, (start,))
        for step in range(len(rows.sizes)):
            steps.forward(step)
        ctx.rows = rows
        ctx.save_for_backward(inputs, weight_input, weight_hidden, start, steps.gates, steps.hidden)
        return steps.hidden

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor) -> tuple[Tensor | None, ...]:
        rows = ctx.rows
        inputs, weight_input, weight_hidden, start, gates, hidden = ctx.saved_tensors
        steps = ChoGRUSteps(rows, gates, weight_hidden, None, (start,))
        steps.hidden = hidden
        grad_gates, grad_state = torch.empty_like(gates), torch.zeros_like(start)
        for step in reversed(range(len(rows.sizes))):
            (grad_state,) = steps.backward(step, grad_gates, (grad_hidden[rows.at(step)] + grad_state,))
        grad_weight, _ = steps.weight_gradients(grad_gates)
        return (
            None,
            grad_gates @ weight_input,
            grad_gates.t() @ inputs,
            grad_gates.sum(dim=0),
            grad_weight,
            grad_state,
        )
