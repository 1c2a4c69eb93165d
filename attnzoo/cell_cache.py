"""The cache of a decoder whose layers have a recurrent cell in place of self-attention.

Dimensions: B batch, D model width.
"""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from transformers.cache_utils import DynamicCache

from .state_layer import StateLayer


class _CellLayer(StateLayer):
    """The cell (B, D) of one layer after the last token; None before the first."""

    def __init__(self) -> None:
        super().__init__()
        self.cell: Tensor | None = None

    def change_rows(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.cell is not None:
            self.cell = change(self.cell)

    def reset(self) -> None:
        self.cell, self.length, self.is_initialized = None, 0, False


class CellCache(DynamicCache):  # EncoderDecoderCache reorders and repeats the rows of no other class
    """The cells of all layers after the last token, as part of the ``past_key_values`` of an encoder-decoder.

    It has the same size after any number of tokens. It holds no earlier cells, so it cannot be cropped, and assisted
    decoding is not possible.

    Args:
        num_layers: of the decoder
    """

    layers: Any  # of _CellLayer

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.layers = [_CellLayer() for _ in range(num_layers)]
        self.layer_class_to_replicate = None

    def crop(self, tokens_to_remove: int) -> None:
        """Raise a NotImplementedError: a cell cannot be taken back to an earlier token."""
        raise NotImplementedError("cells cannot be cropped: they are those after the last token, not one per token")

    def load(self, layer_idx: int, rows: int, size: int) -> Tensor | None:
        """The cell (B, D) of a layer; None before the first token. ``rows`` is B, and ``size`` is D.

        Raises:
            ValueError: it is of another batch or width.
        """
        cell = self.layers[layer_idx].cell
        if cell is not None and cell.shape != (rows, size):
            raise ValueError(
                f"past_key_values has cells of {tuple(cell.shape)} (batch, width), this batch and model have "
                f"{(rows, size)}; continue with the batch and the model that made the cache"
            )
        return cell

    def store(self, layer_idx: int, cell: Tensor, num_tokens: int) -> None:
        """Replace a layer's cell by the one after ``num_tokens`` more tokens."""
        layer = self.layers[layer_idx]
        layer.cell, layer.is_initialized = cell, True
        layer.length += num_tokens
