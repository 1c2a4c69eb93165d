"""The loss of a training as a sum of terms.

The terms are :class:`LabelLoss` or :class:`~attnzoo.training.loop.distillation.Teachers`, and
:class:`~attnzoo.training.loop.guided_alignment.GuidedAlignment`. The loop knows only :class:`LossTerm`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor, nn
from transformers import PreTrainedModel


class LossTerm(Protocol):
    """A term of the loss.

    Attributes:
        options: arguments of the model's call that the term needs.
        columns: keys of a batch that the term reads and the model does not get.
    """

    options: dict[str, Any]
    columns: tuple[str, ...]

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        """The term of one batch, a scalar.

        Args:
            outputs: the model's outputs for the batch
            batch: the model's inputs, and the term's ``columns``
            num_labels: the number of labels of the optimiser step, over all its batches and processes
        """


class LabelLoss:
    """The model's own loss. Its logits, if there is one for each word, are not stored, which saves time and memory."""

    columns: tuple[str, ...] = ()

    def __init__(self, model: PreTrainedModel) -> None:
        has_many_logits = model.get_output_embeddings() is not None  # a classifier has few
        self.options: dict[str, Any] = {"skip_logits": True} if has_many_logits else {}

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        """The loss in ``outputs``, which is a mean over ``num_labels``."""
        return outputs.loss


def total_loss(
    model: nn.Module,
    batch: dict[str, Tensor],
    num_labels: Tensor | int,
    smoothing: float,
    terms: Sequence[LossTerm],
    autocast: Callable[[], AbstractContextManager[Any]],
) -> Tensor:
    """Call the model and return the sum of the terms, a scalar.

    Args:
        model: the model as Accelerate prepared it
        batch: with the columns of all terms
        num_labels: the number of labels of the optimiser step, over all its batches and processes
        smoothing: the label smoothing of the model's own loss
        terms: one term or several
        autocast: the context in which the terms are computed
    """
    inputs = {name: value for name, value in batch.items() if not any(name in term.columns for term in terms)}
    options = {name: value for term in terms for name, value in term.options.items()}
    outputs = model(**inputs, num_items_in_batch=num_labels, smoothing=smoothing, **options)
    with autocast():
        first, *others = [
            term.loss(outputs, inputs | {name: batch[name] for name in term.columns}, num_labels) for term in terms
        ]
        return sum(others, start=first)
