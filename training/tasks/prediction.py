"""Predictions for many rows, in batches of similar length, with the model in evaluation mode."""

from collections.abc import Callable, Iterable, Sequence

from transformers import PreTrainedModel

from attnzoo.alignment import evaluation_mode
from attnzoo.batching import Result, by_length


def predict_by_length(
    model: PreTrainedModel,
    lengths: Sequence[int],
    batch_size: int,
    predict: Callable[[list[int]], Iterable[Result]],
) -> list[Result]:
    """The prediction for every row, in the order of ``lengths``.

    Args:
        model: the model, which is in evaluation mode meanwhile
        lengths: the lengths of the rows; the rows of a batch have similar lengths, so that it has little padding
        batch_size: rows at a time
        predict: a function from the numbers of a batch's rows, the longest last, to a prediction for each
    """
    with evaluation_mode(model):
        return by_length(range(len(lengths)), lengths.__getitem__, batch_size, predict)
