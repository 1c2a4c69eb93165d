"""Learning from trained models: word-level distillation (Hinton et al., 2015; Kim and Rush, 2016, section 3.1)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.loading import load_trained
from attnzoo.loss import IGNORED

from .starting import trained_model


class Teachers:
    r"""Trained models. The student p learns their mean distribution q in addition to the labels y.

    .. math:: L = (1 - \lambda) L_y - \frac{\lambda}{N} \sum_t \sum_w q(w \mid y_{<t}, x) \log p(w \mid y_{<t}, x)

    Symbols: :math:`\lambda` is ``share``, N the number of labels, :math:`L_y` the loss without teachers.

    **Differs from the papers**: no temperature, and q is the mean of several models, as in Sun et al. (2019),
    "Token-Level Ensemble Distillation for Grapheme-to-Phoneme Conversion", arXiv:1904.03446.

    Args:
        folders: checkpoint folders, or names of shipped models
        share: the share of the teachers in the loss, between 0 and 1
        auto_class: the Auto class of the task's models
        tokenizer: the tokenizer of the student
        student: a new model, for its outputs
        device: the device of the teachers

    Raises:
        FileNotFoundError: a folder has no model.
        ValueError: the tokens or classes of a teacher are not those of the student.
    """

    options: dict[str, Any] = {}  # the default has the logits
    columns: tuple[str, ...] = ()

    def __init__(
        self,
        folders: Sequence[str],
        share: float,
        auto_class: Any,
        tokenizer: PreTrainedTokenizerBase,
        student: PreTrainedModel,
        device: torch.device,
    ) -> None:
        self.share, self.models = share, []
        self.is_causal = auto_class is AutoModelForCausalLM
        for folder in (trained_model("teachers", name) for name in folders):
            teacher = load_trained(auto_class, folder)
            own = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
            if own.get_vocab() != tokenizer.get_vocab() or teacher.config.id2label != student.config.id2label:
                raise ValueError(
                    f"training.teachers: the model in {folder!r} has other tokens or classes than this recipe's data "
                    "gives; teacher and student must have the same"
                )
            self.models.append(teacher.requires_grad_(False).to(device))

    @torch.no_grad()
    def distribution(self, batch: dict[str, Tensor]) -> Tensor:
        """The mean of the teachers' distributions, of the shape of their logits."""
        distributions = [model(**batch).logits.float().softmax(dim=-1) for model in self.models]
        return torch.stack(distributions).mean(dim=0)

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        """The loss L of the student's outputs for the batch; ``num_labels`` is N."""
        is_given = batch["labels"] != IGNORED
        if self.is_causal:  # the outputs at a token predict the label of the next one
            is_given = torch.nn.functional.pad(is_given[:, 1:], (0, 1))
        log_probability = outputs.logits[is_given].float().log_softmax(dim=-1)  # (labels, words)
        count = max(1.0, float(num_labels))  # a step may have no label: of a short text no token may be masked
        difference = -(self.distribution(batch)[is_given] * log_probability).sum() / count
        return (1 - self.share) * outputs.loss + self.share * difference
