"""Common uses of ``Trainer`` with a Hugging Face classifier, here with the self-attentive one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import DataCollatorWithPadding, Trainer

from attnzoo import SelfAttentiveForSequenceClassification
from tests import factory
from tests.factory import ONE_STEP, weights
from tests.self_attentive.test_classifier import make, word_tokenizer

# Of very unequal lengths and penalties, so that a mean of means is not the mean.
TEXTS = [
    "a film to love",
    "hate",
    "a film to love and forget and hate",
    "love and love",
    "a film",
    "forget a film and forget to hate a film",
    "to hate",
]
PAIRS = TEXTS[::-1]
SINGLE = [2, 0, 1, 2, 1, 0, 0]
MULTI = [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
MULTI.append([0.0, 1.0, 1.0])
REAL = [0.5, -1.0, 2.0, 0.0, 1.0, -0.5, 3.0]
TASKS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "single": ({}, SINGLE),
    "multi": ({}, MULTI),
    "regression": ({"num_labels": 1}, REAL),
    "several-values": ({"problem_type": "regression"}, MULTI),
    "pair": ({"sentence_pair": True}, SINGLE),
    "penalty-summed": ({"penalty_reduction": "sum"}, SINGLE),
}


def encoded(labels: list[Any], is_pair: bool) -> list[dict[str, Any]]:
    columns = word_tokenizer()(TEXTS, PAIRS if is_pair else None)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [row | {"labels": label} for row, label in zip(rows, labels, strict=True)]


def model_for(task: str, **fields: Any) -> SelfAttentiveForSequenceClassification:
    return make(classifier_dropout=0.0, **(TASKS[task][0] | fields))


def make_trainer(
    model: nn.Module, folder: Path, labels: list[Any] = SINGLE, parts: dict[str, Any] | None = None, **settings: Any
) -> Trainer:
    """A trainer for one step of plain gradient descent on all rows; ``parts`` are the Trainer's own arguments."""
    rows, tokenizer = encoded(labels, model.config.sentence_pair), word_tokenizer()
    own = {"train_dataset": rows, "eval_dataset": rows, "processing_class": tokenizer}
    own |= {"data_collator": DataCollatorWithPadding(tokenizer)}
    return factory.make_trainer(model, folder, own | (parts or {}), **(ONE_STEP | {"learning_rate": 0.1} | settings))


def assert_a_step_on_the_loss_of(
    expected: SelfAttentiveForSequenceClassification, trainer: Trainer, **options: Any
) -> None:
    """Compare one step of gradient descent by the Trainer with one by hand, with another model of the same weights."""
    batch = trainer.data_collator(list(trainer.train_dataset))
    loss = trainer.train().training_loss
    outputs = expected.train()(**batch, **options)
    assert loss == pytest.approx(outputs.loss.item(), rel=1e-5)
    outputs.loss.backward()
    with torch.no_grad():
        for parameter in expected.parameters():
            parameter -= 0.1 * parameter.grad
    for name, weight in weights(trainer.model).items():
        torch.testing.assert_close(
            weight, weights(expected)[name], rtol=1e-4, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


ACCUMULATED = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 3}
accumulated_or_not = pytest.mark.parametrize("settings", [{}, ACCUMULATED], ids=["one batch", "3, 3 and 1 rows"])


@accumulated_or_not
@pytest.mark.parametrize("task", TASKS)
def test_a_step_is_that_of_the_loss(task: str, settings: dict[str, Any], tmp_path: Path) -> None:
    """For any batches every row has the same weight, in the task's loss and in the penalty."""
    trainer = make_trainer(model_for(task), tmp_path, TASKS[task][1], **settings)
    assert_a_step_on_the_loss_of(model_for(task), trainer)


# Losses that the Trainer takes out of the model's hands ---------------------------------------------------------------


def own_loss(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int) -> Tensor:
    """The loss as in the classifier's documentation."""
    task = nn.functional.cross_entropy(outputs.logits, labels, reduction="sum", label_smoothing=0.1)
    return (task + outputs.penalty.sum()) / num_items_in_batch


@pytest.mark.parametrize(
    "options",
    [{"settings": {"label_smoothing_factor": 0.1}}, {"parts": {"compute_loss_func": own_loss}}],
    ids=["smoothed by the Trainer", "a loss of one's own"],
)
def test_a_penalty_that_would_be_lost_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    trainer = make_trainer(model_for("single"), tmp_path, parts=options.get("parts"), **options.get("settings", {}))
    with pytest.raises(ValueError, match=r"label_smoothing_factor .*penalty_coefficient=1\.0 would be lost") as caught:
        trainer.train()
    assert "compute_loss_func that adds outputs.penalty" in str(caught.value)


@accumulated_or_not
def test_a_loss_of_ones_own_has_smoothing_and_penalty(settings: dict[str, Any], tmp_path: Path) -> None:
    model = model_for("single", penalty_coefficient=0.0)
    trainer = make_trainer(model, tmp_path, parts={"compute_loss_func": own_loss}, **settings)
    assert_a_step_on_the_loss_of(model_for("single"), trainer, smoothing=0.1)
