r"""The papers' decoders: one step of each, wired as its paper has it, and the cache that carries their state.

The two differ in the order of things, and the order is not a free choice (i target step, s the decoder state):

- Bahdanau: :math:`s_{i-1}` attends, the context enters the cell that makes :math:`s_i`, and the word is read out from
  :math:`s_{i-1}, y_{i-1}, c_i`.
- Luong: the cell makes :math:`h_t`, which attends, and the word is read out from
  :math:`\tilde h_t = \tanh(W_c [c_t; h_t])`.

Letters in shapes: B batch, T target length, S source length, L layers, E embedding width, H hidden width, V width of
the encoder's outputs, R readout width.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache, CacheLayerMixin

from .attention import (
    AdditiveScore,
    DotScore,
    GeneralScore,
    LocalWindow,
    LocationScore,
    attend,
    source_positions,
)
from .recurrent_cells import RecurrentStack, RecurrentState


class Source(NamedTuple):
    """What a decoder reads at every step, made once per source by :meth:`SourceAttention.read`.

    Shape:
        - value: (B, S, V), the encoder's outputs
        - projected_key: (B, S, ...), whatever the score function makes of them
        - mask: (B, S) bool
        - positions: (B, S); length: (B,), ranks among the real tokens and their number
    """

    value: Tensor
    projected_key: Tensor
    mask: Tensor
    positions: Tensor
    length: Tensor


class DecoderState(NamedTuple):
    """What one step of a decoder leaves for the next.

    Shape:
        - recurrent: a :class:`RecurrentState` (B, L, H)
        - readout: (B, R), Luong's attentional vector of the step before, for input feeding; None where it is not fed
    """

    recurrent: RecurrentState
    readout: Tensor | None


class DecoderOutput(NamedTuple):
    """What a decoder returns for T steps.

    Shape:
        - readout: (B, T, R), what the output projection reads
        - attention_weights: (B, T, S)
        - hidden_states: for each layer (B, T, H), the state after reading each token
        - state: the :class:`DecoderState` after the last step
    """

    readout: Tensor
    attention_weights: Tensor
    hidden_states: list[Tensor]
    state: DecoderState


class SourceAttention(nn.Module):
    """A score function and, for local attention, a window: one look of the decoder at the source.

    ``score`` is "dot", "general", "additive", "concat" (the same function as additive) or "location"; ``window`` is
    "global", "monotonic" (local-m) or "predictive" (local-p).

    Shape:
        - query: (B, T, H)
        - returns: context (B, T, V), attention_weights (B, T, S)

    Raises:
        ValueError: ``score`` is none of these, or the dot score has a query and a key of different widths.
    """

    def __init__(
        self,
        score: str,
        window: str,
        query_size: int,
        key_size: int,
        attention_size: int,
        window_size: int,
        max_source_positions: int,
    ) -> None:
        super().__init__()
        self.score: DotScore | GeneralScore | AdditiveScore | LocationScore
        if score == "dot":
            self.score = DotScore(query_size, key_size)
        elif score == "general":
            self.score = GeneralScore(query_size, key_size)
        elif score in ("additive", "concat"):
            self.score = AdditiveScore(query_size, key_size, attention_size)
        elif score == "location":
            self.score = LocationScore(query_size, max_source_positions)
        else:
            raise ValueError(f"unknown score {score!r}; choose 'dot', 'general', 'additive', 'concat' or 'location'")
        self.window = None if window == "global" else LocalWindow(query_size, window_size, window == "predictive")

    def read(self, value: Tensor, mask: Tensor, projected_key: Tensor | None = None) -> Source:
        """The source as every step needs it; keys that are projected already (from a cache) are taken as they are."""
        positions, length = source_positions(mask)
        if projected_key is None:
            projected_key = self.score.project_key(value, positions)
        return Source(value, projected_key, mask, positions, length)

    def forward(self, query: Tensor, source: Source, step: int) -> tuple[Tensor, Tensor]:
        """``step`` is the target position of the first query row, from 0."""
        scores = self.score(query, source.projected_key)  # (B, T, S)
        mask = source.mask.unsqueeze(1)  # (B, 1, S)
        if self.window is None:
            return attend(scores, source.value, mask)
        window_mask, reweight = self.window(query, step, source.positions, source.length)
        return attend(scores, source.value, mask & window_mask, reweight)


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

    **Differs from the paper** only beyond it: with LSTM cells :math:`s_0` is the hidden part and the memory starts at
    zero; with several layers each has its own :math:`W_s`, and the top layer's state is the one that attends and is
    read out.

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
        num_layers: int,
        readout_size: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = attention
        self.rnn = RecurrentStack(cell, embedding_size + encoder_size, hidden_size, num_layers, dropout)
        self.has_memory = cell == "lstm"
        self.initial_proj = nn.Linear(encoder_size // 2, num_layers * hidden_size)
        self.readout_proj = nn.Linear(hidden_size + embedding_size + encoder_size, 2 * readout_size)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """s_0 from the encoder's final state (B, encoder layers, V): its top layer's backward half is h_1 backward."""
        backward = encoder_state.hidden[:, -1].chunk(2, dim=-1)[1]
        hidden = torch.tanh(self.initial_proj(backward)).unflatten(-1, (len(self.rnn.layers), -1))  # (B, L, H)
        return DecoderState(RecurrentState(hidden, torch.zeros_like(hidden) if self.has_memory else None), None)

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
        # No step needs the readout of another one, so all are made at once.
        parts = [torch.cat(queries, dim=1), inputs, torch.cat(contexts, dim=1)]
        pairs = self.readout_proj(torch.cat([part.to(inputs.dtype) for part in parts], dim=-1))
        return DecoderOutput(
            readout=pairs.unflatten(-1, (-1, 2)).amax(dim=-1),  # maxout over neighbours, (B, T, R)
            attention_weights=torch.cat(attention_weights, dim=1),
            hidden_states=[torch.cat(layer, dim=1) for layer in zip(*hidden_states, strict=True)],
            state=DecoderState(recurrent, None),
        )


class LuongDecoder(nn.Module):
    r"""Luong's decoder (Luong et al., 2015, section 3), with or without input feeding (section 3.3).

    .. math::
        h_t &= f(h_{t-1}, [E y_{t-1}; \tilde h_{t-1}]) \\
        c_t &= \textstyle\sum_s a_t(s)\, \bar h_s, \qquad a_t(s) = \mathrm{softmax}_s(\mathrm{score}(h_t, \bar h_s)) \\
        \tilde h_t &= \tanh(W_c [c_t; h_t])

    Symbols: :math:`f` is ``rnn``, :math:`a_t` is made by ``attention``, :math:`W_c` is the weight of ``output_proj``,
    :math:`\tilde h_t` is the ``readout`` that the output projection :math:`W_s` reads. Without input feeding
    :math:`\tilde h_{t-1}` is not part of the cell's input, no step waits for the attention of the one before, and the
    whole target runs through the RNN at once. With it, :math:`\tilde h_0 = 0`.

    **Differs from the paper**: the encoder here is bidirectional, the paper's is not and reads the source in reverse.
    The decoder starts from the encoder's final states, layer by layer, as in the
    paper where depths and widths agree; else from a learned linear map of all of them (``hidden_bridge``, followed by
    tanh, and for LSTMs ``cell_bridge``).

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
        same_shape = (encoder_layers, encoder_size) == (num_layers, hidden_size)
        bridge = encoder_layers * encoder_size, num_layers * hidden_size
        self.hidden_bridge = None if same_shape else nn.Linear(*bridge)
        self.cell_bridge = None if same_shape or cell != "lstm" else nn.Linear(*bridge)

    def initial_state(self, encoder_state: RecurrentState) -> DecoderState:
        """h_0 and h~_0 from the encoder's final state (B, encoder layers, V)."""
        hidden, cell = encoder_state
        if self.hidden_bridge is not None:
            hidden = torch.tanh(self.hidden_bridge(hidden.flatten(1))).unflatten(-1, (len(self.rnn.layers), -1))
        if self.cell_bridge is not None and cell is not None:
            cell = self.cell_bridge(cell.flatten(1)).unflatten(-1, (len(self.rnn.layers), -1))
        readout = hidden.new_zeros(len(hidden), self.output_proj.out_features) if self.input_feeding else None
        return DecoderState(RecurrentState(hidden, cell), readout)

    def forward(self, inputs: Tensor, state: DecoderState, source: Source, step: int) -> DecoderOutput:
        recurrent, readout = state
        readouts, attention_weights, hidden_states = [], [], []
        # With input feeding one token at a time, without it the whole target in one piece.
        for piece in inputs.split(1 if self.input_feeding else inputs.shape[1], dim=1):
            if readout is not None:
                piece = torch.cat([piece, readout.unsqueeze(1).to(piece.dtype)], dim=-1)
            outputs, recurrent = self.rnn(piece, recurrent)
            context, weights = self.attention(outputs[-1], source, step)
            attentional = torch.tanh(self.output_proj(torch.cat([context, outputs[-1].to(context.dtype)], dim=-1)))
            step += piece.shape[1]
            readout = attentional[:, -1] if self.input_feeding else None
            readouts.append(attentional)
            attention_weights.append(weights)
            hidden_states.append(outputs)
        return DecoderOutput(
            readout=torch.cat(readouts, dim=1),
            attention_weights=torch.cat(attention_weights, dim=1),
            hidden_states=[torch.cat(layer, dim=1) for layer in zip(*hidden_states, strict=True)],
            state=DecoderState(recurrent, readout),
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
        self.tensors = {k: v.index_select(0, beam_idx.to(v.device)) for k, v in self.tensors.items()}

    def batch_select_indices(self, indices: Tensor) -> None:
        self.tensors = {k: v[indices.to(v.device)] for k, v in self.tensors.items()}

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.tensors = {k: v.repeat_interleave(repeats, dim=0) for k, v in self.tensors.items()}

    def reset(self) -> None:
        self.tensors, self.length, self.is_initialized = {}, 0, False

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

    def store(self, state: DecoderState, projected_key: Tensor, num_tokens: int) -> None:
        """Replace the state by the one after ``num_tokens`` more tokens."""
        named = {
            "hidden": state.recurrent.hidden,
            "cell": state.recurrent.cell,
            "readout": state.readout,
            "projected_key": projected_key,
        }
        self._layer.tensors = {name: tensor for name, tensor in named.items() if tensor is not None}
        self._layer.length += num_tokens
        self._layer.is_initialized = True

    def load(self) -> tuple[DecoderState, Tensor, int] | None:
        """The state, the projected keys and the number of tokens read, or None before the first token."""
        tensors = self._layer.tensors
        if not tensors:
            return None
        recurrent = RecurrentState(tensors["hidden"], tensors.get("cell"))
        return DecoderState(recurrent, tensors.get("readout")), tensors["projected_key"], self._layer.length
