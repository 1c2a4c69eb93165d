"""The rows of a padded batch, arranged for a loop over its steps, so that a step runs only over the rows that have not
ended.

Dimensions: B batch, T steps, N rows of all steps, n rows of one step.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


class PackedRows:
    """The rows of a batch, longest first, so that the rows of step t are the first n_t.

    Packed values are (N, ...): the rows of all steps one below the other.

    Args:
        values: (B, T, ...), of which only B, T and the device are read
        lengths: at least 1 for each row, where rows end before T; None if none does

    Attributes:
        sizes: n_t of every step, until the longest row ends
        order: (B,), the places of the rows in the batch, longest first; None without lengths
    """

    def __init__(self, values: Tensor, lengths: Sequence[int] | None = None) -> None:
        self.shape = batch, steps = values.shape[0], values.shape[1]
        self.order: Tensor | None = None
        self.sizes = [batch] * steps
        if lengths is not None:
            ordered, order = torch.tensor(lengths).sort(descending=True, stable=True)
            step = torch.arange(max(lengths)).unsqueeze(1)
            is_open = ordered > step  # (T, B)
            self.sizes = is_open.sum(dim=1).tolist()
            places = (order * steps + step)[is_open]
            self.order, self.places = order.to(values.device), places.to(values.device)  # places: (N,), in (B * T, ...)

    def sort(self, values: Tensor) -> Tensor:
        """(B, ...) in the order of the rows."""
        return values if self.order is None else values.index_select(0, self.order)

    def pack(self, values: Tensor) -> Tensor:
        """(B, T, ...) to (N, ...)."""
        if self.order is None:
            return values.transpose(0, 1).flatten(0, 1)
        return values.flatten(0, 1).index_select(0, self.places)

    def unpack(self, values: Tensor) -> Tensor:
        """(N, ...) to (B, T, ...), with zeros where a row has ended."""
        batch, steps = self.shape
        if self.order is None:
            return values.unflatten(0, (steps, batch)).transpose(0, 1)
        whole = values.new_zeros(batch * steps, *values.shape[1:])
        return whole.index_copy(0, self.places, values).unflatten(0, (batch, steps))

    def join(self, steps: Sequence[Tensor]) -> Tensor:
        """Values (n, ...) of every step as (B, T, ...), with zeros where a row has ended."""
        return self.unpack(torch.cat(list(steps)))
