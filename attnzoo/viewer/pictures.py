"""Pictures of attention. The figures need matplotlib (``pip install attnzoo[plots]``); the HTML page does not.

Letters in shapes: B batch, H heads, T target length, S source length or tokens of a sentence, R hops.
"""

import html
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from .page import filled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# The light colours of the page (makePalette in page.js), 17 of its 256: equally far apart in OKLab (Ottosson, 2020).
COLOURS = (
    "#fdfdfd #f9ecdb #f8d9bb #f8c49f #f8ae89 #f5977a #ee8072 #e56b71 #d75773 "
    "#c64676 #b2387a #9c2d7c #84267b #6d2076 #551d6d #3f1960 #2a164f"
)


def require_page(path: str | Path) -> None:
    """Raise a ValueError unless a file of this name can be an HTML page."""
    if Path(path).suffix.lower() not in (".html", ".htm") or Path(path).is_dir():
        raise ValueError(f"pages are written to files that end in .html or .htm, got {str(path)!r}")


def require_picture(path: str | Path) -> None:
    """Raise a ValueError unless matplotlib can write a picture into a file of this name."""
    known = _figure(1, 1).canvas.get_supported_filetypes()
    if Path(path).suffix.lower().removeprefix(".") not in known or Path(path).is_dir():
        raise ValueError(f"pictures are written to files that end in .png, .pdf or .svg, got {str(path)!r}")


def plot_alignments(
    attention_weights: Sequence[Tensor | Sequence[Sequence[float]]],
    source_tokens: Sequence[Sequence[str]],
    target_tokens: Sequence[Sequence[str]],
    path: str | Path | None = None,
    titles: Sequence[str] | None = None,
    columns: int = 2,
    scale: Literal["map", "common"] = "map",
) -> "Figure":
    """Alignments as heat maps, side by side: source tokens along the top, target tokens down the side, as in figure 3
    of Bahdanau et al. (2014). The darker, the larger; equal steps of a weight are equal steps in OKLab.

    Args:
        attention_weights: one (T, S) tensor a picture, or as many lists of rows, as the pipelines give them
        source_tokens: the S names of its columns
        target_tokens: the T names of its rows
        path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
        titles: one for every picture
        columns: pictures in a row
        scale: "map" gives the largest weight of every picture the darkest colour; "common" gives it to 1

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
    maps = [torch.as_tensor(weights) for weights in attention_weights]
    for weights, source, target in zip(maps, source_tokens, target_tokens, strict=True):
        _require_shape("attention weights", tuple(weights.shape), target, source)
    inches = 0.34  # a token, so that its name is legible
    width, height = max(map(len, source_tokens)), max(map(len, target_tokens))
    longest = max(len(token) for tokens in source_tokens for token in tokens)
    is_upright = any(len(token) > 3 for tokens in source_tokens for token in tokens[:-1])  # the last has room beside
    above = 0.1 * longest if is_upright else 0.0
    columns = min(columns, len(maps))
    rows = math.ceil(len(maps) / columns)
    size = columns * (inches * width + 0.7) + 0.9, rows * (inches * height + above + (0.5 if titles is None else 0.8))
    figure = _figure(*size, layout="constrained")
    for index, (weights, source, target) in enumerate(zip(maps, source_tokens, target_tokens, strict=True)):
        axis = figure.add_subplot(rows, columns, index + 1)
        _heat_map(axis, weights, source, target, scale, rotation=90 if is_upright else 0)
        axis.set_title(titles[index] if titles else "", parse_math=False)
    return _finished(figure, path)


def plot_heads(
    attentions: Sequence[Tensor],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | Path | None = None,
    row: int = 0,
    layers: Sequence[int] | None = None,
    scale: Literal["map", "common"] = "map",
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
    names = 0.07 * max(map(len, (*source_tokens, *target_tokens)))
    width = columns * (inches * len(source_tokens) + 0.1) + names + 1.2
    height = rows * (inches * len(target_tokens) + 0.1) + names + 0.6
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
) -> "Figure":
    """A sentence coloured by the attention of all hops together, and below it by that of each hop, as in figure 2 of
    Lin et al. (2017). White is 0. In every copy of the sentence the token with the largest weight has the full colour.

    Args:
        annotation_matrix: (R, S), the A of the sentence
        tokens: its S tokens, without padding
        path: a file to save it to, PNG, PDF or SVG by its suffix; None saves nothing
        title: above the picture
        width: characters in a line

    Raises:
        ValueError: there is no token, or the matrix does not have a column for every one.
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
    width = max(width, math.ceil(1.3 * len(title or "")) - margin)
    height, above = len(copies) * lines, 0.0 if title is None else 1.6
    inches = 0.0845, 0.24  # of a character
    figure = _figure(inches[0] * (margin + width), inches[1] * (height + above))
    axis = figure.add_axes((0, 0, 1, height / (height + above)))
    axis.set(xlim=(-margin, width), ylim=(height, 0))
    axis.axis("off")
    axis.set_title(title or "", parse_math=False)
    font = {"family": "monospace", "size": 10, "va": "center", "parse_math": False}
    for index, (name, weights) in enumerate(copies):
        top = index * lines
        axis.text(-margin + 1, top + 0.5, name, color="gray", **font)  # type: ignore[arg-type]
        for (line, start), token, weight in zip(places, tokens, weights, strict=True):
            middle = top + line + 0.5
            axis.barh(middle, len(token) + 1, height=1, left=start - 0.5, color=_RED, alpha=weight)
            axis.text(start, middle, token, **font)  # type: ignore[arg-type]
    return _finished(figure, path)


def sentences_html(
    annotation_matrices: Sequence[Tensor],
    tokens: Sequence[Sequence[str]],
    path: str | Path | None = None,
    titles: Sequence[str] | None = None,
) -> str:
    """A web page with every sentence coloured as in :func:`plot_sentence`; the hops unfold below it.

    The page is one file without scripts and loads nothing from a network. Tokens and titles appear literally.

    Args:
        annotation_matrices: one (R, S) tensor a sentence
        tokens: the S tokens of each, without padding
        path: a file to save it to; None saves nothing
        titles: one for every sentence, such as the model's prediction

    Raises:
        ValueError: there is nothing to draw, or a matrix does not have a column for every token of its sentence.
    """
    if not annotation_matrices:
        raise ValueError("there are no sentences to show")
    if titles is not None and len(titles) != len(annotation_matrices):
        raise ValueError(f"{len(titles)} titles do not fit {len(annotation_matrices)} sentences")
    sections = []
    for index, (matrix, words) in enumerate(zip(annotation_matrices, tokens, strict=True)):
        (_, overall), *hops = [(name, _coloured(weights, words)) for name, weights in _copies(matrix, words)]
        title = "" if titles is None else f"<h2>{html.escape(titles[index])}</h2>"
        unfolded = "".join(f"<p><small>{name}</small> {line}</p>" for name, line in hops)
        sections.append(
            f"<section>{title}<p>{overall}</p><details><summary>each hop</summary>{unfolded}</details></section>"
        )
    page = filled("sentences.html", SECTIONS="\n".join(sections))
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(page, encoding="utf-8")
    return page


def _require_shape(what: str, shape: tuple[int, ...], target: Sequence[str], source: Sequence[str]) -> None:
    if shape[-2:] != (len(target), len(source)):
        raise ValueError(f"{what} of shape {shape} do not fit {len(target)} target and {len(source)} source tokens")


def _figure(width: float, height: float, layout: str | None = None) -> "Figure":
    """An empty figure of this size in inches.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}; pip install 'attnzoo[plots]'", name=error.name) from error
    return Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]  # a Literal


def _heat_map(
    axis: Any, weights: Tensor, source: Sequence[str], target: Sequence[str], scale: str, rotation: int, **font: Any
) -> None:
    """Draw weights (T, S), with the source's names above and the target's on the left, if any."""
    if scale not in ("map", "common"):
        raise ValueError(f"scale must be 'map' or 'common', got {scale!r}")
    from matplotlib.colors import LinearSegmentedColormap

    drawn = weights.detach().float().cpu()
    largest = float(drawn.nan_to_num().max()) if scale == "map" else 1.0
    colours = LinearSegmentedColormap.from_list("attention", COLOURS.split())
    axis.imshow(drawn.numpy(), cmap=colours, vmin=0, vmax=largest or 1.0)
    axis.set_xticks(range(len(source)), source, rotation=rotation, parse_math=False, **font)
    axis.set_yticks(range(len(target)), target, parse_math=False, **font)
    axis.xaxis.tick_top()
    axis.tick_params(length=0)
    axis.spines[:].set_color("lightgray")


def _finished(figure: "Figure", path: str | Path | None) -> "Figure":
    """Add the colour bar of the heat maps, if there are any, and save the figure if there is a path."""
    from matplotlib.cm import ScalarMappable

    images = [image for axis in figure.axes for image in axis.images]
    if images:
        is_one_scale = len({image.get_clim() for image in images}) == 1
        label = "attention weight" if is_one_scale else "attention weight, as a share of the map's largest"
        colours = images[0] if is_one_scale else ScalarMappable(cmap=images[0].cmap)
        figure.colorbar(colours, ax=figure.axes, label=label, aspect=40)
    if path is not None:
        require_picture(path)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
    return figure


_RED = "#e0503c"


def _copies(annotation_matrix: Tensor, tokens: Sequence[str]) -> list[tuple[str, list[float]]]:
    """The name and weights of every copy of a sentence, all hops together first; the largest weight of a copy is 1."""
    if annotation_matrix.ndim != 2 or not len(tokens) or annotation_matrix.shape[1] != len(tokens):
        shape = tuple(annotation_matrix.shape)
        raise ValueError(f"an annotation matrix (hops, tokens) of shape {shape} does not fit {len(tokens)} tokens")
    matrix = annotation_matrix.detach().double().cpu()
    names = ["all hops", *(f"hop {number}" for number in range(1, len(matrix) + 1))]
    lines = torch.cat([overall_attention(matrix).unsqueeze(0), matrix])
    largest = lines.amax(dim=1, keepdim=True)
    scaled = lines / largest.where(largest > 0, 1.0)
    return list(zip(names, scaled.tolist(), strict=True))


def _coloured(weights: list[float], tokens: Sequence[str]) -> str:
    red, green, blue = (int(_RED[place : place + 2], 16) for place in (1, 3, 5))
    return " ".join(
        f'<span style="background:rgba({red},{green},{blue},{weight:.3f})">{html.escape(token)}</span>'
        for token, weight in zip(tokens, weights, strict=True)
    )
