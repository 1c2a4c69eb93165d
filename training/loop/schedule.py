"""Optimisers and learning-rate schedules, including those of the papers."""

import math
from collections.abc import Iterable

import torch
from torch import nn

from ..recipe import Training


def make_optimizer(parameters: Iterable[nn.Parameter], settings: Training) -> torch.optim.Optimizer:
    """The optimiser of the recipe.

    - "adadelta": rho 0.95 and epsilon 1e-6 (Cho et al., 2014, section 4.1.1; Bahdanau et al., 2014, appendix B.2). The
      learning rate of these papers is 1.
    - "sgd": no momentum (Sutskever et al., 2014; Luong et al., 2015)
    - "adam": betas 0.9 and 0.98, epsilon 1e-9 (Vaswani et al., 2017, section 5.3)
    - "adamw": the defaults of PyTorch
    """
    rate, decay = settings.learning_rate, settings.weight_decay
    if settings.optimizer == "adadelta":
        return torch.optim.Adadelta(parameters, lr=rate, rho=0.95, eps=1e-6, weight_decay=decay)
    if settings.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=rate, weight_decay=decay)
    if settings.optimizer == "adam":
        return torch.optim.Adam(parameters, lr=rate, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay, fused=True)
    return torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)


def learning_rate(step: int, progress: float, epoch: float, settings: Training) -> float:
    r"""The learning rate of a step.

    It rises linearly over ``warmup_steps``, and is multiplied by a factor:

    - "constant": 1
    - "linear", "cosine": falls from 1 to 0 over the whole run
    - "inverse_sqrt": :math:`\sqrt{w / \max(w, s)}`, where w is the number of warm-up steps and s the step. If
      ``learning_rate`` is :math:`(d w)^{-0.5}`, the product is :math:`d^{-0.5} \min(s^{-0.5}, s\, w^{-1.5})`, as in
      Vaswani et al. (2017, section 5.3).
    - "halving": 1/2 after ``halve_after_epochs``, halved again after every ``halve_every_epochs``. Luong et al. (2015,
      section 4.1) have 5 and 1, with dropout 8 and 1; Sutskever et al. (2014, section 3.4) have 5 and 1/2.

    Args:
        step: the number of the step, from 0
        progress: the part of the run that is done, from 0 to 1
        epoch: the epochs that are done
        settings: the section training of a recipe
    """
    warmup = min(1.0, (step + 1) / (settings.warmup_steps + 1))
    return settings.learning_rate * warmup * _decay(step, progress, epoch, settings)


def _decay(step: int, progress: float, epoch: float, settings: Training) -> float:
    if settings.schedule == "cosine":
        return (1 + math.cos(math.pi * progress)) / 2
    if settings.schedule == "linear":
        return 1 - progress
    if settings.schedule == "inverse_sqrt":
        warm = settings.warmup_steps + 1
        return math.sqrt(warm / max(warm, step + 1))
    if settings.schedule == "halving":
        done = epoch - settings.halve_after_epochs
        return 0.5 ** (math.floor(done / settings.halve_every_epochs) + 1) if done >= 0 else 1.0
    return 1.0
