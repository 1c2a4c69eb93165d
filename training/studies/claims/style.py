"""The one style of the claims' figures: the colours of ``attnzoo.viewer``, which are equally far apart to the eye."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from attnzoo.viewer.style import LIGHT, colour_map

from .frame import interval

COLOUR_MAP = colour_map()
# Two of the map, and then the colours of Okabe and Ito, which colour-blind readers can tell apart.
INKS = [LIGHT.weights[16], LIGHT.weights[8], "#0072b2", "#e69f00", "#009e73", "#56b4e9", "#7f7f7f"]
MOST_TICKS, NARROWEST_GAP = 7, 0.06
MARKERS, DASHES = "osD^vPX", ("-", "--", "-.", ":", "-", "--", "-.")


def figure(width: float = 7.0, height: float = 4.2) -> Figure:
    """An empty figure of this size in inches."""
    return Figure(figsize=(width, height), layout="constrained")


def plain(axis: Any, **labels: Any) -> Any:
    """Labels, a light grid and no box: how all axes look."""
    axis.set(**labels)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)
    return axis


def lines(axis: Any, places: Sequence[float], series: Mapping[str, Sequence[Sequence[float]]], **labels: Any) -> None:
    """A line for every name: through the means of its values at each place, with their intervals as a band if there are
    not too many lines.

    ``series`` has for every name, and for every place, the values of the seeds.
    """
    for index, (name, values) in enumerate(series.items()):
        means, lows, highs = zip(*(interval(of_place) for of_place in values), strict=True)
        turn, ink = divmod(index, len(INKS))  # in the second turn the colours come again, with other marks
        marker, dash = MARKERS[(ink + 3 * turn) % 7], DASHES[(ink + turn) % 7]
        axis.plot(places, means, color=INKS[ink], marker=marker, linestyle=dash, label=name, ms=4)
        if len(series) <= len(INKS):
            axis.fill_between(places, lows, highs, color=INKS[ink], alpha=0.15, linewidth=0)
    gaps = [(later - place) / (places[-1] - places[0]) for place, later in pairwise(places)]
    if len(places) <= MOST_TICKS and min(gaps, default=1) > NARROWEST_GAP:
        axis.set_xticks(places, [f"{place:g}" for place in places])
    plain(axis, **labels)
    if len(series) > 1:
        axis.legend(frameon=False, fontsize=9)


def bars(axis: Any, series: Mapping[str, Sequence[float]], bound: float | None = None, **labels: Any) -> None:
    """A horizontal bar for every name: the mean of its values, with the interval; a dashed line at ``bound``."""
    for place, values in enumerate(series.values()):
        found = interval(values)
        error = [[found.mean - found.low], [found.high - found.mean]]
        axis.barh(place, found.mean, xerr=error, color=INKS[1], ecolor=INKS[0], capsize=3, height=0.6)
    axis.set_yticks(range(len(series)), list(series))
    axis.invert_yaxis()
    plain(axis, **labels)
    axis.grid(visible=False, axis="y")
    if bound is not None:
        reference(axis, bound, "the bound")


def reference(axis: Any, value: float, name: str, horizontal: bool = False) -> None:
    """A gray dotted line at a value that the others are compared with, and its name at its end."""
    if horizontal:
        axis.axhline(value, color="gray", linestyle=":")
        axis.text(1, value, name, transform=axis.get_yaxis_transform(), ha="right", va="bottom", color="gray", size=8)
    else:
        axis.axvline(value, color="gray", linestyle=":")
        axis.text(value, 1, name, transform=axis.get_xaxis_transform(), ha="center", va="bottom", color="gray", size=8)


def difference_bars(figure: Figure, series: Mapping[str, Sequence[float]], bound: float) -> None:
    """Largest differences of two results that should be equal, on a logarithmic axis; 0 is drawn at 1e-17."""
    axis = figure.subplots()
    bars(axis, {name: [max(value, 2e-17) for value in values] for name, values in series.items()}, bound)
    plain(axis, xlabel="largest difference (1e-17: none)", xscale="log", xlim=(1e-17, None))
    axis.grid(visible=False, axis="y")


def heat_map(
    axis: Any, rows: Sequence[Sequence[float]], columns: Sequence[str], names: Sequence[str], **labels: Any
) -> None:
    """Attention weights from white (0) to dark (the largest), with a name for every column and row."""
    image = axis.imshow(rows, cmap=COLOUR_MAP, vmin=0, aspect="auto")
    axis.set_xticks(range(len(columns)), columns, rotation=90 if max(map(len, columns)) > 2 else 0, parse_math=False)
    axis.set_yticks(range(len(names)), names, parse_math=False)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)
    axis.set(**labels)
    axis.figure.colorbar(image, ax=axis, shrink=0.8, label="attention weight")
