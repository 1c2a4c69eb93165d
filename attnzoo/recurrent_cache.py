"""The cache that carries a recurrent decoder's state through ``generate()``.

Dimensions: B batch, S source length.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from .recurrent_decoder import DecoderState


def change_rows(state: DecoderState, change: Callable[[Tensor], Tensor]) -> DecoderState:
    """The state with every tensor changed, for example with its rows selected or repeated."""
    others = (None if part is None else change(part) for part in (state.input_feed, state.coverage))
    return DecoderState(state.recurrent.map(change), *others)


class _RecurrentCacheLayer(CacheLayerMixin):
    """A decoder's state, the projected keys of its source, and the number of tokens it has read.

    Tensors are replaced, never written into, so that the same code trains.
    """

    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.state: DecoderState | None = None
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
        # Beams change places within their source. So the keys stay, as do the encoder's outputs outside this cache.
        if self.state is not None:
            self.state = change_rows(self.state, lambda part: part.index_select(0, beam_idx.to(part.device)))

    def batch_select_indices(self, indices: Tensor) -> None:
        self._change_batch(lambda part: part[indices.to(part.device)])

    def batch_repeat_interleave(self, repeats: int) -> None:
        self._change_batch(lambda part: part.repeat_interleave(repeats, dim=0))

    def _change_batch(self, change: Callable[[Tensor], Tensor]) -> None:
        """Change the rows of the state, and those of the keys if each target has its own row of keys."""
        if self.state is None:
            return
        key = self.projected_key
        if key is not None and len(key) == len(self.state.recurrent.hidden):
            self.projected_key = change(key)
        self.state = change_rows(self.state, change)

    def reset(self) -> None:
        self.state, self.projected_key, self.length, self.is_initialized = None, None, 0, False


class RecurrentDecoderCache(Cache):
    """The decoder's state and the projected keys, as ``past_key_values`` carries them through ``generate()``.

    It holds the state after the last token, not one state per token. So it cannot be cropped, and assisted decoding is
    not possible. Beam search reorders it row by row.
    """

    def __init__(self) -> None:
        self._layer = _RecurrentCacheLayer()
        super().__init__(layers=[self._layer])

    def crop(self, tokens_to_remove: int) -> None:
        """Raise an error: a state cannot be taken back to an earlier token."""
        raise NotImplementedError(
            "a recurrent state cannot be cropped: it holds the last token's state, not one per token"
        )

    def store(self, state: DecoderState, projected_key: Tensor | None, num_tokens: int) -> None:
        """Replace the state by the one after ``num_tokens`` more tokens; without attention there are no keys."""
        self._layer.state, self._layer.projected_key = state, projected_key
        self._layer.length += num_tokens
        self._layer.is_initialized = True

    def load(self) -> tuple[DecoderState | None, Tensor | None, int]:
        """The state, or None before the first token, the projected keys and the number of tokens read."""
        return self._layer.state, self._layer.projected_key, self._layer.length


def check_past(
    state: DecoderState,
    projected_key: Tensor | None,
    own_state: DecoderState,
    own_key: Tensor | None,
    batch: tuple[int, ...],
) -> None:
    """Check that the state and keys of a cache fit this decoder and this batch.

    Args:
        state: of the cache
        projected_key: of the cache
        own_state: a state of this decoder; its number of rows is not compared
        own_key: keys of this decoder, the same
        batch: the numbers of targets and of sources, and the source length

    Raises:
        ValueError: the cache is from another model, another batch or another source.
    """
    sizes, expected = _sizes(state, projected_key), _sizes(own_state, own_key)
    if sizes != expected:
        raise ValueError(
            f"past_key_values is from another model: each row has sizes {sizes}, and this decoder needs {expected}"
        )
    made_from: tuple[int, ...] = (state.recurrent.hidden.shape[0],)
    if projected_key is not None:  # without attention the cache does not hold the source's size
        made_from = (*made_from, *projected_key.shape[:2])
    if made_from != batch[: len(made_from)]:
        raise ValueError(
            f"past_key_values is of another batch: (targets, sources, source length) were {made_from} and are "
            f"{batch[: len(made_from)]}; continue with the source that the cache was made from"
        )


def _sizes(state: DecoderState, projected_key: Tensor | None) -> dict[str, tuple[int, ...]]:
    """The shape of one row of every tensor of the state, and of one token's key and coverage."""
    parts = {"hidden": state.recurrent.hidden, "cell": state.recurrent.cell, "input_feed": state.input_feed}
    sizes = {name: tuple(part.shape[1:]) for name, part in parts.items() if part is not None}
    of_tokens = {"projected_key": projected_key, "coverage": state.coverage}
    sizes |= {name: tuple(part.shape[2:]) for name, part in of_tokens.items() if part is not None}
    return sizes


def check_target_mask(attention_mask: Tensor | None, embeddings: Tensor, step: int) -> None:
    """Raise an error if the target has padding before a token: a recurrent decoder would read it into its state."""
    if attention_mask is None:
        return
    rows, length = embeddings.shape[:2]
    if attention_mask.shape not in ((rows, length), (rows, step + length)):
        raise ValueError(
            f"decoder_attention_mask must be (batch, target length) = {(rows, step + length)}, "
            f"got {tuple(attention_mask.shape)}"
        )
    if bool((attention_mask[:, 1:] > attention_mask[:, :-1]).any()):
        raise ValueError("decoder_attention_mask has padding before a token; pad the target on the right")
