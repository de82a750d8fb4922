"""A model held against a run: parameters estimated from what clients did, and what follows from them.

A subscriber is an ON/OFF centre. Its connected and disconnected periods, the rate of its events, the delay of an event
that finds it connected, the pace at which waiting events come, and what a handoff adds are estimated from histories.
The delays of *waiting* events are not used: they are what the model predicts.

Errors are carried to every number by the delete-a-group jackknife: clients are put into groups, and everything is
estimated anew without each group. Model and run are of the same clients, so their ratio is known better than either.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roamq.models.censoring import kaplan_meier
from roamq.models.histories import NO_SPANS, ClientHistory, Spans
from roamq.models.intermittent import IntermittentQueue
from roamq.models.paired import CONFIDENCE, Estimate
from roamq.models.phase_type import MatrixExponential, exponential, hyperexponential, with_moments
from roamq.models.quantiles import student_quantile

Floats = NDArray[np.float64]

SCV_RANGE: Final = (0.2, 30.0)
"""Variability beyond this is taken as its end: few phases tell as much as many."""

DEMAND_MIN_S: Final = 1e-5

AGREEMENT: Final = 0.10
"""How far model and simulator may be apart."""

AGREEMENT_LIVE: Final = 0.20
"""How far model and live brokers may be apart."""

CANNOT_TELL: Final = "cannot tell"

GROUPS: Final = 10
"""Groups of clients for the jackknife."""

GROUPS_MIN: Final = 4
"""With fewer clients there is no interval."""

PERCENTILES: Final = (50, 95, 99)

ENDS_MIN: Final = 30
"""Periods of each state that must have been seen to end."""

OVERDUE_MAX: Final = 0.02
"""Share of events that may wait through a whole connection of their client."""

UTILISATION_MAX: Final = 0.9

NOTHING_STORED: Final = 10.0
"""A client that missed so many events on average, and received none of them, has none stored."""

SHARES: Final = 60
"""Mixtures of two exponentials that are tried for periods that vary much."""

LIVE_POINTS: Final = 40
"""The delay of events that find their client connected is kept as so many equally likely values."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """The parameters of a subscriber's ON/OFF centre, estimated from many clients."""

    on: MatrixExponential
    off: MatrixExponential
    """What a handoff adds is part of it."""
    rate: float
    """Events per second for one client."""
    live_s: Floats
    """Delay of events that find their client connected: equally likely values."""
    demand_s: float
    """To hand over one event that waited."""
    handoff_s: float
    """What the scheme adds to a disconnection, on average."""
    clients: int
    events: int
    on_ends: int
    """Connected periods that were seen to end."""
    off_ends: int
    overdue_share: float

    @cached_property
    def queue(self) -> IntermittentQueue:
        return IntermittentQueue(rate=self.rate, service=exponential(self.demand_s), on=self.on, off=self.off)

    def measures(self) -> dict[str, float] | None:
        """What the model says; None if the centre is saturated."""
        if self.queue.utilisation >= 1:
            return None
        law = self.queue.response_distribution()
        rest_s = self.live_s - min(self.demand_s, float(self.live_s.mean()))
        mean_s = float(rest_s.mean()) + law.mean()
        within = _Sum(law, rest_s)
        return {
            "mean": mean_s,
            **{f"p{p}": within.quantile(p / 100) for p in PERCENTILES},
            "waiting mean": self.rate * mean_s,
            "waiting p99": _number_exceeded(self.queue.present_above, 0.01),
        }

    def doubts(self) -> list[str]:
        """Why the model does not hold for these clients; empty where it says that it does."""
        doubts = []
        if min(self.on_ends, self.off_ends) < ENDS_MIN:
            doubts.append(
                f"only {min(self.on_ends, self.off_ends)} periods were seen to end; at least {ENDS_MIN} are needed"
            )
        if self.overdue_share > OVERDUE_MAX:
            doubts.append(
                f"{self.overdue_share:.0%} of the events waited although their client was connected meanwhile: "
                "they are stored where it is not"
            )
        if self.queue.utilisation > UTILISATION_MAX:
            doubts.append(
                f"a client is busy receiving for {self.queue.utilisation:.0%} of its connected time"
            )
        return doubts


class _Sum:
    """The law of an ON/OFF centre's response plus an independent delay with a few equally likely values."""

    def __init__(self, law: MatrixExponential, others_s: Floats) -> None:
        high = law.quantile(0.9995) + 1e-9
        times = np.concatenate([[0.0], np.geomspace(min(1e-6, high / 10), high, 120)])
        self._times, self._survival = times, np.minimum.accumulate(law.sf(times))
        self._others_s = others_s
        self._high = high + float(others_s.max())

    def sf(self, t: float) -> float:
        rest = t - self._others_s
        inside = np.interp(np.maximum(rest, 0.0), self._times, self._survival)
        return float(np.where(rest < 0, 1.0, inside).mean())

    def quantile(self, share: float) -> float:
        low, high = 0.0, self._high
        while high - low > 1e-4 * high + 1e-9:
            middle = math.sqrt(max(low, 1e-7) * high) if low < high / 4 else (low + high) / 2
            low, high = (middle, high) if self.sf(middle) > 1 - share else (low, middle)
        return (low + high) / 2


def _number_exceeded(above: Callable[[int], float], share: float) -> float:
    """The number of events that is exceeded for `share` of the time, by the share of time `above` each number.

    Between two whole numbers a straight line is followed: 3 and 4 events could not be told to agree within 20%, though
    a hair may decide between them.
    """
    high = 1
    while above(high) > share:
        high *= 2
    low = -1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if above(middle) > share else (low, middle)
    before = above(low) if low >= 0 else 1.0
    return max(0.0, low + (before - share) / (before - above(high)))


def calibrate(histories: Sequence[ClientHistory]) -> Calibration:
    """Estimate the parameters; a `ValueError` names what the records lack."""
    modelled = with_storage(histories)
    if not modelled:
        raise ValueError("records: no event was delivered to anybody in the time that counts")
    on, off = NO_SPANS, NO_SPANS
    for history in modelled:
        on, off = on.joined(history.periods[0]), off.joined(history.periods[1])
    if not on.whole.any() or not off.whole.any():
        raise ValueError(
            "records: no client was seen to disconnect and reconnect, so there is nothing to model"
        )
    live = np.concatenate([history.live_delays_s for history in modelled])
    if not live.size:
        raise ValueError(
            "records: no event found its client connected, so the delay of the network is unknown"
        )
    gaps = np.concatenate([history.gaps_s for history in modelled])
    handoffs = np.concatenate([history.handoffs_s for history in modelled])
    events = sum(history.events for history in modelled)
    handoff_s = max(0.0, float(handoffs.mean()) - float(live.mean())) if handoffs.size else 0.0
    on_law, off_law = _law(on), _law(off)
    return Calibration(
        # While a handoff is under way, a client that is connected is served nothing.
        on=_scaled(on_law, max(on_law.mean() - handoff_s, 0.05 * on_law.mean())),
        off=_scaled(off_law, off_law.mean() + handoff_s),
        rate=events / sum(history.until_s - history.begin_s for history in modelled),
        live_s=np.array([part.mean() for part in np.array_split(np.sort(live), min(LIVE_POINTS, live.size))]),
        demand_s=max(DEMAND_MIN_S, float(gaps.mean()) if gaps.size else 0.0),
        handoff_s=handoff_s,
        clients=len(modelled),
        events=events,
        on_ends=int(on.whole.sum()),
        off_ends=int(off.whole.sum()),
        overdue_share=sum(int((h.overdue & h.counted).sum()) for h in modelled) / events,
    )


def with_storage(histories: Sequence[ClientHistory]) -> list[ClientHistory]:
    """The clients for whom events are stored while they are away: those of QoS 0 may miss them instead."""

    def misses(history: ClientHistory) -> bool:
        away_s = float(history.periods[1].lengths_s.sum())
        observed_s = max(history.until_s - history.begin_s, 1e-9)
        return not history.waiting.any() and history.events * away_s / observed_s > NOTHING_STORED

    return [history for history in histories if history.events and not misses(history)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCheck:
    """One measure: what the model says, what was observed, and how far they are apart."""

    name: str
    model: Estimate | None
    """None: the centre is saturated."""
    observed: Estimate
    ratio: Estimate | None
    """Model over observation."""
    tolerance: float

    @property
    def verdict(self) -> str:
        """`agrees` or `differs` if the whole interval of the ratio says so; else `cannot tell`."""
        if self.ratio is None:
            return "no answer"
        low, high = 1 - self.tolerance, 1 + self.tolerance
        if low <= self.ratio.low and self.ratio.high <= high:
            return "agrees"
        return "differs" if self.ratio.high < low or self.ratio.low > high else CANNOT_TELL


def compare(
    histories: Sequence[ClientHistory], *, tolerance: float = AGREEMENT, groups: int = GROUPS
) -> list[ModelCheck]:
    """Delay, events that wait, and throughput: the model beside the run, each with its 95% interval."""
    modelled = with_storage(histories)
    whole_model, whole_run = calibrate(modelled).measures(), observed(modelled)
    count = min(groups, len(modelled))
    without = [[h for i, h in enumerate(modelled) if i % count != group] for group in range(count)]
    pairs = [] if count < GROUPS_MIN else [(_or_none(part), observed(part)) for part in without]
    checks = []
    for name, value in whole_run.items():
        model = None if whole_model is None else whole_model[name]
        of_model = [m[name] if m is not None else math.inf for m, _ in pairs]
        of_run = [run[name] for _, run in pairs]
        ratios = [a / b if b else math.inf for a, b in zip(of_model, of_run, strict=True)]
        checks.append(
            ModelCheck(
                name=name,
                model=None if model is None else jackknife(model, of_model),
                observed=jackknife(value, of_run),
                ratio=None if model is None or not value else jackknife(model / value, ratios),
                tolerance=tolerance,
            )
        )
    return checks


def _or_none(histories: Sequence[ClientHistory]) -> dict[str, float] | None:
    try:
        return calibrate(histories).measures()
    except ValueError:
        return None


def jackknife(whole: float, without: Sequence[float]) -> Estimate:
    """The interval of an estimate from the estimates without each of several groups, on the scale of logarithms."""
    if not without or not all(math.isfinite(value) for value in without):
        return Estimate(whole, -math.inf, math.inf)
    groups = len(without)
    is_positive = whole > 0 and min(without) > 0
    values = np.log(without) if is_positive else np.asarray(without)
    error = math.sqrt((groups - 1) / groups * float(((values - values.mean()) ** 2).sum()))
    reach = student_quantile((1 + CONFIDENCE) / 2, groups - 1) * error
    if not is_positive:
        return Estimate(whole, whole - reach, whole + reach, groups - 1)
    return Estimate(whole, whole * math.exp(-reach), whole * math.exp(min(reach, 50.0)), groups - 1)


def observed(histories: Sequence[ClientHistory]) -> dict[str, float]:
    """What the run measured, under the names of the model's measures."""
    delays = np.concatenate([history.delays_s[history.counted] for history in histories])
    numbers, seconds = (
        np.concatenate(parts) for parts in zip(*(history.present() for history in histories), strict=True)
    )
    total_s = float(seconds.sum())
    return {
        "mean": float(delays.mean()),
        **{f"p{p}": float(v) for p, v in zip(PERCENTILES, _quantiles(delays), strict=True)},
        "waiting mean": float(numbers @ seconds) / total_s,
        "waiting p99": _number_exceeded(
            lambda number: float(seconds[numbers > number].sum()) / total_s, 0.01
        ),
    }


def _quantiles(delays: Floats) -> list[float]:
    return [float(v) for v in np.quantile(delays, [p / 100 for p in PERCENTILES])]


def _law(spans: Spans) -> MatrixExponential:
    """A phase-type law with the mean and variability of these periods.

    Periods that vary more than exponential ones get two exponential phases: two moments leave one parameter open, which
    the likelihood chooses.
    """
    survival = kaplan_meier(spans.lengths_s, spans.whole)
    mean_s, scv = survival.mean_s(), min(max(survival.scv(), SCV_RANGE[0]), SCV_RANGE[1])
    if scv <= 1:
        return with_moments(mean_s, scv)
    least = (scv - 1) / (scv + 1)
    shares = least + (1 - least) * (np.arange(SHARES) + 0.5) / SHARES
    best = max(shares, key=lambda share: _log_likelihood(spans, *_two_phases(mean_s, scv, float(share))))
    share, *means = _two_phases(mean_s, scv, float(best))
    return hyperexponential([share, 1 - share], means)


def _two_phases(mean_s: float, scv: float, share: float) -> tuple[float, float, float]:
    """(share, mean, other mean) of the mixture that has this mean and variability."""
    spread = math.sqrt((scv - 1) / 2)
    return (
        share,
        mean_s * (1 - spread * math.sqrt((1 - share) / share)),
        mean_s * (1 + spread * math.sqrt(share / (1 - share))),
    )


def _log_likelihood(spans: Spans, share: float, mean_1: float, mean_2: float) -> float:
    """Of whole periods by their density, of cut ones by the probability to last longer."""
    weights = np.array([share, 1 - share])[:, None]
    means = np.array([mean_1, mean_2])[:, None]
    lasting = weights * np.exp(-spans.lengths_s / means)
    each = np.where(spans.whole, (lasting / means).sum(axis=0), lasting.sum(axis=0))
    return float(np.log(np.maximum(each, 1e-300)).sum())


def _scaled(law: MatrixExponential, mean_s: float) -> MatrixExponential:
    """The same law with another mean."""
    return MatrixExponential(law.start, law.generator * (law.mean() / mean_s), law.end)
