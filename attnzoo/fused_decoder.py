"""The decoders whose steps wait for each other, as loops with a backward pass written by hand.

The equations are those of :class:`BahdanauDecoder` and :class:`LuongDecoder` in ``recurrent_decoder.py``, arranged so
that the loop holds only what a step needs of the step before: what the embeddings add to the gates is made for all
steps before it, the readout after it, and so are the gradients of all weights.

Letters in shapes: B batch, T target length, S source length, E embedding width, H hidden width, V width of the
encoder's outputs, R readout width, N rows of all steps, packed (see ``fused_cells.py``).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocalWindow,
    LocationScore,
    Source,
    SourceAttention,
)
from .fused_attention import AdditiveSteps, AttentionSteps, DotSteps, MonotonicSteps, PredictiveSteps
from .fused_cells import CELLS, Layer, Rows, StackSteps, add_product, product, weight_gradient
from .loss import is_untouched
from .recurrent_cells import ChoGRU, PaddedLSTM, RecurrentStack, RecurrentState, layer_weights

# How each score is computed step by step.
SCORES: dict[type, type[DotSteps] | type[AdditiveSteps]] = {
    DotScore: DotSteps,
    GeneralScore: DotSteps,
    LocationScore: DotSteps,
    AdditiveScore: AdditiveSteps,
}
# The classes that the fused steps implement. A decoder with any other class, even a subclass, runs the plain loop.
KNOWN_PARTS = {SourceAttention, LocalWindow, *SCORES, RecurrentStack, ChoGRU, PaddedLSTM}
KNOWN_PARTS |= {nn.GRU, nn.Linear, nn.Dropout, nn.ModuleList}


class Plan(NamedTuple):
    """What a loop is made of, beside its tensors."""

    rows: Rows
    cell: str
    score: type[DotSteps] | type[AdditiveSteps]
    window: type[MonotonicSteps] | type[PredictiveSteps] | None
    window_size: int

    def build(self, inputs: Tensor, tensors: Sequence[Any]) -> tuple[StackSteps, AttentionSteps]:
        """The parts, from tensors in the order of :func:`_plan`, which the loops' gradients have too."""
        left = list(tensors)

        def take(number: int) -> list[Any]:
            taken, left[:number] = left[:number], []
            return taken

        value, mask = take(2)
        score = self.score(self.rows, *take(self.score.num_tensors))
        window = None
        if self.window is not None:
            window = self.window(self.rows, self.window_size, *take(self.window.num_tensors))
        layers = []
        while left:
            layers.append(Layer(*take(len(Layer._fields))))
        return StackSteps(self.rows, self.cell, inputs, layers), AttentionSteps(self.rows, score, window, value, mask)


def _stash(ctx: Any, stack: StackSteps, attention: AttentionSteps, *tensors: Tensor | None) -> None:
    """Keep the parts for the backward pass, and their tensors where autograd frees them and watches over them."""
    ctx.stack, ctx.attention = stack, attention
    parts = [stack, attention, attention.score, attention.window, *stack.cells]
    ctx.places = [
        (part, name)
        for part in parts
        if part is not None
        for name, value in vars(part).items()
        if isinstance(value, Tensor)
    ]
    ctx.save_for_backward(*(getattr(part, name) for part, name in ctx.places), *tensors)
    for part, name in ctx.places:
        setattr(part, name, None)


def _unstash(ctx: Any) -> tuple[StackSteps, AttentionSteps, tuple[Any, ...]]:
    """Copies of the parts, so that a second backward pass finds what the first one found, and the other tensors."""
    saved = ctx.saved_tensors
    copies = {part: copy.copy(part) for part, _ in ctx.places}
    for (part, name), value in zip(ctx.places, saved, strict=False):
        setattr(copies[part], name, value)
    stack, attention = copies[ctx.stack], copies[ctx.attention]
    stack.cells = [copies[cell] for cell in stack.cells]
    attention.score = copies[attention.score]
    if attention.window is not None:
        attention.window = copies[attention.window]
    stack.start_backward()
    attention.start_backward()
    return stack, attention, saved[len(ctx.places) :]


class _LuongLoop(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, plan: Plan, inputs: Tensor, output_weight: Tensor, kept: Tensor | None, *tensors: Tensor | None
    ) -> Tensor:
        stack, attention = plan.build(inputs, tensors)
        rows = plan.rows
        of_context, of_hidden = output_weight.split([attention.context.shape[1], stack.width], dim=1)
        first = inputs.new_zeros(rows.sizes[0], len(output_weight))
        readout = inputs.new_empty(rows.total, len(output_weight))
        for step in range(len(rows.sizes)):
            now = rows.at(step)
            fed = readout[rows.before(step)] if step else first
            hidden = stack.forward(step, fed if kept is None else fed * kept[now])
            context = attention.forward(step, hidden)
            add_product(readout[now].copy_(product(context, of_context.t())), hidden, of_hidden).tanh_()
        _stash(ctx, stack, attention, readout, output_weight, kept, first, *tensors)
        return readout

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_readout: Tensor) -> tuple[Tensor | None, ...]:
        stack, attention, (readout, output_weight, kept, first, *_) = _unstash(ctx)
        rows, hidden = stack.rows, stack.cells[-1].hidden
        of_context, of_hidden = output_weight.split([attention.context.shape[1], stack.width], dim=1)
        grad_sums = torch.empty_like(readout)  # of what the tanh is taken of
        grad_fed = torch.zeros_like(first)  # by the step after
        for step in reversed(range(len(rows.sizes))):
            now, size = rows.at(step), rows.sizes[step]
            torch.mul(grad_readout[now] + grad_fed[:size], 1 - readout[now].square(), out=grad_sums[now])
            grad_hidden = attention.backward(step, product(grad_sums[now], of_context))
            add_product(grad_hidden, grad_sums[now], of_hidden.t())
            grad_extra = stack.backward(step, grad_hidden)
            grad_fed[:size] = grad_extra if kept is None else grad_extra * kept[now]
        fed = rows.delayed(first, readout)
        grad_inputs, grad_layers = stack.gradients(fed if kept is None else fed * kept)
        parts = [weight_gradient(grad_sums, values, output_weight) for values in (attention.context, hidden)]
        grad_output = torch.cat(parts, dim=1)
        return None, grad_inputs, grad_output, None, *attention.gradients(hidden), *grad_layers


class _BahdanauLoop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, inputs: Tensor, *tensors: Tensor | None) -> tuple[Tensor, Tensor]:
        stack, attention = plan.build(inputs, tensors)
        rows, top = plan.rows, stack.cells[-1]
        queries = inputs.new_empty(rows.total, stack.width)
        for step in range(len(rows.sizes)):
            query = top.hidden[rows.before(step)] if step else top.first_hidden
            queries[rows.at(step)] = query
            stack.forward(step, attention.forward(step, query))
        contexts = attention.context
        _stash(ctx, stack, attention, queries, *tensors)
        return queries, contexts

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_queries: Tensor, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        stack, attention, (queries, *_) = _unstash(ctx)
        rows = stack.rows
        for step in reversed(range(len(rows.sizes))):
            now, size = rows.at(step), rows.sizes[step]
            grad_context = stack.backward(step, None).add_(grad_contexts[now])
            # The query is the top state of the step before: its gradient waits there.
            grad_state = stack.grad_states[-1][0][:size]
            grad_state.add_(grad_queries[now]).add_(attention.backward(step, grad_context))
        grad_inputs, grad_layers = stack.gradients(attention.context)
        return None, grad_inputs, *attention.gradients(queries), *grad_layers


def luong_readout(
    rnn: RecurrentStack,
    attention: SourceAttention,
    output_weight: Tensor,
    dropout: nn.Dropout,
    inputs: Tensor,
    state: RecurrentState,
    source: Source,
    lengths: Tensor | None,
) -> Tensor:
    r"""The readout (B, T, R) of Luong's decoder with input feeding, zeros where a row's target has ended.

    Args:
        rnn: the decoder's, whose weights are read
        attention: the decoder's
        output_weight: (R, V + H), :math:`W_c`
        dropout: that of the fed vector
        inputs: (B, T, E), embeddings of the tokens before the ones to predict
        state: before the first of them; the vector fed to it is 0
        source: what ``attention`` reads
        lengths: (B,), of the targets, at least 1; None if all are T long
    """
    packing = _Packing(inputs, lengths)
    cast = _weight_cast(inputs)
    plan, tensors = _plan(rnn, attention, packing, inputs, state, source, cast)
    kept = _kept(dropout, packing.rows, inputs, len(output_weight))
    with torch.autocast(inputs.device.type, enabled=False):
        readout = _LuongLoop.apply(plan, packing.pack(inputs), cast(output_weight), kept, *tensors)
    return packing.unpack(readout)


def bahdanau_states(
    rnn: RecurrentStack,
    attention: SourceAttention,
    inputs: Tensor,
    state: RecurrentState,
    source: Source,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The states (B, T, H) that attend and the contexts (B, T, V) of Bahdanau's decoder; as :func:`luong_readout`."""
    packing = _Packing(inputs, lengths)
    plan, tensors = _plan(rnn, attention, packing, inputs, state, source, _weight_cast(inputs))
    with torch.autocast(inputs.device.type, enabled=False):
        queries, contexts = _BahdanauLoop.apply(plan, packing.pack(inputs), *tensors)
    return packing.unpack(queries), packing.unpack(contexts)


class _Packing:
    """The order of rows by length, and the way from (B, T, ...) to packed and back."""

    def __init__(self, inputs: Tensor, lengths: Tensor | None) -> None:
        batch, self.steps = inputs.shape[:2]
        if lengths is None:
            self.rows = Rows([self.steps] * batch)
            self.order = None
            order = torch.arange(batch)
        else:
            lengths, order = lengths.cpu().sort(descending=True, stable=True)
            self.rows = Rows(lengths.tolist())
            self.order = order.to(inputs.device)
        places = [order[:size] * self.steps + step for step, size in enumerate(self.rows.sizes)]
        self.places = torch.cat(places).to(inputs.device)  # (N,), in (B, T, ...) flattened to (B * T, ...)
        self.shape = (batch, self.steps)

    def sort(self, per_row: Tensor) -> Tensor:
        """(B, ...) in the order of the rows."""
        return per_row if self.order is None else per_row.index_select(0, self.order)

    def pack(self, padded: Tensor) -> Tensor:
        return padded.flatten(0, 1).index_select(0, self.places)

    def unpack(self, packed: Tensor) -> Tensor:
        batch, steps = self.shape
        whole = packed.new_zeros(batch * steps, packed.shape[1])
        return whole.index_copy(0, self.places, packed).unflatten(0, self.shape)


def _weight_cast(inputs: Tensor) -> Callable[[Tensor], Tensor]:
    """Under autocast the products with weights are in its precision, all else in that of the inputs."""
    device = inputs.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else inputs.dtype
    return lambda weight: weight.to(dtype)


def _plan(
    rnn: RecurrentStack,
    attention: SourceAttention,
    packing: _Packing,
    inputs: Tensor,
    state: RecurrentState,
    source: Source,
    cast: Callable[[Tensor], Tensor],
) -> tuple[Plan, list[Tensor | None]]:
    """What the loop is made of, and its tensors in the order of the rows."""
    score, window, rows = attention.score, attention.window, packing.rows
    key, mask = source.projected_key, source.mask

    def sort(values: Tensor) -> Tensor:
        return packing.sort(values.to(inputs.dtype) if values.is_floating_point() else values)

    of_score: list[Tensor] = []
    if isinstance(score, AdditiveScore):
        of_score = [cast(score.query_proj.weight), score.score_vector]
    elif isinstance(score, LocationScore):  # a dot product with the learned key of the place; past the last is masked
        last = len(score.position_key) - 1
        mask = mask & (key <= last)
        key = nn.functional.embedding(key.clamp(max=last), score.position_key)
    of_window: list[Tensor] = []
    if window is not None:
        of_window = [sort(source.positions), sort(source.length)]
        if window.predictive:
            of_window += [cast(window.query_proj.weight), window.position_proj.weight[0]]
    tensors: list[Tensor | None] = [sort(source.value), sort(mask), sort(key), *of_score, *of_window]
    for index, layer in enumerate(rnn.layers):
        hidden = sort(state.hidden[:, index])
        cell = None if state.cell is None else sort(state.cell[:, index])
        kept = _kept(rnn.dropout, rows, hidden, hidden.shape[1]) if index else None
        weight_input, bias, weight_hidden, bias_new = _weights(layer)
        tensors += Layer(cast(weight_input), bias, cast(weight_hidden), bias_new, hidden, cell, kept)
    plan = Plan(
        rows,
        rnn.cell,
        SCORES[type(score)],
        None if window is None else PredictiveSteps if window.predictive else MonotonicSteps,
        0 if window is None else window.window_size,
    )
    return plan, tensors


def _weights(layer: Any) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The first four fields of :class:`Layer`."""
    if isinstance(layer, ChoGRU):
        return layer.weight_input, layer.bias, layer.weight_hidden, None
    weight_input, weight_hidden, bias, bias_hidden = layer_weights(layer)
    if isinstance(layer, nn.LSTM):
        return weight_input, bias + bias_hidden, weight_hidden, None
    outside, inside = bias_hidden.split([2 * layer.hidden_size, layer.hidden_size])
    return weight_input, bias + nn.functional.pad(outside, (0, layer.hidden_size)), weight_hidden, inside


def _kept(dropout: nn.Dropout, rows: Rows, like: Tensor, width: int) -> Tensor | None:
    """A dropout's mask for packed values (N, width), scaled; None where nothing is dropped."""
    if not (dropout.training and dropout.p):
        return None
    return like.new_empty(rows.total, width).bernoulli_(1 - dropout.p).div_(1 - dropout.p)


def has_fused_loop(decoder: Any) -> bool:
    """Whether a decoder can run the fused loops above (``readout``).

    A fused loop exists if a step needs the attention of the step before (Bahdanau's decoder, Luong's with input
    feeding) and the cell has steps above. It can run if every part is of exactly the classes that the steps
    implement, without hooks or changes; see :func:`is_untouched`.
    """
    if not (hasattr(decoder, "readout") and getattr(decoder, "input_feeding", True)) or torch.compiler.is_exporting():
        return False
    is_known = all(type(part) in KNOWN_PARTS for half in (decoder.attention, decoder.rnn) for part in half.modules())
    return is_known and decoder.rnn.cell in CELLS and is_untouched(decoder)
