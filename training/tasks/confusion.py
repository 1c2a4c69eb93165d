"""A picture of the confusion matrix: how often each label is predicted for each other one."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

LARGEST_WITH_NUMBERS = 20  # labels; in more, a number has no room in its field


def draw_confusion_matrix(matrix: np.ndarray, labels: Sequence[str], path: Path) -> None:
    """Write a PNG: true labels down the side, predicted ones along the top, each row shaded by its shares.

    Shape:
        - matrix: (number of labels, number of labels), of counts
    """
    from matplotlib.figure import Figure  # takes a second, which no other training should wait for

    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    side = 1.6 + 0.9 * min(len(labels), LARGEST_WITH_NUMBERS)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axis = figure.subplots()
    axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    axis.set_xticks(range(len(labels)), labels, rotation=0 if len(labels) <= 3 else 60)
    axis.set_yticks(range(len(labels)), labels)
    axis.xaxis.tick_top()
    axis.xaxis.set_label_position("top")
    axis.set(xlabel="predicted", ylabel="true")
    for label in (*axis.get_xticklabels(), *axis.get_yticklabels()):
        label.set_parse_math(False)  # a label may have a $ in it
    if len(labels) <= LARGEST_WITH_NUMBERS:
        for (row, column), count in np.ndenumerate(matrix):
            color = "white" if shares[row, column] > 0.5 else "black"
            axis.text(
                column, row, f"{count:,}\n{100 * shares[row, column]:.1f} %", ha="center", va="center", color=color
            )
    figure.savefig(path, dpi=150)
