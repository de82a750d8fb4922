"""The page: self-contained, with the published points beside ours and the numbers behind every figure."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.pipeline.schemas import RunRow, SummaryRow
from roamq.report.charts import COLOURS, DRAW, INK, _lies, _looks, draw, lines
from roamq.report.exhibits import JUDGED, Cell, ChartKind, Figure, Section, Series, Table
from roamq.report.html import render
from roamq.report.numbers import cell, looks_of, short_number, with_interval
from roamq.report.page import Page, ScoreRow, read_page, write_page
from roamq.report.simulation import simulation_page
from tests.support.few import few

FIGURE = Figure(
    title="Overhead <average> & more",
    kind="line",
    x_label="subscribers",
    y_label="ratio",
    series=[
        Series(name="standard", x=[200, 800], y=[0.5, 1.0], low=[0.4, 0.9], high=[0.6, 1.1]),
        Series(name="standard", x=[800], y=[0.8], published=True),
    ],
)
PAGE = Page(
    title="A page",
    command="roamq demo",
    facts=[("runs", "3")],
    scorecard=[
        ScoreRow(
            claim="DIS-F3",
            title="t",
            published="about 0.8",
            ours="0.79",
            verdict="reproduced",
            why="<script>alert(1)</script>",
        )
    ],
    sections=[
        Section(title="One", figures=[FIGURE]),
        Section(
            title="Two", figures=[FIGURE], tables=[Table(title="T", columns=["a", "b"], rows=[["x", None]])]
        ),
    ],
    warnings=["toy/standard seed 3 failed: it broke"],
)


class Outside(HTMLParser):
    """Collects ids and everything that a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.ids: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("src", "href", "xlink:href") and not (value or "").startswith("#"):
                self.fetched.append(value or "")
            if name == "id":
                self.ids.append(value or "")
        assert tag not in ("script", "link", "iframe", "img"), tag


@pytest.mark.parametrize("kind", few(["line", "bar", "stack", "cdf", "step"]))
def test_every_kind_of_figure_is_an_inline_drawing_in_the_pages_colours(kind: ChartKind) -> None:
    svg = draw(replace(FIGURE, kind=kind))

    assert svg.startswith('<svg role="img" aria-label="Overhead &lt;average> &amp; more"')
    assert "standard (published)" in svg
    assert "var(--s0)" in svg
    assert INK not in svg
    assert COLOURS[0].lower() not in svg
    assert not re.search(r'<svg[^>]*(?:width|height)="', svg)


def test_bars_lie_on_their_side_where_two_names_would_collide() -> None:
    def lies(*names: str) -> bool:
        return _lies(replace(FIGURE, kind="bar", series=[Series(name="ours", x=names, y=[1.0] * len(names))]))

    assert not lies("B1", "B2", "B3", "B4", "B5", "B6", "away")
    assert lies("B1", "B2", "B3", "B4", "B5", "B6", "disconnect+handoff"), "over its neighbor"
    assert lies(*(f"a name of its own {n}" for n in range(9)))


def test_bars_on_their_side_have_the_logarithmic_axis_below() -> None:
    names = [f"a rather long name {n}" for n in range(9)]
    lying = replace(
        FIGURE, kind="bar", y_log=True, series=[Series(name="ours", x=names, y=[10.0**n for n in range(9)])]
    )

    assert ">1e+06<" in draw(lying)


def test_a_claim_leads_to_its_section_which_says_what_became_of_it() -> None:
    row = replace(PAGE.scorecard[0], why="does not hold: a; undecided: b; undecided: c", verdict="differs")
    table = Table(title="S", columns=["the paper says", JUDGED], rows=[["it falls", "does not hold"]])
    section = Section(title="DIS-F3: t", claim="DIS-F3", tables=[table])
    html = render(replace(PAGE, scorecard=[row], sections=[section]))

    assert '<a href="#DIS-F3">DIS-F3</a>' in html
    told = html[html.index('<section id="DIS-F3">') :]
    assert '<span class="verdict differs">differs</span>' in told
    assert "<li>undecided: c</li>" in told
    assert '<span class="verdict does-not-hold">does not hold</span>' in told
    listed = html[: html.index("<section")]
    assert "<summary>2 more</summary>" in listed, (
        "the scorecard names the first reason, and keeps the others folded"
    )


def test_columns_of_numbers_are_set_as_numbers_and_long_texts_are_wrapped() -> None:
    rows: list[list[Cell]] = [
        ["a", 1.5, "0.9 (0.8 to 1)", "above 1", "x" * 60],
        ["b", None, "", "0.9 to 1.1", ""],
    ]

    assert looks_of(5, rows) == ["", "n", "n", "", "long"]
    assert looks_of(2, []) == ["n", "n"]


def test_equal_figures_are_drawn_equally() -> None:
    assert draw(FIGURE) == draw(FIGURE)


def test_points_that_are_not_joined_have_no_line_and_long_curves_no_markers() -> None:
    from matplotlib.figure import Figure as Canvas

    many = list(range(100))
    series = [Series(name="runs", x=[1, 2], y=[2, 1], joined=False), Series(name="curve", x=many, y=many)]
    axes = Canvas().add_subplot()

    lines(axes, replace(FIGURE, series=series))

    runs, curve = axes.lines
    assert (runs.get_linestyle(), runs.get_marker()) == ("None", "o")
    assert (curve.get_linestyle() != "None", curve.get_marker()) == (True, "")


@pytest.mark.slow
def test_ten_series_have_ten_looks() -> None:
    series = [Series(name=f"scheme {n}", x=[0, 1], y=[n, n]) for n in range(10)]

    looks = [(look["color"], look["marker"], str(look["linestyle"])) for _, look in _looks(series)]

    assert len({colour for colour, _, _ in looks}) == 10
    assert len({(marker, dash) for _, marker, dash in looks}) == 10, "without colour, too"
    assert all(f"--s{n}:" in render(PAGE) for n in range(10)), "the page has a shade for each"


def test_an_eleventh_series_does_not_look_like_the_first() -> None:
    """There are eleven schemes, and `roamq simulate prehandoff --scheme all` draws them together."""
    series = [Series(name=f"scheme {n}", x=[0, 1], y=[n, n]) for n in range(11)]

    assert len({(look["color"], look["marker"]) for _, look in _looks(series)}) == 11


@pytest.mark.parametrize("kind", ["bar", "stack"])
def test_long_names_stand_beside_bars_that_lie_on_their_side(kind: ChartKind) -> None:
    from matplotlib.figure import Figure as Canvas

    names = [f"prefetching+on-device {n}" for n in range(10)]
    figure = replace(FIGURE, kind=kind, series=[Series(name="mean", x=names, y=[1.0] * 10)])
    axes = Canvas().add_subplot()

    DRAW[kind](axes, figure)

    assert [label.get_text() for label in axes.get_yticklabels()] == names
    assert axes.yaxis_inverted(), "the first name is at the top"
    assert draw(figure).count("prefetching+on-device") >= 10


def test_a_throughput_of_120_bars_is_not_drawn() -> None:
    rows = [
        SummaryRow("s", f"scheme{n}", {}, "broker_throughput", f"b{b}", 1, 1.0, None, None)
        for n in range(10)
        for b in range(12)
    ]

    page = simulation_page(rows, [], [], title="x", command="x")

    assert "Throughput by broker" not in [f.title for section in page.sections for f in section.figures]


def test_a_row_of_a_table_names_its_columns_for_a_phone() -> None:
    assert '<td class="n" data-label="b">' in render(PAGE)


def test_a_single_picture_has_nothing_to_play() -> None:
    from roamq.report.exhibits import Film
    from roamq.report.film import film_markup

    still, moving = (film_markup(Film(title="t", frames=["<svg/>"] * n, texts=[""] * n)) for n in (1, 2))

    assert "Play" not in still
    assert "Play" in moving


def test_the_page_fetches_nothing_escapes_text_and_repeats_no_id() -> None:
    text = render(PAGE)

    page = Outside()
    page.feed(text)
    assert page.fetched == []
    assert len(page.ids) == len(set(page.ids))
    assert "<script>" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "@import" not in text
    assert "url(http" not in text


def test_the_numbers_behind_a_figure_stand_beside_it() -> None:
    table = FIGURE.table()

    assert table.columns == ["subscribers", "standard", "95% interval", "standard (published)"]
    assert table.rows == [[200, 0.5, "0.4 to 0.6", None], [800, 1.0, "0.9 to 1.1", 0.8]]
    assert "0.9 to 1.1" in render(PAGE)


def test_a_page_survives_its_file(tmp_path: Path) -> None:
    write_page(PAGE, tmp_path)

    assert render(read_page(tmp_path)) == render(PAGE)


def test_a_folder_without_a_report_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no report\.json in it; name a folder"):
        read_page(tmp_path)
    (tmp_path / "report.json").write_text('{"title": "x"}')
    with pytest.raises(ConfigError, match="not a report that this version can read"):
        read_page(tmp_path)


def test_a_simulation_shows_its_schemes_side_by_side() -> None:
    def row(scheme: str, metric: str, mean: float, entity: str = "all") -> SummaryRow:
        return SummaryRow("testbed", scheme, {}, metric, entity, 3, mean, mean - 0.1, mean + 0.1)

    summary = [
        row(scheme, metric, mean, entity)
        for scheme in ("standard", "durable")
        for metric, mean, entity in (
            ("loss_pct", 1.0, "all"),
            ("latency_s_mean", 0.5, "all"),
            ("broker_throughput", 3.0, "b10"),
            ("broker_throughput", 4.0, "b2"),
            ("overhead_of_kind", 0.2, "stored_event"),
            ("overhead_in_bin", 0.2, "60.0"),
            ("overhead_in_bin", 0.3, "120.0"),
        )
    ]
    runs = [RunRow("testbed", "standard", 1, "ok", None, "", 0.1, 100)]
    distribution = [{"scheme": "standard", "value": 0.1 * n, "probability": n / 2} for n in range(3)]

    page = simulation_page(summary, runs, distribution, title=None, command="x")

    figures = {figure.title: figure for section in page.sections for figure in section.figures}
    assert [series.name for series in figures["Waiting delay"].series] == ["standard"]
    assert figures["Throughput by broker"].series[0].x == ["b2", "b10"]
    assert figures["Overhead over time"].series[0].x == [1.0, 2.0]
    assert figures["Loss and duplication"].series[0].x == ["standard", "durable"]
    assert figures["What moving costs"].kind == "stack"
    assert page.sections[0].tables[0].columns == ["scheme", "lost, %"]
    assert ("lost, most by standard", "1%") in page.facts
    assert "1.00 ± 0.10" in str(page.sections[0].tables[0].rows)
    render(page)


@pytest.mark.parametrize(
    ("mean", "high", "text"),
    [
        (10758.4, 11276.0, "10,760 ± 520"),
        (1.0132, 1.8732, "1.01 ± 0.86"),
        (0.07624, 0.13324, "0.076 ± 0.057"),
        (0.0, 0.0, "0"),
        (3.0, None, "3"),
        (11038.0, 21038.0, "11,000 ± 10,000"),
    ],
)
def test_an_interval_is_told_to_two_digits(mean: float, high: float | None, text: str) -> None:
    assert with_interval(mean, high) == text


def test_short_numbers() -> None:
    values = [0.0, 0.000012, 0.0123456, 12.345, 999.9, 12_345.0, 1_234_567.0, float("nan")]

    assert [short_number(value) for value in values] == [
        *("0", "1e-05", "0.0123", "12.3", "1k", "12.3k", "1.23M", "–"),
    ]


def test_cells() -> None:
    values = [None, float("nan"), 3, 1234567, 0.123456, 1234.5, "x", True]

    assert [cell(value) for value in values] == ["–", "–", "3", "1,234,567", "0.1235", "1,234", "x", "True"]


def test_an_interval_that_only_rounding_makes_is_not_shown() -> None:
    assert with_interval(0.0240000000000023, 0.0240000000000082) == "0.024"
    assert with_interval(0.0, 0.0) == "0"
    assert with_interval(1.012, 1.872) == "1.01 ± 0.86"
