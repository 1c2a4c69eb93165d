"""Texts for language models: the keys of ``task.data``, and files of plain text."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub.dataclasses import strict
from tokenizers import pre_tokenizers

from .sources import Rows, Source, SourceError, readable, refuse_row_keys, rows_of_files
from .text_files import lines
from .vocabulary import VOCABULARY_ROWS, refuse_no_rows


@strict
@dataclass(kw_only=True)
class TextData(Source):
    """The source of texts, and the sizes of vocabulary and blocks.

    Attributes:
        path: the npm package of the State of the Union addresses, as the archive that ``npm pack`` makes or the folder
            that ``npm install`` makes; a .txt file, or a folder of such files (see ``texts``); or else rows of text,
            as for every ``Source``.
        encoding: as for every ``Source``.
        subset, streaming, columns, separator, quoting, skip_bad_rows: as for every ``Source``; rows only.
        texts: the unit of text in .txt files: "paragraphs" (separated by empty lines) or "lines".
        text_column: the name of the column of texts.
        vocabulary_size: the largest number of tokens.
        vocabulary_rows: the tokens are learned from at most this many training texts: a fixed random sample if there
            are more, of a stream the first ones.
        block_size: the largest number of tokens that a model reads at a time.
    """

    texts: Literal["paragraphs", "lines"] = "paragraphs"
    text_column: str = "text"
    vocabulary_size: int = 5000
    vocabulary_rows: int = VOCABULARY_ROWS
    block_size: int = 256

    def validate_sizes(self) -> None:
        """Raise a ValueError for a number out of range."""
        least = 4 + len(pre_tokenizers.ByteLevel.alphabet())
        if self.vocabulary_size < least:
            raise ValueError(
                f"vocabulary_size must be at least {least}, all bytes and four tokens more, got {self.vocabulary_size}"
            )
        refuse_no_rows(self.vocabulary_rows)
        if self.block_size < 3:
            raise ValueError(f"block_size must be at least 3, got {self.block_size}")


def read_texts(data: TextData, files: dict[Path, str], only: str | None) -> dict[str, Rows]:
    """The splits of files of text, with the column "text"."""
    refuse_row_keys(data, "is plain text")
    splits: dict[str, dict[str, list[str]]] = {}
    for file, split in files.items():
        if not file.is_file():
            raise FileNotFoundError(f"there is no file {file}")
        with readable(str(file)):
            text = re.sub(r"\r\n?", "\n", "".join(lines(file, data.encoding)))
        parts = re.split(r"\n" if data.texts == "lines" else r"\n\s*\n", text)
        if not text.strip():
            raise SourceError(f"{file} is empty; remove it, or put text into it")
        splits.setdefault(split, {"text": []})["text"].extend(part.strip() for part in parts if part.strip())
    rows = rows_of_files(data.path, splits, only)
    if only is None and (number := sum(len(of_split["text"]) for of_split in splits.values())) < 3:
        raise SourceError(
            f"{data.path} holds {number} text{'s' * (number > 1)}, but each of train, validation and test needs one: "
            "put empty lines between texts, or set task.data.texts=lines if every line is a text"
        )
    return rows
