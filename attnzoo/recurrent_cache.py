"""The cache that carries a recurrent decoder's state through ``generate()``.

Letters in shapes: B batch, S source length.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from .recurrent_cells import RecurrentState
from .recurrent_decoder import DecoderState


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
            "input_feed": state.input_feed,
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
        return DecoderState(recurrent, tensors.get("input_feed")), self._layer.projected_key, self._layer.length


def check_past(
    state: DecoderState,
    projected_key: Tensor | None,
    own_state: DecoderState,
    own_key: Tensor | None,
    batch: tuple[int, ...],
) -> None:
    """Check that a cache is of this decoder, whose own state and key of no rows are given, and of this batch.

    A batch is (targets, sources, source length).

    Raises:
        ValueError: it is of another model, another batch or another source.
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
    """The size of a row of every tensor, and of a token of the keys."""
    parts = {"hidden": state.recurrent.hidden, "cell": state.recurrent.cell, "input_feed": state.input_feed}
    sizes = {name: tuple(part.shape[1:]) for name, part in parts.items() if part is not None}
    if projected_key is not None:
        sizes["projected_key"] = tuple(projected_key.shape[2:])
    return sizes


def check_target_mask(attention_mask: Tensor | None, embeddings: Tensor, step: int) -> None:
    """Refuse what a recurrent decoder cannot skip: padding on the left of the target would be read into its state."""
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
