"""Copying and coverage of See et al. (2017) as loops: one target step, one word, one source token at a time."""

import torch
from torch import Tensor

from tests.reference import attention


def generation_probability(w: Tensor, b: Tensor, *parts: Tensor) -> Tensor:
    """Equation 8: p_gen = sigma(w_h* . h*_t + w_s . s_t + w_x . x_t + b_ptr), the w side by side."""
    total, start = b, 0
    for part in parts:
        total = total + attention.dot(w[start : start + len(part)], part)
        start += len(part)
    assert start == len(w)
    return torch.sigmoid(total)


def mixture(logits: Tensor, p_gen: Tensor, weights: list[Tensor], source: list[int]) -> Tensor:
    """Equation 9, as a logarithm: log(p_gen P_vocab(w) + (1 - p_gen) sum of a_j with x_j = w) of every word.

    If no token has a weight, there is nothing to copy, and p_gen is 1.
    """
    exponentials = torch.exp(logits)
    written = exponentials / exponentials.sum()
    probabilities = []
    for word in range(len(logits)):
        probability = p_gen * written[word] if any(weight > 0 for weight in weights) else written[word]
        for token, weight in zip(source, weights, strict=True):
            if token == word:
                probability = probability + (1 - p_gen) * weight
        probabilities.append(torch.log(probability))
    return torch.stack(probabilities)


def coverage_loss(alignments: Tensor, labels: Tensor) -> Tensor:
    """Equations 10 and 12: sum_j min(a_tj, c_tj), where c_t is the sum of a before t; averaged over the labels."""
    losses = []
    for row in range(len(labels)):
        covered = [torch.zeros((), dtype=torch.float64)] * alignments.shape[2]
        for step in range(labels.shape[1]):
            weights = alignments[row, step]
            if labels[row, step] != -100:
                losses.append(sum(torch.minimum(w, c) for w, c in zip(weights, covered, strict=True)))
            covered = [c + w for w, c in zip(weights, covered, strict=True)]
    return sum(losses) / len(losses)
