"""The log-probability of tokens and of whole texts under a language model."""

import itertools
import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from attnzoo.loss import IGNORED

from .prediction import predict_by_length

ROWS_AT_A_TIME = 16  # rows in a batch of an evaluation


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a whole text between ``<s>`` and ``</s>``. The same characters inside the text stay text."""
    return ids_of_texts(tokenizer, [text])[0]


def ids_of_texts(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    """The tokens of every text between ``<s>`` and ``</s>``; the same characters inside a text stay text."""
    options: dict[str, Any] = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
    ids = tokenizer(texts, return_attention_mask=False, **options)["input_ids"]
    return [[tokenizer.bos_token_id, *of_text, tokenizer.eos_token_id] for of_text in ids]


def log_probabilities(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], block_size: int
) -> list[float]:
    r"""The natural logarithm of every text's probability, which includes the end.

    .. math:: \ln p(x) = \sum_{i=1}^{n} \ln p(w_i | w_{i - c} \dots w_{i - 1}), \qquad c \ge \min(i, b / 2)

    Symbols: :math:`w_0` is ``<s>``, :math:`w_n` is ``</s>``, :math:`b` is ``block_size``. A text can be divided into
    tokens in several ways. This is the probability of the tokenizer's division, so it is at most the probability of the
    text.
    """
    windows, counts = [], []
    for text in texts:
        ids = torch.tensor(text_ids(tokenizer, text))
        places = sliding_windows(len(ids), block_size)
        counts.append(len(places))
        for start, first, end in places:
            labels = ids[start + 1 : end].clone()
            labels[: first - start - 1] = IGNORED
            windows.append((ids[start : end - 1], labels))
    predicted = iter(predict_labels(model, tokenizer, windows))
    return [math.fsum(p for window in itertools.islice(predicted, count) for _, _, p in window) for count in counts]


def sliding_windows(length: int, size: int) -> list[tuple[int, int, int]]:
    """Windows over a text: start, first token to be predicted, and end. Together they predict every token except the
    first once. All windows except the first are ``size // 2`` apart.
    """
    windows, start, first = [], 0, 1
    while first < length:
        end = min(start + size, length)
        windows.append((start, first, end))
        start, first = start + size // 2, end
    return windows


def predict_labels(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: list[tuple[Tensor, Tensor]]
) -> list[list[tuple[int, int, float]]]:
    """For every row, at each of its labels: the most likely token, the label, and the natural logarithm of the label's
    probability. A row is its tokens and its labels, each (T,).
    """

    @torch.no_grad()
    def predict(numbers: list[int]) -> list[list[tuple[int, int, float]]]:
        def padded(tensors: list[Tensor], padding: int) -> Tensor:  # (B, T)
            return pad_sequence(tensors, batch_first=True, padding_value=padding).to(model.device)

        ids = padded([rows[number][0] for number in numbers], tokenizer.pad_token_id)
        labels = padded([rows[number][1] for number in numbers], IGNORED)
        mask = padded([torch.ones_like(rows[number][0]) for number in numbers], 0)
        is_label = labels != IGNORED
        logits = model(input_ids=ids, attention_mask=mask).logits[is_label]  # (N, vocabulary)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        of_labels = -cross_entropy(logits, labels[is_label], reduction="none")
        tokens = zip(logits.argmax(dim=1).tolist(), labels[is_label].tolist(), of_labels.tolist(), strict=True)
        return [list(itertools.islice(tokens, count)) for count in is_label.sum(dim=1).tolist()]

    return predict_by_length(model, [len(ids) for ids, _ in rows], ROWS_AT_A_TIME, predict)
