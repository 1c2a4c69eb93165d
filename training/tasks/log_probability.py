"""The log-probability of tokens and of whole texts under a language model."""

import itertools
import math

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .prediction import predict_by_length

IGNORED = -100  # the label of a token that is not predicted
ROWS_AT_A_TIME = 16  # of an evaluation's batch


def text_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a whole text between ``<s>`` and ``</s>``; if it has these characters itself, they are text."""
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return [tokenizer.bos_token_id, *ids, tokenizer.eos_token_id]


def log_probabilities(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], block_size: int
) -> list[float]:
    r"""The natural logarithm of every text's probability, its end included.

    .. math:: \ln p(x) = \sum_{i=1}^{n} \ln p(w_i | w_{i - c} \dots w_{i - 1}), \qquad c \ge \min(i, b / 2)

    Symbols: :math:`w_0` is ``<s>``, :math:`w_n` is ``</s>``, :math:`b` is ``block_size``. It is the probability of the
    one way to write the text in tokens that the tokenizer chooses, and so at most the text's.
    """
    windows, owners = [], []
    for number, text in enumerate(texts):
        ids = torch.tensor(text_ids(tokenizer, text))
        for start, first, end in sliding_windows(len(ids), block_size):
            labels = ids[start + 1 : end].clone()
            labels[: first - start - 1] = IGNORED
            windows.append((ids[start : end - 1], labels))
            owners.append(number)
    found: list[list[float]] = [[] for _ in texts]
    for owner, tokens in zip(owners, predict_labels(model, tokenizer, windows), strict=True):
        found[owner] += [log_probability for _, _, log_probability in tokens]
    return [math.fsum(of_text) for of_text in found]


def sliding_windows(length: int, size: int) -> list[tuple[int, int, int]]:
    """Windows over a text: start, first token to be predicted, and end. Together they predict all tokens but the first,
    each once; all windows but the first one are ``size // 2`` apart.
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
    """Of every row, tokens and labels (T,), in the order given: at each of its labels the most likely token, the label,
    and the natural logarithm of its probability.
    """

    @torch.no_grad()
    def predict(numbers: list[int]) -> list[list[tuple[int, int, float]]]:
        ids, labels = (
            pad_sequence([rows[number][side] for number in numbers], batch_first=True, padding_value=padding)
            for side, padding in ((0, tokenizer.pad_token_id), (1, IGNORED))
        )
        ids, labels = ids.to(model.device), labels.to(model.device)
        lengths = torch.tensor([len(rows[number][0]) for number in numbers], device=model.device)
        is_real = torch.arange(ids.shape[1], device=model.device) < lengths.unsqueeze(1)
        is_label = labels != IGNORED
        logits = model(input_ids=ids, attention_mask=is_real.long()).logits[is_label]  # (N, vocabulary)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        of_labels = -cross_entropy(logits, labels[is_label], reduction="none")
        tokens = zip(logits.argmax(dim=1).tolist(), labels[is_label].tolist(), of_labels.tolist(), strict=True)
        return [list(itertools.islice(tokens, count)) for count in is_label.sum(dim=1).tolist()]

    return predict_by_length(model, [len(ids) for ids, _ in rows], ROWS_AT_A_TIME, predict)
