"""A hundred odd texts: the page draws the attention to them, or an error gives the reason.

Run with ``make test-page``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer

import attnzoo
from tests.chromium import Browser
from tests.pronunciation.odd_strings import ODD_STRINGS
from tests.viewer.test_page_in_browser import READY

pytestmark = pytest.mark.browser
MODELS = {
    "self-attentive-sst2": AutoModelForSequenceClassification,
    "small-transformer-sotu-masked": AutoModelForMaskedLM,
    "attentional-rnn-g2p-cmudict": AutoModelForSeq2SeqLM,
}
RIGHT_TO_LEFT = "שלום לכל העולם 👩\u200d👩\u200d👧 مرحبا"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def loaded() -> dict[str, tuple[Any, Any]]:
    paths = {name: attnzoo.model_path(name) for name in MODELS}
    return {
        name: (auto_class.from_pretrained(paths[name]), AutoTokenizer.from_pretrained(paths[name]))
        for name, auto_class in MODELS.items()
    }


def test_every_odd_text_is_drawn_or_refused_with_a_reason(
    browser: Browser, loaded: dict[str, tuple[Any, Any]], tmp_path: Path
) -> None:
    texts = [RIGHT_TO_LEFT, *ODD_STRINGS]
    assert len(texts) >= 100
    drawn, reasons = 0, []
    for number, text in enumerate(texts):
        model, tokenizer = list(loaded.values())[number % len(loaded)]
        try:
            made = attnzoo.view(model, tokenizer, text)
        except ValueError as error:
            reasons.append(str(error))
            continue
        browser.open(made.save(tmp_path / "page.html"), READY)
        said = browser.evaluate("document.body.innerText")
        assert browser.evaluate(READY) == "ready", (text[:50], said[:200])
        assert browser.errors == [], repr(text[:50])
        (maps, *_) = made.maps.values()
        names = browser.evaluate("[...document.querySelectorAll('#from-tokens bdi')].map(e => e.textContent)")
        if names:  # hops have no second row of tokens
            assert names == maps.target.names, repr(text[:50])
        drawn += 1
    assert drawn > len(texts) / 2
    said = ("text is empty", "what the tokenizer cannot read", "max_position_embeddings", "at most 10,000 are shown")
    assert [reason for reason in reasons if not any(part in reason for part in said)] == []
