r"""Find the largest output without computing all outputs: greedy search needs only the best word of the vocabulary.

A copy of the weights in eight bits is a quarter of the memory to read. Its products are exact integers, so the error of
each output has a bound. Only the outputs whose bounds reach the largest one are computed from the weights themselves.

With a weight :math:`w = s_w q + e` and an input :math:`x = s_x p + d`, integers :math:`q, p` from -127 to 127,
:math:`|e_i| \le s_w / 2` and :math:`|d_i| \le s_x / 2`:

.. math:: |w^\top x - s_w s_x\, q^\top p| \le s_w\, (\lVert x \rVert_1 + s_x \lVert q \rVert_1) / 2

Dimensions: I input width, O output width.
"""

import torch
from torch import Tensor

from ..library_internals import int8_product

MANY_WEIGHTS = 2**20  # the smallest weight for which this is faster than the whole product
FEW = 1 / 8  # of the outputs: if more are candidates, the whole product is computed
LEVELS = 127  # of the integers, on either side of 0
MARGIN = 1.1  # of the bound, for the rounding of float32: less than a tenth of the bound up to 6,000 inputs


class LargestOutput:
    """The largest output of a linear layer, from a copy of its weight (O, I) in eight bits.

    Attributes:
        integers: (O, I), q
        scale: (O,), s_w
        norm: (O,), the sums of the absolute integers
    """

    def __init__(self, weight: Tensor) -> None:
        self.integers, scale = _rounded(weight)
        self.scale = torch.where(scale.isfinite(), scale, torch.nan)[:, 0]  # NaN: then no output is found
        self.norm = self.integers.abs().sum(dim=1, dtype=torch.float32)

    def __call__(self, values: Tensor, weight: Tensor, forbidden: Tensor, bias: Tensor | None = None) -> Tensor | None:
        """The place (1,) of the largest output that is not forbidden, for values (1, I) and a bias (O,).

        None if too many outputs may be the largest, or if numbers are not finite.
        """
        integers, scale = _rounded(values)
        estimate = int8_product(self.integers, integers.view(-1, 1))[:, 0] * scale[0]  # in units of the weight's scale
        bound = (values.abs().sum() + scale[0] * self.norm) * (MARGIN / 2)
        upper, lower = (estimate + bound) * self.scale, (estimate - bound) * self.scale
        if bias is not None:
            rounding = bias.abs() * torch.finfo(bias.dtype).eps
            upper, lower = upper + (bias + rounding), lower + (bias - rounding)
        upper[forbidden] = lower[forbidden] = -torch.inf
        candidates = (upper >= lower.max()).nonzero()[:, 0]
        if not 0 < len(candidates) <= FEW * len(weight):  # 0 with NaN, which is not larger than anything
            return None
        # Not a matrix product, which may round equal rows differently: of equal outputs the first is the largest.
        outputs = (weight.index_select(0, candidates) * values).sum(dim=1)
        if bias is not None:
            outputs = outputs + bias.index_select(0, candidates)
        return candidates[outputs.argmax(dim=0, keepdim=True)]


def _rounded(values: Tensor) -> tuple[Tensor, Tensor]:
    """Integers of the same shape, in eight bits, and the scale (..., 1) of each row."""
    scale = (values.abs().amax(dim=1, keepdim=True) / LEVELS).clamp_min(torch.finfo(values.dtype).tiny)
    return (values / scale).round_().to(torch.int8), scale
