"""The training loss over real tokens.

Letters in shapes: B batch, T target length.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

IGNORED = -100
TOKENS_AT_A_TIME = 256  # whose logits are held at once


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


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    num_items: Tensor | int | None = None,
    label_smoothing: float = 0.0,
) -> Tensor:
    r""":func:`token_cross_entropy` of the logits :math:`h W^\top`, which are never held.

    They are made for some tokens at a time, of those with a label alone, and their gradient with them. The products are
    in autocast's precision where it is on, all else in float32 at least. Differentiable once.

    Shape:
        - hidden: (B, T, H); weight: (vocabulary, H)
        - labels: (B, T), -100 where there is nothing to predict
        - returns: a scalar
    """
    is_real = labels != IGNORED
    if num_items is None:
        num_items = is_real.sum()
    device = hidden.device.type
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, enabled=False):
        total = _LinearCrossEntropy.apply(hidden[is_real].to(dtype), weight.to(dtype), labels[is_real], label_smoothing)
    return total / torch.as_tensor(num_items, device=total.device).clamp(min=1)


def is_untouched(module: nn.Module) -> bool:
    """Whether the weights of a module may be read without calling the parts of it that hold them.

    Not if one of them has hooks, which would not be heard (weights that are brought when they are needed), or is
    another class than it was made as (an adapter, a quantised layer).
    """
    return all(
        type(part).__module__.split(".")[0] in ("attnzoo", "torch")
        and not (part._forward_hooks or part._forward_pre_hooks or part._backward_hooks or part._backward_pre_hooks)
        and not hasattr(part, "_hf_hook")
        for part in module.modules()
    )


class _LinearCrossEntropy(torch.autograd.Function):
    """Summed over the tokens; the gradients for a loss of 1 are made in the forward pass, where the logits are."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> Tensor:
        ctx.has_gradients = any(ctx.needs_input_grad)
        sums = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=sums)
        total = hidden.new_zeros((), dtype=sums)
        for start in range(0, len(labels), TOKENS_AT_A_TIME):
            chunk = slice(start, start + TOKENS_AT_A_TIME)
            logits = (hidden[chunk] @ weight.t()).to(sums)  # (n, vocabulary)
            label = labels[chunk].unsqueeze(1)
            of_label = logits.gather(1, label)
            if label_smoothing:
                total -= label_smoothing * logits.mean(dim=1).sum()
            highest = logits.amax(dim=1, keepdim=True)
            odds = logits.sub_(highest).exp_()  # of every word, against the likeliest
            norm = odds.sum(dim=1, keepdim=True)
            total += (norm.log() + highest - (1 - label_smoothing) * of_label).sum()
            if ctx.has_gradients:
                # The gradient of the logits is odds / norm less the target distribution. It is divided by the norm
                # where that is less work, not in the width of the vocabulary; but a half has no room for such numbers.
                if sums != hidden.dtype:
                    odds, norm = odds.div_(norm), torch.ones_like(norm)
                odds.scatter_add_(1, label, (label_smoothing - 1) * norm)
                if label_smoothing:
                    odds -= norm * (label_smoothing / len(weight))
                odds = odds.to(hidden.dtype)
                torch.mm(odds, weight, out=grad_hidden[chunk])
                grad_hidden[chunk] /= norm
                states = hidden[chunk] / norm
                if sums == hidden.dtype:
                    grad_weight.addmm_(odds.t(), states)
                else:
                    grad_weight += odds.t() @ states.to(hidden.dtype)
        if ctx.has_gradients:
            ctx.save_for_backward(grad_hidden, grad_weight)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_total, (grad_weight * grad_total).to(grad_hidden.dtype), None, None
