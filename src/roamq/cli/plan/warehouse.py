"""Reads what the pipeline learned from traces, as parameters of a question. Gold tables are Parquet, so no Spark is
needed.

`plan mobility --warehouse DIR` takes the neighbor graph and the mean times from gold tables, `plan response-time
--warehouse DIR` takes the connectivity with its variability and, for a site, the rates of a day.
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from roamq.core.errors import ConfigError


def mobility_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns neighbors and mean times, without sites that cannot be left and reached again (no steady state)."""
    fields: dict[str, Any] = {"neighbors": _largest_part(_graph(values))}
    for field, period in (("connect_s", "stay"), ("disconnect_s", "off"), ("handoff_s", "handoff")):
        best = _best_fit(values, period)
        if best is not None:
            fields[field] = best["mean_s"]
    return fields


def response_time_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns connected and disconnected periods, their variability, and the day's rates if a site is named."""
    fields: dict[str, Any] = {}
    uncertain: list[str] = []
    for field, scv, period in (
        ("subscriber_on_s", "on_scv", "on"),
        ("subscriber_off_s", "off_scv", "off"),
    ):
        best = _best_fit(values, period)
        if best is None:
            raise ConfigError(f"{values['warehouse']}: connectivity has no {period} periods of this dataset")
        fields[field] = best["mean_s"]
        fields[scv] = _scv(best)
        if best.get("n"):
            # The standard error of a mean of n periods.
            uncertain.append(f"{field}={min(0.99, math.sqrt(fields[scv] / best['n'])):.3g}")
    if uncertain:
        fields["uncertain"] = uncertain
    if values.get("site"):
        fields |= _day(values, str(values["site"]))
    return fields


def _graph(values: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    graph: dict[str, dict[str, float]] = {}
    for row in _rows(values, "neighbor_graph"):
        graph.setdefault(row["from"], {})[row["to"]] = row["probability"]
        graph.setdefault(row["to"], {})
    return graph


def _largest_part(graph: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    index = {site: i for i, site in enumerate(graph)}
    rows = [index[site] for site, others in graph.items() for _ in others]
    columns = [index[other] for others in graph.values() for other in others]
    links = csr_array(([1.0] * len(rows), (rows, columns)), shape=(len(index),) * 2)
    _, label = connected_components(links, connection="strong")
    largest = max(set(label.tolist()), key=label.tolist().count)
    kept = {site for site, i in index.items() if label[i] == largest}
    return {
        site: {other: weight for other, weight in others.items() if other in kept}
        for site, others in graph.items()
        if site in kept
    }


def _best_fit(values: Mapping[str, Any], period: str) -> dict[str, Any] | None:
    rows = _rows(values, "connectivity")
    return next(
        (row for row in rows if row["period"] == period and row["grouping"] == "all" and row["best"]), None
    )


def _scv(row: Mapping[str, Any]) -> float:
    """Returns the squared coefficient of variation of the fitted distribution."""
    from roamq.models.fitting import Fit
    from roamq.models.phase_type import from_fit

    params = row["params"]
    fit = Fit(
        family=row["family"],
        params=dict(params if isinstance(params, dict) else list(params)),
        log_likelihood=float("nan"),
        aic=row["aic"],
        ks_statistic=row["ks_statistic"],
        ks_pvalue=float("nan"),
        n=row["n"],
        mean=row["fit_mean_s"],
    )
    law = from_fit(fit)
    return law.variance() / law.mean() ** 2


def _day(values: Mapping[str, Any], site: str) -> dict[str, Any]:
    rows = [row for row in _rows(values, "daily_profile") if row["kind"] == "events"]
    mine = {row["minute_of_day"]: row["rate_per_s"] for row in rows if row["site"] == site}
    if not mine:
        raise ConfigError(f"site: {site!r} has no events in {values['warehouse']}")
    # Bins without any event have no row; the bins of the whole network tell how long a bin is.
    minutes = sorted({row["minute_of_day"] for row in rows})
    width = min((after - before for before, after in pairwise(minutes)), default=1440)
    bins = range(0, 1440, width)
    return {"day_rates": [mine.get(minute, 0.0) for minute in bins], "bin_s": 60.0 * width}


def _rows(values: Mapping[str, Any], table: str) -> list[dict[str, Any]]:
    """Returns the rows of one dataset in a gold table."""
    from roamq.pipeline.ledger import Ledger
    from roamq.pipeline.store import Store

    place = str(values["warehouse"])
    ledger = Ledger(Store.at(place))
    found = ledger.read(ledger.latest(), table)
    if found is None:
        raise ConfigError(f"{place}: no such table as {table}; `roamq pipeline run` makes it from traces")
    rows: list[dict[str, Any]] = found.to_pylist()
    names = sorted({row["dataset"] for row in rows})
    wanted = values.get("dataset") or (names[0] if len(names) == 1 else None)
    if wanted not in names:
        known = ", ".join(names) or "none"
        raise ConfigError(f"dataset: name the one that is meant; {place} has {known}")
    return [row for row in rows if row["dataset"] == wanted]
