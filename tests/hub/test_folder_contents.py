"""Only files of known kinds, or named files, are pushed from a folder; each other file has a reason."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from attnzoo.hub.folder_contents import contents
from tests.factory import TOKENIZER

MODEL = {"README.md", "config.json", "generation_config.json", "model.safetensors"}
KEPT = {
    ".env": "hidden",
    "api\ntoken": "of an unknown kind",
    "attention.png": "a picture that the card does not show",
    "data.csv": "of an unknown kind",
    "evil.py": "code; only attnzoo's own code is sent, with code=True (--code)",
    "hf_token.txt": "of an unknown kind",
    "id_rsa": "of an unknown kind",
    "log.jsonl": "of an unknown kind",
    "optimizer.safetensors": "of an unknown kind",
    "scaler.joblib": "a pickle, which runs code where it is loaded",
    "token": "of an unknown kind",
    "training_args.BIN": "a pickle, which runs code where it is loaded",
}


@pytest.fixture
def folder(make_folder: Callable[[int], Path], tmp_path: Path) -> Path:
    """A folder with a model and other files that a user may have there."""
    folder = make_folder(1)
    for name in KEPT:
        (folder / name).write_text("a secret")
    (folder / "checkpoints").mkdir()
    os.mkfifo(folder / "pipe.json")  # who reads it waits for ever
    (tmp_path / "key").write_text("a secret")
    (folder / "key").symlink_to(tmp_path / "key")
    return folder


def test_what_is_of_no_known_kind_stays(folder: Path) -> None:
    (folder / ".eval_results" / "old.yaml").mkdir(parents=True)
    (folder / ".eval_results" / "notes.txt").touch()
    (folder / ".eval_results" / "data.yaml").touch()
    found = contents(folder)
    assert set(found.sent) == MODEL | {".eval_results/data.yaml"}
    inside = {".eval_results/notes.txt": "of an unknown kind", ".eval_results/old.yaml": "a folder"}
    expected = inside | KEPT | {"checkpoints": "a folder", "pipe.json": "not a plain file", "key": "of an unknown kind"}
    assert found.kept == expected


def test_known_kinds_go(folder: Path) -> None:
    TOKENIZER.save_pretrained(folder)
    with open(folder / "README.md", "a") as card:
        card.write('![heads](attention.png) <img src="logo.svg"> ![key](id_rsa)\n')
    more = {"recipe.yaml", "run.json", "LICENSE", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}
    for name in {"logo.svg", *more}:
        (folder / name).write_text("{}")
    tokenizer = {"tokenizer.json", "tokenizer_config.json"}
    assert set(contents(folder).sent) == MODEL | tokenizer | more | {"attention.png", "logo.svg"}


def test_what_is_named_goes(folder: Path) -> None:
    assert set(contents(folder, also=["data.csv", ".env"]).sent) == MODEL | {"data.csv", ".env"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("scaler.joblib", "also='scaler.joblib' is a pickle"),
        ("weights.dat", "also='weights.dat' is a pickle"),
        ("evil.py", "also='evil.py' is code"),
        ("custom.so", "also='custom.so' is code"),
        ("custom.SO.1", "also='custom.SO.1' is code"),
        ("evil.cpython-311.pyc", "also='evil.cpython-311.pyc' is code"),
        ("program", "also='program' is code"),
        ("script", "also='script' is code"),
        ("../key", "also='../key' is not the name of a file at the top of"),
        ("checkpoints", "has no file 'checkpoints', which also= names"),
        ("pipe.json", "has no file 'pipe.json', which also= names"),
        ("notes.md", "has no file 'notes.md', which also= names"),
        ("key", "has links that lead out of it: key -> "),
    ],
)
def test_what_cannot_be_sent_is_refused_by_name(folder: Path, name: str, message: str) -> None:
    for code in ("custom.so", "custom.SO.1", "evil.cpython-311.pyc"):
        (folder / code).write_text("code")
    for disguised, start in (("weights.dat", b"\x80\x04"), ("program", b"\x7fELF"), ("script", b"#!/bin/sh\n")):
        (folder / disguised).write_bytes(start)
    with pytest.raises((ValueError, OSError), match=message):
        contents(folder, also=[name])
