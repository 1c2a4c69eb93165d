"""The training losses: over real tokens, and over the labels of whole sequences.

Dimensions: B batch, T target length, K labels of a sequence.
"""

import numbers
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from .fast_products import is_plain_linear, linear, product, suits_onednn

IGNORED = -100
TOKENS_AT_A_TIME = 256  # tokens whose logits are in memory at once
CLOSED = -1e4  # the logit of a word that is never predicted: its probability is 0 in every type, its log p is finite
MOST_ITEMS = 2**53  # labels; any number above is a mistake
Count = Tensor | int | None  # of labels


def token_cross_entropy(
    logits: Tensor, labels: Tensor, num_items: Count = None, label_smoothing: float = 0.0
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

    Raises:
        ValueError: ``label_smoothing`` is not between 0 and 1, or ``num_items`` is not a number of labels.
    """
    _check_smoothing(label_smoothing)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=IGNORED,
        reduction="sum",
        label_smoothing=label_smoothing,
    )
    return _averaged(total, num_items, labels != IGNORED)


def problem_type_of(problem_type: str | None, num_labels: int, labels: Tensor) -> Any:  # a Literal of three
    """A sequence classifier's problem type: the given one, or else the one that the labels imply."""
    if problem_type is not None:
        return problem_type
    if num_labels == 1:
        return "regression"
    return "single_label_classification" if is_whole(labels) else "multi_label_classification"


def is_whole(labels: Tensor) -> bool:
    """Whether the labels are of a type of whole numbers."""
    return not labels.is_floating_point() and labels.dtype != torch.bool


def require_label_shape(problem_type: str, logits: Tensor, labels: Tensor) -> None:
    """Raise a ValueError unless labels of this problem type fit ``logits`` (B, K) by their type and shape."""
    rows, num_labels = logits.shape
    is_single = problem_type == "single_label_classification"
    got = f"got {str(labels.dtype).removeprefix('torch.')} of shape {tuple(labels.shape)}"
    if is_single and (not is_whole(labels) or labels.shape not in ((rows,), (rows, 1))):
        raise ValueError(
            f"labels of single-label classification must be whole numbers of shape {(rows,)}, {got}; several "
            "labels for one row are problem_type='multi_label_classification'"
        )
    if not is_single and labels.shape != (rows, num_labels) and not (num_labels == 1 and labels.shape == (rows,)):
        raise ValueError(
            f"labels of problem_type={problem_type!r} must be floating-point numbers of shape {(rows, num_labels)}, "
            f"{got}; one label of several for each row is whole numbers of shape {(rows,)}"
        )


def classification_loss(
    logits: Tensor, labels: Tensor, problem_type: str, num_items: Count = None, label_smoothing: float = 0.0
) -> Tensor:
    """The loss of Hugging Face's sequence classifiers, averaged over the labels that are not -100.

    Cross-entropy ("single_label_classification"; label smoothing is for this one alone), binary cross-entropy of every
    label ("multi_label_classification"), or the squared error ("regression"). Computed in float32 at least. A batch
    without a single label has the loss 0.

    Shape:
        - logits: (B, K)
        - labels: (B,) of whole numbers for a single label; else (B, K), or (B,) where K is 1
        - num_items: what the sum is divided by if not the number of labels in this batch, for gradients accumulated
          over several
        - returns: a scalar

    Raises:
        ValueError: label smoothing of other than single labels, or as :func:`token_cross_entropy`.
    """
    if label_smoothing and problem_type != "single_label_classification":
        raise ValueError(f"smoothing={label_smoothing} is for single labels, not for problem_type={problem_type!r}")
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    if problem_type == "single_label_classification":
        return token_cross_entropy(logits.unsqueeze(1), labels.reshape(-1, 1), num_items, label_smoothing)
    labels = labels.reshape(logits.shape).to(logits.dtype)
    is_given = labels != IGNORED
    function = nn.functional.mse_loss
    if problem_type == "multi_label_classification":
        function = nn.functional.binary_cross_entropy_with_logits  # type: ignore[assignment]
    total = function(logits, labels, reduction="none").where(is_given, 0.0).sum()
    return _averaged(total, num_items, is_given)


def loss_of_texts(
    config: Any,
    logits: Tensor,
    labels: Tensor | None,
    num_items: Count = None,
    label_smoothing: float = 0.0,
    penalty: Tensor | None = None,
) -> Tensor | None:
    r"""The loss of a classifier plus the weighted penalty of its sentences (Lin et al., 2017, section 2.2).

    .. math:: \mathcal L = \mathcal L_{\mathrm{task}} + c P

    A row without a label has no penalty. The config has the problem type (without one, that of the labels is stored
    there), and for a penalty c and the reduction: "mean" of the penalties, weighted by their rows' labels, or "sum".

    Shape:
        - logits, labels: as for :func:`classification_loss`; without labels there is no loss
        - penalty: (B,), or None for a model without one
        - returns: a scalar

    Raises:
        ValueError: as :func:`require_label_shape` and :func:`classification_loss`.
    """
    if labels is None:
        return None
    labels = labels.to(logits.device)
    problem_type = problem_type_of(config.problem_type, logits.shape[1], labels)
    require_label_shape(problem_type, logits, labels)
    loss = classification_loss(logits, labels, problem_type, num_items, label_smoothing)
    config.problem_type = problem_type  # as every Hugging Face classifier: its pipeline reads it
    if penalty is None:
        return loss
    num_labels = (labels != IGNORED).view(len(logits), -1).sum(dim=1)  # (B,)
    if config.penalty_reduction == "mean":
        of_batch = _averaged((penalty * num_labels).sum(), num_items, labels != IGNORED)
    else:
        of_batch = (penalty * (num_labels > 0)).sum()
    return loss + config.penalty_coefficient * of_batch


def refuse_withheld_labels(
    labels: Tensor | None, num_items: Count, is_training: bool, field: str, value: float
) -> None:
    """Raise a ValueError if a Trainer withholds the labels, so that a term of the loss would be lost.

    ``field`` is the term's coefficient in the config, and ``value`` is its value.
    """
    if labels is None and num_items is not None and is_training and value:
        raise ValueError(
            "a Trainer with label_smoothing_factor or compute_loss_func withholds the labels: the term of the loss "
            f"whose coefficient is {field}={value} would be lost. Leave them out, or set model.config.{field} = 0 and "
            f"use a compute_loss_func that adds {'outputs.penalty' if field == 'penalty_coefficient' else 'the term'}"
        )


def linear_cross_entropy(
    hidden: Tensor,
    weight: Tensor,
    labels: Tensor,
    num_items: Count = None,
    label_smoothing: float = 0.0,
    bias: Tensor | None = None,
) -> Tensor:
    r""":func:`token_cross_entropy` of the logits :math:`h W^\top + b`, which are never stored all at once.

    They are computed for some tokens at a time, on a CPU only those with a label, and their gradient replaces them in
    memory. The products have autocast's precision where it is on; everything else is in float32 at least.
    Differentiable once.

    Shape:
        - hidden: (B, T, H); weight: (vocabulary, H); bias: (vocabulary,), or None for 0
        - labels: (B, T), -100 where there is nothing to predict
        - returns: a scalar

    Raises:
        ValueError: as :func:`token_cross_entropy`.
    """
    _check_smoothing(label_smoothing)
    is_real = labels != IGNORED
    device = hidden.device.type
    dtype = torch.promote_types(hidden.dtype, weight.dtype)
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
    tokens, targets = hidden.flatten(0, 1), labels.flatten()
    of_token: Tensor | None = is_real.flatten()
    if device == "cpu":  # the host would wait for a GPU to know their number
        places = is_real.flatten().nonzero().squeeze(1)
        tokens, targets, of_token = tokens.index_select(0, places), targets.index_select(0, places), None
    with torch.autocast(device, enabled=False):
        bias = None if bias is None else bias.to(torch.promote_types(dtype, torch.float32))
        total = _LinearCrossEntropy.apply(tokens.to(dtype), weight.to(dtype), bias, targets, of_token, label_smoothing)
    return _averaged(total, num_items, is_real)


def coverage_loss(attention_weights: Tensor, labels: Tensor, num_items: Count = None) -> Tensor:
    r"""The attention that returns to earlier places (See et al., 2017, equation 12), averaged over the labels.

    .. math:: \frac{1}{N} \sum_{b,t} \sum_j \min(a_{btj}, c_{btj}), \qquad c_{btj} = \sum_{t' < t} a_{bt'j}

    Shape:
        - attention_weights: (B, T, S), from the first step on
        - labels: (B, T), -100 where there is nothing to predict
        - num_items: N, as in :func:`token_cross_entropy`
        - returns: a scalar
    """
    before = nn.functional.pad(attention_weights[:, :-1], (0, 0, 1, 0)).cumsum(dim=1)
    is_real = labels != IGNORED
    returned = torch.minimum(attention_weights, before).sum(dim=-1)
    return _averaged(returned.where(is_real, 0.0).sum(), num_items, is_real)


def _check_smoothing(smoothing: float) -> None:
    if not isinstance(smoothing, int | float) or not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must be a number from 0 to 1, got {smoothing!r}")


def _averaged(total: Tensor, num_items: Count, is_given: Tensor) -> Tensor:
    """A summed loss divided by ``num_items``, or else by the number of labels that are given."""
    return total / _count(num_items, is_given)


def _count(num_items: Count, is_given: Tensor) -> Tensor | float:
    """The number that a summed loss is divided by, at least 1.

    For a wrong value on a GPU, for which the host would have to wait, it is NaN.

    Raises:
        ValueError: ``num_items`` is not one number, 0 or more, or it is 0 and there are labels.
    """
    if num_items is None:
        return is_given.sum().clamp(min=1)
    count = num_items if isinstance(num_items, Tensor) else None
    is_number = isinstance(num_items, numbers.Real) and not isinstance(num_items, bool)
    if count is not None:  # of one element, where Trainer splits a batch among several GPUs
        is_number = count.numel() == 1 and count.dtype != torch.bool and not count.is_complex()
    if is_number and count is not None and count.device.type != "cpu":
        given = count.to(is_given.device, torch.float32).reshape(())
        is_wrong = (given < 0) | (given > MOST_ITEMS) | ((given == 0) & is_given.any())
        return given.clamp(min=1).where(~is_wrong, torch.nan)
    if is_number and (count is None or not torch.compiler.is_compiling()):
        value: Any = num_items if count is None else count.item()
        is_number = 0 <= value <= MOST_ITEMS
        if value == 0 and bool(is_given.any()):
            raise ValueError(
                f"num_items_in_batch is 0, and the batch has {int(is_given.sum())} labels; give the number of labels "
                "of all batches whose gradients are accumulated"
            )
    if not is_number:
        raise ValueError(f"num_items_in_batch must be a number of labels, 0 or more, got {num_items!r:.80}")
    if count is None:
        return max(1, num_items)  # a number
    return count.to(is_given.device).reshape(()).clamp(min=1)


def loss_and_logits(
    lm_head: Callable[[Tensor], Tensor],
    hidden: Tensor,
    labels: Tensor | None,
    num_items: Count,
    smoothing: float,
    skip_logits: bool,
    closed: int | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """The loss if there are labels, and the logits unless ``skip_logits``.

    ``lm_head`` makes the logits. If it is a linear layer, ``skip_logits`` saves them from being stored. ``closed`` is a
    word that is never predicted: its logit is ``CLOSED``, and the loss is that of a vocabulary without it.

    Shape:
        - hidden: (B, T, D); labels: (B, T); logits: (B, T, vocab_size)

    Raises:
        ValueError: neither is left to return, or as :func:`token_cross_entropy`.
    """
    if labels is None:
        if skip_logits:
            raise ValueError("skip_logits=True leaves nothing to return without labels")
        return None, with_closed(linear(lm_head, hidden), closed)
    labels = labels if closed is None else labels - (labels > closed).long()
    if skip_logits and is_plain_linear(lm_head):
        weight, bias = without_word(lm_head.weight, closed, 0), without_word(lm_head.bias, closed, 0)
        return linear_cross_entropy(hidden, weight, labels, num_items, smoothing, bias), None
    logits = linear(lm_head, hidden)
    loss = token_cross_entropy(without_word(logits, closed, -1), labels, num_items, smoothing)
    return loss, None if skip_logits else with_closed(logits, closed)


def with_closed(logits: Tensor, closed: int | None) -> Tensor:
    """Logits (..., vocabulary) of which a word is closed; see ``CLOSED``."""
    if closed is None:
        return logits
    return logits.masked_fill(torch.arange(logits.shape[-1], device=logits.device) == closed, CLOSED)


def closing_bias(lm_head: nn.Linear, closed: int | None) -> Tensor | None:
    """The bias (vocabulary,) with which an output projection closes a word whose weights are 0; None for no bias."""
    if closed is None:
        return lm_head.bias
    return with_closed(lm_head.weight.new_zeros(lm_head.out_features) if lm_head.bias is None else lm_head.bias, closed)


def without_word(values: Any, word: int | None, dim: int) -> Any:
    """A tensor without a word's part of a dimension; all of it without a word, None for None."""
    if values is None or word is None:
        return values
    if word == values.shape[dim] - 1:
        return values.narrow(dim, 0, word)  # a view
    return torch.cat([values.narrow(dim, 0, word), values.narrow(dim, word + 1, values.shape[dim] - word - 1)], dim)


class _LinearCrossEntropy(torch.autograd.Function):
    """The sum over the tokens. The forward pass, which has the logits, also computes the gradients for a loss of 1.

    ``is_real`` (N,) is None where every token has a label; else the others count nothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        is_real: Tensor | None,
        label_smoothing: float,
    ) -> Tensor:
        ctx.has_gradients = any(ctx.needs_input_grad)
        sums = torch.promote_types(hidden.dtype, torch.float32)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=sums)
        grad_bias = None if bias is None else torch.zeros_like(bias)
        total = hidden.new_zeros((), dtype=sums)
        held = hidden.new_empty(min(len(labels), TOKENS_AT_A_TIME), len(weight))  # for all chunks in turn
        for start in range(0, len(labels), TOKENS_AT_A_TIME):
            chunk = slice(start, start + TOKENS_AT_A_TIME)
            label = labels[chunk].unsqueeze(1)
            is_given = None if is_real is None else is_real[chunk].unsqueeze(1)  # (n, 1)
            label = label if is_given is None else label.where(is_given, 0)
            logits = product(hidden[chunk], weight.t(), out=held[: len(label)]).to(sums)  # (n, vocabulary)
            if bias is not None:
                logits += bias
            of_label, largest = logits.gather(1, label), logits.amax(dim=1, keepdim=True)
            if label_smoothing:
                total -= label_smoothing * _only(logits.mean(dim=1, keepdim=True), is_given).sum()
            exponential = logits.sub_(largest).exp_()
            normaliser = exponential.sum(dim=1, keepdim=True)
            total += _only(largest + normaliser.log() - (1 - label_smoothing) * of_label, is_given).sum()
            if ctx.has_gradients:
                grad_logits = exponential.div_(normaliser)
                if label_smoothing:
                    grad_logits -= label_smoothing / len(weight)
                grad_logits.scatter_add_(1, label, torch.full_like(of_label, label_smoothing - 1))
                grad_logits = _only(grad_logits, is_given)
                if grad_bias is not None:
                    grad_bias += grad_logits.sum(dim=0)
                grad_logits = grad_logits.to(hidden.dtype)
                grad_hidden[chunk] = product(grad_logits, weight)
                if sums == hidden.dtype and not suits_onednn(grad_logits.t(), hidden[chunk]):
                    grad_weight.addmm_(grad_logits.t(), hidden[chunk])
                else:
                    grad_weight += product(grad_logits.t(), hidden[chunk])
        if ctx.has_gradients:
            ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_total: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None, None, None]:
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        of_bias = None if grad_bias is None else grad_bias * grad_total
        of_weight = (grad_weight * grad_total).to(grad_hidden.dtype)
        return grad_hidden * grad_total, of_weight, of_bias, None, None, None


def _only(values: Tensor, is_given: Tensor | None) -> Tensor:
    """The values (n, ...) of tokens that have a label, 0 for the others; without ``is_given`` (n, 1) all have one."""
    return values if is_given is None else values.where(is_given, 0.0)
