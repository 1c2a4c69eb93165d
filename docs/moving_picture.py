"""The animation in the README: a translation, word by word, with the attention weights of each word.

``python docs/moving_picture.py`` writes ``docs/translation.gif`` and ``docs/translation.json``, which has the content
of the picture: the model, the sentence, the words of its translation, and the weights. A test compares the README's
statements about the picture with this file.
"""

import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnzoo
from attnzoo.viewer.style import LIGHT, SCALES, colour_bar, colour_map, frame

MODEL = "attentional-rnn-multi30k-en-de"
SENTENCE = "A girl is watching a dog while a man is cleaning a window."
STEPS_A_WORD = 3  # frames in which the row of a word fades in
LAST = 18  # frames at the end without a change


def shown() -> dict[str, object]:
    """What the picture shows."""
    folder = attnzoo.model_path(MODEL)
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(SENTENCE, return_tensors="pt")
    translation = tokenizer.decode(model.generate(**inputs, num_beams=5)[0], skip_special_tokens=True)
    [pair] = attnzoo.align(model, tokenizer, [SENTENCE.split()], [translation.split()])
    weights = [[round(weight, 2) for weight in row] for row in pair.weights.tolist()]
    return {"model": MODEL, "source": pair.source_words, "target": pair.target_words, "weights": weights}


def draw(record: dict[str, object], path: Path) -> None:
    """Write the animation of what :func:`shown` returns."""
    source, target, weights = (record[key] for key in ("source", "target", "weights"))
    figure, axes = plt.subplots(figsize=(7.6, 5.6), dpi=100, facecolor=LIGHT.paper)
    figure.subplots_adjust(left=0.14, right=0.87, top=0.83, bottom=0.03)
    image = axes.imshow(weights, vmin=0, vmax=1, cmap=colour_map(), aspect="auto")
    axes.set_xticks(range(len(source)), source, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(target)), target)
    axes.xaxis.tick_top()
    axes.tick_params(labelsize=12)
    frame(axes, len(source), len(target))
    colour_bar(figure, 1.0, SCALES["common"], figure.add_axes((0.9, 0.43, 0.02, 0.4)))

    def draw_frame(number: int) -> None:
        row, step = divmod(number, STEPS_A_WORD)
        row = min(row, len(weights) - 1)
        fading = (step + 1) / STEPS_A_WORD if number < STEPS_A_WORD * len(weights) else 1
        written = [*weights[:row], [fading * weight for weight in weights[row]]]
        image.set_data(written + [[0] * len(source)] * (len(weights) - len(written)))
        for place, label in enumerate(axes.get_yticklabels()):
            label.set_alpha(1 if place <= row else 0)
            label.set_color(LIGHT.ink if place == row else LIGHT.soft)
        for place, label in enumerate(axes.get_xticklabels()):
            label.set_color(LIGHT.accent if weights[row][place] > 0.2 else LIGHT.soft)

    pictures = FuncAnimation(figure, draw_frame, STEPS_A_WORD * len(weights) + LAST)
    pictures.save(path, PillowWriter(fps=9))


def main() -> None:
    """Write the animation and what it shows."""
    record, path = shown(), Path(__file__).with_name("translation.gif")
    path.with_suffix(".json").write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    draw(record, path)


if __name__ == "__main__":
    main()
