"""A product with the same weights at every step of a decoder, and copies of the weights laid out for it.

Dimensions: R rows, I input width, O output width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..fast_products import LARGE, add_products, int8_is_faster, onednn_is_faster
from ..fast_weight_copies import copies_of
from ..library_internals import blocked_linear, blocked_weight, has_blocked_linear
from .largest_output import MANY_WEIGHTS, LargestOutput


class RepeatedProduct:
    """Products with several weights as one product, without gradients.

    On a CPU, in float32, a transposed copy of the weight is read fastest, and for large products oneDNN's blocks. On an
    Intel processor with AMX the first takes 0.7 to 0.9 of the time of ``torch.nn.functional.linear`` with 256 to 1,024
    inputs and outputs; the second 0.65 with 5 rows and 8,000 outputs, 0.8 with 64 rows. On an AMD Zen 5
    both gain more. Only float32 weights on a CPU are copied.

    Args:
        weights: of linear layers, (O, I) each
        bias: (O,), or None
        is_sum: whether each weight has inputs of its own, side by side, and the outputs are added; otherwise all
            weights have the same inputs, and the outputs are side by side

    Shape:
        - values: (R, I); with ``is_sum`` I is the sum of the weights' input widths
        - returns: (R, O); without ``is_sum`` O is the sum of the weights' output widths
    """

    def __init__(self, weights: Sequence[Tensor], bias: Tensor | None = None, is_sum: bool = False) -> None:
        self.weights, self.bias, self.is_sum = weights, bias, is_sum
        self.has_few_candidates = True  # for the largest output, so far
        self.copies = copies_of(weights)
        self.has_blocks = has_blocked_linear(weights[0])

    @classmethod
    def of(cls, *layers: nn.Linear) -> "RepeatedProduct":
        """The product with linear layers of the same input, all with a bias or all without."""
        bias: Tensor | None = layers[0].bias
        if bias is not None and len(layers) > 1:
            bias = torch.cat([layer.bias for layer in layers])
        return cls([layer.weight for layer in layers], bias)

    def __call__(self, values: Tensor) -> Tensor:
        copies, rows = self.copies, values.shape[0]
        if copies is None or not copies.is_worthwhile(values):
            return self._product(values)
        if self.has_blocks and _blocks_are_faster(rows, copies.size):
            blocks = copies.get("blocks", self.weights, lambda: blocked_weight(self._joined(), rows))
            return blocked_linear(values, blocks, self.bias)
        transposed = copies.get("transposed", self.weights, lambda: self._joined().t().contiguous())
        return values @ transposed if self.bias is None else torch.addmm(self.bias, values, transposed)

    def largest(self, values: Tensor, forbidden: Tensor) -> Tensor | None:
        """The place (1,) of the largest output that is not forbidden, of one row and one weight.

        None if computing all outputs is as fast; see :class:`LargestOutput`.
        """
        copies = self.copies if self.has_few_candidates and len(values) == 1 else None
        if copies is None or not copies.is_worthwhile(values) or copies.size < MANY_WEIGHTS or not int8_is_faster():
            return None
        largest = copies.get("largest", self.weights, lambda: LargestOutput(self._joined()))
        found = largest(values, self.weights[0], forbidden, self.bias)
        self.has_few_candidates = found is not None
        return found

    def _joined(self) -> Tensor:
        """All weights in one new tensor, joined along the inputs with ``is_sum``, else along the outputs."""
        return torch.cat(list(self.weights), dim=int(self.is_sum)).detach()

    def _product(self, values: Tensor) -> Tensor:
        """The product with the weights in their stored layout."""
        if self.is_sum:
            assert self.bias is not None
            parts = values.split([weight.shape[1] for weight in self.weights], dim=1)
            return add_products(self.bias, parts, [weight.mT for weight in self.weights])
        if len(self.weights) == 1:
            return linear(values, self.weights[0], self.bias)
        sizes = [len(weight) for weight in self.weights]
        biases = [None] * len(sizes) if self.bias is None else self.bias.split(sizes)
        return torch.cat([linear(values, *layer) for layer in zip(self.weights, biases, strict=True)], dim=1)


def _blocks_are_faster(rows: int, size: int) -> bool:
    """Whether a product with so many weights is faster in oneDNN's blocks than with a transposed copy."""
    multiplications = rows * size if rows > 1 else 0  # memory limits the speed of one row
    return multiplications >= LARGE or (multiplications >= LARGE // 16 and onednn_is_faster())
