"""A product with the same weights at every step of a decoder, and copies of the weights laid out for it.

Letters in shapes: R rows, I input width, O output width.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.utils.weak import WeakTensorKeyDictionary

from ..library_internals import blocked_linear, blocked_weight, has_blocked_linear, version_of
from ..products import LARGE, add_products, int8_is_faster, onednn_is_faster
from .largest_output import MANY_WEIGHTS, LargestOutput

FEW_PRODUCTS = 16  # with unchanged weights; from then on a copy of them pays


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
        self.copies = _copies_of(weights)

    @classmethod
    def of(cls, *layers: nn.Linear) -> "RepeatedProduct":
        """Linear layers and nothing else, all with a bias or none, of the same input."""
        bias: Tensor | None = layers[0].bias
        if bias is not None and len(layers) > 1:
            bias = torch.cat([layer.bias for layer in layers])
        return cls([layer.weight for layer in layers], bias)

    def __call__(self, values: Tensor) -> Tensor:
        copies = self._copies_for(values)
        if copies is None:
            return self._product(values)
        if copies.has_blocks and _blocks_are_faster(len(values), copies.size):
            if copies.blocks is None:
                copies.blocks = blocked_weight(copies.joined(self.weights, self.is_sum), len(values))
            return blocked_linear(values, copies.blocks, self.bias)
        if copies.transposed is None:
            copies.transposed = copies.joined(self.weights, self.is_sum).t().contiguous()
        return values @ copies.transposed if self.bias is None else torch.addmm(self.bias, values, copies.transposed)

    def largest(self, values: Tensor, forbidden: Tensor) -> Tensor | None:
        """The place (1,) of the largest output that is not forbidden, of one row and one weight without bias.

        None where all outputs are as fast; see :class:`LargestOutput`.
        """
        copies = self._copies_for(values) if self.has_few_candidates and len(values) == 1 else None
        if copies is None or copies.size < MANY_WEIGHTS or not int8_is_faster():
            return None
        if copies.largest is None:
            copies.largest = LargestOutput(copies.joined(self.weights, self.is_sum))
        found = copies.largest(values, self.weights[0], forbidden)
        self.has_few_candidates = found is not None
        return found

    def _copies_for(self, values: Tensor) -> "_Copies | None":
        """The copies, if they may be used for these values and have been asked for often enough."""
        if self.copies is None or values.dtype != torch.float32 or torch.is_autocast_enabled("cpu"):
            return None
        self.copies.products += 1
        return self.copies if self.copies.products > FEW_PRODUCTS else None

    def _product(self, values: Tensor) -> Tensor:
        """The product with the weights as they lie."""
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
    return multiplications >= LARGE or (multiplications >= LARGE // 8 and onednn_is_faster())


class _Copies:
    """Copies of weights side by side, each made when it is first needed. They hold no reference to the weights.

    Attributes:
        products: made with the weights so far, by all calls of ``search()``
        fingerprints: of the weights when they were copied; None before
    """

    def __init__(self, weights: Sequence[Tensor]) -> None:
        self.places = [_place(weight) for weight in weights]
        self.fingerprints: list[Tensor] | None = None
        self.size = sum(weight.numel() for weight in weights)
        self.has_blocks = has_blocked_linear(weights[0])
        self.blocks: Tensor | None = None
        self.transposed: Tensor | None = None
        self.largest: LargestOutput | None = None
        self.products = 0

    def joined(self, weights: Sequence[Tensor], is_sum: bool) -> Tensor:
        """The weights side by side as :class:`RepeatedProduct` has them, to be copied."""
        if self.fingerprints is None:
            self.fingerprints = [_fingerprint(weight) for weight in weights]
        return torch.cat(list(weights), dim=int(is_sum)).detach()

    def are_of(self, weights: Sequence[Tensor]) -> bool:
        """Whether the weights are still those that were copied.

        An operation in place changes a tensor's version, but not all do: a fused optimiser's step and edits through
        ``.data`` or numpy leave it as it is. So the values are compared, too, by a product that reads them once.
        """
        if self.places != [_place(weight) for weight in weights]:
            return False
        found = zip(self.fingerprints or [], weights, strict=False)
        return all(torch.equal(before, _fingerprint(weight)) for before, weight in found)


_KEPT = WeakTensorKeyDictionary()  # the copies by the first of their weights, for as long as that lives


def _copies_of(weights: Sequence[Tensor]) -> _Copies | None:
    """The copies that belong to the weights, perhaps of an earlier call; None for weights that are not copied."""
    for weight in weights:
        is_float32 = weight.device.type == "cpu" and weight.dtype == torch.float32
        if type(weight) is not nn.Parameter or not is_float32 or version_of(weight) is None:
            return None
    copies: _Copies | None = _KEPT.get(weights[0])
    if copies is None or not copies.are_of(weights):
        copies = _KEPT[weights[0]] = _Copies(weights)
    return copies


def _place(weight: Tensor) -> tuple[int, torch.Size, int | None]:
    return weight.data_ptr(), weight.shape, version_of(weight)


def _fingerprint(weight: Tensor) -> Tensor:
    """(I,): a weighted sum of each column of a weight (O, I)."""
    # Factors between 1/2 and 3/2 in no simple relation, so that changes of a column do not cancel out.
    factors = torch.arange(1.0, weight.shape[0] + 1).mul_(2**0.5).frac_().add_(0.5)
    return factors @ weight.detach()
