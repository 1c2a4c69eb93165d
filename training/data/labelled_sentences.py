"""Sentences and their labels: the keys of ``task.data``, and the kinds of files that hold them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from huggingface_hub.dataclasses import strict

from .labels import FASTTEXT, read_label_lines
from .orange_tables import read_table
from .row_checks import Rows, checked
from .sources import Source, is_table, read_rows, readable, refuse_row_keys, rows_of_files, text_files
from .text_files import SourceError, open_unpacked


@strict
@dataclass(kw_only=True)
class ClassificationData(Source):
    """The source of sentences and labels, and the kind of their tokens.

    Attributes:
        path: as for every ``Source``; with ``member``, a zip or a wheel; or a file or folder of .txt files whose lines
            are in fastText's format: ``__label__NAME`` and a sentence.
        subset, streaming, columns, separator, quoting, encoding, skip_bad_rows: as for every ``Source``.
        label_first: every line of the file, or of the folder's .txt files, is a label, white space and a sentence.
        member: the table inside a zip or a wheel, in Orange's format: tabs, and three lines above the rows, the first
            of them with the names.
        only: read only those rows of this table that have these texts in the columns of these names.
        text_column: the name of the column of sentences.
        text_pair_column: the name of the column of second sentences of pairs; None for single sentences.
        label_column: the name of the column of labels, which are text or whole numbers.
        label_names: the labels in the order of their numbers, from 0; or the name of each value in the data, such as
            {-1: negative, 0: neutral, 1: positive}; several values may have one name. None takes them from the data:
            the names of a ``ClassLabel``, or else the labels themselves, sorted.
        mask_urls: replace every web address by the token <url>.
        lower_case: read uppercase letters as lowercase.
        normalization: Unicode's form of the text: "nfc"; "nfd", which takes accented letters and the syllables of
            Hangul apart; or "strip_accents". None leaves it as it is.
        tokens: "words", or "subwords" by byte-pair encoding within words.
        min_count: the vocabulary has the words, or the pairs of subwords, that occur at least this often in the
            training sentences.
        vocabulary_size: the largest number of tokens, without ``added_words``. The vocabulary has the most frequent
            words; or subwords, with all characters of the training sentences.
        word_vectors: the file of the initial embeddings; ``attnzoo.training.data.word_vectors`` reads it.
        added_words: the number of words from the start of that file that are added to the vocabulary, in the training
            sentences or not.
        tune_word_vectors: whether the embeddings are trained, as in the paper (section 4.2).
        word_dropout: the probability that a token is read as unknown in training.
        end_token: whether ``</s>`` ends a sentence. Without it every weight of attention is on a word, and a text
            without a word is an error. Pairs need it.
    """

    label_first: bool = False
    member: str | None = None
    only: dict[str, str] = field(default_factory=dict)
    text_column: str = "text"
    text_pair_column: str | None = None
    label_column: str = "label"
    label_names: list[str | int] | dict[str | int, str] | None = None
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
    end_token: bool = True

    def validate_vocabulary(self) -> None:
        """Raise a ValueError for a number out of range, or for fields that exclude each other."""
        for name, least in (("min_count", 1), ("added_words", 0), ("vocabulary_size", 4)):
            value = getattr(self, name)
            if value < least:
                raise ValueError(f"{name} must be at least {least}, got {value}")
        if not 0 <= self.word_dropout < 1:
            raise ValueError(f"word_dropout must be at least 0 and below 1, got {self.word_dropout}")
        if self.text_pair_column is not None and not self.end_token:
            raise ValueError("end_token=false is for single sentences, and text_pair_column is given")
        if self.only and self.member is None:
            raise ValueError(f"only={self.only} is for the table of a member, which is not given")
        if self.word_vectors is None and (self.added_words or not self.tune_word_vectors):
            raise ValueError("added_words and tune_word_vectors=false are for word_vectors, which is not given")
        if self.word_vectors is not None and self.tokens != "words":
            raise ValueError(f"word_vectors are of words, and tokens is {self.tokens!r}; leave one of them out")
        if self.label_names is not None:
            is_mapping = isinstance(self.label_names, dict)
            names = list(self.label_names.values() if isinstance(self.label_names, dict) else self.label_names)
            if any(isinstance(one, bool) for one in (*names, *(self.label_names if is_mapping else ()))):
                raise ValueError(
                    f"label_names has true or false, got {self.label_names}; put quotation marks around it"
                )
            if len(set(map(str, names))) < (2 if is_mapping else max(2, len(names))):
                raise ValueError(f"label_names must be two or more different names, got {self.label_names}")


def read_labelled(data: ClassificationData, columns: list[str], only: str | None) -> dict[str, Rows]:
    """The splits that the data has, with the columns and "label"."""
    names = [*columns, "label"]
    if data.member is not None:
        refuse_row_keys(data, "is a table of Orange")
        rows = read_table(Path(data.path), data.member, data.only)
        called = {getattr(data, f"{name}_column"): name for name in names}
        return {only or "train": checked(rows, called, ["label"], data.member, data.skip_bad_rows)}
    files = _label_files(data)
    if not files:
        return read_rows(data, names, labels=["label"], only=only)
    refuse_row_keys(data, "has a label on every line")
    if len(columns) > 1:
        raise ValueError(f"{data.path} has one sentence on every line: leave out task.data.text_pair_column")
    splits: dict[str, dict[str, list[str]]] = {}
    for file, split in files.items():
        for name, values in read_label_lines(file, data.encoding, data.skip_bad_rows).items():
            splits.setdefault(split, {}).setdefault(name, []).extend(values)
    return rows_of_files(data.path, splits, only)


def _label_files(data: ClassificationData) -> dict[Path, str]:
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
        start = opened.read(1000).lstrip(b"\xef\xbb\xbf \r\n")
    if not start:
        raise SourceError(f"{path} is empty")
    if start.startswith(FASTTEXT.encode()):
        return files
    if not is_table(data):
        raise SourceError(
            f"{path} is not of a known kind: if every line is a label and a sentence set "
            "task.data.label_first=true; if it is a table set task.data.separator (see task.data.columns too)"
        )
    return {}
