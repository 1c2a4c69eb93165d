"""Summarisation: from a text of some sentences to one line, with one vocabulary of subwords for both."""

import dataclasses
import functools
import re
from dataclasses import dataclass
from typing import Any

import datasets
from huggingface_hub.dataclasses import strict
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..data.debian import DEBIAN
from ..data.splits import fingerprint
from .base import Card, Rows
from .metrics import ROUGE
from .sequence_to_sequence import SNIPPET, generate_texts
from .subwords import COPIES, PICTURES_OF_HEADS, SubwordTask, TextPairs

WORD = re.compile(r"\w+")


@strict
@dataclass(kw_only=True)
class SummaryData(TextPairs):
    """The source of texts and their summaries, and the number of tokens that are read.

    Attributes:
        path: as for every ``Source``; or the folder ``debian`` that ``python -m attnzoo.training.make_data.debian``
            writes.
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        source_column: the name of the column of texts.
        target_column: the name of the column of summaries.
        max_source_tokens: the number of tokens of a text that are read, from its beginning, with the end token.
    """

    source_column: str = "description"
    target_column: str = "synopsis"
    max_source_tokens: int = 128

    def validate_length(self) -> None:
        """Raise a ValueError if there is no room for a word."""
        if self.max_source_tokens < 2:
            raise ValueError(f"max_source_tokens must be at least 2, a word and the end, got {self.max_source_tokens}")


class Summarization(SubwordTask):
    """Texts and their summaries.

    Data without a validation or test split has them taken out of its training split by a hash of the text (see
    :func:`attnzoo.training.data.splits.complete_splits`).
    """

    data_class = SummaryData
    metrics = (ROUGE,)
    metric = "rougeL"
    greater_is_better = True
    metric_names = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "new_words": "new words"}
    units = {"new_words": " %"}
    known_data = (DEBIAN,)
    max_new_tokens = 64
    is_cut = True
    card = Card(
        tags=("summarization",),
        pipeline_tag="summarization",  # as for translation
        pipeline="text-summarization",
        snippet=SNIPPET,
        usage="Text is read as it is, uppercase letters and punctuation too; a character that is in no training text "
        "counts as unknown. For a text longer than the tokenizer's `model_max_length`, pass `truncation=True` to "
        "the tokenizer.",
        metric_note="ROUGE-1, ROUGE-2 and ROUGE-L: F1 in percent, the mean of the texts, with stemming, by the package "
        "rouge-score. New words: of the words of a reference summary that are in its text and in no training text, "
        "the percentage that the model's summary has.",
        limits="Texts of the kind it was trained on.",
        pictures={
            **PICTURES_OF_HEADS,
            COPIES: "Where a word may be copied from, and next to it the probability that it is copied: the source "
            "along the top, the prediction down the side",
        },
    )

    def __init__(self, data: SummaryData, only: str | None = None) -> None:
        super().__init__(data, only)
        if "train" not in self.splits:  # no word is known to be new
            self.metric_names = {key: name for key, name in self.metric_names.items() if key != "new_words"}
        digests = (
            f"{split} {len(rows):,} rows, SHA-256 {fingerprint(rows['source'], rows['target'])[:16]}"
            for split, rows in self.splits.items()
            if isinstance(rows, datasets.Dataset)
        )
        self.card = dataclasses.replace(self.card, split_note=f"{self.card.split_note} ({'; '.join(digests)})")

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """Byte pairs, see :class:`SubwordTask`, and the greatest length of a text."""
        tokenizer = super().make_tokenizer()
        tokenizer.model_max_length = self.data.max_source_tokens
        return tokenizer

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Set the greatest length of a text, and let a new model repeat no three tokens in a summary, unless generate()
        is told otherwise.

        Paulus et al. (2018), "A Deep Reinforced Model for Abstractive Summarization", arXiv:1705.04304, section 2.5.
        """
        tokenizer.model_max_length = self.data.max_source_tokens  # also if a training starts from a model
        super().prepare(model, tokenizer)
        model.generation_config.update(no_repeat_ngram_size=3)

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[str]:
        """The summaries of these rows."""
        longest = self.data.max_source_tokens
        return generate_texts(model, tokenizer, rows["source"][:], num_beams, batch_size=64, max_length=longest)

    def measure(self, split: str, predictions: list[Any]) -> dict[str, Any]:
        """ROUGE; and with a training split the percentage of new words (see ``metric_note`` of the card)."""
        figures = super().measure(split, predictions)
        if "train" not in self.splits:
            return figures
        rows: Rows = self.splits[split]
        found = [
            word in words(prediction)
            for prediction, source, target in zip(predictions, rows["source"], rows["target"], strict=True)
            for word in sorted((words(target) & words(source)) - self.known_words)
        ]
        share = 100 * sum(found) / len(found) if found else 0.0
        return figures | {"new_words": share, "num_new_words": len(found)}

    @functools.cached_property
    def known_words(self) -> set[str]:
        """The words of all training texts and their summaries."""
        return {word for column in self.columns for text in self.splits["train"][column] for word in words(text)}


def words(text: str) -> set[str]:
    """The words of a text in lowercase."""
    return set(WORD.findall(text.lower()))
