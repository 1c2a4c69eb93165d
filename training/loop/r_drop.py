"""R-Drop: each batch is read twice with different dropout, and the model learns to predict the same both times.

Liang et al. (2021), "R-Drop: Regularized Dropout for Neural Networks", arXiv:2106.14448.
"""

import torch
from torch import Tensor

from attnzoo.loss import IGNORED


def twice(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch with its rows repeated below themselves. One forward pass gives each copy dropout of its own."""
    return {name: torch.cat([values, values]) for name, values in batch.items()}


def disagreement(logits: Tensor, labels: Tensor) -> Tensor:
    r"""The mean of the two KL divergences between the copies (section 2), summed over labels that are not -100.

    .. math:: \sum_t \tfrac12 \bigl(D_{KL}(p_t \,\|\, p'_t) + D_{KL}(p'_t \,\|\, p_t)\bigr)

    Symbols: :math:`p_t` and :math:`p'_t` are the distributions of the first and of the second copy for label t.

    Shape:
        - logits: (2B, T, vocabulary) or (2B, classes)
        - labels: (2B, T) or (2B,)
        - returns: a scalar
    """
    is_given = labels.chunk(2)[0] != IGNORED
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    one, other = (of_copy[is_given].log_softmax(dim=-1) for of_copy in logits.chunk(2))
    return ((one.exp() - other.exp()) * (one - other)).sum() / 2
