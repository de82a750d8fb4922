"""Pictures of learned tables, from literal rows."""

import math
import xml.etree.ElementTree as ET

import pytest

from roamq.report.trace_charts import (
    ccdf_figure,
    hit_rate_figure,
    neighbor_map,
    profile_figure,
    trace_section,
)

SITES = [
    {"site": "A", "x": 13.0, "y": 52.0, "observations": 10},
    {"site": "B", "x": 13.1, "y": 52.1, "observations": 5},
]
FIT = {
    "period": "on",
    "family": "exponential",
    "params": {"mean": 10.0},
    "fit_mean_s": 10.0,
    "best": True,
    "aic": 1.0,
    "ks_statistic": 0.1,
    "ks_pvalue": None,
    "fitted_on": 50,
    "n": 50,
    "censored": 2,
    "mean_s": 10.0,
    "median_s": 7.0,
    "p90_s": 23.0,
}


def test_the_map_is_drawn_where_sites_have_places_and_only_there() -> None:
    drawn = neighbor_map(
        SITES, [{"from": "A", "to": "B", "moves": 3}, {"from": "A", "to": "elsewhere", "moves": 9}]
    )

    assert drawn is not None
    assert ET.fromstring(drawn).tag.endswith("svg")  # noqa: S314 - our own text
    assert neighbor_map([{"site": "A", "x": None, "y": None, "observations": 1}], []) is None


def test_a_distribution_stands_beside_its_fit() -> None:
    points = [{"period": "on", "duration_s": t, "share_above": math.exp(-t / 10)} for t in (1.0, 10.0, 20.0)]

    figure = ccdf_figure("on", points, [FIT])

    assert figure is not None
    seen, fitted = figure.series
    assert fitted.name == f"exponential (closest, KS {FIT['ks_statistic']:.2f})"
    assert list(fitted.y) == pytest.approx(list(seen.y))
    assert ccdf_figure("off", points, [FIT]) is None


def test_hits_and_rates_are_in_the_units_of_the_axes() -> None:
    hits = hit_rate_figure([{"predictor": "order-1", "set_size": 1, "hit_rate": 0.25}])
    rates = profile_figure([{"kind": "clients", "minute_of_day": 90, "rate_per_s": 0.5}])

    assert hits is not None and list(hits.series[0].y) == [25.0]
    assert rates is not None and (list(rates.series[0].x), list(rates.series[0].y)) == ([1.5], [30.0])


def test_a_section_shows_what_there_is() -> None:
    empty: dict[str, list[dict[str, object]]] = {
        name: []
        for name in (
            *("sites", "neighbor_graph", "ccdf", "connectivity"),
            *("daily_profile", "prediction", "prediction_sets", "days"),
        )
    }

    section = trace_section("d", {**empty, "connectivity": [FIT]})

    assert (section.figures, section.films) == ([], [])
    (table,) = section.tables
    assert table.rows[0][:3] == ["connected", 50, 2]
