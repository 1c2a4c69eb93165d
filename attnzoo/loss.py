"""The training loss over real tokens.

Letters in shapes: B batch, T target length.
"""

import torch
from torch import Tensor, nn

IGNORED = -100


def token_cross_entropy(
    logits: Tensor, labels: Tensor, num_items: Tensor | int | None = None, label_smoothing: float = 0.0
) -> Tensor:
    r"""Cross-entropy of the labels, averaged over those that are not -100.

    .. math:: -\frac{1}{N} \sum_{b,t} \log p(y_{bt} \mid y_{b,<t}, x_b)

    With label smoothing :math:`\epsilon` the target distribution is :math:`1 - \epsilon` on the label and
    :math:`\epsilon` spread over the whole vocabulary. It is computed in float32 at least. A batch without a single
    label has the loss 0.

    Shape:
        - logits: (B, T, vocabulary)
        - labels: (B, T), not shifted: the logits at t are for the label at t
        - num_items: N if not the number of labels in this batch, for gradients accumulated over several
        - returns: a scalar
    """
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    if num_items is None:
        num_items = (labels != IGNORED).sum()
    return total / torch.as_tensor(num_items, device=total.device).clamp(min=1)
