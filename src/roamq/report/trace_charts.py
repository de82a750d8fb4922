"""Pictures of what traces taught: the neighbor graph on a map, distributions with fits, rates by time of day, and
how well the next site is predicted.

Rows come in as plain dictionaries, named as the pipeline's tables name their columns. The map is drawn here, because
it is no chart of series; everything else is a `Figure` like any other.
"""

import io
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from roamq.models.fitting import Fit
from roamq.report.exhibits import Figure, Film, Section, Series, Table

Rows = Sequence[Mapping[str, Any]]

PERIODS: Final = {
    "on": "connected",
    "off": "disconnected",
    "stay": "at one site",
    "handoff": "between two sites",
}
MAP_WIDTH_IN: Final = 7.0
PREDICTOR_NAMES: Final = {
    "order-0": "popularity",
    "order-1": "neighbor graph",
    "order-2": "last two sites",
    "order-1-backoff": "neighbor graph, then popularity",
    "order-2-backoff": "last two sites, then the rest",
}


def trace_section(dataset: str, learned: Mapping[str, Rows]) -> Section:
    """All pictures of a dataset for which it has rows."""
    figures = [
        *(ccdf_figure(period, learned["ccdf"], learned["connectivity"]) for period in PERIODS),
        profile_figure(learned["daily_profile"]),
        hit_rate_figure(learned["prediction"]),
    ]
    films = []
    drawn = neighbor_map(learned["sites"], learned["neighbor_graph"])
    if drawn is not None:
        caption = "Dot size: visits. Line width: moves. Busiest only."
        films.append(Film(title="Neighbor graph", frames=[drawn], texts=[""], caption=caption))
    return Section(
        title=f"What {dataset} taught",
        text=_told(learned),
        figures=[figure for figure in figures if figure is not None],
        tables=[
            table for table in (_fits_table(learned["connectivity"]), _sets_table(learned)) if table.rows
        ],
        films=films,
    )


def neighbor_map(sites: Rows, edges: Rows) -> str | None:
    """The graph as SVG, sites where they are; None where the dataset has no places."""
    places = {site["site"]: (site["x"], site["y"]) for site in sites if site["x"] is not None}
    shown = [edge for edge in edges if edge["from"] in places and edge["to"] in places]
    if len(places) < 2:
        return None
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(MAP_WIDTH_IN, MAP_WIDTH_IN * 0.8), layout="constrained")
    axes = canvas.add_subplot()
    busiest = max((edge["moves"] for edge in shown), default=1)
    lines = LineCollection(
        [(places[edge["from"]], places[edge["to"]]) for edge in shown],
        linewidths=[0.3 + 3.0 * math.sqrt(edge["moves"] / busiest) for edge in shown],
        colors="#4878a8",
        alpha=0.5,
    )
    axes.add_collection(lines)
    most = max(site["observations"] for site in sites)
    located = [site for site in sites if site["site"] in places]
    axes.scatter(
        [site["x"] for site in located],
        [site["y"] for site in located],
        s=[4 + 120 * site["observations"] / most for site in located],
        c="#c44e52",
        zorder=3,
    )
    middle = sum(y for _, y in places.values()) / len(places)
    axes.set_aspect(1 / max(0.1, math.cos(math.radians(middle))) if abs(middle) < 89 else 1.0)
    axes.tick_params(labelsize=9)
    axes.set_xlabel("longitude, or x of the plan", fontsize=9)
    axes.set_ylabel("latitude, or y of the plan", fontsize=9)
    text = io.StringIO()
    canvas.savefig(text, format="svg")
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def ccdf_figure(period: str, points: Rows, fits: Rows) -> Figure | None:
    """P(duration > t) on logarithmic axes, and the fitted families beside it."""
    mine = [row for row in points if row["period"] == period and row["duration_s"] > 0]
    if len(mine) < 2:
        return None
    times = sorted({float(row["duration_s"]) for row in mine})
    seen = {float(row["duration_s"]): float(row["share_above"]) for row in mine}
    series = [Series(name="seen", x=times, y=[seen[time] for time in times])]
    for row in fits:
        if row["period"] == period and row["family"] is not None:
            above = fit_of(row).sf(times)
            kept = [(time, float(share)) for time, share in zip(times, above, strict=True) if share > 1e-4]
            name = _family(row)
            series.append(Series(name=name, x=[time for time, _ in kept], y=[share for _, share in kept]))
    return Figure(
        title=f"How long clients are {PERIODS[period]}",
        kind="line",
        x_label="seconds",
        y_label="share that lasts longer",
        series=series,
        x_log=True,
        y_log=True,
        caption="Durations of all clients, by Kaplan and Meier; fits by maximum likelihood.",
    )


def _family(row: Mapping[str, Any]) -> str:
    """The name of a fit. The closest of the families may still be far from the data: its distance stands beside it."""
    return f"{row['family']} (closest, KS {row['ks_statistic']:.2f})" if row["best"] else str(row["family"])


def fit_of(row: Mapping[str, Any]) -> Fit:
    """A row of `connectivity` as the model it came from."""
    return Fit(
        family=row["family"],
        params=dict(row["params"]),
        log_likelihood=math.nan,
        aic=row["aic"],
        ks_statistic=row["ks_statistic"],
        ks_pvalue=math.nan if row["ks_pvalue"] is None else row["ks_pvalue"],
        n=row["fitted_on"],
        mean=row["fit_mean_s"],
    )


def profile_figure(rows: Rows) -> Figure | None:
    """Arrivals per minute over the local day, the whole network together."""
    kinds = list(dict.fromkeys(row["kind"] for row in rows))
    series = []
    for kind in kinds:
        mine = sorted((row["minute_of_day"], row["rate_per_s"]) for row in rows if row["kind"] == kind)
        series.append(
            Series(name=kind, x=[minute / 60 for minute, _ in mine], y=[60 * rate for _, rate in mine])
        )
    if not series:
        return None
    return Figure(
        title="Arrivals over the day",
        kind="line",
        x_label="hour of the local day",
        y_label="arrivals per minute",
        series=series,
        caption="Clients that arrive at a site, and events, as the mean over all days.",
    )


def hit_rate_figure(rows: Rows) -> Figure | None:
    """Share of later moves whose target was in the predicted set, against the size of the set."""
    series = []
    for predictor, name in PREDICTOR_NAMES.items():
        mine = sorted((row["set_size"], row["hit_rate"]) for row in rows if row["predictor"] == predictor)
        if mine:
            series.append(Series(name=name, x=[size for size, _ in mine], y=[100 * rate for _, rate in mine]))
    if not series:
        return None
    return Figure(
        title="Predicting the next site",
        kind="line",
        x_label="sites in the predicted set",
        y_label="hits, % of moves",
        series=series,
        caption="Trained on earlier days, tested on later ones.",
    )


def _told(learned: Mapping[str, Rows]) -> str:
    days = learned["days"]
    if not days:
        return ""
    moves = sum(row["moves"] for row in days)
    clients = max(row["clients"] for row in days)
    return f"{len(days)} local days, {moves:,} moves, at most {clients:,} clients a day."


def _fits_table(rows: Rows) -> Table:
    return Table(
        title="Durations and their fits",
        columns=[
            "period",
            "n",
            "censored",
            "mean s",
            "median s",
            "p90 s",
            "family",
            "fit's mean s",
            "KS",
            "p",
        ],
        rows=[
            [
                PERIODS[row["period"]],
                *(row[name] for name in ("n", "censored", "mean_s", "median_s", "p90_s")),
                _family(row) if row["family"] else None,
                *(row[name] for name in ("fit_mean_s", "ks_statistic", "ks_pvalue")),
            ]
            for row in rows
        ],
        note="Censored: an end was not observed; these are counted, not fitted. Closest: the lowest AIC of the "
        "families tried; KS says how far even that one is from the data.",
    )


def _sets_table(learned: Mapping[str, Rows]) -> Table:
    hits = {(row["predictor"], row["set_size"]): row["hit_rate"] for row in learned["prediction"]}
    sets = {(row["predictor"], row["target"]): row["set_size"] for row in learned["prediction_sets"]}
    predictors = [name for name in PREDICTOR_NAMES if (name, 1) in hits]
    return Table(
        title="Prediction of the next site",
        columns=["predictor", "top 1, %", "top 3, %", "top 5, %", "set for 90%", "set for 99%"],
        rows=[
            [
                PREDICTOR_NAMES[name],
                *(100 * hits[name, size] for size in (1, 3, 5)),
                *(sets.get((name, target)) for target in (0.9, 0.99)),
            ]
            for name in predictors
        ],
        note="A dash: even the whole list does not reach it.",
    )
