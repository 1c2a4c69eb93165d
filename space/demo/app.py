"""A Gradio Space: pronunciation, translation and sentiment, each with what the model attends to.

Run it on this machine: install attnzoo, attnzoo-models and gradio, then ``python app.py``.
"""

from functools import cache
from typing import Any

from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification, AutoTokenizer

from attnzoo import model_path, view
from attnzoo.pronunciation import Pronouncer
from attnzoo.shipped_models import SENTIMENT, TRANSLATION

VOICES = {
    "American, ARPABET": ("en-us", "arpabet"),
    "American, Kokoro's phones with stress": ("en-us", "kokoro"),
    "British, Kokoro's phones with stress": ("en-gb", "kokoro"),
}
MOST_LETTERS = 300  # of a text: the machine behind a Space is small


@cache
def _pronouncer(voice: str) -> Pronouncer:
    return Pronouncer(*VOICES[voice])


@cache
def _model(name: str) -> tuple[Any, Any]:
    auto_class = AutoModelForSequenceClassification if name == SENTIMENT else AutoModelForSeq2SeqLM
    return auto_class.from_pretrained(model_path(name)).eval(), AutoTokenizer.from_pretrained(model_path(name))


def pronounce(text: str, voice: str) -> list[list[str]]:
    """A row for every word: the word, its phonemes, where they are from, and how sure the model is of them."""
    return [
        [word.text, word.phonemes or "", word.source, "" if word.confidence is None else f"{word.confidence:.2f}"]
        for word in _pronouncer(voice)(text[:MOST_LETTERS])
        if word.source != "punctuation"
    ]


def translate(text: str) -> tuple[str, str]:
    """The German of an English sentence, and the page of the attention as HTML."""
    if not text.strip():
        return "", ""
    model, tokenizer = _model(TRANSLATION)
    inputs = tokenizer(text[:MOST_LETTERS], return_tensors="pt")
    german = tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True)
    return german, view(model, tokenizer, text[:MOST_LETTERS], german)._repr_html_() if german.strip() else ""


def classify(text: str) -> tuple[dict[str, float], str]:
    """The probability of every class of a sentence, and the page of the hops as HTML."""
    if not text.strip():
        return {}, ""
    model, tokenizer = _model(SENTIMENT)
    logits = model(**tokenizer(text[:MOST_LETTERS], return_tensors="pt")).logits[0].softmax(-1).tolist()
    scores = {model.config.id2label[number]: score for number, score in enumerate(logits)}
    return scores, view(model, tokenizer, text[:MOST_LETTERS])._repr_html_()


def build() -> Any:
    """The app."""
    import gradio

    with gradio.Blocks(title="attnzoo") as app:
        gradio.Markdown("# attnzoo\nSmall attention models. Everything runs on this Space; no text is stored.")
        with gradio.Tab("Pronounce"):
            words = gradio.Textbox("Blorpson met the colonel.", label="English text")
            voice = gradio.Dropdown(list(VOICES), value=next(iter(VOICES)), label="Voice")
            button = gradio.Button("Pronounce")
            headers = ["word", "phonemes", "source", "confidence"]
            button.click(pronounce, [words, voice], gradio.Dataframe(headers=headers, label="Pronunciation"))
        with gradio.Tab("Translate"):
            english = gradio.Textbox("Two dogs play in the snow.", label="English caption")
            button = gradio.Button("Translate")
            button.click(translate, english, [gradio.Textbox(label="German"), gradio.HTML()])
        with gradio.Tab("Sentiment"):
            sentence = gradio.Textbox("A moving film.", label="English sentence")
            button = gradio.Button("Classify")
            button.click(classify, sentence, [gradio.Label(label="Sentiment"), gradio.HTML()])
    return app


if __name__ == "__main__":
    build().launch()
