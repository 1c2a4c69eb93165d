"""The interactive page: one HTML file with its own style and script, which loads nothing from a network.

The weights of a head are stored in 8 bits, as shares of the head's largest weight, gzipped and in base64. The page
unpacks a head when it is chosen. Large maps have small copies for the overview of all heads.
"""

import base64
import ctypes
import gzip
import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ..messages import described
from .pictures import require_page
from .style import DARK, LIGHT

if TYPE_CHECKING:
    from .attention_view import AttentionMaps, AttentionView

MOST_WEIGHTS = 200_000_000  # of a page, in which each has about a byte
OVERVIEW = 64  # tokens on a side of a map in the overview; a larger map is reduced to it
NAMES = {
    "self": ("Self-attention", "Rows and columns are the tokens of the text."),
    "encoder": ("Encoder", "Rows and columns are the tokens of the source."),
    "decoder": ("Decoder", "Rows and columns are the target tokens that the decoder reads."),
    "cross": ("Cross-attention", "A row is the target token that the step predicts, a column is a source token."),
    "hops": ("Hops", "A row is a hop, a column is a token of the text."),
}


def page(views: "Sequence[AttentionView]") -> str:
    """The page of these views, one of which is shown at a time; see :meth:`attnzoo.viewer.AttentionView.to_html`.

    Raises:
        TypeError: ``views`` is not a list of views.
        ValueError: there is no view, or they have more than ``MOST_WEIGHTS``.
    """
    if isinstance(views, str) or not isinstance(views, Sequence) or not all(hasattr(one, "maps") for one in views):
        expected = "a list of what attnzoo.view returns; one view writes its own page: view.save(path)"
        raise TypeError(f"views must be {expected}; got {described(views)}")
    if not views:
        raise ValueError("there are no views to show")
    all_maps = (maps for view in views for maps in view.maps.values())
    refuse_large(sum(weights.numel() for maps in all_maps for weights in maps.weights.values()))
    title = views[0].title if len(views) == 1 else f"{len(views)} texts"
    data = {
        "colours": {"light": LIGHT.weights, "dark": DARK.weights},
        "ink": {"light": [LIGHT.ink, LIGHT.paper], "dark": [DARK.ink, DARK.paper]},
        "views": [
            {
                "title": view.title,
                "model": view.model_name,
                "predictions": view.predictions,
                "maps": [_map(kind, of_kind) for kind, of_kind in view.maps.items()],
            }
            for view in views
        ],
    }
    # Escapes of JSON keep every text inside of the script element: there is no "<" in it.
    packed = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    style = filled("page.css", LIGHT=LIGHT.css(), DARK=DARK.css())
    return filled("page.html", TITLE=html.escape(title), DATA=packed, STYLE=style, SCRIPT=_read("page.js"))


def save_page(views: "Sequence[AttentionView]", path: str | Path) -> Path:
    """Write one page of several views to a file; missing folders are made.

    Raises:
        TypeError: ``views`` is not a list of views.
        ValueError: there is no view, they have more than ``MOST_WEIGHTS``, or the file name does not end in .html or
            .htm.
    """
    path = Path(path)
    require_page(path)
    text = page(views)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refuse_large(count: int) -> None:
    """Raise a ValueError if a page of this number of weights is more than a browser can open."""
    if count > MOST_WEIGHTS:
        size = f"{count:,} weights, more than the {MOST_WEIGHTS:,} that a browser can show"
        raise ValueError(f"the page would have {size}; give a shorter text, or fewer layers, such as the last one: -1")


def filled(name: str, **values: str) -> str:
    """The HTML file of this name, with every value in its place. Placeholders inside a value are not replaced."""
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], _read(name))


def _read(name: str) -> str:
    """The text of a file in this package."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _map(kind: str, maps: "AttentionMaps") -> dict[str, Any]:
    """The data of one kind of attention for the page's script."""
    target, source, weights = maps
    name, caption = NAMES[kind]
    layers = [of_layer.nan_to_num() for of_layer in weights.values()]
    largest = [of_layer.amax(dim=(1, 2)).tolist() for of_layer in layers]
    levels = [_levels(of_layer, scales) for of_layer, scales in zip(layers, largest, strict=True)]
    rows, columns = min(OVERVIEW, len(target.names)), min(OVERVIEW, len(source.names))
    overview = None
    if max(len(target.names), len(source.names)) > OVERVIEW:
        reduced = [nn.functional.adaptive_max_pool2d(of_layer.float(), (rows, columns)) for of_layer in levels]
        overview = _packed(torch.cat(reduced).to(torch.uint8))
    number, head, clarity = maps.best_head()
    is_one = len(layers) == len(layers[0]) == 1
    return {
        "kind": kind,
        "name": name if kind == "hops" or not is_one else "Attention",
        "caption": caption,
        "rows": target.names,
        "columns": source.names,
        "rowWords": target.words,
        "columnWords": source.words,
        "rowWordNames": target.word_names or target.names,
        "columnWordNames": source.word_names or source.names,
        "layers": list(weights),
        "best": [list(weights).index(number), head],
        "clarity": clarity,
        "largest": largest,
        "overview": overview,
        "overviewSize": [rows, columns],
        "heads": [[_packed(head) for head in heads] for heads in levels],
    }


def _levels(weights: Tensor, largest: list[float]) -> Tensor:
    """Weights (H, T, S) as whole numbers from 0 to 255; 255 is the largest weight of its head."""
    scales = torch.tensor([255 / weight if weight > 0 else 0 for weight in largest])
    return (weights * scales[:, None, None]).round().clamp(0, 255).to(torch.uint8)


def _packed(levels: Tensor) -> str:
    levels = levels.contiguous()
    raw = ctypes.string_at(levels.data_ptr(), levels.numel())
    # Level 4 is three times as fast as 9 and 2 % larger; mtime=0: the same weights give the same page.
    return base64.b64encode(gzip.compress(raw, compresslevel=4, mtime=0)).decode()
