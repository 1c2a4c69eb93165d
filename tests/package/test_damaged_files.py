"""The commands on a model with one damaged file: an error of one sentence, and no traceback."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnzoo.cli import main
from attnzoo.export import to_onnx
from attnzoo.export.run import DETAILS
from attnzoo.export.run import main as run_export
from tests.factory import TOKENIZER, make_model, refused, save_folder

FOLDERS = {"translate": "attentional-rnn", "classify": "self-attentive-pair", "view": "transformer-causal"}
FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
CONTENTS = [b"", b"[]", b"null", b"3", b'{"a": ', b"\xff\xfe\0", b"[" * 10**5, b'{"a":' * 10**5]
ODD: list[Any] = ["x", "", None, -1, 2.5, 10**9, 10**400, [], [[]], {}, True, float("nan")]


def use(command: str, folder: Path) -> str | None:
    """The error of a command on a model, if it ends with one."""
    arguments = {
        "translate": ["translate", "--model", str(folder), "abc"],
        "classify": ["classify", "--model", str(folder), "abc\tde"],
        "view": ["view", str(folder), "abc", "-o", str(folder / "page.html")],
        "pronounce": ["pronounce", "--model", str(folder), "tada"],
    }[command]
    try:
        main(arguments)
    except SystemExit as end:
        return str(end.code)
    return None


def changed(content: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """The content with an odd value in one place, down to the third level."""
    content = json.loads(json.dumps(content))
    place: Any = content
    for _ in range(draw.randint(1, 3)):
        key = draw.choice([*place] if isinstance(place, dict) else range(len(place)))
        if not place[key] or not isinstance(place[key], dict | list):
            break
        parent, place = place, place[key]
    else:
        place, key = parent, key
    place[key] = draw.choice(ODD)
    return content


@pytest.fixture(scope="module", params=[*FOLDERS, "pronounce"])
def sound(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A command, and a folder that it reads."""
    command: str = request.param
    if command == "pronounce":
        return command, request.getfixturevalue("run") / "best"
    return command, save_folder(FOLDERS[command], tmp_path_factory.mktemp(command) / "model")


@pytest.mark.parametrize("content", CONTENTS, ids=lambda content: repr(content[:8]))
def test_the_error_names_the_damaged_file(sound: tuple[str, Path], content: bytes, tmp_path: Path) -> None:
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    for name in filter(lambda name: (folder / name).is_file(), FILES):
        (copy / name).write_bytes(content)
        error = use(command, copy)
        assert error is not None, name
        assert error.startswith("error: "), name
        assert name in error
        shutil.copy(folder / name, copy / name)
    assert use(command, copy) is None


def odd_values(sound: tuple[str, Path], numbers: range, copy: Path) -> None:
    """Put odd values into every file; a traceback ends the test."""
    command, folder = sound
    shutil.copytree(folder, copy)
    for number in numbers:
        for name in filter(lambda name: (folder / name).is_file(), FILES):
            content = changed(json.loads((folder / name).read_bytes()), random.Random(f"{name} {number}"))
            (copy / name).write_text(json.dumps(content))
            error = use(command, copy)
            assert error in (None, "1") or error.startswith("error: "), f"{command} {name} {number}"
            shutil.copy(folder / name, copy / name)


def test_an_odd_value_gives_no_traceback(sound: tuple[str, Path], tmp_path: Path) -> None:
    odd_values(sound, range(8), tmp_path / "model")


@pytest.mark.slow
def test_many_odd_values_give_no_traceback(sound: tuple[str, Path], tmp_path: Path) -> None:
    odd_values(sound, range(8, 150), tmp_path / "model")


def swap_the_graphs(folder: Path) -> None:
    (folder / "encoder.onnx").rename(folder / "other")
    (folder / "step.onnx").rename(folder / "encoder.onnx")
    (folder / "other").rename(folder / "step.onnx")


def flip_a_bit(name: str) -> Callable[[Path], None]:
    def flip(folder: Path) -> None:
        content = bytearray((folder / name).read_bytes())
        content[len(content) // 2] ^= 1
        (folder / name).write_bytes(content)

    return flip


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "swapped": (swap_the_graphs, "encoder.onnx has changed since the export: its checksum differs"),
    "missing": (lambda folder: (folder / "step.onnx").unlink(), "is no whole export: it has no step.onnx"),
    "details": (lambda folder: (folder / DETAILS).write_text("[]"), f"{DETAILS} is damaged"),
    "checksums": (lambda folder: (folder / DETAILS).write_text('{"sha256": ["a"]}'), f"{DETAILS} is damaged"),
    "outside": (lambda folder: (folder / DETAILS).write_text('{"sha256": {"../a": ""}}'), f"{DETAILS} is damaged"),
} | {
    name: (flip_a_bit(name), f"{name} has changed since the export: its checksum differs")
    for name in ("encoder.onnx", "step.onnx", "greedy.onnx", "generation_config.json", "tokenizer.json", "run.py")
}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return to_onnx(make_model("attentional-rnn"), tmp_path_factory.mktemp("export") / "out", TOKENIZER)


@pytest.mark.parametrize("name", DAMAGE)
def test_a_change_of_an_export_is_noticed(name: str, export: Path, tmp_path: Path) -> None:
    damage, message = DAMAGE[name]
    folder = shutil.copytree(export, tmp_path / "out")
    run_export(["abc", "--folder", str(folder)])
    damage(folder)
    with refused(SystemExit, "error: ", message):
        run_export(["abc", "--folder", str(folder)])
