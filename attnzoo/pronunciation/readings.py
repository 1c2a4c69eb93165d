"""Which reading a word has in its sentence, if it is written like another: the classifier of readings."""

import re
from collections.abc import Iterable, Iterator, Sequence

import torch
from transformers import AutoTokenizer

from ..batching import by_length
from ..loading import load_trained
from ..modeling_self_attentive import SelfAttentiveForSequenceClassification
from ..phonemes import CLOSE, OPEN
from ..shipped_models import HETERONYMS, model_path
from .text import Token

AT_A_TIME = 128  # sentences
NEAREST = 40  # tokens before and after a word in a long sentence
LONGEST = 40  # characters of a token that the classifier reads
END = re.compile(r"[.!?\u2026]")  # of a sentence, perhaps with a quotation mark or a bracket


def marked(before: str, word: str, after: str) -> str:
    """A sentence with a word in the brackets by which the classifier knows it."""
    return f"{before}{OPEN}{word}{CLOSE}{after}"


def sentence_of(tokens: Sequence[Token], place: int) -> str:
    """The sentence of a token of a text, with this token marked; of a long one the nearest 40 tokens on each side."""
    start, end = place, place + 1
    while start > max(0, place - NEAREST) and not _ends(tokens[start - 1]):
        start -= 1
    while end < min(len(tokens), place + 1 + NEAREST) and not _ends(tokens[end - 1]):
        end += 1
    before, after = (
        "".join(one.text[:LONGEST] + one.space[:LONGEST] for one in some)
        for some in (tokens[start:place], tokens[place + 1 : end])
    )
    return marked(before, tokens[place].text, tokens[place].space + after)


def _ends(token: Token) -> bool:
    """Whether a sentence ends with this token: a mark, or a blank line after it."""
    return (token.kind == "punctuation" and bool(END.search(token.text))) or token.space.count("\n") > 1


class ReadingModel:
    r"""The probability of each reading of a word in a sentence.

    .. math:: p(r | x, w) = \frac{\exp z_r}{\sum_{r' \in R_w} \exp z_{r'}}

    Symbols: z are the logits of the structured self-attentive classifier (Lin et al., 2017, arXiv:1703.03130) for the
    sentence x, in which the word w is between brackets; :math:`R_w` are the readings of w.
    """

    def __init__(self) -> None:
        folder = model_path(HETERONYMS)
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.model = load_trained(SelfAttentiveForSequenceClassification, folder)

    def __call__(self, sentences: Sequence[str], readings: Sequence[Iterable[str]]) -> list[dict[str, float]]:
        """The probabilities of these readings of the word that is marked in each sentence, see :func:`marked`."""
        rows = list(zip(sentences, readings, strict=True))
        return by_length(rows, lambda row: len(row[0]), AT_A_TIME, self._probabilities)

    @torch.inference_mode()
    def _probabilities(self, rows: list[tuple[str, Iterable[str]]]) -> Iterator[dict[str, float]]:
        batch = self.tokenizer([sentence for sentence, _ in rows], padding=True, truncation=True, return_tensors="pt")
        numbers = self.model.config.label2id
        for (_, names), logits in zip(rows, self.model(**batch).logits, strict=True):
            wanted = list(names)
            yield dict(zip(wanted, logits[[numbers[name] for name in wanted]].softmax(0).tolist(), strict=True))
