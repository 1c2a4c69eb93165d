"""Which reading a word has in its sentence, if it is written like another: the classifier of readings."""

from collections.abc import Sequence

import torch
from transformers import AutoTokenizer

from ..loading import load_trained
from ..modeling_self_attentive import SelfAttentiveForSequenceClassification
from ..phonemes import CLOSE, OPEN
from ..shipped_models import HETERONYMS, model_path


def marked(before: str, word: str, after: str) -> str:
    """A sentence with a word in the brackets by which the classifier knows it."""
    return f"{before}{OPEN}{word}{CLOSE}{after}"


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

    @torch.inference_mode()
    def __call__(self, sentences: Sequence[str], readings: Sequence[Sequence[str]]) -> list[dict[str, float]]:
        """The probabilities of some readings in each sentence, see :func:`marked`."""
        logits = self.model(**self.tokenizer(list(sentences), padding=True, return_tensors="pt")).logits
        found = []
        for row, names in zip(logits, readings, strict=True):
            wanted = row[[self.model.config.label2id[name] for name in names]].softmax(0)
            found.append(dict(zip(names, wanted.tolist(), strict=True)))
        return found
