"""Pictures of attention, in the colours of ``style.py``. They need matplotlib: the extra ``plots``.

Dimensions: B batch, H heads, T target length, S source length or tokens of a sentence, R hops.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ..installing import pip_install
from .style import LIGHT, SCALES, colour_bar, colour_map, frame

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150
LONGEST_SIDE, MOST_PIXELS = 2**16 - 1, 2**28  # of a picture: what matplotlib can draw, and a gigabyte of memory
Scale = Literal["common", "map"]


def require_page(path: str | Path) -> None:
    """Raise a ValueError unless a file of this name can be an HTML page."""
    if Path(path).suffix.lower() not in (".html", ".htm") or Path(path).is_dir():
        raise ValueError(f"pages are written to files that end in .html or .htm, got {_named(path)}")


def require_picture(path: str | Path) -> None:
    """Raise a ValueError unless matplotlib can write a picture into a file of this name."""
    known = _figure(1, 1).canvas.get_supported_filetypes()
    if Path(path).suffix.lower().removeprefix(".") not in known or Path(path).is_dir():
        raise ValueError(f"pictures are written to files that end in .png, .pdf or .svg, got {_named(path)}")


def _named(path: str | Path) -> str:
    return f"the folder {str(path)!r}" if Path(path).is_dir() else repr(str(path))


def plot_alignments(
    attention_weights: Sequence[Tensor | Sequence[Sequence[float]]],
    source_tokens: Sequence[Sequence[str]],
    target_tokens: Sequence[Sequence[str]],
    path: str | Path | None = None,
    titles: Sequence[str] | None = None,
    columns: int = 2,
    scale: Scale = "common",
) -> "Figure":
    """Alignments as heat maps, side by side: source tokens along the top, target tokens down the side, as in figure 3
    of Bahdanau et al. (2014). The darker, the larger. A token has the same size in all of them.

    Args:
        attention_weights: one (T, S) tensor a picture, or as many lists of rows, as the pipelines give them
        source_tokens: the S names of its columns
        target_tokens: the T names of its rows
        path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
        titles: one for every picture
        columns: pictures in a row
        scale: "common" has the colours from 0 to 1, so that a weight has the same colour everywhere; "map" has them
            from 0 to the largest weight of each map. The colour bar says which

    Raises:
        ValueError: there is nothing to draw, an unknown scale, the lists differ in length, or the weights of a picture
            do not have a row for every target token and a column for every source token.
    """
    if not len(attention_weights):
        raise ValueError("there are no alignments to plot")
    counts = [len(attention_weights), len(source_tokens), len(target_tokens)]
    if len(set(counts)) > 1:
        got = "got {}, {} and {} of them; one picture needs lists of one each".format(*counts)
        raise ValueError(f"every picture needs its attention_weights, source_tokens and target_tokens, {got}")
    if titles is not None and len(titles) != len(attention_weights):
        raise ValueError(f"{len(titles)} titles do not fit {len(attention_weights)} pictures")
    if columns < 1:
        raise ValueError(f"columns must be at least 1, got {columns}")
    maps = [torch.as_tensor(weights) for weights in attention_weights]
    for number, (weights, source, target) in enumerate(zip(maps, source_tokens, target_tokens, strict=True)):
        if not len(source) or not len(target):
            raise ValueError(f"picture {number} has {len(target)} target and {len(source)} source tokens to draw")
        _require_shape("attention weights", tuple(weights.shape), target, source)
    inches = 0.34  # a token, so that its name is legible
    names = [token for tokens in source_tokens for token in tokens]
    is_upright = any(len(token) > 3 for tokens in source_tokens for token in tokens[:-1])  # the last has room
    above = (_inches(names, 10) if is_upright else 0.25) + (0.0 if titles is None else 0.3)
    columns = min(columns, len(maps))
    rows = math.ceil(len(maps) / columns)
    widths = [max(map(len, source_tokens[column::columns])) for column in range(columns)]
    heights = [max(map(len, target_tokens[row * columns : (row + 1) * columns])) for row in range(rows)]
    beside = sum(
        _inches([token for tokens in target_tokens[column::columns] for token in tokens], 10)
        for column in range(columns)
    )
    size = inches * sum(widths) + beside + 0.4 * columns + 1.2, inches * sum(heights) + (above + 0.2) * rows
    figure = _figure(*size, layout="constrained")
    grid = figure.add_gridspec(rows, columns, width_ratios=widths, height_ratios=heights)
    for index, (weights, source, target) in enumerate(zip(maps, source_tokens, target_tokens, strict=True)):
        row, column = divmod(index, columns)
        axis = figure.add_subplot(grid[row, column])
        _heat_map(axis, weights, source, target, scale, rotation=90 if is_upright else 0)
        axis.set(xlim=(-0.5, widths[column] - 0.5), ylim=(heights[row] - 0.5, -0.5))  # so that all cells are alike
        axis.set_title(titles[index] if titles else "", parse_math=False, loc="left", fontsize=11)
    return _finished(figure, path)


def plot_heads(
    attentions: Sequence[Tensor],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | Path | None = None,
    row: int = 0,
    layers: Sequence[int] | None = None,
    scale: Scale = "common",
) -> "Figure":
    """Every head of every layer on one sentence, as a grid of heat maps with a row for each layer.

    Each map is drawn as in :func:`plot_alignments`, with source tokens along the top and target tokens down the side.
    Only the outer maps show the tokens' names. Layers and heads are counted from 0.

    Args:
        attentions: (B, H, T, S) for every layer, as in the output of a model called with ``output_attentions=True``:
            its ``attentions``, ``encoder_attentions``, ``decoder_attentions`` or ``cross_attentions``
        source_tokens: the names of the S tokens that are attended to
        target_tokens: the names of the T tokens that attend; the same in self-attention
        path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
        row: which sentence of the batch
        layers: the numbers of the layers, if they are not all layers from 0
        scale: as in :func:`plot_alignments`

    Raises:
        ValueError: there is no layer, an unknown scale, no such row, or the weights do not have a row for every target
            token and a column for every source token.
    """
    if not len(attentions):
        raise ValueError("there are no attentions to plot; call the model with output_attentions=True")
    if not source_tokens or not target_tokens:
        raise ValueError("there are no tokens to plot the attentions of")
    for number, layer in enumerate(attentions, start=1):
        shape = tuple(layer.shape)
        if layer.ndim != 4 or not 0 <= row < len(layer):
            expected = f"it must be (batch, heads, target, source), with a row {row}"
            raise ValueError(f"layer {number} has attentions of shape {shape}; {expected}")
        _require_shape(f"attentions of layer {number}", shape, target_tokens, source_tokens)
    inches = 0.17  # a token, so that its name is legible
    rows, columns = len(attentions), max(layer.shape[1] for layer in attentions)
    width = columns * (inches * len(source_tokens) + 0.1) + _inches(target_tokens, 7) + 1.3
    height = rows * (inches * len(target_tokens) + 0.1) + _inches(source_tokens, 7) + 0.7
    figure = _figure(width, height, layout="constrained")
    for index, layer in enumerate(attentions):
        for head, weights in enumerate(layer[row]):
            axis = figure.add_subplot(rows, columns, index * columns + head + 1)
            shown = source_tokens if index == 0 else (), target_tokens if head == 0 else ()
            _heat_map(axis, weights, *shown, scale, rotation=90, fontsize=7)
            if index == 0:
                axis.set_title(f"head {head}", fontsize=9)
            if head == 0:
                axis.set_ylabel(f"layer {index if layers is None else layers[index]}", fontsize=9)
    return _finished(figure, path)


def overall_attention(annotation_matrix: Tensor) -> Tensor:
    """The attention of all hops together: their sum, divided by its total (Lin et al., 2017, section 4.1).

    Shape:
        - annotation_matrix: (R, S)
        - returns: (S,), which sum to 1, or are all 0 if the matrix is
    """
    total = annotation_matrix.sum(dim=0)
    return total / total.sum().clamp(min=torch.finfo(total.dtype).tiny)


def plot_sentence(
    annotation_matrix: Tensor,
    tokens: Sequence[str],
    path: str | Path | None = None,
    title: str | None = None,
    width: int = 80,
    scale: Scale = "common",
) -> "Figure":
    """A sentence coloured by the attention of all hops together, and below it by that of each hop, as in figure 2 of
    Lin et al. (2017). Hops are counted from 0.

    Args:
        annotation_matrix: (R, S), the A of the sentence
        tokens: its S tokens, without padding
        path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
        title: above the picture
        width: characters in a line
        scale: as in :func:`plot_alignments`; the picture is one map

    Raises:
        ValueError: there is no token, an unknown scale, or the matrix does not have a column for every token.
    """
    copies = _copies(annotation_matrix, tokens)
    places, line, start = [], 0, 0  # of every token: its line and first character
    for token in tokens:
        if start and start + len(token) > width:
            line, start = line + 1, 0
        places.append((line, start))
        start += len(token) + 1
    lines = line + 1.4  # of a copy, with the space below it
    margin = max(len(name) for name, _ in copies) + 2
    width = max(start + len(token) for (_, start), token in zip(places, tokens, strict=True)) + 1
    width = max(width, math.ceil(1.3 * len(title or "")) - margin, 26)  # 26: the colour bar
    largest = _largest(torch.tensor([weights for _, weights in copies]), scale)
    height, above, below = len(copies) * lines, 0.0 if title is None else 1.6, 2.6  # below: the colour bar
    inches = 0.0845, 0.24  # of a character
    columns, whole = margin + width, height + above + below
    figure = _figure(inches[0] * columns, inches[1] * whole)
    axis = figure.add_axes((0, below / whole, 1, height / whole))
    axis.set(xlim=(-margin, width), ylim=(height, 0))
    axis.axis("off")
    axis.set_title(title or "", parse_math=False, color=LIGHT.ink)
    font = {"family": "monospace", "size": 10, "va": "center", "parse_math": False}
    for index, (name, weights) in enumerate(copies):
        top = index * lines
        axis.text(-margin + 1, top + 0.5, name, color=LIGHT.soft, **font)  # type: ignore[arg-type]
        for (line, start), token, weight in zip(places, tokens, weights, strict=True):
            middle, share = top + line + 0.5, weight / largest
            axis.barh(middle, len(token) + 1, height=1, left=start - 0.5, color=LIGHT.of(share))
            axis.text(start, middle, token, color=LIGHT.text_on(share), **font)  # type: ignore[arg-type]
    bar = figure.add_axes((margin / columns, 1.7 / whole, 24 / columns, 0.6 / whole))
    colour_bar(figure, largest, SCALES["common"], bar)
    return _finished(figure, path)


def _require_shape(what: str, shape: tuple[int, ...], target: Sequence[str], source: Sequence[str]) -> None:
    if shape[-2:] != (len(target), len(source)):
        raise ValueError(f"{what} of shape {shape} do not fit {len(target)} target and {len(source)} source tokens")


def _figure(width: float, height: float, layout: str | None = None) -> "Figure":
    """An empty figure of this size in inches.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        ValueError: it would be longer than ``LONGEST_SIDE``, or have more than ``MOST_PIXELS``.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; {pip_install('plots')}", name=error.name) from error
    pixels = width * DPI, height * DPI
    if max(pixels) > LONGEST_SIDE or math.prod(pixels) > MOST_PIXELS:
        size = "{:,.0f} × {:,.0f} pixels".format(*pixels)  # noqa: RUF001
        raise ValueError(f"a picture of so many tokens would have {size}; draw fewer of them, or one layer or one head")
    return Figure(figsize=(width, height), layout=layout, facecolor=LIGHT.paper)  # type: ignore[arg-type]  # a Literal


def _inches(names: Sequence[str], size: float) -> float:
    """The width of the widest of these names in inches, in letters of this size in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size)
    return max(text_to_path.get_text_width_height_descent(name, font, False)[0] for name in {*names}) / 72


def _heat_map(
    axis: Any, weights: Tensor, source: Sequence[str], target: Sequence[str], scale: str, rotation: int, **font: Any
) -> None:
    """Draw weights (T, S), with the source's names above and the target's on the left, if any."""
    drawn = weights.detach().float().cpu()
    axis.imshow(drawn.numpy(), cmap=colour_map(), vmin=0, vmax=_largest(drawn, scale))
    axis.set_xticks(range(len(source)), source, rotation=rotation, parse_math=False, **font)
    axis.set_yticks(range(len(target)), target, parse_math=False, **font)
    axis.xaxis.tick_top()
    frame(axis, drawn.shape[1], drawn.shape[0])


def _largest(weights: Tensor, scale: str) -> float:
    """The weight that gets the darkest colour."""
    if scale not in SCALES:
        raise ValueError(f"scale must be 'map' or 'common', got {scale!r}")
    return 1.0 if scale == "common" else float(weights.nan_to_num().max()) or 1.0


def _finished(figure: "Figure", path: str | Path | None) -> "Figure":
    """Add the colour bar of the heat maps, if there are any, and save the figure if there is a path."""
    images = [image for axis in figure.axes for image in axis.images]
    if images:
        largest = {image.get_clim()[1] for image in images}
        colour_bar(figure, *((largest.pop(), SCALES["common"]) if len(largest) == 1 else (1.0, SCALES["map"])))
    if path is not None:
        require_picture(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=DPI, bbox_inches="tight", pad_inches=0.1)  # tight: no name is cut
    return figure


def _copies(annotation_matrix: Tensor, tokens: Sequence[str]) -> list[tuple[str, list[float]]]:
    """The name and weights of every copy of a sentence, all hops together first."""
    if annotation_matrix.ndim != 2 or not len(tokens) or annotation_matrix.shape[1] != len(tokens):
        shape = tuple(annotation_matrix.shape)
        raise ValueError(f"an annotation matrix (hops, tokens) of shape {shape} does not fit {len(tokens)} tokens")
    matrix = annotation_matrix.detach().double().cpu()
    names = ["all hops", *(f"hop {number}" for number in range(len(matrix)))]
    return list(zip(names, torch.cat([overall_attention(matrix).unsqueeze(0), matrix]).tolist(), strict=True))
