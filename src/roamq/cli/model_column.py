"""Adds the model's columns to a table that has one line per scheme."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from roamq.report.numbers import NOTHING, with_interval

if TYPE_CHECKING:
    from roamq.pipeline.model_check import SchemeCheck

COLUMNS: Final = {"mean": "model: latency s", "p95": "model: p95", "verdict": "model"}
BRIEFLY: Final = {"mean": "model says"}
"""The single column of the model beside a measured latency, where there is little room."""


def add_model(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    model: "Mapping[str, SchemeCheck]",
    shown: Mapping[str, str] = COLUMNS,
) -> tuple[list[str], list[list[object]]]:
    """Adds the model's mean, 95th percentile and verdict on the mean to a table whose first column is the scheme."""
    told = [_cells(model.get(str(row[0]))) for row in rows]
    return [*columns, *shown.values()], [
        [*row, *(cells[name] for name in shown)] for row, cells in zip(rows, told, strict=True)
    ]


def _cells(check: "SchemeCheck | None") -> dict[str, str]:
    if check is None or check.calibration is None:
        return {"mean": "no answer", "p95": NOTHING, "verdict": "no answer"}
    if check.reason:
        return {"mean": "does not hold", "p95": NOTHING, "verdict": "does not hold"}
    found = [check.measure(name) for name in ("mean", "p95")]
    texts = [
        with_interval(part.model.mean, part.model.high)
        if part is not None and part.model is not None
        else "saturated"
        for part in found
    ]
    mean = found[0]
    return {"mean": texts[0], "p95": texts[1], "verdict": NOTHING if mean is None else mean.verdict}


def model_data(model: "Mapping[str, SchemeCheck]") -> dict[str, Any]:
    """Returns the numbers of `add_model` for a program."""
    return {
        scheme: {
            "holds": check.calibration is not None and not check.reason,
            "reason": check.reason,
            **{
                measure.name: {"model": _ends(measure.model), "observed": _ends(measure.observed)}
                for measure in check.checks
            },
        }
        for scheme, check in model.items()
    }


def _ends(estimate: Iterable[float] | None) -> list[float | None] | None:
    return None if estimate is None else [value if math.isfinite(value) else None for value in estimate]
