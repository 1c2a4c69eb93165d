"""The commands on a model with one damaged file: an error of one sentence, and no traceback."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

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
    """The error of a command on a model, if there is one."""
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
    """A command, and an undamaged folder that it reads."""
    command: str = request.param
    if command == "pronounce":
        return command, request.getfixturevalue("run") / "best"
    return command, save_folder(FOLDERS[command], tmp_path_factory.mktemp(command) / "model")


def change_weights(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def replace_by_index(folder: Path, content: str) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)


# Of the model's weights: the damage, and what the message says.
WEIGHTS: dict[str, tuple[Callable[[Path, str], Any], str]] = {
    "missing": (lambda folder, name: change_weights(folder, lambda weights: weights.pop(name)), "lack "),
    "another config": (
        lambda folder, name: change_weights(
            folder, lambda weights: weights.update({f"{name}.x": weights[name].clone()})
        ),
        "have {name}.x, for which its config has no place",
    ),
    "nan": (
        lambda folder, name: change_weights(folder, lambda weights: weights[name].view(-1)[:1].fill_(float("nan"))),
        "are not finite (NaN or infinite) in {name}",
    ),
    "integers": (
        lambda folder, name: change_weights(folder, lambda weights: weights.update({name: weights[name].long()})),
        "{name} in {folder}/model.safetensors has the type I64",
    ),
    "index is a list": (lambda folder, _: replace_by_index(folder, "[]"), "model.safetensors.index.json is damaged"),
    "index has no names": (
        lambda folder, _: replace_by_index(folder, '{"weight_map": 3}'),
        "the weights of {folder} cannot be loaded",
    ),
    "truncated": (
        lambda folder, _: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-9]),
        "damaged or incomplete",
    ),
    "none": (lambda folder, _: (folder / "model.safetensors").unlink(), "{folder}"),
}


@pytest.mark.parametrize("damage", WEIGHTS)
def test_weights_that_are_missing_or_no_numbers_are_refused(
    sound: tuple[str, Path], damage: str, tmp_path: Path
) -> None:
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    name = next(name for name in load_file(copy / "model.safetensors") if "embed_tokens" in name)
    change, message = WEIGHTS[damage]
    change(copy, name)
    error = use(command, copy)
    assert error is not None
    assert error.startswith("error: ")
    assert message.format(name=name, folder=copy) in error


def test_an_output_layer_that_the_config_ties_to_the_embeddings_and_the_file_does_not(tmp_path: Path) -> None:
    folder = save_folder("transformer-encoder-decoder", tmp_path / "model", tie_word_embeddings=True)
    embeddings = load_file(folder / "model.safetensors")["model.encoder.embed_tokens.weight"]
    change_weights(folder, lambda weights: weights.update({"lm_head.weight": embeddings.clone()}))
    assert use("translate", folder) is None
    change_weights(folder, lambda weights: weights["lm_head.weight"].add_(1))
    error = use("translate", folder)
    assert error is not None
    assert "have other values in lm_head.weight" in error


def test_a_model_without_its_tokenizer(sound: tuple[str, Path], tmp_path: Path) -> None:
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "tokenizer.json").unlink()
    assert use(command, copy) == f"error: {copy} has no tokenizer.json; save the model's tokenizer there, too"


def test_a_classifier_whose_config_names_no_class_is_read(tmp_path: Path) -> None:
    folder = save_folder("self-attentive-pair", tmp_path / "model")
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    del content["architectures"]
    (folder / "config.json").write_text(json.dumps(content))
    assert use("classify", folder) is None


def test_a_file_in_utf_16_or_with_a_byte_order_mark_is_not_ignored(sound: tuple[str, Path], tmp_path: Path) -> None:
    """Python's json reads both, and Transformers neither."""
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    for name in filter(lambda name: (folder / name).is_file(), FILES):
        text = (folder / name).read_text(encoding="utf-8")
        for encoding in ("utf-8-sig", "utf-16"):
            (copy / name).write_text(text, encoding=encoding)
            error = use(command, copy)
            assert error is not None, name
            assert f"{name} is damaged" in error
        shutil.copy(folder / name, copy / name)


def test_a_tokenizer_that_fails_at_an_unknown_word_gives_no_traceback(sound: tuple[str, Path], tmp_path: Path) -> None:
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    content = json.loads((copy / "tokenizer.json").read_text(encoding="utf-8"))
    vocabulary = {f"w{number}": number for number in range(5)}
    content |= {"model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}, "added_tokens": []}
    content |= dict.fromkeys(("normalizer", "post_processor", "decoder", "padding", "truncation"))
    content["pre_tokenizer"] = {"type": "Whitespace"}
    (copy / "tokenizer.json").write_text(json.dumps(content))
    error = use(command, copy)
    assert error is not None
    assert error.startswith("error: ")


@pytest.mark.parametrize("sound", FOLDERS, indirect=True)  # pronounce reads the config of translate
@pytest.mark.parametrize("name", ["return_dict", "usual_score", "longest_source", "architectures", "num_labels"])
def test_odd_values_of_fields_that_transformers_accepts(sound: tuple[str, Path], name: str, tmp_path: Path) -> None:
    """Each raises an error or changes nothing: no traceback, and no minutes of work for fifty million labels."""
    command, folder = sound
    copy = shutil.copytree(folder, tmp_path / "model")
    content = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    for value in (*ODD, False, 5 * 10**7, 5e7):
        (copy / "config.json").write_text(json.dumps(content | {name: value}))
        error = use(command, copy)
        assert error is None or error.startswith("error: ")
        assert error is None or name in error or "architectures" in name


# One function reads these files for every command.
OF_COMMANDS = [("translate", content) for content in CONTENTS]
OF_COMMANDS += [(command, content) for command in ("classify", "view", "pronounce") for content in CONTENTS[:2]]


@pytest.mark.parametrize(
    ("sound", "content"),
    OF_COMMANDS,
    indirect=["sound"],
    ids=lambda part: part if isinstance(part, str) else repr(part[:8]),
)
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
    "missing": (lambda folder: (folder / "step.onnx").unlink(), "is not complete: it has no step.onnx"),
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
