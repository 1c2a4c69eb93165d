"""A recurrent encoder for padded batches. It does not see the padding, wherever it is.

Dimensions: B batch, S source length, L layers, D input width, H hidden width of one direction, V output width.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import ModelOutput

from .copying import source_ids_of
from .fast_products import is_untouched
from .recurrent_cells import PaddedLSTM, RecurrentState, find_cell, run_lstms, stack_layers

GROUP = 20  # the number of rows in a group, about


@dataclass
class RecurrentEncoderOutput(ModelOutput):
    """The encoder's output. Every tensor is batch first, so that ``generate()`` can repeat it for each beam.

    Shape:
        - last_hidden_state: (B, S, V), 0 on padding
        - final_hidden: (B, L, V), each layer's last states, those of both directions side by side
        - final_cell: (B, L, V) for LSTMs, else None
        - hidden_states: the embeddings, then the outputs of every layer, on request
        - source_ids: (B, S), the tokens, in a model that copies them
    """

    last_hidden_state: Tensor = None  # type: ignore[assignment]
    final_hidden: Tensor = None  # type: ignore[assignment]
    final_cell: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    source_ids: Tensor | None = None


def as_encoder_outputs(given: Any, num_layers: int, width: int, has_cell: bool) -> RecurrentEncoderOutput:
    """Convert ``encoder_outputs``, an output or its ``to_tuple()``, to an output object and check its sizes.

    Raises:
        TypeError: ``given`` is neither.
        ValueError: the sizes are those of another model's encoder.
    """
    outputs = given
    if isinstance(given, tuple):  # to_tuple() omits fields that are None
        tensors = [part for part in given if isinstance(part, Tensor) and part.is_floating_point()]
        if len(tensors) == (3 if has_cell else 2):
            hidden_states = next((part for part in given if isinstance(part, tuple)), None)
            others = tensors[2] if has_cell else None, hidden_states, source_ids_of(given)
            outputs = RecurrentEncoderOutput(tensors[0], tensors[1], *others)
    if not isinstance(outputs, RecurrentEncoderOutput):
        raise TypeError(
            f"encoder_outputs must be what get_encoder() returns, got {type(given).__name__}: "
            "the decoder starts from the encoder's final states, not from its hidden states alone"
        )
    rows, length = outputs.last_hidden_state.shape[:2]
    final = (rows, num_layers, width)
    expected = [(rows, length, width), final, final if has_cell else None]
    found = outputs.last_hidden_state, outputs.final_hidden, outputs.final_cell
    shapes = [None if part is None else tuple(part.shape) for part in found]
    if shapes != expected:
        raise ValueError(
            f"encoder_outputs must be those of this model's encoder: last_hidden_state, final_hidden and final_cell of "
            f"shapes {expected}, got {shapes}"
        )
    return outputs


class RecurrentEncoder(nn.Module):
    r"""RNN encoder (Bahdanau et al., 2014, section 3.2 and appendix A.2.1), of any depth, in one direction or in both.

    .. math:: h_j = [\overrightarrow h_j ; \overleftarrow h_j]

    ``directions`` is ("forward", "backward") as in the equation, or one of the two. ("backward",) is Sutskever's
    reversed source (Sutskever et al., 2014, section 3.3): it is read from the end, but every output is at its token's
    own place, so alignments and windows need no conversion.

    The real tokens of a row may be anywhere in it: they are moved to the front, read, and moved back. For a row of
    padding only, the outputs and the final state are zeros.

    Symbols: :math:`\overrightarrow h_j` comes from the ``forward_rnn`` of a layer, :math:`\overleftarrow h_j` from its
    ``backward_rnn``.

    Shape:
        - inputs: (B, S, D)
        - mask: (B, S) bool, True on real tokens, or None if all are real
        - returns: the outputs of every layer, bottom to top, each (B, S, V) where V is H times the number of
          directions, and 0 on padding; and, unless ``with_state`` is False, the final :class:`RecurrentState` (B, L,
          V): the forward RNN's after the last real token, then the backward RNN's after the first
    """

    def __init__(
        self,
        cell: str,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        dropout: float,
        directions: tuple[str, ...] = ("forward", "backward"),
    ) -> None:
        super().__init__()
        sizes = [input_size] + [len(directions) * hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(EncoderLayer(cell, size, hidden_size, directions) for size in sizes)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self, inputs: Tensor, mask: Tensor | None = None, with_state: bool = True
    ) -> tuple[list[Tensor], RecurrentState | None]:
        # An exported graph must not branch on the mask's values, and the host would wait for those of a GPU.
        is_general = torch.compiler.is_exporting() or inputs.device.type != "cpu"
        if mask is None or (not is_general and bool(mask.all())):
            return self._run(inputs, None, with_state)
        lengths = mask.sum(dim=1).clamp(min=1)  # a row without a real token is read for one step and then set to zero
        width = mask.shape[1]
        longest = width if is_general else int(lengths.max())
        if not is_general and bool((mask[:, 1:] <= mask[:, :-1]).all()):  # the real tokens are at the front already
            outputs, state = self._run(inputs[:, :longest], lengths, with_state)
            if longest < width:  # columns without a token
                outputs = [nn.functional.pad(output, (0, 0, 0, width - longest)) for output in outputs]
        else:
            to_front = mask.int().argsort(dim=1, descending=True, stable=True)  # real tokens first, in their order
            outputs, state = self._run(_take(inputs, to_front[:, :longest]), lengths, with_state)
            back = to_front.argsort(dim=1).clamp(max=longest - 1)
            outputs = [_take(output, back) for output in outputs]
        outputs = [output * mask.unsqueeze(-1) for output in outputs]
        if state is None:
            return outputs, None
        is_real = mask.any(dim=1)[:, None, None]
        return outputs, state.map(lambda part: part * is_real)

    def _run(
        self, inputs: Tensor, lengths: Tensor | None, with_state: bool
    ) -> tuple[list[Tensor], RecurrentState | None]:
        outputs, states = [], []
        for index, layer in enumerate(self.layers):
            inputs, state = layer(self.dropout(inputs) if index else inputs, lengths, with_state)
            outputs.append(inputs)
            states.append(state)
        return outputs, stack_layers(states) if with_state else None


class EncoderLayer(GradientCheckpointingLayer):
    """An RNN from the first token to the last, one from the last to the first, or both side by side.

    Shape:
        - inputs: (B, S, D), padding after the real tokens
        - lengths: (B,), or None if every row is S long
        - returns: outputs (B, S, V), and the final state, each part (B, V), or None if ``with_state`` is False
    """

    def __init__(self, cell: str, input_size: int, hidden_size: int, directions: tuple[str, ...]) -> None:
        super().__init__()
        make = find_cell(cell)
        self.forward_rnn = make(input_size, hidden_size) if "forward" in directions else None
        self.backward_rnn = make(input_size, hidden_size) if "backward" in directions else None

    def forward(
        self, inputs: Tensor, lengths: Tensor | None, with_state: bool = True
    ) -> tuple[Tensor, RecurrentState | None]:
        cell: Tensor | None
        rnns: Any = [rnn for rnn in (self.forward_rnn, self.backward_rnn) if rnn is not None]
        # Exactly this class: a subclass may compute something else.
        if len(rnns) == 2 and all(type(rnn) is PaddedLSTM for rnn in rnns) and is_untouched(self):
            outputs, cell = _run_both(rnns, inputs, lengths)
        else:
            parts, is_padding = [], _padding(inputs, lengths)
            for rnn in rnns:
                is_backward = rnn is self.backward_rnn
                found, cell = _run(rnn, _reversed(inputs, lengths) if is_backward else inputs, is_padding)
                parts.append((_reversed(found, lengths) if is_backward else found, cell))
            outputs = torch.cat([found for found, _ in parts], dim=-1)
            cell = None if cell is None else torch.cat([of_rnn for _, of_rnn in parts], dim=-1)  # type: ignore[misc]
        if not with_state:
            return outputs, None
        # The last hidden state is the last output: of the forward RNN at the last token, of the other at the first.
        size = 0 if self.forward_rnn is None else self.forward_rnn.hidden_size
        last = outputs[:, -1] if lengths is None else _last(outputs, lengths)
        return outputs, RecurrentState(torch.cat([last[:, :size], outputs[:, 0, size:]], dim=-1), cell)


def _padding(inputs: Tensor, lengths: Tensor | None) -> Tensor | None:
    """(B, S) bool, for inputs (B, S, D)."""
    return None if lengths is None else torch.arange(inputs.shape[1], device=inputs.device) >= lengths.unsqueeze(1)


def _run_both(rnns: Sequence[PaddedLSTM], inputs: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Outputs (B, S, V), which are meaningless on padding, and cell states (B, V) of an LSTM in each direction.

    On a CPU, rows of similar length run in groups if that saves much padding. A group's numbers also fit the
    processor's cache better.
    """
    if lengths is not None and _may_group(inputs):
        ordered, order = lengths.sort(descending=True, stable=True)
        groups = ordered.tensor_split(len(inputs) // GROUP)
        sizes, steps = [len(group) for group in groups], [max(1, int(group[0])) for group in groups]
        if sum(map(operator.mul, sizes, steps)) <= 0.9 * len(inputs) * inputs.shape[1]:
            parts = zip(inputs.index_select(0, order).split(sizes), steps, groups, strict=True)
            found = [_run_both(rnns, part[:, :longest], group) for part, longest, group in parts]
            padded = [nn.functional.pad(part, (0, 0, 0, inputs.shape[1] - part.shape[1])) for part, _ in found]
            joined, back = (torch.cat(padded), torch.cat([cell for _, cell in found])), order.argsort()
            return joined[0].index_select(0, back), joined[1].index_select(0, back)
    outputs, _, cells = run_lstms(rnns, inputs, _padding(inputs, lengths))
    return outputs, torch.cat(cells, dim=-1)


def _may_group(inputs: Tensor) -> bool:
    if torch.compiler.is_compiling() or torch.compiler.is_exporting() or torch.jit.is_tracing():
        return False  # a graph is for any number of rows
    return inputs.device.type == "cpu" and len(inputs) >= 2 * GROUP


def _run(rnn: nn.Module, inputs: Tensor, is_padding: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Outputs (B, S, H), meaningless on padding, and an LSTM's cell state (B, H) after the last real token."""
    if isinstance(rnn, PaddedLSTM):
        outputs, (_, cell) = rnn(inputs, is_padding=is_padding)
        return outputs, cell[0]
    return rnn(inputs)[0], None


def _last(outputs: Tensor, lengths: Tensor) -> Tensor:
    """The outputs (B, V) at the last real token of every row, from ``outputs`` (B, S, V)."""
    # Not take_along_dim, which does the same but fixes the batch of an exported model.
    return outputs.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, outputs.shape[2]))[:, 0]


def _reversed(values: Tensor, lengths: Tensor | None) -> Tensor:
    """``values`` (B, S, D) with the last real token first; padding after them stays where it is."""
    if lengths is None:
        return values.flip(1)
    steps = torch.arange(values.shape[1], device=values.device)
    order = lengths.unsqueeze(1) - 1 - steps  # (B, S)
    return _take(values, torch.where(order >= 0, order, steps))


def _take(values: Tensor, index: Tensor) -> Tensor:
    """``values`` (B, S, D) at the places of ``index`` (B, N), row by row: (B, N, D)."""
    starts = torch.arange(0, values.shape[0] * values.shape[1], values.shape[1], device=index.device)
    places = (index + starts.unsqueeze(1)).flatten()
    return values.flatten(0, 1).index_select(0, places).unflatten(0, index.shape)
