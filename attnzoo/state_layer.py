"""A layer of a cache that holds the state after the last token, not the keys and values of all tokens."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.cache_utils import CacheLayerMixin


class StateLayer(CacheLayerMixin):
    """What Transformers asks of a layer, for a recurrent state of any form.

    Tensors are replaced, never written into, so that gradients pass through a cache.

    Attributes:
        length: the number of tokens read
    """

    supports_early_init = False

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    @abstractmethod
    def change_rows(self, change: Callable[[Tensor], Tensor]) -> None:
        """Replace every tensor, whose first dimension is the batch, by that with other rows."""

    def lazy_initialization(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("a recurrent state has no keys and values to initialise; the model makes it")

    def update(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a recurrent state is stored with the cache's store, not with update")

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        self.change_rows(lambda part: part.index_select(0, beam_idx.to(part.device)))

    def batch_select_indices(self, indices: Tensor) -> None:
        self.change_rows(lambda part: part[indices.to(part.device)])

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.change_rows(lambda part: part.repeat_interleave(repeats, dim=0))
