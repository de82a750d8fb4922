"""A broker's outlook from its own counts: the delay that its clients' connectivity implies, and when it will saturate.

Plain arithmetic without numpy, for a broker computes it beside its work. The delay is that of the ON/OFF centre
(`roamq.models.intermittent`) whose backlog is handed over at once: an event that finds its client connected takes what
such events take, any other waits for the rest of the disconnection. tests/models/test_outlook.py holds it against the
matrix-geometric solution.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

PRECISION: Final = 1e-4


class Moments:
    """Number, mean and variability of durations, older ones counting less: `fade` is applied now and then."""

    __slots__ = ("number", "squares", "total_s")

    def __init__(self) -> None:
        self.number = 0.0
        self.total_s = 0.0
        self.squares = 0.0

    def add(self, seconds: float) -> None:
        self.number += 1
        self.total_s += seconds
        self.squares += seconds * seconds

    def fade(self, factor: float) -> None:
        self.number *= factor
        self.total_s *= factor
        self.squares *= factor

    @property
    def mean_s(self) -> float:
        return self.total_s / self.number

    @property
    def scv(self) -> float:
        return max(0.0, self.squares / self.number / self.mean_s**2 - 1)


def residual_sf(t: float, mean_s: float, scv: float) -> float:
    """P(the rest of a period is longer than t) for an event that meets the period at random.

    Above exponential variability two exponential phases with balanced means; below it a fixed time and an exponential.
    """
    if scv >= 1:
        share = (1 + math.sqrt((scv - 1) / (scv + 1))) / 2
        phases = ((share, mean_s / (2 * share)), (1 - share, mean_s / (2 * (1 - share))))
        return sum(weight * mean / mean_s * math.exp(-t / mean) for weight, mean in phases)
    varying_s = mean_s * math.sqrt(scv)
    fixed_s = mean_s - varying_s
    if t < fixed_s:
        return 1 - t / mean_s
    return varying_s / mean_s * math.exp(-(t - fixed_s) / varying_s) if varying_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class DelayOutlook:
    """The delays of events for clients that connect and disconnect."""

    bounds_s: Sequence[float]
    """Upper bounds of the bins of `live`, ascending; one bin more is beyond the last."""
    live: Sequence[float]
    """How many events that found their client connected took so long."""
    on_s: float
    off_s: float
    off_scv: float
    stretch: float = 1.0
    """How much longer live events take now than when they were counted."""

    @property
    def share_away(self) -> float:
        return self.off_s / (self.on_s + self.off_s)

    def sf(self, t: float) -> float:
        """P(delay > t)."""
        away = self.share_away
        return (1 - away) * histogram_sf(self.bounds_s, self.live, t / self.stretch) + away * residual_sf(
            t, self.off_s, self.off_scv
        )

    def quantile(self, share: float) -> float:
        low, high = 0.0, 1.0
        while self.sf(high) > 1 - share:
            low, high = high, 2 * high
            if high > 1e9:
                return math.inf
        while high - low > PRECISION * high:
            middle = (low + high) / 2
            low, high = (middle, high) if self.sf(middle) > 1 - share else (low, middle)
        return high


def histogram_sf(bounds_s: Sequence[float], counts: Sequence[float], t: float) -> float:
    """P(value > t), taking the values of a bin as evenly spread; those beyond the last bound as twice that."""
    total = math.fsum(counts)
    if not total:
        return 0.0
    place = bisect_left(bounds_s, t)
    low = bounds_s[place - 1] if place else 0.0
    high = bounds_s[place] if place < len(bounds_s) else 2 * bounds_s[-1]
    inside = min(1.0, (t - low) / (high - low)) if high > low else 1.0
    return (math.fsum(counts[place + 1 :]) + counts[place] * (1 - inside)) / total


def histogram_quantile(bounds_s: Sequence[float], counts: Sequence[float], share: float) -> float:
    """The value that `share` of all stay within, by the same rule."""
    wanted, covered = share * math.fsum(counts), 0.0
    for place, count in enumerate(counts):
        if count and covered + count >= wanted:
            low = bounds_s[place - 1] if place else 0.0
            high = bounds_s[place] if place < len(bounds_s) else 2 * bounds_s[-1]
            return low + (high - low) * (wanted - covered) / count
        covered += count
    return 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line through points by least squares, with the standard error of its slope."""

    at_mean: float
    slope: float
    mean_x: float
    slope_error: float

    def at(self, x: float) -> float:
        return self.at_mean + self.slope * (x - self.mean_x)


def line_through(xs: Sequence[float], ys: Sequence[float]) -> Line | None:
    """None if fewer than three points, or all at one place, tell no slope."""
    if len(xs) < 3:
        return None
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    spread = math.fsum((x - mean_x) ** 2 for x in xs)
    if spread <= 1e-12 * max(1.0, mean_x**2):
        return None
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True)) / spread
    rest = math.fsum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys, strict=True))
    return Line(mean_y, slope, mean_x, math.sqrt(rest / (len(xs) - 2) / spread))


@dataclass(frozen=True, slots=True)
class Window:
    """What a broker counted in one span of time."""

    end_s: float
    rate: float
    """Messages per second, in and out: one that is published and goes to ten clients counts as eleven."""
    utilisation: float
    """Share of the time that its processor worked."""
    acknowledged: float = 0.0
    """Share of the messages to clients that these acknowledge: QoS 1 and 2."""


@dataclass(frozen=True, slots=True)
class LoadOutlook:
    """The load that windows of the past imply."""

    predicted: float
    """The utilisation that the rate of the last window implies by the windows before it."""
    rate_max: float
    """The rate at which the broker is full, in messages per second, in and out."""
    growth: float
    """Messages per second, more every second; 0 if the windows do not tell that it grows."""
    full_in_s: float
    """How long until the broker is full at this growth; infinite if the rate does not grow, 0 if it is full."""


BEHIND: Final = 0.25
"""What a message that is acknowledged costs more once a broker falls behind, as part of what it cost before: it is
stored until the client's window has room. In five runs of `benchmarks.saturation` it was 0 to 0.31."""

SURE: Final = 3.0
"""A slope counts if it is so many times its standard error; more among few windows, see `_growing`."""

LOOKS: Final = (15, 60, 180)
"""The growth of so many last windows is looked at: one that began a quarter of an hour ago hardly shows in hours."""


def load_outlook(windows: Sequence[Window], *, full: float) -> LoadOutlook | None:
    """None if there are too few windows. `full`: the utilisation that the broker must not exceed."""
    if len(windows) < 4:
        return None
    last = windows[-1]
    cost = _cost(windows[:-1])
    if cost is None or cost.slope <= 0:
        return None
    rate_max = _bearable(windows, (full - cost.at(0.0)) / cost.slope, full)
    looks = {min(look, len(windows)) for look in LOOKS}
    trends = [trend for look in looks if (trend := _growing(windows[-look:])) is not None]
    soonest = min(
        ((max(0.0, (rate_max - trend.at(0.0)) / trend.slope), trend.slope) for trend in trends),
        default=(math.inf, 0.0),
    )
    full_in_s, growth = (0.0, soonest[1]) if last.utilisation >= full else soonest
    return LoadOutlook(cost.at(last.rate), rate_max, growth, full_in_s)


def _bearable(windows: Sequence[Window], by_cost: float, full: float) -> float:
    """What the broker can bear: no more than it did when it was full, where it was.

    A broker that falls behind works more for a message than before, which no window tells until then: `BEHIND` stands
    for it.
    """
    borne = [window.rate for window in windows if window.utilisation >= full]
    if borne:
        return min(by_cost, max(borne))
    acknowledged = math.fsum(w.rate * w.acknowledged for w in windows) / math.fsum(w.rate for w in windows)
    return by_cost / (1 + BEHIND * acknowledged)


def _cost(windows: Sequence[Window]) -> Line | None:
    """Utilisation by rate: what a message costs more, above what the broker does without any; None without messages.

    What it does without any message is no more than all that it did in its quietest window. A machine that others use
    as well would else make it look large, and a message cheap: while they work, the broker does less, and slower.
    """
    rates, busy = [w.rate for w in windows], [w.utilisation for w in windows]
    total = math.fsum(rates)
    if total <= 0:
        return None
    cost = line_through(rates, busy)
    if cost is None or cost.slope <= SURE * cost.slope_error:
        # The rates hardly differ: what there is of work is taken as in proportion to them.
        return Line(0.0, math.fsum(busy) / total, 0.0, 0.0)
    always = min(busy)
    if cost.at(0.0) > always:
        return Line(always, (math.fsum(busy) - always * len(busy)) / total, 0.0, 0.0)
    return cost


def _growing(windows: Sequence[Window]) -> Line | None:
    """The growth of the rate, by seconds from the last window on; None if the windows do not tell that it grows.

    Few windows tell by chance more easily.
    """
    # Seconds since 1970 are so large that minutes among them would look like one place.
    before_s = [w.end_s - windows[-1].end_s for w in windows]
    trend = line_through(before_s, [w.rate for w in windows])
    sure = SURE * (1 + 8 / len(windows))
    return trend if trend is not None and trend.slope > max(0.0, sure * trend.slope_error) else None
