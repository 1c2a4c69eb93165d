"""Words and their pronunciations: tables, and dictionaries in CMUdict's format."""

import csv
import dataclasses
import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import datasets
from huggingface_hub.dataclasses import strict

from .licenses import MIT, Origin
from .misaki import DICTIONARIES
from .row_checks import Rows, report_skipped
from .sources import Source, is_table, read_rows, readable, refuse_row_keys
from .text_files import SEPARATORS, TAB, SourceError, lines, separator_remedy, short

# What files of extra words are made from, by their names.
EXTRA_WORDS = {
    "more_words.tsv": (
        DICTIONARIES,
        Origin(
            name="names of the census of the United States, in the package names",
            version="0.3.0",
            license=MIT,
            url="https://pypi.org/project/names/",
            sha256="726e46254f2ed03f1ffb5d941dae3bc67c35123941c29becd02d48d0caa2a671",
        ),
    )
}


@strict
@dataclass(kw_only=True)
class PronunciationData(Source):
    """The source of words and pronunciations.

    Attributes:
        path: "cmudict", "misaki", "gruut-fr", "gruut-it", "gruut-nl" or "gruut-sv" for the dictionaries of these
            packages; or rows of a word and a pronunciation (phonemes separated by spaces), in any form that ``Source``
            reads; or any other file, a dictionary in CMUdict's format: on every line a word and its phonemes, separated
            by spaces or a tab; ";;;" or "# " starts a comment. In all of them "word(2)" is another pronunciation of the
            word, and a word may begin with its accent or language: lowercase letters in brackets, such as ⟦us⟧ or
            ⟦hun_latn⟧. The first line of a table of two columns without ``columns`` may be a header or a row; it is a
            row if it lacks the names of the columns and one of its phonemes is in another row.
        subset: as for every ``Source``.
        streaming: as for every ``Source``; rows only.
        word_column: the name of the column of words.
        pronunciation_column: the name of the column of pronunciations.
        normalization: the Unicode form of words. "nfc" keeps accents: a letter with its accent is one token if Unicode
            has a character for it. "nfd" splits letters: accents are tokens of their own, and so are the
            letters of a Hangul syllable, which then need less data. "strip_accents" reads é as e. None is "nfc" if
            training words have accents, else "strip_accents".
        lower_case: whether uppercase letters are read as lowercase. Turkish I becomes i, not ı.
        stress: "keep" or "drop" a 0, 1 or 2 at the end of a phoneme, and the marks ˈ and ˌ. None keeps it, except for
            cmudict.
        split_by: what stays in one split if the task divides the data: "word", all pronunciations of a word; "family",
            all words of a lemma family of English (see ``lemma_families``). None is "family" for misaki, else "word".
        compounds: the number of training words to make by joining two or three others, chosen at random. With them a
            model learns to read words that are longer than those of the data. One part keeps its primary stress. The
            stress of the others becomes secondary, or is dropped if no training word has such a phoneme. Not for
            streams.
        balance: how many turns the accents get that have fewer training words than the largest: in proportion to their
            number of words to the power of ``balance``. 1 leaves the words as they are; 0 gives all accents as many
            turns. See :func:`.balanced_accents.balanced`. Not for streams.
        extra_words: a file of more words to train on, such as words with the pronunciations that a model gives them: a
            dictionary, or a table with the columns "word" and "pronunciation", in UTF-8. Words of the data and held-out
            words are left out of it. Not for streams.
    """

    word_column: str = "word"
    pronunciation_column: str = "pronunciation"
    normalization: Literal["nfc", "nfd", "strip_accents"] | None = None
    lower_case: bool = True
    stress: Literal["keep", "drop"] | None = None
    split_by: Literal["word", "family"] | None = None
    compounds: int = 0
    balance: float | int = 1.0
    extra_words: str | None = None

    def __post_init__(self) -> None:
        if self.compounds < 0:
            raise ValueError(f"task.data.compounds must be at least 0, got {self.compounds}")
        if not 0 <= self.balance <= 1:
            raise ValueError(f"task.data.balance must be from 0 to 1, got {self.balance}")
        if self.balance < 1 and self.streaming:
            raise ValueError("task.data.balance counts words of a whole split; leave it out with task.data.streaming")
        if self.extra_words is not None and self.streaming:
            raise ValueError("task.data.extra_words is not for streams; leave it out with task.data.streaming")
        if self.compounds and self.streaming:
            raise ValueError("task.data.compounds joins words of a whole split; leave it out with task.data.streaming")


def read_pronunciations(data: PronunciationData, only: str | None) -> dict[str, Rows]:
    """The splits that the data has, with the columns "word" and "pronunciation"; a dictionary has one.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: an entry has no phonemes, or as for :func:`.sources.read_rows`.
    """
    if is_table(data):
        return read_rows(_with_columns(data), ["word", "pronunciation"], only=only)
    path = Path(data.path)
    if not path.is_file():
        raise FileNotFoundError(f"task.data.path is {data.path!r}: neither 'cmudict' nor 'misaki' nor a file or folder")
    refuse_row_keys(data, "is a dictionary")
    rows: dict[str, list[str]] = {"word": [], "pronunciation": []}
    bad: dict[int, str] = {}
    with readable(data.path):
        for number, line in enumerate(lines(path, data.encoding), start=1):
            fields = line.split(" #")[0].split(maxsplit=1)
            if not fields or fields[0] == "#" or line.startswith(";;;"):
                continue
            if len(fields) == 1:
                bad[number - 1] = f"{short(repr(fields[0]))} has a word but no phonemes{separator_remedy(line)}"
                if not data.skip_bad_rows:
                    remedy = "set task.data.skip_bad_rows=true to leave such lines out"
                    raise SourceError(f"{path}, line {number}: {bad[number - 1]}; or {remedy}")
                continue
            rows["word"].append(fields[0])
            rows["pronunciation"].append(fields[1].rstrip())
    report_skipped(bad, len(rows["word"]) + len(bad), str(path))
    if not rows["word"]:
        raise SourceError(f"{path} is empty")
    is_header = all(rows[name][:1] == [getattr(data, f"{name}_column")] for name in rows)
    if is_header or any(all(sign in word for word in rows["word"]) for sign in ",;|"):
        raise SourceError(
            f"{path} is read as a dictionary, of words, white space and phonemes, and its first entry is "
            f"{short(repr(rows['word'][0]))}, {short(repr(rows['pronunciation'][0]))}; if it is a table set "
            "task.data.separator to tab, or to the character between the columns"
        )
    return {only or "train": datasets.Dataset.from_dict(rows)}


def read_extra_words(data: PronunciationData) -> Iterator[tuple[str, str]]:
    """The words of ``extra_words``, each with a pronunciation.

    Raises:
        FileNotFoundError, ValueError: as for :func:`read_pronunciations`.
    """
    path = str(data.extra_words)
    try:
        rows = read_pronunciations(PronunciationData(path=path), "train")["train"]
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"task.data.extra_words={path!r}: {error}") from error
    yield from entries(rows, path)


def entries(rows: Rows, path: str) -> Iterator[tuple[str, str]]:
    """Words and pronunciations, row by row; ``path`` is for messages."""
    with readable(path):
        for batch in rows.iter(1000):
            yield from zip(batch["word"], batch["pronunciation"], strict=True)


def without_number(word: str) -> str:
    """A word without the number of its pronunciation, which dictionaries in CMUdict's format have: ``cat(2)``."""
    return re.sub(r"(?<=.)\(\d+\)$", "", word)


def _with_columns(data: PronunciationData) -> PronunciationData:
    """The same data, with names for its columns if it is a table of two columns without a header.

    A first line without the names of the columns is a row if a phoneme of it is in another row, too.

    Raises:
        SourceError: it has no such phoneme, so it may be a header of other names; or only white space divides the
            lines.
    """
    path = Path(data.path)
    separator = data.sign() or {".tsv": TAB, ".csv": ","}.get(Path(path.name.removesuffix(".gz")).suffix)
    if data.columns is not None or separator is None or not path.is_file():
        return data
    quoting: Any = csv.QUOTE_NONE if separator == TAB else csv.QUOTE_MINIMAL
    try:
        reader = csv.reader(lines(path, data.encoding), delimiter=separator, quoting=quoting)
        rows = [row for row in itertools.islice(reader, 1000) if row]
    except (OSError, ValueError, csv.Error):
        return data  # read_rows says what is wrong with the file
    names = [data.word_column, data.pronunciation_column]
    are_spaced = len(rows) > 1 and all(len(row) == 1 and len(row[0].split()) > 1 for row in rows)
    if are_spaced and not separator_remedy(rows[0][0]):
        raise SourceError(
            f"{path} has no {'tab' if separator == TAB else repr(separator)} between words and pronunciations; if "
            "white space is between them, let its name end in .txt"
        )
    pairs = [row for row in rows if len(row) == 2]
    # A few rows may be malformed: read_rows names them.
    if len(rows) >= 2 * len(pairs) or len(rows[0]) != 2 or {*rows[0]} & {*names}:
        return data
    if sign := next((sign for sign in SEPARATORS if all(sign in row[0] for row in pairs)), None):
        raise SourceError(f"{path}, line 1: {short(repr(rows[0][0]))} is not a word{separator_remedy(sign)}")
    first, *others = ({*row[1].split()} for row in pairs)
    if first.isdisjoint(itertools.chain(*others)):
        raise SourceError(
            f"{path} has no column {names[0]!r}, and its first line, {short(', '.join(rows[0]))}, may be a header or a "
            "row: it counts as a row if one of its phonemes is in another row too. If it is a header, set "
            "task.data.word_column and task.data.pronunciation_column to its names; if it is a row: --set "
            f'"task.data.columns=[{", ".join(names)}]"'
        )
    print(f"{path} has no header: its columns are read as a word and its pronunciation", file=sys.stderr)
    return dataclasses.replace(data, columns=names)
