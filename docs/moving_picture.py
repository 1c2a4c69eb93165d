"""The animation in the README: a translation, word by word, with the attention weights of each word.

python docs/moving_picture.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation, PillowWriter
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import attnzoo

SENTENCE = "A girl is watching a dog while a man is cleaning a window."
BACKGROUND, INK, QUIET = "#0d1117", "#f0f6fc", "#8b949e"
STEPS_A_WORD = 3  # frames in which the row of a word fades in
LAST = 18  # frames at the end without a change


def main() -> None:
    """Draw the animation and save it as docs/translation.gif."""
    folder = attnzoo.model_path("attentional-rnn-multi30k-en-de")
    model, tokenizer = AutoModelForSeq2SeqLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    translation = tokenizer.decode(
        model.generate(**tokenizer(SENTENCE, return_tensors="pt"), num_beams=5)[0], skip_special_tokens=True
    )
    [pair] = attnzoo.align(model, tokenizer, [SENTENCE.split()], [translation.split()])
    weights = pair.weights.numpy()
    figure, axes = plt.subplots(figsize=(7.2, 5.6), dpi=100, facecolor=BACKGROUND)
    figure.subplots_adjust(left=0.16, right=0.91, top=0.83, bottom=0.02)
    axes.set_facecolor(BACKGROUND)
    image = axes.imshow(0 * weights, vmin=0, vmax=1, cmap="inferno", aspect="auto")
    image.cmap.set_under(BACKGROUND)
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(pair.source_words)), pair.source_words, rotation=40, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(len(pair.target_words)), pair.target_words)
    axes.tick_params(length=0, labelsize=12, colors=QUIET)
    for spine in axes.spines.values():
        spine.set_visible(False)

    def draw(frame: int) -> None:
        row, step = divmod(frame, STEPS_A_WORD)
        row = min(row, len(weights) - 1)
        shown = weights.copy()
        shown[row + 1 :] = 0
        if frame < STEPS_A_WORD * len(weights):
            shown[row] *= (step + 1) / STEPS_A_WORD
        image.set_data(shown)
        for place, label in enumerate(axes.get_yticklabels()):
            label.set_alpha(1 if place <= row else 0)
            label.set_color(INK if place == row else QUIET)
        for place, label in enumerate(axes.get_xticklabels()):
            label.set_color(INK if weights[row][place] > 0.2 else QUIET)

    pictures = FuncAnimation(figure, draw, STEPS_A_WORD * len(weights) + LAST)
    pictures.save(Path(__file__).with_name("translation.gif"), PillowWriter(fps=9))


if __name__ == "__main__":
    main()
