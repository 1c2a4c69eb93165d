"""The colours of pictures and pages, in a light and a dark theme: for attention weights, paper and ink.

The pictures of attention, the interactive page, the page that pronounces words and the documentation site all take
their colours from here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

SCALES = {"common": "attention weight", "map": "attention weight,\nas a share of the map's largest"}


class Theme(NamedTuple):
    """The colours of one theme, as hexadecimal numbers.

    Attributes:
        weights: the colours of attention weights, from 0 to the largest of the scale; between two neighbours a colour
            is interpolated. They are equally far apart in OKLab (Ottosson, 2020).
        paper: the background
        panel: the background of controls
        ink: text
        soft: names and captions
        line: lines between parts
        accent: what is chosen
        mark: the background of what the pointer is on
    """

    weights: tuple[str, ...]
    paper: str
    panel: str
    ink: str
    soft: str
    line: str
    accent: str
    mark: str

    def css(self) -> str:
        """All colours except those of the weights, as variables of CSS such as ``--paper``."""
        return " ".join(f"--{name}: {value};" for name, value in self._asdict().items() if name != "weights")

    def of(self, share: float) -> str:
        """The colour of a weight, given as a share of the scale from 0 to 1."""
        place = min(max(share, 0.0), 1.0) * (len(self.weights) - 1)
        left = min(int(place), len(self.weights) - 2)
        pair = zip(_rgb(self.weights[left]), _rgb(self.weights[left + 1]), strict=True)
        return "#" + "".join(f"{round(low + (place - left) * (high - low)):02x}" for low, high in pair)

    def text_on(self, share: float) -> str:
        """The colour of text on a weight's colour: ink or paper, whichever contrasts more."""
        return max((self.ink, self.paper), key=lambda text: contrast(text, self.of(share)))


# 17 colours of a weight each.
_LIGHT = (
    "#fdfdfd #f9ecdb #f8d9bb #f8c49f #f8ae89 #f5977a #ee8072 #e56b71 #d75773 "
    "#c64676 #b2387a #9c2d7c #84267b #6d2076 #551d6d #3f1960 #2a164f"
)
_DARK = (
    "#1a1028 #2b153b #40194a #571c56 #6f1e5d #872361 #9f2960 #b5345d #c94258 "
    "#da5452 #e7694d #f17f4e #f79657 #faae69 #fbc483 #fbdaa2 #fdeec3"
)
LIGHT = Theme(
    weights=tuple(_LIGHT.split()),
    paper="#fdfcfa",
    panel="#ffffff",
    ink="#1d1a26",
    soft="#6a6575",
    line="#e4dfe6",
    accent="#8a2f76",
    mark="#f3e3ee",
)
DARK = Theme(
    weights=tuple(_DARK.split()),
    paper="#14121a",
    panel="#1b1824",
    ink="#ece8f0",
    soft="#a49db0",
    line="#34303f",
    accent="#f39ac4",
    mark="#3a2440",
)


def contrast(one: str, other: str) -> float:
    """The contrast of two colours by WCAG 2, from 1 (equal) to 21 (black on white)."""
    darker, lighter = sorted(_luminance(_rgb(colour)) for colour in (one, other))
    return (lighter + 0.05) / (darker + 0.05)


def colour_map() -> "Colormap":
    """The colours of attention weights for matplotlib, light.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("attention", LIGHT.weights, N=241)  # 15 steps between neighbours


def colour_bar(figure: Any, largest: float, label: str, axis: Any = None) -> None:
    """The legend of a picture: the colours from 0 to ``largest``, in an axis of its own or at the right of all axes."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(Normalize(0, largest), colour_map())
    if axis is None:
        share = min(1.0, 3.0 / figure.get_figheight())  # at most three inches
        place = {"ax": figure.axes, "shrink": share, "aspect": 24, "anchor": (0.0, 1.0)}
    else:
        box = axis.get_position()
        inches = box.width * figure.get_figwidth(), box.height * figure.get_figheight()
        place = {"cax": axis, "orientation": "horizontal" if inches[0] > inches[1] else "vertical"}
    bar = figure.colorbar(colours, label=label, **place)
    bar.outline.set(edgecolor=LIGHT.line, linewidth=0.8)
    bar.ax.tick_params(color=LIGHT.line, labelcolor=LIGHT.soft, labelsize=9)
    for text in (bar.ax.xaxis.label, bar.ax.yaxis.label):
        text.set(color=LIGHT.soft, size=9)


def frame(axis: Any, width: float, height: float) -> None:
    """Draw the thin frame of a map of ``width`` columns and ``height`` rows, instead of the axis's own."""
    from matplotlib.patches import Rectangle

    axis.spines[:].set_visible(False)
    axis.set_facecolor("none")
    axis.add_patch(Rectangle((-0.5, -0.5), width, height, fill=False, color=LIGHT.line, linewidth=0.8, clip_on=False))
    axis.tick_params(length=0, colors=LIGHT.ink)


def _rgb(colour: str) -> Sequence[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def _luminance(rgb: Sequence[int]) -> float:
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (part / 255 for part in rgb)]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
