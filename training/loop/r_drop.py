"""Two passes with different dropout that learn to agree: R-Drop (Liang et al., 2021, arXiv:2106.14448)."""

import torch
from torch import Tensor

from attnzoo.loss import IGNORED


def twice(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch and, below its rows, the same rows again: each copy gets dropout of its own in one pass."""
    return {name: torch.cat([values, values]) for name, values in batch.items()}


def disagreement(logits: Tensor, labels: Tensor) -> Tensor:
    r"""How much the two copies of :func:`twice` differ, summed over all labels (Liang et al., 2021, equation 2).

    .. math:: \sum_t \tfrac12 \bigl(D_{KL}(p_t \,\|\, p'_t) + D_{KL}(p'_t \,\|\, p_t)\bigr)

    Symbols: :math:`p_t` and :math:`p'_t` are the distributions of the first and of the second copy for label t.

    Shape:
        - logits: (2B, T, words) or (2B, classes)
        - labels: (2B, T) or (2B,)
        - returns: a scalar
    """
    is_given = labels.chunk(2)[0] != IGNORED
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    one, other = (of_copy[is_given].log_softmax(dim=-1) for of_copy in logits.chunk(2))
    return ((one.exp() - other.exp()) * (one - other)).sum() / 2
