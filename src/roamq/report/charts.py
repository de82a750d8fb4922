"""Figures: one function, one kind of figure. Drawn as SVG with text as text, for light and dark pages alike.

The first eight colours are Okabe and Ito's, which people with any common colour vision can tell apart; line styles and
markers differ too, and ten series have ten looks. Our results are drawn solid; published ones are hollow and dashed in
the same colour.
"""

import io
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from roamq.report.exhibits import Figure, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#7F7F7F",
    "#B8A400",
    "#6A3D9A",
    "#8C2D04",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "p", "h")
DASHES = (
    "-",
    (0, (6, 1.5)),
    (0, (3, 1.2)),
    "-.",
    ":",
    "-",
    (0, (6, 1.5)),
    "-.",
    (0, (8, 1, 1, 1)),
    (0, (2, 2)),
)
INK = "#010203"
"""A placeholder for the page's own text colour. The page also chooses the shade of each of `COLOURS`: a drawing refers
to them as `--s0`, `--s1`, ..., so that they stay readable on a dark page."""

SIZE_IN = (6.4, 3.6)
FEW_DECADES = 100.0
"""A logarithmic axis over less than this has labels at 2 and 5 too."""
ROOM_FOR_NAMES = 64
"""So many characters of names fit under the bars of a figure; more stand beside bars that lie on their side."""
BAR_IN, BETWEEN_BARS_IN = 0.13, 0.16
"""Inches of height for a bar that lies on its side, and for the gap to the next name."""
MOST_MARKERS = 40
"""A line through more points than this is a curve, and needs no markers."""
LEGEND_CHARACTERS = 80
"""How much text fits on a line above a figure of that size."""
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "roamq",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.transparent": True,
}


def draw(figure: Figure) -> str:
    """The figure as an `<svg>` element that scales with the page."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import LogLocator

    with mpl.rc_context(STYLE):
        canvas = Canvas(figsize=_size(figure), layout="constrained")
        axes = canvas.add_subplot()
        DRAW[figure.kind](axes, figure)
        lying = figure.kind in ("bar", "stack") and _lies(figure)
        axes.set_xlabel(figure.y_label if lying else figure.x_label)
        axes.set_ylabel(figure.x_label if lying else figure.y_label)
        for wanted, scale, axis in (
            (figure.y_log if lying else figure.x_log, axes.set_xscale, axes.xaxis),
            (figure.x_log if lying else figure.y_log, axes.set_yscale, axes.yaxis),
        ):
            if wanted:
                scale("log")
                axis.set_major_formatter("{x:g}")
                low, high = axis.get_view_interval()
                if high / low < FEW_DECADES:  # the powers of ten alone would be one tick, or none
                    axis.set_minor_locator(LogLocator(subs=(2, 5)))
                    axis.set_minor_formatter("{x:g}")
        for name, place in figure.marks.items():
            axes.axvline(place, color=INK, alpha=0.5, linewidth=1, linestyle=":")
            axes.annotate(
                name, (place, 1), xycoords=("data", "axes fraction"), fontsize=9, ha="left", va="top"
            )
        if len(figure.series) > 1 or figure.series[0].published:
            _legend(axes)
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), figure.title)


def lines(axes: "Axes", figure: Figure) -> None:
    """Curves over a numeric x, with intervals as bands."""
    for series, look in _looks(figure.series):
        if not series.joined:
            look |= {"linestyle": "", "alpha": 0.6}
        elif len(series.x) > MOST_MARKERS:
            look |= {"marker": ""}
        axes.plot(series.x, series.y, **look)
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=look["color"], alpha=0.15, linewidth=0)
    _from_zero(axes, figure)


def steps(axes: "Axes", figure: Figure) -> None:
    """A step chart: each value holds until the next one begins."""
    for series, look in _looks(figure.series):
        axes.step(series.x, series.y, where="post", **{**look, "marker": ""})
    _from_zero(axes, figure)


def distributions(axes: "Axes", figure: Figure) -> None:
    """Cumulative distributions: the share of at most x."""
    for series, look in _looks(figure.series):
        marker = look["marker"] if series.published else ""
        axes.plot(series.x, series.y, **{**look, "marker": marker})
    axes.set_ylim(0, 1.02)
    if not figure.x_log:
        axes.set_xlim(left=0)


def bars(axes: "Axes", figure: Figure) -> None:
    """Groups of bars over names; published values are hollow."""
    names = _names(figure)
    lying = _lies(figure)
    width = 0.8 / max(len(figure.series), 1)
    for number, (series, look) in enumerate(_looks(figure.series)):
        places = [names.index(x) + (number - (len(figure.series) - 1) / 2) * width for x in series.x]
        error = None
        if series.low is not None and series.high is not None:
            below = [max(y - low, 0.0) for y, low in zip(series.y, series.low, strict=True)]
            above = [max(high - y, 0.0) for y, high in zip(series.y, series.high, strict=True)]
            error = [below, above]
        drawing: dict[str, Any] = {
            "label": look["label"],
            "facecolor": "none" if series.published else look["color"],
            "edgecolor": look["color"],
            "linewidth": 1.4,
            "linestyle": "--" if series.published else "-",
            "error_kw": {"ecolor": INK, "elinewidth": 1, "capsize": 2},
        }
        if lying:
            axes.barh(places, series.y, width * 0.92, xerr=error, **drawing)
        else:
            axes.bar(places, series.y, width * 0.92, yerr=error, **drawing)
    _name_bars(axes, names, lying)
    _from_zero(axes, figure, lying)


def stacks(axes: "Axes", figure: Figure) -> None:
    """One bar per name, in which each series is a layer: for parts of a whole."""
    names = _names(figure)
    lying = _lies(figure)
    ends = dict.fromkeys(names, 0.0)
    for series, look in _looks(figure.series):
        places, starts = [names.index(x) for x in series.x], [ends[x] for x in series.x]
        if lying:
            axes.barh(places, series.y, 0.55, left=starts, color=look["color"], label=look["label"])
        else:
            axes.bar(places, series.y, 0.55, bottom=starts, color=look["color"], label=look["label"])
        for x, y in zip(series.x, series.y, strict=True):
            ends[x] += y
    _name_bars(axes, names, lying)
    _from_zero(axes, figure, lying)


def _names(figure: Figure) -> list[Any]:
    return list(dict.fromkeys(x for series in figure.series for x in series.x))


def _lies(figure: Figure) -> bool:
    """Whether the names under the bars would collide: then the bars lie on their side, and names stand beside them."""
    lengths = [len(str(name)) + 2 for name in _names(figure)]
    each = ROOM_FOR_NAMES / max(len(lengths), 1)
    return sum(lengths) > ROOM_FOR_NAMES or any((a + b) / 2 > each for a, b in pairwise(lengths))


def _size(figure: Figure) -> tuple[float, float]:
    """Bars that lie on their side need height for each of them."""
    width, height = SIZE_IN
    if figure.kind not in ("bar", "stack") or not _lies(figure):
        return width, height
    each = BETWEEN_BARS_IN + BAR_IN * (len(figure.series) if figure.kind == "bar" else 1.2)
    return width, max(height, 1.2 + each * len(_names(figure)))


def _name_bars(axes: "Axes", names: Sequence[Any], lying: bool) -> None:
    labels = [str(name) for name in names]
    spare = max(0, 3 - len(names)) / 2
    ends = -0.5 - spare, len(names) - 0.5 + spare
    if lying:
        axes.set_yticks(range(len(names)), labels)
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(ends[1], ends[0])  # the first name at the top
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
    else:
        axes.set_xticks(range(len(names)), labels)
        axes.tick_params(axis="x", length=0)
        axes.set_xlim(*ends)


DRAW: dict[str, Callable[["Axes", Figure], None]] = {
    "line": lines,
    "bar": bars,
    "stack": stacks,
    "cdf": distributions,
    "step": steps,
}


def _looks(series: Sequence[Series]) -> list[tuple[Series, dict[str, Any]]]:
    """Each series with its colour, dash and marker: a published one shares the colour of its namesake."""
    names = list(dict.fromkeys(curve.name for curve in series))
    looks = []
    for curve in series:
        number = names.index(curve.name)
        shifted = number + number // len(
            COLOURS
        )  # the eleventh has the first one's colour, and another shape
        look: dict[str, Any] = {
            "label": f"{curve.name} (published)" if curve.published else curve.name,
            "color": COLOURS[number % len(COLOURS)],
            "marker": MARKERS[shifted % len(MARKERS)],
            "linestyle": (0, (1, 1.5)) if curve.published else DASHES[shifted % len(DASHES)],
        }
        if curve.published:
            look |= {"markerfacecolor": "none", "linewidth": 1.2, "markersize": 7}
        looks.append((curve, look))
    return looks


def _legend(axes: "Axes") -> None:
    """Above the axes, in as many columns as the longest label leaves room for."""
    _, labels = axes.get_legend_handles_labels()
    columns = max(1, min(4, LEGEND_CHARACTERS // (max(map(len, labels)) + 5)))
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2, handlelength=2.2)


def _from_zero(axes: "Axes", figure: Figure, lying: bool = False) -> None:
    ends = [
        y
        for series in figure.series
        for y in (*series.y, *((series.low or ()) if figure.kind == "bar" else ()))
    ]
    if not figure.y_log and min(ends, default=0.0) >= 0:
        top = None if any(y > 0 for series in figure.series for y in series.y) else 1
        if lying:
            axes.set_xlim(0, top)
        else:
            axes.set_ylim(0, top)


def _inline(svg: str, title: str) -> str:
    """Make the drawing part of a page: no prologue, no fixed size, the page's text colour, a name for screen
    readers.
    """
    body = svg[svg.index("<svg") :]
    body = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) (?:height|width)="[^"]*"', r"\1", body, count=1)
    body = body.replace(INK, "currentColor")
    for number, colour in enumerate(COLOURS):
        body = body.replace(colour.lower(), f"var(--s{number})")
    label = title.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    return body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
