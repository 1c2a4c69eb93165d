"""Predictions for many rows: in batches of about one length, with the model in evaluation mode meanwhile."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from transformers import PreTrainedModel

Prediction = TypeVar("Prediction")


def predict_by_length(
    model: PreTrainedModel,
    lengths: Sequence[int],
    batch_size: int,
    predict: Callable[[list[int]], Iterable[Prediction]],
) -> list[Prediction]:
    """The prediction for every row, in the order of ``lengths``.

    Args:
        model: the model, which is in evaluation mode meanwhile
        lengths: the lengths of the rows; the rows of a batch have similar lengths, so that it has little padding
        batch_size: rows at a time
        predict: a function from the numbers of a batch's rows, the longest last, to a prediction for each
    """
    by_length = sorted(range(len(lengths)), key=lengths.__getitem__)
    predictions: dict[int, Prediction] = {}
    was_training = model.training
    model.eval()
    try:
        for start in range(0, len(by_length), batch_size):
            rows = by_length[start : start + batch_size]
            predictions.update(zip(rows, predict(rows), strict=True))
    finally:
        model.train(was_training)
    return [predictions[row] for row in range(len(lengths))]
