"""A picture of the confusion matrix: the number of times that each label is predicted for each true label."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from attnzoo.viewer.style import LIGHT, colour_map, frame

LARGEST_WITH_NUMBERS = 20  # labels; with more, the numbers do not fit in their fields


def draw_confusion_matrix(matrix: np.ndarray, labels: Sequence[str], path: Path) -> None:
    """Write a PNG: true labels down the side, predicted ones along the top, each row shaded by its shares.

    Shape:
        - matrix: (number of labels, number of labels), of counts
    """
    from matplotlib.figure import Figure  # takes a second, so only drawing imports it

    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    side = 1.6 + 0.9 * min(len(labels), LARGEST_WITH_NUMBERS)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained", facecolor=LIGHT.paper)
    axis = figure.subplots()
    axis.imshow(shares, cmap=colour_map(), vmin=0, vmax=1)
    axis.set_xticks(range(len(labels)), labels, rotation=0 if len(labels) <= 3 else 60)
    axis.set_yticks(range(len(labels)), labels)
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set(xlabel="predicted", ylabel="true")
    frame(axis, len(labels), len(labels))
    for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
        label.set_parse_math(False)  # a label may have a $ in it
    if len(labels) <= LARGEST_WITH_NUMBERS:
        for (row, column), count in np.ndenumerate(matrix):
            share = float(shares[row, column])
            text = f"{count:,}\n{100 * share:.1f} %"
            axis.text(column, row, text, ha="center", va="center", color=LIGHT.text_on(share))
    figure.savefig(path, dpi=150, bbox_inches="tight", pad_inches=0.1)
