"""Numbers as people read them: the same in a table on a terminal and on a page."""

import math
from typing import Any

NOTHING = "–"


def cell(value: Any) -> str:
    """A value of a table as text: four significant digits, a dash for nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def with_interval(mean: float, high: float | None) -> str:
    """`1.01 ± 0.86`: half the interval to two digits, the mean to the same place."""
    half = 0.0 if high is None else high - mean
    if not math.isfinite(half) or half <= 0.0:
        return cell(float(mean))
    place = math.floor(math.log10(half)) - 1
    decimals = max(-place, 0)
    return f"{round(mean, -place):,.{decimals}f} ± {round(half, -place):,.{decimals}f}"
