"""The sum of the terms of the loss: the options and columns that each term requests, and what it gets."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from attnzoo.training.loop.guided_alignment import LINKS
from attnzoo.training.loop.loss_terms import LabelLoss, total_loss
from torch import Tensor


class OfOwnColumn:
    """A term that reads its own key of the batch and needs attentions."""

    options: dict[str, Any] = {"output_attentions": True}
    columns: tuple[str, ...] = (LINKS,)

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        return (batch[LINKS] * outputs.cross_attentions).sum() / num_labels


class OfTheModelsBatch:
    """A term that calls another model with the batch, as teachers do."""

    options: dict[str, Any] = {}
    columns: tuple[str, ...] = ()

    def loss(self, outputs: Any, batch: dict[str, Tensor], num_labels: Tensor | int) -> Tensor:
        assert batch.keys() == {"input_ids", "labels"}
        return outputs.loss / 4


def test_each_term_gets_its_own_columns_and_the_model_none_of_them() -> None:
    calls: list[dict[str, Any]] = []

    def model(**arguments: Any) -> Any:
        calls.append(arguments)
        return SimpleNamespace(loss=torch.tensor(8.0), cross_attentions=torch.tensor([1.0, 2.0]))

    batch = {"input_ids": torch.ones(1), "labels": torch.ones(1), LINKS: torch.tensor([0.0, 3.0])}
    own = LabelLoss(SimpleNamespace(get_output_embeddings=lambda: "a layer"))  # type: ignore[arg-type]
    terms = [own, OfTheModelsBatch(), OfOwnColumn()]
    loss = total_loss(model, batch, torch.tensor(2), 0.1, terms, nullcontext)  # type: ignore[arg-type]
    assert float(loss) == 8 + 8 / 4 + 6 / 2
    [call] = calls
    assert call.keys() == {"input_ids", "labels", "num_items_in_batch", "smoothing", "skip_logits", "output_attentions"}
    assert total_loss(model, batch, torch.tensor(2), 0.1, [OfTheModelsBatch(), OfOwnColumn()], nullcontext) == 5  # type: ignore[arg-type]
    assert "skip_logits" not in calls[1]


def test_a_classifier_without_output_embeddings_is_not_asked_to_skip_its_logits() -> None:
    assert not LabelLoss(SimpleNamespace(get_output_embeddings=lambda: None)).options  # type: ignore[arg-type]
