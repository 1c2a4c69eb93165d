"""Statements of pages and cards about pictures and models, compared with the data of the pictures and models."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from attnzoo.training.recipe import load_recipe
from PIL import Image

from attnzoo import model_path
from attnzoo.shipped_models import SHIPPED
from attnzoo.viewer.style import LIGHT

ROOT = Path(__file__).parents[2]
GIF = ROOT / "docs" / "translation.gif"
RECORD = json.loads(GIF.with_suffix(".json").read_text(encoding="utf-8"))
BESIDE = {"README.md": r"!\[[^]]*\]\(docs/translation\.gif\)\n\n(.*?)\n\n"}
BESIDE["docs/index.md"] = r"!\[[^]]*\]\(translation\.gif\)\n\n(.*?)\n\n"


def rgb(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def program() -> Any:
    spec = importlib.util.spec_from_file_location("moving_picture", ROOT / "docs" / "moving_picture.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_moving_picture_shows_what_its_model_does() -> None:
    found = program().shown()
    assert {key: found[key] for key in ("model", "source", "target")} == {
        key: RECORD[key] for key in ("model", "source", "target")
    }
    torch.testing.assert_close(torch.tensor(found["weights"]), torch.tensor(RECORD["weights"]), atol=0.02, rtol=0)


def test_the_last_frame_has_the_colours_of_the_weights() -> None:
    picture = Image.open(GIF)
    picture.seek(picture.n_frames - 1)  # type: ignore[attr-defined]
    width, height = picture.size
    drawn = picture.convert("RGB")
    rows, columns = len(RECORD["target"]), len(RECORD["source"])
    for row, weights in enumerate(RECORD["weights"]):
        for column, weight in enumerate(weights):
            x, y = 0.14 + 0.73 * (column + 0.5) / columns, 0.17 + 0.8 * (row + 0.5) / rows
            pixel = drawn.getpixel((round(x * width), round(y * height)))
            assert isinstance(pixel, tuple)
            assert max(abs(a - b) for a, b in zip(pixel, rgb(LIGHT.of(weight)), strict=True)) <= 12, (row, column)


@pytest.mark.parametrize("page", BESIDE)
def test_the_caption_is_true(page: str) -> None:
    """Its quoted words, which of them is last, what it attends to, and what the model learned from."""
    found = re.search(BESIDE[page], (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, "a paragraph below the picture"
    caption = " ".join(found[1].split())
    source, target = ([word.strip(".,") for word in RECORD[side]] for side in ("source", "target"))
    quoted = re.findall(r'"([^"]+)"', caption)
    assert set(quoted) <= {*source, *target}
    last = re.search(r'verb "(\w+)" comes last, and the model attends to the earlier word "(\w+)"', caption)
    assert last is not None
    assert last[1] == target[-1]
    strongest = max(range(len(source)), key=lambda place: RECORD["weights"][-1][place])
    assert last[2] == source[strongest]
    assert strongest < len(source) - 1  # the word is an earlier one
    training = load_recipe(Path(model_path(RECORD["model"])) / "recipe.yaml").training
    assert training.alignment_links is None  # "it was not told which words belong together"
    share = round(100 * training.teachers_share) if training.teachers else 0
    said = re.findall(r"(translations|predictions) .*?\((\d+) %", caption)
    assert dict(said) == ({"translations": f"{100 - share}", "predictions": f"{share}"} if share else {})
    assert "darker" in caption  # in the light colours that it has


@pytest.mark.parametrize("name", SHIPPED)
def test_a_card_names_the_teachers_of_its_model(name: str) -> None:
    folder = ROOT / "model_cards" / name
    training, card = load_recipe(folder / "recipe.yaml").training, (folder / "README.md").read_text(encoding="utf-8")
    said = re.search(r"([\d.]+) % of the loss compares the predictions with those of (.*?), as", card)
    if not training.teachers:
        assert said is None
        return
    assert said is not None
    assert float(said[1]) == pytest.approx(100 * training.teachers_share)
    assert re.findall(r"`([^`]+)`", said[2]) == training.teachers


def test_the_figure_of_scores_and_windows_is_drawn_from_its_weights() -> None:
    """Every cell of the twelve maps has the colour of its weight, and every row is a distribution."""
    record = json.loads((ROOT / "docs" / "which_attention.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "which_attention.md").read_text(encoding="utf-8")
    assert "".join(record["letters"]).removesuffix("</s>") == re.findall(r"read the word \*(\w+)\*", page)[0]
    assert len(record["weights"]) == 12
    assert "Twelve small models" in page
    colours = {tuple(rgb(LIGHT.of(w))) for rows in record["weights"].values() for row in rows for w in row if w >= 0.05}
    picture = Image.open(ROOT / "docs" / "which_attention.png").convert("RGB")
    drawn = torch.tensor([*{colour for _, colour in picture.getcolors(1 << 20) or []}])
    for colour in colours:
        assert (drawn - torch.tensor(colour)).abs().amax(dim=1).min() <= 2
    for rows in record["weights"].values():
        assert torch.tensor(rows).sum(dim=1).le(1.02).all()
