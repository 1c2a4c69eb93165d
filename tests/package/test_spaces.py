"""What lies in ``space/`` for the Hub: the Gradio app and the repository of the search."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnzoo
from attnzoo.shipped_models import PRONUNCIATION

SPACE = Path(__file__).parents[2] / "space"


@pytest.fixture(scope="module")
def app() -> Any:
    """The module of the app; Gradio is only needed to draw it."""
    spec = importlib.util.spec_from_file_location("app_of_the_space", SPACE / "demo" / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
