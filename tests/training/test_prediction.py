"""Predictions in batches of similar length: every row gets its own, and the model keeps its mode."""

from typing import Any

import pytest
from attnzoo.training.tasks.prediction import predict_by_length
from torch import nn

LENGTHS = [3, 9, 1, 3, 7, 2, 9]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("training", [False, True])
def test_every_row_has_its_own_prediction(batch_size: int, training: bool) -> None:
    model: Any = nn.Linear(1, 1).train(training)
    batches = []

    def predict(rows: list[int]) -> list[str]:
        assert not model.training
        batches.append([LENGTHS[row] for row in rows])
        return [f"row {row}" for row in rows]

    assert predict_by_length(model, LENGTHS, batch_size, predict) == [f"row {row}" for row in range(len(LENGTHS))]
    assert model.training == training
    assert [length for batch in batches for length in batch] == sorted(LENGTHS)
    assert max(map(len, batches)) == min(batch_size, len(LENGTHS))


def test_a_prediction_too_few_is_an_error_and_the_model_goes_on_training() -> None:
    model: Any = nn.Linear(1, 1).train()
    with pytest.raises(ValueError, match="shorter"):
        predict_by_length(model, LENGTHS, 4, lambda rows: rows[1:])
    assert model.training


def test_no_rows_are_no_predictions() -> None:
    assert predict_by_length(nn.Linear(1, 1), [], 4, lambda rows: rows) == []  # type: ignore[arg-type]
