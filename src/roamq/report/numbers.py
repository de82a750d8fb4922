"""Numbers as people read them: the same in a table on a terminal and on a page."""

import math
import re
from collections.abc import Sequence
from typing import Any

NOTHING = "–"
NEGLIGIBLE = 1e-9
"""An interval that is narrower, relative to its number, is what adding in another order does."""
NUMBER = re.compile(r"[-+±]?\d")
"""How a text begins that is set like a number: `0.9 (0.8 to 1)`."""
LONG_TEXT = 40
"""Texts of more characters are wrapped in a table."""


def cell(value: Any) -> str:
    """A value of a table as text: four significant digits, a dash for nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return NOTHING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def short_number(value: float) -> str:
    """Three significant digits in at most six characters: `0.0123`, `12.3`, `12.3k`, `1.23M`."""
    if math.isnan(value):
        return NOTHING
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.0e}"


def with_interval(mean: float, high: float | None) -> str:
    """`1.01 ± 0.86`: half the interval to two digits, the mean to the same place."""
    half = 0.0 if high is None else high - mean
    if not math.isfinite(half) or half <= NEGLIGIBLE * abs(mean):
        return cell(float(mean))
    place = math.floor(math.log10(half)) - 1
    decimals = max(-place, 0)
    return f"{round(mean, -place):,.{decimals}f} ± {round(half, -place):,.{decimals}f}"


def span(value: float, low: float, high: float) -> str:
    """`1.27 (1.08 to 1.49)`: no digit beyond what the interval tells; without an interval two digits."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return f"{value:.2g} (?)"
    width = high - low
    if width <= NEGLIGIBLE * abs(value):
        return cell(float(value))
    place = math.floor(math.log10(width / 2)) - 1
    decimals = max(-place, 0)
    shown = (f"{round(number, -place):,.{decimals}f}" for number in (value, low, high))
    return "{} ({} to {})".format(*shown)


def rounded(value: float, low: float, high: float) -> tuple[str, str]:
    """The same as two texts: `1.27` and `1.08 to 1.49`."""
    number, _, ends = span(value, low, high).partition(" (")
    return number, ends.removesuffix(")")


def looks_of(columns: int, rows: Sequence[Sequence[Any]]) -> list[str]:
    """How each column of a table is set: `n` for numbers and what begins with one, `long` for texts that are to be
    wrapped, nothing for other texts."""
    looks = []
    for column in range(columns):
        cells = [row[column] for row in rows if row[column] not in (None, "")]
        texts = [value for value in cells if isinstance(value, str)]
        if all(NUMBER.match(text) for text in texts):
            looks.append("n")
        else:
            looks.append("long" if max(map(len, texts)) > LONG_TEXT else "")
    return looks
