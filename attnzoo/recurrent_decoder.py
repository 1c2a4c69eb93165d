r"""The papers' decoders, each wired as its paper has it.

They differ in where the source enters and in the order of the operations. Each paper fixes both (i is the target step,
s the decoder state):

- Cho: one vector c of the source enters the cell at every step, and the word is read out from :math:`s_i, y_{i-1}, c`.
- Sutskever: the source is the start state and nothing else; the word is read out from the state.
- Bahdanau: :math:`s_{i-1}` attends, the context enters the cell that makes :math:`s_i`, and the word is read out from
  :math:`s_{i-1}, y_{i-1}, c_i`.
- Luong: the cell makes :math:`h_t`, which attends, and the word is read out from
  :math:`\tilde h_t = \tanh(W_c [c_t; h_t])`.

Where a step waits for the attention of the step before, one loop serves training, generation and search; see
``shared_products.py`` for what its steps share.

Dimensions: B batch, T target length, S source length, L layers, E embedding width, H hidden width, V width of
the encoder's outputs, R readout width, N rows of all steps, packed (see :class:`LoopRows`).
"""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from .attention import Attended, AttentionSteps, ScoreSizes, SourceAttention
from .configuration_attentional_rnn import AttentionalRNNConfig
from .copying import CopyGate
from .library_internals import forward_hooks
from .products import linear
from .recurrent_cells import RecurrentStack, RecurrentState
from .shared_products import LoopRows, first_rows


class DecoderState(NamedTuple):
    """What one step of a decoder leaves for the next.

    Shape:
        - recurrent: a :class:`RecurrentState` (B, L, H)
        - input_feed: what the next step reads beside its embedding: Luong's attentional vector (B, R) with input
          feeding, or Cho's c (B, H), the same at every step; else None
        - coverage: (B, S), the attention weights of all steps so far, summed (See et al., 2017); None without coverage
    """

    recurrent: RecurrentState
    input_feed: Tensor | None = None
    coverage: Tensor | None = None


class DecoderOutput(NamedTuple):
    """What a decoder returns for T steps; only what the loss needs where the lengths of the targets were given.

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


def projected_start(initial_proj: nn.Linear, vector: Tensor, rnn: RecurrentStack) -> RecurrentState:
    r""":math:`s_0 = \tanh(W v)` of a vector (B, ...), every layer with a W of its own; LSTM cells start at zero."""
    hidden = torch.tanh(initial_proj(vector)).unflatten(-1, (len(rnn.layers), -1))  # (B, L, H)
    return RecurrentState(hidden, torch.zeros_like(hidden) if rnn.cell == "lstm" else None)


class StateBridge(nn.Module):
    """The decoder's start state, made from the encoder's final states.

    If encoder and decoder have the same depth and width, every layer takes the state of its counterpart (Sutskever et
    al., 2014; Luong et al., 2015). Otherwise a learned linear map of all final states makes the start state:
    ``hidden_proj``, followed by tanh, which keeps it in the range of a hidden state, and for LSTMs also ``cell_proj``.

    Shape:
        - encoder_state: (B, encoder layers, V)
        - returns: (B, L, H)
    """

    def __init__(self, config: AttentionalRNNConfig) -> None:
        super().__init__()
        self.num_layers = config.decoder_layers
        given = config.encoder_layers, config.encoder_output_size
        needed = config.decoder_layers, config.decoder_hidden_size
        widths = math.prod(given), math.prod(needed)
        self.hidden_proj = nn.Linear(*widths) if given != needed else None
        self.cell_proj = nn.Linear(*widths) if given != needed and config.cell == "lstm" else None

    def forward(self, encoder_state: RecurrentState) -> RecurrentState:
        hidden, cell = encoder_state
        if self.hidden_proj is not None:
            hidden = torch.tanh(self.hidden_proj(hidden.flatten(1))).unflatten(-1, (self.num_layers, -1))
        if self.cell_proj is not None and cell is not None:
            cell = self.cell_proj(cell.flatten(1)).unflatten(-1, (self.num_layers, -1))
        return RecurrentState(hidden, cell)


class ChoDecoder(nn.Module):
    r"""The decoder of the RNN Encoder-Decoder (Cho et al., 2014, section 2.2 and appendix A.1): a fixed vector.

    .. math::
        c &= \tanh(V h_S), \qquad s_0 = \tanh(V' c) \\
        s_i &= f(s_{i-1}, [E y_{i-1}; c]) \\
        \tilde t_i &= O_h s_i + O_y E y_{i-1} + O_c c, \qquad t_{ij} = \max(\tilde t_{i,2j-1}, \tilde t_{i,2j})

    Symbols: :math:`h_S` is the encoder's final state (its top layer's, in all its directions), :math:`V` is
    ``context_proj``, :math:`V'` is ``initial_proj``, :math:`f` is ``rnn``, :math:`[O_h\ O_y\ O_c]` are the
    weight of ``readout_proj``, :math:`t_i` is the ``readout`` that the output projection reads. No step waits for
    another one's readout, so the whole target runs through the RNN at once. Bahdanau's decoder with a fixed context has
    the same states. If it is read out by his equation 4, it also predicts the same words.

    **Differs from the paper**: c is a part of the cell's input, as Bahdanau et al. (2014, appendix A.2.2) write it;
    Cho's appendix has the decoder's reset gate after U, on :math:`U s_{i-1} + C c`; projections and cell have biases;
    the output matrix is not factored. Beyond the paper: LSTM cell states start at zero, and with several layers each
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

    def initial_state(self, encoder_state: RecurrentState, source: Attended | None = None) -> DecoderState:
        """s_0 and c from the encoder's final state (B, encoder layers, V)."""
        context = torch.tanh(self.context_proj(encoder_state.hidden[:, -1]))  # (B, H)
        return DecoderState(projected_start(self.initial_proj, context, self.rnn), context)

    def forward(
        self, inputs: Tensor, state: DecoderState, source: Attended | None, step: int, lengths: Tensor | None = None
    ) -> DecoderOutput:
        assert state.input_feed is not None  # by initial_state
        context = state.input_feed.to(inputs.dtype).unsqueeze(1).expand(-1, inputs.shape[1], -1)  # (B, T, H)
        outputs, recurrent = self.rnn(torch.cat([inputs, context], dim=-1), state.recurrent)
        pairs = linear(self.readout_proj, torch.cat([outputs[-1].to(inputs.dtype), inputs, context], dim=-1))
        after = DecoderState(recurrent, state.input_feed)
        return DecoderOutput(self.dropout(_maxout(pairs)), hidden_states=outputs, state=after)


class SutskeverDecoder(nn.Module):
    r"""The decoder of Sutskever et al. (2014, section 2): the source is the start state and nothing else.

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

    def initial_state(self, encoder_state: RecurrentState, source: Attended | None = None) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V)."""
        return DecoderState(self.bridge(encoder_state))

    def forward(
        self, inputs: Tensor, state: DecoderState, source: Attended | None, step: int, lengths: Tensor | None = None
    ) -> DecoderOutput:
        outputs, recurrent = self.rnn(inputs, state.recurrent)
        return DecoderOutput(self.dropout(outputs[-1]), hidden_states=outputs, state=DecoderState(recurrent))


class BahdanauDecoder(nn.Module):
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

    **Differs from the paper** only in cases that the paper does not have. An encoder of one direction has no
    :math:`\overleftarrow h_1` unless it reads from the end: :math:`s_0` comes from its final state. With LSTM cells
    :math:`s_0` is the hidden part, and the cell state starts at zero. With several layers each has its own :math:`W_s`,
    and the top layer's state attends and is read out. Where the config asks for them, there is a ``copy_gate`` of
    :math:`c_i, s_{i-1}, E y_{i-1}`, and coverage (See et al., 2017).

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

    def initial_state(self, encoder_state: RecurrentState, source: Attended) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V), whose top layer ends with h_1 backward."""
        backward = encoder_state.hidden[:, -1, -self.initial_proj.in_features :]
        recurrent = projected_start(self.initial_proj, backward, self.rnn)
        return DecoderState(recurrent, coverage=self.attention.no_coverage(source, recurrent.hidden.shape[0]))

    def forward(
        self, inputs: Tensor, state: DecoderState, source: Attended, step: int, lengths: Tensor | None = None
    ) -> DecoderOutput:
        rows = LoopRows(inputs, lengths)
        inputs = rows.pack(inputs)  # (N, E)
        loop = BahdanauLoop(self, rows, inputs, state, source, step)
        queries, contexts, attention_weights, hidden_states = zip(*map(loop, range(len(rows.sizes))), strict=True)
        # No step needs the readout of another one, so all are made at once.
        readout, gate = self.read_out(torch.cat(queries), inputs, torch.cat(contexts))
        return loop.joined(readout, gate, attention_weights, hidden_states)

    def read_out(self, query: Tensor, inputs: Tensor, context: Tensor) -> tuple[Tensor, Tensor | None]:
        """The readouts (N, R), and the logits (N,) of the copy gate if there is one, from s_{i-1}, E y_{i-1}, c_i."""
        query, context = query.to(inputs.dtype), context.to(inputs.dtype)
        readout = self.dropout(_maxout(linear(self.readout_proj, torch.cat([query, inputs, context], dim=-1))))
        return readout, None if self.copy_gate is None else self.copy_gate(context, query, inputs)


class DecoderLoop:
    """The steps of a decoder in which each step waits for the attention of the one before.

    For a known target, a decoder's ``forward`` makes a loop and calls it once for every step, with the step's number.
    :func:`open_loop` makes one that gets one token at a time, for ``search()``.

    Args:
        decoder: whose equations the loop computes
        rows: of the loop
        inputs: (N, E), embeddings of the tokens of all steps; (1, 0) in an open loop, where ``read`` gets them
        state: before the loop
        source: what is attended to
        first: the target position of the first step

    Attributes:
        feed: what Luong's next step reads beside its embedding; None without input feeding
    """

    def __init__(
        self, decoder: Any, rows: LoopRows, inputs: Tensor, state: DecoderState, source: Attended, first: int
    ) -> None:
        self.decoder, self.rows = decoder, rows
        self.rnn = decoder.rnn.steps(rows, inputs, state.recurrent)
        self.attend = AttentionSteps(decoder.attention, source, rows, first, state.coverage)
        self.feed = None if state.input_feed is None else rows.sort(state.input_feed).to(inputs.dtype)

    def joined(
        self, readout: Tensor, gate: Tensor | None, weights: Sequence[Tensor], hidden_states: Sequence[Sequence[Tensor]]
    ) -> DecoderOutput:
        """The output of all steps, from packed readouts (N, R) and gates (N,), and from the weights (n, S) and the
        layers' states (n, H) of every step.
        """
        rows = self.rows
        output = DecoderOutput(rows.unpack(readout), gate=None if gate is None else rows.unpack(gate))
        has_ended = rows.order is not None  # most rows, before the last step
        if has_ended and gate is None and self.attend.coverage is None:
            return output
        output = output._replace(attention_weights=rows.join(weights))
        if has_ended:
            return output
        layers = [rows.join(layer) for layer in zip(*hidden_states, strict=True)]
        after = DecoderState(self.rnn.state, self.feed, self.attend.coverage)
        return output._replace(hidden_states=layers, state=after)

    def read(self, inputs: Tensor) -> DecoderOutput:
        """The next step of an open loop, from the embeddings (n, E): readout, attention weights and gate."""
        raise NotImplementedError

    def change_rows(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change every part of the state, for example select its rows."""
        self.rnn.change_rows(change)
        if self.attend.coverage is not None:
            self.attend.coverage = change(self.attend.coverage)
        if self.feed is not None:
            self.feed = change(self.feed)


class BahdanauLoop(DecoderLoop):
    """The steps of :class:`BahdanauDecoder`."""

    def __call__(self, step: int, inputs: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """The query s_{i-1} (n, H), context (n, V), weights (n, S), and every layer's new state (n, H).

        ``inputs`` (n, E) are given in an open loop only.
        """
        query = first_rows(self.rnn.top, self.rows.sizes[step]) if inputs is None else self.rnn.top
        context, weights = self.attend(query, step)
        others = context if inputs is None else torch.cat([inputs, context.to(inputs.dtype)], dim=1)
        return query, context, weights, self.rnn(step, others)

    def read(self, inputs: Tensor) -> DecoderOutput:
        query, context, weights, _ = self(0, inputs)
        self.attend.first += 1
        readout, gate = self.decoder.read_out(query, inputs, context)
        return DecoderOutput(readout.unsqueeze(1), weights.unsqueeze(1), None if gate is None else gate.unsqueeze(1))


class LuongLoop(DecoderLoop):
    """The steps of :class:`LuongDecoder`. Without input feeding only an open loop, and ``feed`` is None."""

    @cached_property
    def output_proj(self) -> Any:
        """The decoder's, shared by all steps."""
        return self.rows.share_linears(self.decoder.output_proj)

    def __call__(self, step: int, inputs: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
        """The attentional vector (n, R), context (n, V), weights (n, S), and every layer's new state (n, H).

        ``inputs`` (n, E) are given in an open loop only.
        """
        others = inputs
        if self.feed is not None:
            feed = self.decoder.dropout(first_rows(self.feed, self.rows.sizes[step]) if inputs is None else self.feed)
            others = feed if inputs is None else torch.cat([inputs, feed.to(inputs.dtype)], dim=1)
        outputs = self.rnn(step, others)
        context, weights = self.attend(outputs[-1], step)
        readout = torch.tanh(self.output_proj(torch.cat([context, outputs[-1].to(context.dtype)], dim=-1)))
        self.feed = None if self.feed is None else readout
        return readout, context, weights, outputs

    def read(self, inputs: Tensor) -> DecoderOutput:
        readout, context, weights, outputs = self(0, inputs)
        self.attend.first += 1
        copy_gate = self.decoder.copy_gate
        gate = None if copy_gate is None else copy_gate(context, outputs[-1], inputs).unsqueeze(1)
        return DecoderOutput(readout.unsqueeze(1), weights.unsqueeze(1), gate)


def open_loop(
    decoder: nn.Module, rows: LoopRows, inputs: Tensor, state: DecoderState, source: Attended | None
) -> DecoderLoop | None:
    """A loop that gets one token at a time. What its steps share is prepared once, for any number of rows and steps.

    None for a decoder without attention, for a subclass, and for a decoder with forward hooks or a replaced
    ``forward``. ``inputs`` (1, 1, 0) only give dtype and device; ``rows`` are made of them, and are broadcast to the
    rows of each call.
    """
    loops: dict[type, type[DecoderLoop]] = {BahdanauDecoder: BahdanauLoop, LuongDecoder: LuongLoop}
    if type(decoder) not in loops or "forward" in vars(decoder) or forward_hooks(decoder):
        return None
    assert source is not None  # Bahdanau's and Luong's decoders always attend
    return loops[type(decoder)](decoder, rows, inputs[0], state, source, 0)


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


class LuongDecoder(nn.Module):
    r"""Luong's decoder (Luong et al., 2015, section 3), with or without input feeding (section 3.3).

    .. math::
        h_t &= f(h_{t-1}, [E y_{t-1}; \tilde h_{t-1}]) \\
        c_t &= {\textstyle\sum_s} a_t(s)\, \bar h_s, \quad a_t(s) = \mathrm{softmax}_s(\mathrm{score}(h_t, \bar h_s)) \\
        \tilde h_t &= \tanh(W_c [c_t; h_t])

    Symbols: :math:`f` is ``rnn``, :math:`a_t` is made by ``attention``, :math:`W_c` is the weight of ``output_proj``,
    :math:`\tilde h_t` is the ``readout`` that the output projection :math:`W_s` reads. Without input feeding
    :math:`\tilde h_{t-1}` is not part of the cell's input, no step waits for the attention of the one before, and the
    whole target runs through ``rnn`` in one call. With it, :math:`\tilde h_0 = 0`. The decoder starts from the
    encoder's final states, through ``bridge``.

    Dropout stands where the authors' released code has it, on the input of every layer: the embedding, the fed
    :math:`\tilde h_{t-1}`, and between layers; not on :math:`\tilde h_t` on its way to the softmax.

    Where the config asks for them, there is a ``copy_gate`` of :math:`c_t, h_t, E y_{t-1}`, and coverage (See et al.,
    2017). With coverage the attention of a step waits for that of the step before.

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

    def initial_state(self, encoder_state: RecurrentState, source: Attended) -> DecoderState:
        """h_0 and h~_0 from the encoder's final state (B, encoder layers, V)."""
        recurrent = self.bridge(encoder_state)
        rows, width = recurrent.hidden.shape[0], self.output_proj.out_features
        feed = recurrent.hidden.new_zeros(rows, width) if self.input_feeding else None
        return DecoderState(recurrent, feed, self.attention.no_coverage(source, rows))

    def forward(
        self, inputs: Tensor, state: DecoderState, source: Attended, step: int, lengths: Tensor | None = None
    ) -> DecoderOutput:
        if state.input_feed is None:  # no step waits for another one
            outputs, recurrent = self.rnn(inputs, state.recurrent)
            coverage = state.coverage
            if coverage is None:
                context, weights = self.attention(outputs[-1], source, step)
            else:
                attend = AttentionSteps(self.attention, source, LoopRows(inputs), step, coverage)
                looks = [attend(query, index) for index, query in enumerate(outputs[-1].unbind(dim=1))]
                context, weights = (torch.stack(parts, dim=1) for parts in zip(*looks, strict=True))
                coverage = attend.coverage
            readout = torch.tanh(linear(self.output_proj, torch.cat([context, outputs[-1].to(context.dtype)], dim=-1)))
            gate = None if self.copy_gate is None else self.copy_gate(context, outputs[-1], inputs)
            return DecoderOutput(readout, weights, gate, outputs, DecoderState(recurrent, coverage=coverage))
        rows = LoopRows(inputs, lengths)
        packed = rows.pack(inputs)  # (N, E)
        loop = LuongLoop(self, rows, packed, state, source, step)
        readouts, contexts, attention_weights, hidden_states = zip(*map(loop, range(len(rows.sizes))), strict=True)
        gate = None
        if self.copy_gate is not None:
            top = torch.cat([outputs[-1] for outputs in hidden_states])
            gate = self.copy_gate(torch.cat(contexts), top, packed)
        return loop.joined(torch.cat(readouts), gate, attention_weights, hidden_states)


# The decoder of every wiring in the config.
WIRINGS: dict[str, Callable[[AttentionalRNNConfig], Any]] = {
    "cho": ChoDecoder,
    "sutskever": SutskeverDecoder,
    "bahdanau": BahdanauDecoder,
    "luong": LuongDecoder,
}
