r"""The papers' decoders, each wired as in its paper.

They differ in the place where the source enters and in the order of the operations. Each paper fixes both (i is the
target step, s the decoder state):

- Cho: one vector c of the source enters the cell at every step, and the word is read out from :math:`s_i, y_{i-1}, c`.
- Sutskever: the source enters only as the start state; the word is read out from the state.
- Bahdanau: :math:`s_{i-1}` attends, the context enters the cell that makes :math:`s_i`, and the word is read out from
  :math:`s_{i-1}, y_{i-1}, c_i`.
- Luong: the cell makes :math:`h_t`, which attends, and the word is read out from
  :math:`\tilde h_t = \tanh(W_c [c_t; h_t])`.

Bahdanau's and Luong's decoders have a ``step``: a function of what the embeddings add to the gates, the state, the
source and the position. It returns an output and the next state, and changes nothing. ``generate()`` and ``search()``
call it, and so does training, see :class:`SteppingDecoder`. Luong's decoder without input feeding and without coverage
computes a target of several tokens at once, as Cho's and Sutskever's do.

Dimensions: B batch, T target length, S source length, E embedding width, H hidden width, V width of the
encoder's outputs, R readout width, n rows of one step, N rows of all steps, packed (see :class:`PackedRows`).
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from .attention import ScoreSizes, Source, SourceAttention
from .configuration_attentional_rnn import AttentionalRNNConfig
from .copying import CopyGate
from .fast_products import linear
from .fast_shared_gradients import loop_products
from .packed_rows import PackedRows
from .recurrent_cells import WITH_CELL_STATE, LayerStates, RecurrentStack, RecurrentState


class DecoderState(NamedTuple):
    """The state that one step of a decoder passes to the next.

    Shape:
        - layers: for each layer of the RNN its state, hidden (B, H) or hidden and cell
        - input_feed: what the next step reads in addition to its embedding: Luong's attentional vector (B, R) with
          input feeding, before dropout, or Cho's c (B, H), the same at every step; else None
        - coverage: (B, S), the attention weights of all steps so far, summed (See et al., 2017); None without coverage
    """

    layers: LayerStates
    input_feed: Tensor | None = None
    coverage: Tensor | None = None

    @property
    def top(self) -> Tensor:
        """The top layer's hidden state (B, H)."""
        return self.layers[-1][0]

    def map(self, change: Callable[[Tensor], Tensor]) -> "DecoderState":
        """The state with ``change`` applied to every tensor, for example a selection of rows."""
        layers = tuple(tuple(map(change, parts)) for parts in self.layers)
        return DecoderState(layers, *(None if part is None else change(part) for part in self[1:]))

    def first(self, count: int) -> "DecoderState":
        """The first rows."""
        return self if self.top.shape[0] == count else self.map(lambda part: part[:count])

    def to(self, dtype: torch.dtype) -> "DecoderState":
        """The state in the decoder's dtype; coverage, a sum of weights, keeps its own."""
        if self.top.dtype == dtype and (self.input_feed is None or self.input_feed.dtype == dtype):
            return self
        layers = tuple(tuple(part.to(dtype) for part in parts) for parts in self.layers)
        return self._replace(layers=layers, input_feed=None if self.input_feed is None else self.input_feed.to(dtype))


class StepOutput(NamedTuple):
    """The output of one step of a decoder; the step also returns the next state.

    Shape:
        - query: (n, H), the state that attends, before the cell (Bahdanau) or after it (Luong)
        - context: (n, V), what it attends to
        - attention_weights: (n, S)
        - readout: (n, R), Luong's attentional vector; None in Bahdanau's decoder, which reads out after the loop
    """

    query: Tensor
    context: Tensor
    attention_weights: Tensor
    readout: Tensor | None = None


class DecoderOutput(NamedTuple):
    """The output of a decoder for T steps.

    After a loop over targets of given lengths it has only what the loss reads: the readout, and in a model with copying
    or coverage the gate and the weights.

    Shape:
        - readout: (B, T, R), what the output projection reads
        - attention_weights: (B, T, S), or None without attention
        - gate: (B, T), the logit of :class:`CopyGate`, or None without copying
        - hidden_states: for each layer (B, T, H), the state after reading each token
        - state: the :class:`DecoderState` after the last step
    """

    readout: Tensor
    attention_weights: Tensor | None = None
    gate: Tensor | None = None
    hidden_states: Sequence[Tensor] = ()
    state: DecoderState | None = None


def projected_start(initial_proj: nn.Linear, vector: Tensor, rnn: RecurrentStack) -> LayerStates:
    r""":math:`s_0 = \tanh(W v)` of a vector (B, ...), with one W for each layer; LSTM cells start at zero."""
    hidden = torch.tanh(initial_proj(vector)).chunk(len(rnn.layers), dim=-1)  # (B, H) for each layer
    return tuple((part, torch.zeros_like(part)) if rnn.cell in WITH_CELL_STATE else (part,) for part in hidden)


class StateBridge(nn.Module):
    """The decoder's start state, made from the encoder's final states.

    If encoder and decoder have the same depth and width, every layer takes the state of its counterpart (Sutskever et
    al., 2014; Luong et al., 2015). Otherwise a learned linear map of all final states makes the start state:
    ``hidden_proj``, followed by tanh, which keeps it in the range of a hidden state, and for LSTMs also ``cell_proj``.

    Shape:
        - encoder_state: (B, encoder layers, V)
        - returns: of every layer (B, H)
    """

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        self.num_layers = config.decoder_layers
        given = config.encoder_layers, config.encoder_output_size
        needed = config.decoder_layers, config.decoder_hidden_size
        widths = math.prod(given), math.prod(needed)
        self.hidden_proj = nn.Linear(*widths) if given != needed else None
        self.cell_proj = nn.Linear(*widths) if given != needed and config.cell in WITH_CELL_STATE else None

    def forward(self, encoder_state: RecurrentState) -> LayerStates:
        hidden, cell = encoder_state
        if self.hidden_proj is not None:
            hidden = torch.tanh(self.hidden_proj(hidden.flatten(1))).unflatten(-1, (self.num_layers, -1))
        if self.cell_proj is not None and cell is not None:
            cell = self.cell_proj(cell.flatten(1)).unflatten(-1, (self.num_layers, -1))
        return RecurrentState(hidden, cell).of_layers()


class ChoDecoder(nn.Module):
    r"""The decoder of the RNN Encoder-Decoder (Cho et al., 2014, section 2.2 and appendix A.1): a fixed vector.

    .. math::
        c &= \tanh(V h_S), \qquad s_0 = \tanh(V' c) \\
        s_i &= f(s_{i-1}, [E y_{i-1}; c]) \\
        \tilde t_i &= O_h s_i + O_y E y_{i-1} + O_c c, \qquad t_{ij} = \max(\tilde t_{i,2j-1}, \tilde t_{i,2j})

    Symbols: :math:`h_S` is the encoder's final state (its top layer's, in all its directions), :math:`V` is
    ``context_proj``, :math:`V'` is ``initial_proj``, :math:`f` is ``rnn``, :math:`[O_h\ O_y\ O_c]` are the
    weight of ``readout_proj``, :math:`t_i` is the ``readout`` that the output projection reads. No step needs the
    readout of another one, so the whole target runs through the RNN at once. Bahdanau's decoder with a fixed context
    has the same states. With the readout of his equation 4 it also predicts the same words.

    **Differs from the paper**: c is a part of the cell's input, as Bahdanau et al. (2014, appendix A.2.2) write it;
    Cho's appendix has the decoder's reset gate after U, on :math:`U s_{i-1} + C c`; projections and cell have biases;
    the output matrix is not factored. Not in the paper: LSTM cell states start at zero, and with several layers each
    has its own :math:`V'`.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    attention = None

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        size, input_size = config.decoder_hidden_size, config.embedding_size + config.decoder_hidden_size
        self.context_proj = nn.Linear(config.encoder_output_size, size)
        self.initial_proj = nn.Linear(size, config.decoder_layers * size)
        self.rnn = RecurrentStack(config.cell, input_size, size, config.decoder_layers, config.dropout)
        self.readout_proj = nn.Linear(size + input_size, 2 * config.readout_size)  # type: ignore[operator]  # filled in
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, encoder_state: RecurrentState, source: Source | None = None) -> DecoderState:
        """s_0 and c from the encoder's final state (B, encoder layers, V)."""
        context = torch.tanh(self.context_proj(encoder_state.hidden[:, -1]))  # (B, H)
        return DecoderState(projected_start(self.initial_proj, context, self.rnn), context)

    def forward(
        self,
        inputs: Tensor,
        state: DecoderState,
        source: Source | None,
        position: int,
        lengths: Sequence[int] | None = None,
    ) -> DecoderOutput:
        assert state.input_feed is not None  # by initial_state
        context = state.input_feed.to(inputs.dtype).unsqueeze(1).expand(-1, inputs.shape[1], -1)  # (B, T, H)
        outputs, layers = self.rnn(torch.cat([inputs, context], dim=-1), state.layers)
        pairs = linear(self.readout_proj, torch.cat([outputs[-1].to(inputs.dtype), inputs, context], dim=-1))
        after = DecoderState(layers, state.input_feed)
        return DecoderOutput(self.dropout(_maxout(pairs)), hidden_states=outputs, state=after)


class SutskeverDecoder(nn.Module):
    r"""The decoder of Sutskever et al. (2014, section 2): the source enters only as the start state.

    .. math:: s_0 = h_S, \qquad s_i = f(s_{i-1}, E y_{i-1}), \qquad p(y_i) = \mathrm{softmax}(W_o s_i)

    Symbols: :math:`h_S` are the encoder's final states, of all layers, through ``bridge``; :math:`f` is ``rnn``, an
    LSTM in the paper; its top state is the ``readout`` that the output projection :math:`W_o` reads. The whole target
    runs through the RNN at once.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    attention = None

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        self.bridge = StateBridge(config)
        sizes = config.embedding_size, config.decoder_hidden_size, config.decoder_layers
        self.rnn = RecurrentStack(config.cell, *sizes, config.dropout)
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, encoder_state: RecurrentState, source: Source | None = None) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V)."""
        return DecoderState(self.bridge(encoder_state))

    def forward(
        self,
        inputs: Tensor,
        state: DecoderState,
        source: Source | None,
        position: int,
        lengths: Sequence[int] | None = None,
    ) -> DecoderOutput:
        outputs, layers = self.rnn(inputs, state.layers)
        return DecoderOutput(self.dropout(outputs[-1]), hidden_states=outputs, state=DecoderState(layers))


class SteppingDecoder(nn.Module):
    """A decoder that can take one step after the other, as needed if a step reads the attention of the last one.

    A subclass defines ``initial_state``, ``step`` (the equations), and ``read_out`` for what can be computed after the
    loop. ``forward`` is the loop, over a whole target or over the next tokens of one. Under autocast the layers'
    states keep the dtype of the embeddings; context, readout and what is fed have that of autocast.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - position: the place of the first token in its target, from 0
        - lengths: the number of steps that each row needs, if later ones are not used, as in training without logits;
          None for all
        - returns: :class:`DecoderOutput`
    """

    attention: SourceAttention
    copy_gate: CopyGate | None
    rnn: Any  # a RecurrentStack; in the copy for the loop its :class:`StackSteps`

    def forward(
        self,
        inputs: Tensor,
        state: DecoderState,
        source: Source,
        position: int,
        lengths: Sequence[int] | None = None,
    ) -> DecoderOutput:
        rows = PackedRows(inputs, lengths)
        products = loop_products(rows)
        # The copy's linear layers and sums multiply as ``products`` says; see :meth:`step`.
        decoder, source = products.for_loop(self), self.attention.for_loop(source, rows, products)
        embeddings, state = rows.pack(inputs), state.to(inputs.dtype)
        if rows.order is not None:
            state = state.map(rows.sort)
        outputs, hidden_states = [], []
        known = decoder.rnn.known(embeddings, rows.sizes)  # of all steps, before the loop
        for step, count in enumerate(rows.sizes):
            output, state = decoder.step(known[step], state.first(count), source.first(count), position + step)
            outputs.append(output)
            hidden_states.append([parts[0] for parts in state.layers])
        readout, gate = rows.unpack(self.read_out(outputs, embeddings)), self.gate(outputs, embeddings)
        gate = None if gate is None else rows.unpack(gate)
        has_lengths = lengths is not None  # then the last state has only the rows of the longest targets
        if has_lengths and gate is None and state.coverage is None:
            return DecoderOutput(readout)
        weights = rows.join([output.attention_weights for output in outputs])
        if has_lengths:
            return DecoderOutput(readout, weights, gate)
        layers = [rows.join(layer) for layer in zip(*hidden_states, strict=True)]
        return DecoderOutput(readout, weights, gate, layers, state)

    def step(self, known: Any, state: DecoderState, source: Source, position: int) -> tuple[StepOutput, DecoderState]:
        """One step of n rows: its output, and the next state.

        ``known`` is what the stack can make of the embeddings before the loop, by ``rnn.known``, and only ``rnn.step``
        reads it: (n, G) for every sum of every layer's cell, see :class:`StackSteps`. ``position`` is the place of the
        token in its target.

        The step runs on a copy of the decoder, whose products suit the caller: :class:`DeferredProducts`
        (``fast_shared_gradients.py``) where there are gradients and several steps, a copy for each batch;
        :class:`RepeatedProducts` (``decoding/recurrent_steps.py``) in ``search()``, a copy for the whole search; else
        the plain :class:`StepProducts`, a copy for each call.
        """
        raise NotImplementedError

    def attend(self, query: Tensor, source: Source, position: int, coverage: Tensor | None) -> tuple[Tensor, Tensor]:
        """Context (n, V) and weights (n, S) of a query (n, H)."""
        context, weights = self.attention(query.unsqueeze(1), source, position, coverage)
        return context[:, 0], weights[:, 0]

    def read_out(self, outputs: Sequence[StepOutput], embeddings: Tensor) -> Tensor:
        """The readouts (N, R) of all steps, whose inputs are ``embeddings`` (N, E)."""
        raise NotImplementedError

    def gate(self, outputs: Sequence[StepOutput], embeddings: Tensor) -> Tensor | None:
        """The logits (N,) of the copy gate of all steps, from context, query and input; None without a gate."""
        if self.copy_gate is None:
            return None
        return self.copy_gate(packed(outputs, "context"), packed(outputs, "query"), embeddings)


def coverage_after(coverage: Tensor | None, weights: Tensor) -> Tensor | None:
    """The coverage (n, S) after a step with these weights."""
    return None if coverage is None else coverage + weights


def packed(outputs: Sequence[StepOutput], name: str) -> Tensor:
    """A part of the outputs of all steps, (N, ...)."""
    parts = [getattr(output, name) for output in outputs]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


class BahdanauDecoder(SteppingDecoder):
    r"""The decoder of RNNsearch (Bahdanau et al., 2014, section 3.1 and appendix A.2.2).

    .. math::
        s_0 &= \tanh(W_s \overleftarrow h_1) \\
        c_i &= {\textstyle\sum_j} \mathrm{softmax}_j(e_{ij})\, h_j, \qquad e_{ij} = a(s_{i-1}, h_j) \\
        \tilde t_i &= U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, \qquad t_{ij} = \max(\tilde t_{i,2j-1}, \tilde t_{i,2j}) \\
        s_i &= f(s_{i-1}, [E y_{i-1}; c_i])

    Symbols: :math:`a` is ``attention``, :math:`W_s` is ``initial_proj``, :math:`[U_o\ V_o\ C_o]` side by side are the
    weight of ``readout_proj``, :math:`f` is ``rnn`` (the paper's GRU with ``cell="cho_gru"``), :math:`t_i` is the
    ``readout`` that the output projection :math:`W_o` reads. The paper leaves its biases out of the equations; here
    the cell, ``initial_proj`` and ``readout_proj`` have one.

    The paper contradicts itself on the readout: equation 4 has :math:`s_i`, appendix A.2.2 and the authors' code have
    :math:`s_{i-1}`. This follows the appendix.

    **Differs from the paper** only in what the paper does not have. An encoder of one direction has no
    :math:`\overleftarrow h_1` unless it reads from the end: :math:`s_0` comes from its final state. With LSTM cells
    :math:`s_0` is the hidden part, and the cell state starts at zero. With several layers each has its own :math:`W_s`,
    and the top layer's state attends and is read out. Dropout, of which the paper has none, is on the embeddings (in
    ``AttentionalRNNDecoder``), between layers and on the readout. Where the config asks for them, there is a
    ``copy_gate`` of :math:`c_i, s_{i-1}, E y_{i-1}`, and coverage (See et al., 2017).

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        size, input_size = config.decoder_hidden_size, config.embedding_size + config.encoder_output_size
        self.attention = _source_attention(config)
        self.rnn = RecurrentStack(config.cell, input_size, size, config.decoder_layers, config.dropout)
        self.initial_proj = nn.Linear(config.encoder_hidden_size, config.decoder_layers * size)
        self.readout_proj = nn.Linear(size + input_size, 2 * config.readout_size)  # type: ignore[operator]  # filled in
        self.copy_gate = _copy_gate(config)
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, encoder_state: RecurrentState, source: Source) -> DecoderState:
        """s_0 from the last columns of the encoder's final state (B, encoder layers, V), in its top layer: h_1 of the
        backward RNN, or the final state of an encoder of one direction.
        """
        final = encoder_state.hidden[:, -1, -self.initial_proj.in_features :]
        layers = projected_start(self.initial_proj, final, self.rnn)
        return DecoderState(layers, coverage=self.attention.no_coverage(source, final.shape[0]))

    def step(self, known: Any, state: DecoderState, source: Source, position: int) -> tuple[StepOutput, DecoderState]:
        """c_i and s_i. :meth:`read_out` makes t_i after the loop."""
        query = state.top  # s_{i-1}
        context, weights = self.attend(query, source, position, state.coverage)  # c_i
        layers = self.rnn.step(known, (context,), state.layers)  # s_i = f(s_{i-1}, [E y_{i-1}; c_i])
        return StepOutput(query, context, weights), DecoderState(layers, None, coverage_after(state.coverage, weights))

    def read_out(self, outputs: Sequence[StepOutput], embeddings: Tensor) -> Tensor:
        """t_i of all steps at once, since no step needs that of another one."""
        parts = packed(outputs, "query"), embeddings, packed(outputs, "context")
        pairs = linear(self.readout_proj, torch.cat([part.to(embeddings.dtype) for part in parts], dim=-1))
        return self.dropout(_maxout(pairs))


def _source_attention(config: AttentionalRNNConfig) -> SourceAttention:
    widths = config.decoder_hidden_size, config.encoder_output_size, config.attention_size
    sizes = ScoreSizes(*widths, config.max_source_positions, config.coverage)
    return SourceAttention(config.score, config.window, sizes, config.window_size)


def _copy_gate(config: AttentionalRNNConfig) -> CopyGate | None:
    """The gate that reads context, state and input, if the config asks for it."""
    sizes = config.encoder_output_size, config.decoder_hidden_size, config.embedding_size
    return CopyGate(*sizes) if config.copy else None


def _maxout(pairs: Tensor) -> Tensor:
    """The larger of every two neighbours: (..., 2R) to (..., R)."""
    return pairs.unflatten(-1, (-1, 2)).amax(dim=-1)


class LuongDecoder(SteppingDecoder):
    r"""Luong's decoder (Luong et al., 2015, section 3), with or without input feeding (section 3.3).

    .. math::
        h_t &= f(h_{t-1}, [E y_{t-1}; \tilde h_{t-1}]) \\
        c_t &= {\textstyle\sum_s} a_t(s)\, \bar h_s, \quad a_t(s) = \mathrm{softmax}_s(\mathrm{score}(h_t, \bar h_s)) \\
        \tilde h_t &= \tanh(W_c [c_t; h_t])

    Symbols: :math:`f` is ``rnn``, :math:`a_t` is made by ``attention``, :math:`W_c` is the weight of ``output_proj``,
    :math:`\tilde h_t` is the ``readout`` that the output projection :math:`W_s` reads. Without input feeding
    :math:`\tilde h_{t-1}` is not part of the cell's input, no step needs the attention of the one before, and the whole
    target runs through ``rnn`` in one call. With it, :math:`\tilde h_0 = 0`. The decoder starts from the encoder's
    final states, through ``bridge``.

    Dropout is where the authors' released code has it, on the input of every layer: on the embedding, on
    :math:`\tilde h_{t-1}`, and between layers. The :math:`\tilde h_t` that the softmax reads has no dropout.

    Where the config asks for them, there is a ``copy_gate`` of :math:`c_t, h_t, E y_{t-1}`, and coverage (See et al.,
    2017). With coverage the attention of a step needs that of the step before.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        size, readout_size = config.decoder_hidden_size, cast(int, config.readout_size)  # the config fills it in
        self.attention = _source_attention(config)
        self.input_feeding = config.input_feeding
        input_size = config.embedding_size + config.input_feeding * readout_size
        self.rnn = RecurrentStack(config.cell, input_size, size, config.decoder_layers, config.dropout)
        self.output_proj = nn.Linear(config.encoder_output_size + size, readout_size, bias=False)
        self.bridge = StateBridge(config)
        self.copy_gate = _copy_gate(config)
        self.dropout = nn.Dropout(config.dropout)

    def initial_state(self, encoder_state: RecurrentState, source: Source) -> DecoderState:
        """h_0 and h~_0 from the encoder's final state (B, encoder layers, V)."""
        layers, rows = self.bridge(encoder_state), encoder_state.hidden.shape[0]
        width = self.output_proj.out_features
        feed = encoder_state.hidden.new_zeros(rows, width) if self.input_feeding else None
        return DecoderState(layers, feed, self.attention.no_coverage(source, rows))

    def forward(
        self,
        inputs: Tensor,
        state: DecoderState,
        source: Source,
        position: int,
        lengths: Sequence[int] | None = None,
    ) -> DecoderOutput:
        if self.input_feeding or state.coverage is not None or inputs.shape[1] == 1:
            return super().forward(inputs, state, source, position, lengths)
        # No step needs the attention of another one: the equations of :meth:`step` for the whole target at once.
        outputs, layers = self.rnn(inputs, state.layers)
        context, weights = self.attention(outputs[-1], source, position)
        gate = None if self.copy_gate is None else self.copy_gate(context, outputs[-1], inputs)
        return DecoderOutput(self.combine(context, outputs[-1]), weights, gate, outputs, DecoderState(layers))

    def step(self, known: Any, state: DecoderState, source: Source, position: int) -> tuple[StepOutput, DecoderState]:
        """h_t, c_t and h~_t."""
        fed = () if state.input_feed is None else (self.dropout(state.input_feed),)
        layers = self.rnn.step(known, fed, state.layers)  # h_t = f(h_{t-1}, [E y_{t-1}; h~_{t-1}])
        query = layers[-1][0]
        context, weights = self.attend(query, source, position, state.coverage)  # c_t
        readout = self.combine(context, query)
        feed = readout if self.input_feeding else None
        return StepOutput(query, context, weights, readout), DecoderState(
            layers, feed, coverage_after(state.coverage, weights)
        )

    def combine(self, context: Tensor, query: Tensor) -> Tensor:
        r""":math:`\tilde h_t = \tanh(W_c [c_t; h_t])`."""
        return torch.tanh(linear(self.output_proj, torch.cat([context, query.to(context.dtype)], dim=-1)))

    def read_out(self, outputs: Sequence[StepOutput], embeddings: Tensor) -> Tensor:
        """The attentional vectors, which the steps have computed."""
        return packed(outputs, "readout")


# The decoder of every wiring in the config.
WIRINGS: dict[str, Callable[[AttentionalRNNConfig], Any]] = {
    "cho": ChoDecoder,
    "sutskever": SutskeverDecoder,
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
}
