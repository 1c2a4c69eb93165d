"""Pictures of attention. Needs matplotlib: ``pip install attnzoo[plots]``."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_alignments(
    attention_weights: Sequence[Tensor],
    source_tokens: Sequence[Sequence[str]],
    target_tokens: Sequence[Sequence[str]],
    path: str | Path | None = None,
    titles: Sequence[str] | None = None,
    columns: int = 2,
) -> "Figure":
    """Alignments as heat maps, side by side: source tokens along the top, target tokens down the side, as in figure 3
    of Bahdanau et al. (2014). Black is 0, white is 1.

    Args:
        attention_weights: one (T, S) tensor a picture
        source_tokens: the S names of its columns
        target_tokens: the T names of its rows
        path: where to save it, as PNG, PDF or SVG by its ending; None to leave that to the caller
        titles: one for every picture
        columns: pictures in a row

    Raises:
        ValueError: there is nothing to draw, or the weights of a picture do not have a row for every target token and a
            column for every source token.
    """
    from matplotlib.figure import Figure  # a model's user need not have it

    if not attention_weights:
        raise ValueError("there are no alignments to plot")
    for weights, source, target in zip(attention_weights, source_tokens, target_tokens, strict=True):
        if tuple(weights.shape) != (len(target), len(source)):
            raise ValueError(
                f"attention weights of shape {tuple(weights.shape)} do not fit {len(target)} target and "
                f"{len(source)} source tokens"
            )
    if titles is not None and len(titles) != len(attention_weights):
        raise ValueError(f"{len(titles)} titles do not fit {len(attention_weights)} pictures")
    inches = 0.34  # a token, so that its name is legible
    width, height = max(map(len, source_tokens)), max(map(len, target_tokens))
    columns = min(columns, len(attention_weights))
    rows = math.ceil(len(attention_weights) / columns)
    size = columns * (inches * width + 0.7) + 0.9, rows * (inches * height + (0.5 if titles is None else 0.8))
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).flat
    for axis in axes[len(attention_weights) :]:
        axis.remove()
    for index, (weights, source, target) in enumerate(
        zip(attention_weights, source_tokens, target_tokens, strict=True)
    ):
        axis = axes[index]
        if titles is not None:
            axis.set_title(titles[index], parse_math=False)
        image = axis.imshow(weights.detach().float().cpu().numpy(), cmap="gray", vmin=0, vmax=1)
        axis.set_xticks(range(len(source)), source, parse_math=False)
        axis.set_yticks(range(len(target)), target, parse_math=False)
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
    figure.colorbar(image, ax=figure.axes, label="attention weight", aspect=40)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
