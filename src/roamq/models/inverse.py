"""Questions asked backwards: the largest load, or the fewest brokers, that still meets a target.

An answer that grows with a parameter is inverted by bisection. `None` stands for "no answer", as of a saturated
centre, and counts as worse than any number.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

ResponseAt = Callable[[float], float | None]

Z_95: Final = 1.959964


@dataclass(frozen=True, slots=True)
class Solution:
    """The value of the parameter that just meets the target, and the answer there."""

    value: float
    answer: float
    is_bound: bool
    """The whole range meets the target: the value is only the end of the range."""


def meet_target(
    answer: ResponseAt,
    target: float,
    *,
    low: float,
    high: float,
    is_whole: bool = False,
    precision: float = 1e-6,
    none_means: str = "a centre is saturated",
) -> Solution:
    """The value in [low, high] that is furthest towards the worse end and still has an answer of at most `target`.

    Which end is worse follows from the answers at both; in between the answer must be monotone. A `ValueError` says
    what the best end gives if even that is above the target; `none_means` is why there may be no answer.
    """
    at_low, at_high = _worst_if_none(answer(low)), _worst_if_none(answer(high))
    best, worst = (low, high) if at_low <= at_high else (high, low)
    at_best = min(at_low, at_high)
    if at_best > target:
        reached = f"no answer: {none_means}" if math.isinf(at_best) else f"{at_best:.4g}"
        raise ValueError(
            f"target: not met anywhere between {low:g} and {high:g}; the best, at {best:g}, is {reached}"
        )
    if max(at_low, at_high) <= target:
        return Solution(worst, max(at_low, at_high), True)
    while abs(worst - best) > (1 if is_whole else precision * max(abs(best), abs(worst))):
        middle = float((int(best) + int(worst)) // 2) if is_whole else _middle(best, worst)
        if middle in (best, worst):
            break
        value = _worst_if_none(answer(middle))
        if value <= target:
            best, at_best = middle, value
        else:
            worst = middle
    return Solution(best, at_best, False)


def interval(
    answer: Callable[[Mapping[str, float]], float | None],
    values: Mapping[str, float],
    errors: Mapping[str, float],
) -> tuple[float, float] | None:
    """The 95% interval of an answer whose parameters are known up to relative standard errors: the delta method.

    Every parameter is moved by its error, one at a time, and the answer's logarithm is taken as linear in that of the
    parameters. None if a centre saturates within one error: then the data do not say that there is an answer.
    """
    centre = answer(values)
    if centre is None or centre <= 0:
        return None
    variance = 0.0
    for name, error in errors.items():
        above = answer({**values, name: values[name] * math.exp(error)})
        below = answer({**values, name: values[name] * math.exp(-error)})
        if above is None or below is None or min(above, below) <= 0:
            return None
        variance += (math.log(above / below) / 2) ** 2
    spread = math.exp(Z_95 * math.sqrt(variance))
    return centre / spread, centre * spread


def _middle(near: float, far: float) -> float:
    """In proportion where the range spans orders of magnitude, else half way."""
    if min(near, far) > 0 and max(near, far) > 10 * min(near, far):
        return math.sqrt(near * far)
    return (near + far) / 2


def _worst_if_none(value: float | None) -> float:
    return math.inf if value is None else value
