"""The contents of ``space/`` for the Hub: the Gradio app and the repository of the search."""

import importlib.util
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnzoo
from attnzoo.shipped_models import PRONUNCIATION

SPACE = Path(__file__).parents[2] / "space"


def program(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"{path.stem}_of_the_space", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def app() -> Any:
    """The module of the app; only drawing it needs Gradio."""
    return program(SPACE / "demo" / "app.py")


def test_the_app_pronounces_in_every_voice(app: Any) -> None:
    for voice, (accent, phones) in app.VOICES.items():
        rows = app.pronounce("The cat, 寿司!", voice)
        assert [row[0] for row in rows] == ["The", "cat", "寿司"]
        cat = "K AE1 T" if phones == "arpabet" else "k\u02c8æt" if accent == "en-us" else "k\u02c8at"
        assert rows[1][1] == cat
        assert rows[2][1:3] == ["", "unknown"]
    assert app.pronounce("", next(iter(app.VOICES))) == []


def test_the_app_translates_and_classifies(app: Any) -> None:
    german, page = app.translate("Two dogs play in the snow.")
    assert german.startswith("Zwei Hunde")
    assert "<iframe" in page
    scores, page = app.classify("A moving film.")
    assert sum(scores.values()) == pytest.approx(1)
    assert max(scores, key=scores.get) == "positive"
    assert "<script>alert" not in app.classify("<script>alert(1)</script>")[1]
    assert (app.translate(" "), app.classify("")) == (("", ""), ({}, ""))


def test_the_repository_of_the_search_gives_what_search_gives() -> None:
    folder = attnzoo.model_path(PRONUNCIATION)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(["attention", "bureau"], padding=True, return_tensors="pt")
    repository = str(SPACE / "search")
    with pytest.raises(ValueError, match="trust_remote_code"):
        model.generate(**inputs, custom_generate=repository)
    for options in ({"num_beams": 5}, {"num_beams": 1, "max_new_tokens": 3}):
        found = model.generate(**inputs, **options, custom_generate=repository, trust_remote_code=True)
        assert torch.equal(found, model.generate(**inputs, **options, custom_generate=attnzoo.search))


class Elements(HTMLParser):
    """The names of a page's elements, and the text outside of scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data if self.names[-1:] != ["script"] else ""


def test_a_card_that_was_edited_is_not_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, card = program(SPACE / "pronounce" / "build.py"), tmp_path / "README.md"
    build.main([str(tmp_path), PRONUNCIATION])
    assert card.read_bytes() == (SPACE / "pronounce" / "README.md").read_bytes()
    card.write_text("edited")
    build.main([str(tmp_path), PRONUNCIATION])
    assert card.read_text() == "edited"
    assert f"{card}: was there before, and is not replaced" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "<!--DATA--><svg onload=x>", "a & <b>"])
def test_the_name_of_a_model_is_text_on_the_page_that_pronounces(name: str, tmp_path: Path) -> None:
    build = program(SPACE / "pronounce" / "build.py").page
    copied = tmp_path / name
    copied.mkdir()
    for file in Path(attnzoo.model_path(PRONUNCIATION)).iterdir():
        (copied / file.name).symlink_to(file)
    usual = Elements(build([Path(attnzoo.model_path(PRONUNCIATION))]))
    found = Elements(build([copied]))
    assert found.names == usual.names
    assert f"{name}: attentional recurrent" in found.text
