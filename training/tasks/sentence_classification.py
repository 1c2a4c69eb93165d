"""Sentence classification: a label for every sentence, or for every pair of sentences."""

import dataclasses
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.viewer import plot_sentence, tokens_of

from ..data.film_reviews import FILM_REVIEWS
from ..data.heteronyms import HETERONYMS
from ..data.labelled_sentences import ClassificationData, read_labelled
from ..data.labels import NUMBER, known_numbers, number_labels
from ..data.review_sentences import REVIEW_SENTENCES
from ..data.row_checks import label_text
from ..data.sources import Rows, SourceError, short
from ..data.splits import first_row
from ..data.sst2 import SST2
from ..data.vocabulary import END, PAD, UNKNOWN, finished, normalizer, refuse_overfull
from ..data.word_vectors import KNOWN_VECTORS, fill_embeddings, first_words
from ..markdown import escaped
from .base import Batch, Card, Task, pipeline_snippet
from .confusion import draw_confusion_matrix
from .metrics import Accuracy, MacroF1, Matthews, confusion_matrix
from .prediction import predict_by_length

URL, URLS = "<url>", r"https?://\S+"
# Words as in the Penn Treebank ("wo" and "n't", "it" and "'s"). A hashtag, a handle, and a word with a hyphen or a full
# stop inside are one token each; so are several full stops in a row. Every other character is a token of its own. Text
# that is already tokenized mostly stays as it is. But the full stop at the end of "u.s." is split off, and "--" becomes
# two tokens.
WORD = r"<url>|\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|[@#]?\w+(?:[-.]\w+)*|\.{2,}|[^\w\s]"
SUBWORD = "##"  # the start of a token that continues a word
ATTENTION, CONFUSION = "attention.png", "confusion.png"
MOST_DRAWN = 50  # labels in a picture of the confusion matrix


class SentenceClassification(Task):
    """Sentences or pairs of them, and the label of each.

    Data with a validation or test split of its own keeps it. A missing split is taken out of the training split by the
    SHA-1 of the sentence, after ``mask_urls``, modulo 100: below 10 is test, below 20 is validation. So a sentence that
    occurs twice is in one split. The hash is of the exact text: sentences that differ only in case or spaces can be in
    two splits, even if the tokenizer reads them as the same. The number of examples that are in two splits is reported.
    With ``only``, the split need not have all labels of ``label_names``.

    Attributes:
        labels: the names of the labels, in the order of their numbers. It is the order of ``label_names`` or of the
            data's own names, or else the alphabetical order of the training labels (for numbers, their size).

    Raises:
        ValueError: a label does not occur in the training split or is out of the range of ``label_names``, or the
            training split has only one label.
    """

    data_class = ClassificationData
    auto_class = AutoModelForSequenceClassification
    rows_called = "examples"
    target = "labels"
    metrics = (Accuracy, MacroF1, Matthews)
    metric = "error"  # 100 - accuracy
    metric_names = {"accuracy": "accuracy", "macro_f1": "macro-F1", "matthews": "Matthews"}
    units = {"accuracy": " %", "macro_f1": " %", "matthews": " %"}
    known_data = (SST2, FILM_REVIEWS, REVIEW_SENTENCES, HETERONYMS)
    fixed_keys = (
        *("lower_case", "normalization", "tokens", "min_count"),
        *("vocabulary_size", "added_words", "end_token"),
    )
    card = Card(
        tags=("sentence-embedding", "self-attention"),
        pipeline_tag="text-classification",
        snippet=pipeline_snippet("classify", "text-classification"),
        usage="Text is read as it is; a word that is not in the vocabulary counts as unknown. Loaded with "
        "`AutoModelForSequenceClassification` and called with `output_attentions=True`, the model gives the weights of "
        "the words.",
        metric_note="Macro-F1: the mean of the labels' F1. Matthews: the correlation of predicted and true labels, 0 "
        "for guessing.",
        limits="Sentences of the kind it was trained on. The weights show what the classifier reads. This does not "
        "prove why it decides.",
        pictures={
            ATTENTION: "The attention of the model on a sentence of the test split: all hops together, then each hop",
            CONFUSION: "The confusion matrix of the test split",
        },
    )

    def __init__(self, data: ClassificationData, only: str | None = None) -> None:
        self.columns = ["text"] if data.text_pair_column is None else ["text", "text_pair"]
        super().__init__(data, only)
        if not data.end_token:
            self.card = dataclasses.replace(self.card, usage=f"A text without a word is an error. {self.card.usage}")
        if data.member is not None:
            self.name = Path(data.member).name

    def read(self, only: str | None) -> dict[str, Rows]:
        """The splits that the data has, with the columns of text and "label"."""
        return read_labelled(self.data, self.columns, only)

    def divide(self, given: dict[str, Rows], only: str | None) -> tuple[dict[str, Rows], str]:
        """All splits, with numbers as "labels"."""
        data, names = self.data, self.data.label_names
        names = [label_text(name) for name in names] if isinstance(names, list) else names
        if only in given and names is not None:
            self.labels, numbers = known_numbers(given[only], names, data.path)
        else:
            self.labels, numbers = number_labels(given[only if only in given else "train"], names, data.path)
        prepared = {split: self._prepared(rows, numbers, split) for split, rows in given.items()}
        splits, split_note = super().divide(prepared, only)
        if data.word_vectors is not None:
            vectors = Path(data.word_vectors).name
            known = KNOWN_VECTORS.get(vectors)
            split_note += f"; word vectors: {escaped(vectors) if known is None else known.name}"
        return splits, split_note

    def example(self) -> Any:
        """A sentence, or a pair as a dictionary."""
        first = first_row(self.splits)
        return {name: first[name] for name in self.columns} if len(self.columns) == 2 else first["text"]

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of the training sentences' words or subwords.

        ``</s>`` ends every sentence, the empty one too, unless ``end_token`` is false.
        """
        data = self.data
        learning: dict[str, Any] = {
            "vocab_size": data.vocabulary_size,
            "min_frequency": data.min_count,
            "special_tokens": [PAD, UNKNOWN, END],
            "show_progress": False,
        }
        if data.tokens == "words":
            tokenizer = Tokenizer(models.WordLevel(unk_token=UNKNOWN))
            trainer: Any = trainers.WordLevelTrainer(**learning)
        else:
            tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN, continuing_subword_prefix=SUBWORD))
            trainer = trainers.BpeTrainer(continuing_subword_prefix=SUBWORD, **learning)
            tokenizer.decoder = decoders.WordPiece(prefix=SUBWORD, cleanup=False)
        # The last step replaces the typographic apostrophe by the one on keyboards.
        steps: list[Any] = [*normalizer(data.normalization), normalizers.Replace("\u2019", "'")]
        if data.mask_urls:
            steps.append(normalizers.Replace(Regex(URLS), URL))
        if data.lower_case:
            steps.append(normalizers.Lowercase())
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
        sentences = (batch[column] for batch in self.splits["train"].iter(1000) for column in self.columns)
        tokenizer.train_from_iterator(sentences, trainer)
        if data.tokens == "subwords":
            refuse_overfull(tokenizer.get_vocab_size(), data.vocabulary_size)
        elif tokenizer.get_vocab_size() == data.vocabulary_size:
            print(
                f"{data.path}: the vocabulary is full; words beyond the {data.vocabulary_size:,} most frequent ones "
                "become the unknown token; raise task.data.vocabulary_size to keep more",
                file=sys.stderr,
            )
        if data.word_vectors is not None:
            vocabulary = tokenizer.get_vocab()
            for word in first_words(data.word_vectors, data.added_words):
                vocabulary.setdefault(word, len(vocabulary))
            tokenizer.model = models.WordLevel(vocabulary, unk_token=UNKNOWN)
        one, two = (f"$A {END}", f"$A:0 {END}:0 $B:1 {END}:1") if data.end_token else ("$A", None)
        names = ["input_ids", *(["token_type_ids"] if len(self.columns) == 2 else []), "attention_mask"]
        return finished(tokenizer, (PAD, UNKNOWN, END), one, two, model_input_names=names)

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What a model's config takes from the tokenizer and the labels."""
        label2id = {label: number for number, label in enumerate(self.labels)}
        return super().config_fields(tokenizer) | {"id2label": dict(enumerate(self.labels)), "label2id": label2id}

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Give a new model the word vectors.

        Raises:
            FileNotFoundError, ValueError: they cannot be read or do not fit; or only one of the model and the data is
                of sentence pairs.
        """
        is_pair = len(self.columns) == 2
        if getattr(model.config, "sentence_pair", is_pair) != is_pair:
            raise ValueError(
                f"model.sentence_pair={str(not is_pair).lower()} and task.data.text_pair_column="
                f"{self.data.text_pair_column or 'null'}: give both for pairs of sentences, and neither for single ones"
            )
        if self.data.word_vectors is None:
            return
        vocabulary = tokenizer.get_vocab()
        weight: Any = model.get_input_embeddings().weight
        found = fill_embeddings(weight, vocabulary, self.data.word_vectors)
        weight.requires_grad_(self.data.tune_word_vectors)
        counts = Counter(token for row in self.training_examples(tokenizer) for token in row["input_ids"])
        del counts[tokenizer.eos_token_id]
        covered = sum(counts[vocabulary[word]] for word in found) / max(1, counts.total())
        print(
            f"{self.data.word_vectors}: {len(found):,} of the vocabulary's {len(vocabulary):,} words have a vector, "
            f"and {100 * covered:.1f} % of the words in the training sentences",
            file=sys.stderr,
        )

    def encoder(self, tokenizer: PreTrainedTokenizerBase) -> Callable[[Batch], Batch]:
        """``input_ids``, with ``token_type_ids`` for pairs; the rows have ``labels`` already."""
        columns = self.columns

        def encode(rows: Batch) -> Batch:
            return dict(tokenizer(*(rows[column] for column in columns), return_attention_mask=False))

        return encode

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> Callable[[list[Any]], Any]:
        """A function that pads rows to a batch and replaces tokens, but no ``</s>``, by the unknown one at random."""
        pad = DataCollatorWithPadding(tokenizer)

        def collate(rows: list[Any]) -> dict[str, Tensor]:
            batch = pad(rows)
            if self.data.word_dropout:
                ids = batch["input_ids"]
                is_word = batch["attention_mask"].bool() & (ids != tokenizer.eos_token_id)
                ids.masked_fill_(is_word & (torch.rand(ids.shape) < self.data.word_dropout), tokenizer.unk_token_id)
            return dict(batch)

        return collate

    def predict_rows(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: datasets.Dataset, num_beams: int = 1
    ) -> list[int]:
        """The numbers of the labels of these rows.

        Raises:
            ValueError: the model has other labels than the data, or only one of the two is of sentence pairs.
        """
        self._check_fits(model, tokenizer)
        return classify(model, tokenizer, *(rows[column][:] for column in self.columns))

    def measure(self, split: str, predictions: list[int]) -> dict[str, Any]:
        """The figures in percent, and "error", which is 100 - accuracy."""
        figures = super().measure(split, predictions)
        return figures | {"error": 100 - figures["accuracy"]}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path, **decoding: Any) -> None:
        """The pictures of a released model: a sentence coloured by attention, and the test split's confusion matrix
        unless there are too many labels to read it.
        """
        ids = tokenizer(*([self.splits["test"][column][0]] for column in self.columns), return_tensors="pt")
        with torch.no_grad():
            outputs = model(**ids.to(model.device), output_attentions=True)
        plot_sentence(
            outputs.attentions[-1][0, 0],
            tokens_of(tokenizer, ids["input_ids"][0].tolist()).names,
            folder / ATTENTION,
            title=f"{self.labels[self.splits['test']['labels'][0]]}, read as {self.labels[outputs.logits.argmax()]}",
        )
        if len(self.labels) <= MOST_DRAWN:
            predictions = self.predict(model, tokenizer, "test")
            matrix = confusion_matrix(predictions, self.splits["test"]["labels"][:], len(self.labels))
            draw_confusion_matrix(matrix, self.labels, folder / CONFUSION)

    def _prepared(self, rows: Rows, numbers: dict[str, int], split: str) -> Rows:
        """Rows of the columns and "labels": sentences with their addresses masked, labels as numbers."""

        def prepare(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
            for label in batch["label"]:
                if (text := label_text(label)) not in numbers:
                    hint = " (it is unlabelled, it seems)" if text == "-1" else ""
                    shown = text if NUMBER.fullmatch(text) else short(repr(text))
                    raise SourceError(
                        f"{self.data.path}, {split} split: the label {shown} is none of "
                        f"{short(', '.join(numbers))}{hint}; let task.data.label_names name all labels, in the order "
                        "of their numbers or as {LABEL: NAME, ...}, or be null for those of the training split"
                    )
            texts = {column: batch[column] for column in self.columns}
            if self.data.mask_urls:
                texts = {column: [re.sub(URLS, URL, text) for text in texts[column]] for column in texts}
            return texts | {"labels": [numbers[label_text(label)] for label in batch["label"]]}

        if isinstance(rows, datasets.IterableDataset):
            return rows.map(prepare, batched=True, remove_columns=["label", *self.columns])
        return datasets.Dataset.from_dict(prepare(rows[:]))

    def _check_fits(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Raise a ValueError if the model has other labels, or if only one of model and data is of sentence pairs."""
        labels = [label_text(label) for _, label in sorted((model.config.id2label or {}).items())]
        if labels != self.labels:
            raise ValueError(
                f"the model's labels are {short(', '.join(labels))}, and those of {self.data.path} are "
                f"{short(', '.join(self.labels))}; let task.data.label_names be the model's, or take the data it was "
                "trained on"
            )
        reads_pairs = "token_type_ids" in tokenizer.model_input_names
        if reads_pairs != (len(self.columns) == 2):
            raise ValueError(
                f"the model reads {'pairs of sentences' if reads_pairs else 'single sentences'}, and "
                f"task.data.text_pair_column is {self.data.text_pair_column or 'null'}; "
                f"{'name the column of the second sentence' if reads_pairs else 'leave it out'}"
            )


def classify(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], pairs: list[str] | None = None
) -> list[int]:
    """The number of the most likely label of every sentence, or pair, in the order given."""
    lengths = [len(text) + len(pair) for text, pair in zip(texts, pairs or [""] * len(texts), strict=True)]

    @torch.no_grad()
    def predict(rows: list[int]) -> list[int]:
        sides = [[side[row] for row in rows] for side in (texts, pairs) if side is not None]
        batch = tokenizer(*sides, padding=True, return_tensors="pt").to(model.device)
        return model(**batch).logits.argmax(dim=1).tolist()

    return predict_by_length(model, lengths, 256, predict)
