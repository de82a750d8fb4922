"""Exhibits: the figures and tables of a report, as plain values that survive JSON.

A claim, a campaign or a study makes exhibits; `charts.py` draws them and `html.py` puts them on the page. A series
marked `published` holds a paper's own points and is drawn beside ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

ChartKind = Literal["line", "bar", "stack", "cdf", "step"]
Cell = str | float | int | bool | None

JUDGED: Final = "judged"
"""The column of a table whose words are verdicts: the page shows them as it shows verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve or one group of bars. `x` holds numbers, or names for bars."""

    name: str
    x: Sequence[Any]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """Lower ends of the 95% confidence intervals."""
    high: Sequence[float] | None = None
    published: bool = False
    joined: bool = True
    """Whether a line connects the points; False for runs that a curve was fitted to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under named columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure, its axes and the sentence under it. The table behind it is made from its series."""

    title: str
    kind: ChartKind
    x_label: str
    y_label: str
    series: Sequence[Series]
    caption: str = ""
    y_log: bool = False
    x_log: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)
    """Named vertical lines, such as a threshold on the x axis."""

    def table(self) -> Table:
        """The numbers behind the figure: one row per x, one column per series."""
        xs = list(dict.fromkeys(x for series in self.series for x in series.x))
        if all(isinstance(x, int | float) for x in xs):
            xs.sort()
        columns = [self.x_label or "x"]
        looked_up: list[dict[Any, Cell]] = []
        for series in self.series:
            columns.append(f"{series.name} (published)" if series.published else series.name)
            looked_up.append(dict(zip(series.x, series.y, strict=True)))
            if series.low is not None and series.high is not None:
                columns.append("95% interval")
                ends = zip(series.low, series.high, strict=True)
                looked_up.append(
                    {x: f"{low:.4g} to {high:.4g}" for x, (low, high) in zip(series.x, ends, strict=True)}
                )
        return Table(
            title=self.title,
            columns=columns,
            rows=[[x, *(column.get(x) for column in looked_up)] for x in xs],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Film:
    """Frames of one thing over time, as SVG of one size, each with a sentence under it."""

    title: str
    frames: Sequence[str]
    texts: Sequence[str]
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, what there is to say, and the exhibits that show it."""

    title: str
    text: str = ""
    claim: str = ""
    """The claim of the scorecard that it is about, if it is about one: the page says here what became of it."""
    command: str = ""
    """What to type to make this section again."""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    films: Sequence[Film] = ()


def figure_from(data: Mapping[str, Any]) -> Figure:
    return Figure(**{**data, "series": [Series(**series) for series in data["series"]]})


def section_from(data: Mapping[str, Any]) -> Section:
    return Section(
        title=data["title"],
        text=data.get("text", ""),
        claim=data.get("claim", ""),
        command=data.get("command", ""),
        figures=[figure_from(figure) for figure in data.get("figures", ())],
        tables=[Table(**table) for table in data.get("tables", ())],
        films=[Film(**film) for film in data.get("films", ())],
    )
