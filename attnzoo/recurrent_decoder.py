r"""The papers' decoders: one step of each, wired as its paper has it, and the cache that carries their state.

They differ in where the source enters and in the order of things, which is not a free choice (i target step, s the
decoder state):

- Cho: one vector c of the source enters the cell at every step, and the word is read out from :math:`s_i, y_{i-1}, c`.
- Sutskever: the source is the start state and nothing else; the word is read out from the state.
- Bahdanau: :math:`s_{i-1}` attends, the context enters the cell that makes :math:`s_i`, and the word is read out from
  :math:`s_{i-1}, y_{i-1}, c_i`.
- Luong: the cell makes :math:`h_t`, which attends, and the word is read out from
  :math:`\tilde h_t = \tanh(W_c [c_t; h_t])`.

Letters in shapes: B batch, T target length, S source length, L layers, E embedding width, H hidden width, V width of
the encoder's outputs, R readout width.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin

from .attention import Source, SourceAttention
from .fused_decoder import bahdanau_states, luong_readout
from .recurrent_cells import RecurrentStack, RecurrentState


class DecoderState(NamedTuple):
    """What one step of a decoder leaves for the next.

    Shape:
        - recurrent: a :class:`RecurrentState` (B, L, H)
        - fed: what the next step reads beside its embedding: Luong's attentional vector (B, R) with input feeding, or
          Cho's c (B, H), the same at every step; else None
    """

    recurrent: RecurrentState
    fed: Tensor | None = None


class DecoderOutput(NamedTuple):
    """What a decoder returns for T steps.

    Shape:
        - readout: (B, T, R), what the output projection reads
        - attention_weights: (B, T, S), or None without attention
        - hidden_states: for each layer (B, T, H), the state after reading each token
        - state: the :class:`DecoderState` after the last step
    """

    readout: Tensor
    attention_weights: Tensor | None
    hidden_states: list[Tensor]
    state: DecoderState


class StateBridge(nn.Module):
    """A decoder's start state out of the encoder's final states.

    Where depth and width agree every layer takes the state of its counterpart (Sutskever et al., 2014; Luong et al.,
    2015); else a learned linear map of all of them makes it: ``hidden_proj``, followed by tanh so that it is a state,
    and for LSTMs ``cell_proj``.

    Shape:
        - encoder_state: (B, encoder layers, V)
        - returns: (B, L, H)
    """

    def __init__(self, cell: str, encoder_layers: int, encoder_size: int, num_layers: int, hidden_size: int) -> None:
        super().__init__()
        self.num_layers = num_layers
        is_needed = (encoder_layers, encoder_size) != (num_layers, hidden_size)
        sizes = encoder_layers * encoder_size, num_layers * hidden_size
        self.hidden_proj = nn.Linear(*sizes) if is_needed else None
        self.cell_proj = nn.Linear(*sizes) if is_needed and cell == "lstm" else None

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
    another one's readout, so the whole target runs through the RNN at once. Bahdanau's decoder with its context fixed
    has the same states, and the same words where it is read out by its equation 4.

    **Differs from the paper**: c is a part of the cell's input, as Bahdanau et al. (2014, appendix A.2.2) write it;
    Cho's appendix has the decoder's reset gate after U, on :math:`U s_{i-1} + C c`; projections and cell have biases;
    the output matrix is not factored. Beyond the paper: LSTM memories start at zero, and with several layers each has
    its own :math:`V'`.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    attention = None

    def __init__(
        self,
        cell: str,
        embedding_size: int,
        hidden_size: int,
        encoder_size: int,
        num_layers: int,
        readout_size: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.context_proj = nn.Linear(encoder_size, hidden_size)
        self.initial_proj = nn.Linear(hidden_size, num_layers * hidden_size)
        self.rnn = RecurrentStack(cell, embedding_size + hidden_size, hidden_size, num_layers, dropout)
        self.has_memory = cell == "lstm"
        self.readout_proj = nn.Linear(hidden_size + embedding_size + hidden_size, 2 * readout_size)
        self.dropout = nn.Dropout(dropout)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """s_0 and c from the encoder's final state (B, encoder layers, V)."""
        context = torch.tanh(self.context_proj(encoder_state.hidden[:, -1]))  # (B, H)
        hidden = torch.tanh(self.initial_proj(context)).unflatten(-1, (len(self.rnn.layers), -1))  # (B, L, H)
        return DecoderState(RecurrentState(hidden, torch.zeros_like(hidden) if self.has_memory else None), context)

    def forward(self, inputs: Tensor, state: DecoderState, source: Source | None, step: int) -> DecoderOutput:
        assert state.fed is not None  # by initial_state
        context = state.fed.to(inputs.dtype).unsqueeze(1).expand(-1, inputs.shape[1], -1)  # (B, T, H)
        outputs, recurrent = self.rnn(torch.cat([inputs, context], dim=-1), state.recurrent)
        pairs = self.readout_proj(torch.cat([outputs[-1].to(inputs.dtype), inputs, context], dim=-1))
        return DecoderOutput(self.dropout(_maxout(pairs)), None, outputs, DecoderState(recurrent, state.fed))


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

    def __init__(
        self,
        cell: str,
        embedding_size: int,
        hidden_size: int,
        encoder_size: int,
        encoder_layers: int,
        num_layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.bridge = StateBridge(cell, encoder_layers, encoder_size, num_layers, hidden_size)
        self.rnn = RecurrentStack(cell, embedding_size, hidden_size, num_layers, dropout)
        self.dropout = nn.Dropout(dropout)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V)."""
        return DecoderState(self.bridge(encoder_state))

    def forward(self, inputs: Tensor, state: DecoderState, source: Source | None, step: int) -> DecoderOutput:
        outputs, recurrent = self.rnn(inputs, state.recurrent)
        return DecoderOutput(self.dropout(outputs[-1]), None, outputs, DecoderState(recurrent))


class BahdanauDecoder(nn.Module):
    r"""The decoder of RNNsearch (Bahdanau et al., 2014, section 3.1 and appendix A.2.2).

    .. math::
        s_0 &= \tanh(W_s \overleftarrow h_1) \\
        c_i &= \textstyle\sum_j \mathrm{softmax}_j(e_{ij})\, h_j, \qquad e_{ij} = a(s_{i-1}, h_j) \\
        \tilde t_i &= U_o s_{i-1} + V_o E y_{i-1} + C_o c_i, \qquad t_{ij} = \max(\tilde t_{i,2j-1}, \tilde t_{i,2j}) \\
        s_i &= f(s_{i-1}, [E y_{i-1}; c_i])

    Symbols: :math:`a` is ``attention``, :math:`W_s` is ``initial_proj``, :math:`[U_o\ V_o\ C_o]` side by side are the
    weight of ``readout_proj``, :math:`f` is ``rnn`` (the paper's GRU with ``cell="cho_gru"``), :math:`t_i` is the
    ``readout`` that the output projection :math:`W_o` reads. The paper leaves its biases out of the equations; here
    the cell, ``initial_proj`` and ``readout_proj`` have one.

    The paper contradicts itself on the readout: equation 4 has :math:`s_i`, appendix A.2.2 and the authors' code have
    :math:`s_{i-1}`. This follows the appendix.

    **Differs from the paper** only beyond it: an encoder of one direction has no :math:`\overleftarrow h_1` unless it
    reads from the end, and :math:`s_0` comes from its final state; with LSTM cells :math:`s_0` is the hidden part and
    the memory starts at zero; with several layers each has its own :math:`W_s`, and the top layer's state is the one
    that attends and is read out.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    def __init__(
        self,
        attention: SourceAttention,
        cell: str,
        embedding_size: int,
        hidden_size: int,
        encoder_size: int,
        direction_size: int,
        num_layers: int,
        readout_size: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.rnn = RecurrentStack(cell, embedding_size + encoder_size, hidden_size, num_layers, dropout)
        self.has_memory = cell == "lstm"
        self.initial_proj = nn.Linear(direction_size, num_layers * hidden_size)
        self.readout_proj = nn.Linear(hidden_size + embedding_size + encoder_size, 2 * readout_size)
        self.dropout = nn.Dropout(dropout)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V), whose top layer ends with h_1 backward."""
        backward = encoder_state.hidden[:, -1, -self.initial_proj.in_features :]
        hidden = torch.tanh(self.initial_proj(backward)).unflatten(-1, (len(self.rnn.layers), -1))  # (B, L, H)
        return DecoderState(RecurrentState(hidden, torch.zeros_like(hidden) if self.has_memory else None))

    def forward(self, inputs: Tensor, state: DecoderState, source: Source, step: int) -> DecoderOutput:
        recurrent = state.recurrent
        queries, contexts, attention_weights, hidden_states = [], [], [], []
        for index, embedding in enumerate(inputs.split(1, dim=1)):  # (B, 1, E)
            query = recurrent.hidden[:, -1:].to(inputs.dtype)  # (B, 1, H), s_{i-1}
            context, weights = self.attention(query, source, step + index)
            outputs, recurrent = self.rnn(torch.cat([embedding, context.to(embedding.dtype)], dim=-1), recurrent)
            queries.append(query)
            contexts.append(context)
            attention_weights.append(weights)
            hidden_states.append(outputs)
        return DecoderOutput(
            # No step needs the readout of another one, so all are made at once.
            readout=self._read_out(torch.cat(queries, dim=1), inputs, torch.cat(contexts, dim=1)),
            attention_weights=torch.cat(attention_weights, dim=1),
            hidden_states=[torch.cat(layer, dim=1) for layer in zip(*hidden_states, strict=True)],
            state=DecoderState(recurrent),
        )

    def readout(self, inputs: Tensor, state: DecoderState, source: Source, lengths: Tensor | None) -> Tensor:
        """The readout of a whole target alone, by the loop of ``fused_decoder.py``."""
        queries, contexts = bahdanau_states(self.rnn, self.attention, inputs, state.recurrent, source, lengths)
        return self._read_out(queries, inputs, contexts)

    def _read_out(self, queries: Tensor, inputs: Tensor, contexts: Tensor) -> Tensor:
        parts = [part.to(inputs.dtype) for part in (queries, inputs, contexts)]
        return self.dropout(_maxout(self.readout_proj(torch.cat(parts, dim=-1))))  # (B, T, R)


def _maxout(pairs: Tensor) -> Tensor:
    """The larger of every two neighbours: (..., 2R) to (..., R)."""
    return pairs.unflatten(-1, (-1, 2)).amax(dim=-1)


class LuongDecoder(nn.Module):
    r"""Luong's decoder (Luong et al., 2015, section 3), with or without input feeding (section 3.3).

    .. math::
        h_t &= f(h_{t-1}, [E y_{t-1}; \tilde h_{t-1}]) \\
        c_t &= \textstyle\sum_s a_t(s)\, \bar h_s, \qquad a_t(s) = \mathrm{softmax}_s(\mathrm{score}(h_t, \bar h_s)) \\
        \tilde h_t &= \tanh(W_c [c_t; h_t])

    Symbols: :math:`f` is ``rnn``, :math:`a_t` is made by ``attention``, :math:`W_c` is the weight of ``output_proj``,
    :math:`\tilde h_t` is the ``readout`` that the output projection :math:`W_s` reads. Without input feeding
    :math:`\tilde h_{t-1}` is not part of the cell's input, no step waits for the attention of the one before, and the
    whole target runs through ``rnn`` in one call. With it, :math:`\tilde h_0 = 0`. The decoder starts from the
    encoder's final states, through ``bridge``.

    Dropout stands where the authors' released code has it, on the input of every layer: the embedding, the fed
    :math:`\tilde h_{t-1}`, and between layers; not on :math:`\tilde h_t` on its way to the softmax.

    Shape:
        - inputs: (B, T, E), embeddings of the tokens before the ones to predict
        - returns: :class:`DecoderOutput`
    """

    def __init__(
        self,
        attention: SourceAttention,
        cell: str,
        embedding_size: int,
        hidden_size: int,
        encoder_size: int,
        encoder_layers: int,
        num_layers: int,
        readout_size: int,
        dropout: float,
        input_feeding: bool,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.input_feeding = input_feeding
        input_size = embedding_size + (readout_size if input_feeding else 0)
        self.rnn = RecurrentStack(cell, input_size, hidden_size, num_layers, dropout)
        self.output_proj = nn.Linear(encoder_size + hidden_size, readout_size, bias=False)
        self.bridge = StateBridge(cell, encoder_layers, encoder_size, num_layers, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """h_0 and h~_0 from the encoder's final state (B, encoder layers, V)."""
        recurrent = self.bridge(encoder_state)
        if not self.input_feeding:
            return DecoderState(recurrent)
        rows, width = recurrent.hidden.shape[0], self.output_proj.out_features
        return DecoderState(recurrent, recurrent.hidden.new_zeros(rows, width))

    def forward(self, inputs: Tensor, state: DecoderState, source: Source, step: int) -> DecoderOutput:
        recurrent, fed = state
        readouts, attention_weights, hidden_states = [], [], []
        # With input feeding one token at a time, without it the whole target in one piece.
        for piece in inputs.split(1 if self.input_feeding else inputs.shape[1], dim=1):
            if fed is not None:
                piece = torch.cat([piece, self.dropout(fed).unsqueeze(1).to(piece.dtype)], dim=-1)
            outputs, recurrent = self.rnn(piece, recurrent)
            context, weights = self.attention(outputs[-1], source, step)
            attentional = torch.tanh(self.output_proj(torch.cat([context, outputs[-1].to(context.dtype)], dim=-1)))
            step += piece.shape[1]
            fed = attentional[:, -1] if self.input_feeding else None
            readouts.append(attentional)
            attention_weights.append(weights)
            hidden_states.append(outputs)
        return DecoderOutput(
            readout=torch.cat(readouts, dim=1),
            attention_weights=torch.cat(attention_weights, dim=1),
            hidden_states=[torch.cat(layer, dim=1) for layer in zip(*hidden_states, strict=True)],
            state=DecoderState(recurrent, fed),
        )

    def readout(self, inputs: Tensor, state: DecoderState, source: Source, lengths: Tensor | None) -> Tensor:
        """The readout of a whole target alone, with input feeding, by the loop of ``fused_decoder.py``."""
        return luong_readout(
            self.rnn, self.attention, self.output_proj.weight, self.dropout, inputs, state.recurrent, source, lengths
        )


class _RecurrentCacheLayer(CacheLayerMixin):
    """The named, batch-first tensors of a decoder's state, and how many tokens it has read.

    Tensors are replaced, never written into, so that the same code trains.
    """

    is_compileable = False
    is_croppable = False
    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.tensors: dict[str, Tensor] = {}
        self.projected_key: Tensor | None = None
        self.length = 0

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("a recurrent state has no keys and values to initialise; the model makes it")

    def update(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a recurrent state is stored with RecurrentDecoderCache.store, not with update")

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        # Beams change places within their source, as the encoder's outputs beside this cache expect, which stay.
        self.tensors = {k: v.index_select(0, beam_idx.to(v.device)) for k, v in self.tensors.items()}

    def batch_select_indices(self, indices: Tensor) -> None:
        self.projected_key = self._of_rows(lambda key: key[indices.to(key.device)])
        self.tensors = {k: v[indices.to(v.device)] for k, v in self.tensors.items()}

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.projected_key = self._of_rows(lambda key: key.repeat_interleave(repeats, dim=0))
        self.tensors = {k: v.repeat_interleave(repeats, dim=0) for k, v in self.tensors.items()}

    def _of_rows(self, change: Callable[[Tensor], Tensor]) -> Tensor | None:
        """The keys, changed as the states are if there is a row for each of them and not one for a source."""
        key = self.projected_key
        return change(key) if key is not None and len(key) == len(self.tensors["hidden"]) else key

    def reset(self) -> None:
        self.tensors, self.projected_key, self.length, self.is_initialized = {}, None, 0, False

    def offload(self) -> None:
        """Nothing to do: the state is as small as one token."""

    def prefetch(self) -> None:
        """Nothing to do: the state is as small as one token."""


class RecurrentDecoderCache(Cache):
    """The decoder's state and the projected keys, as ``past_key_values`` carries them through ``generate()``.

    It holds the state after the last token, not one state per token, and so cannot be cropped: assisted decoding does
    not apply. Beam search reorders it row by row.
    """

    def __init__(self) -> None:
        self._layer = _RecurrentCacheLayer()
        super().__init__(layers=[self._layer])

    def crop(self, tokens_to_remove: int) -> None:
        """Refuse: a state cannot be taken back to an earlier token."""
        raise NotImplementedError(
            "a recurrent state cannot be cropped: it holds the last token's state, not one per token"
        )

    def store(self, state: DecoderState, projected_key: Tensor | None, num_tokens: int) -> None:
        """Replace the state by the one after ``num_tokens`` more tokens; without attention there are no keys."""
        named = {
            "hidden": state.recurrent.hidden,
            "cell": state.recurrent.cell,
            "fed": state.fed,
        }
        self._layer.tensors = {name: tensor for name, tensor in named.items() if tensor is not None}
        self._layer.projected_key = projected_key
        self._layer.length += num_tokens
        self._layer.is_initialized = True

    def load(self) -> tuple[DecoderState, Tensor | None, int] | None:
        """The state, the projected keys and the number of tokens read, or None before the first token."""
        tensors = self._layer.tensors
        if not tensors:
            return None
        recurrent = RecurrentState(tensors["hidden"], tensors.get("cell"))
        return DecoderState(recurrent, tensors.get("fed")), self._layer.projected_key, self._layer.length
