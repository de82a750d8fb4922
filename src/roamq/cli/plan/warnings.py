"""Is an answer with bursts good enough? The same path is simulated for a moment, and a warning has both answers.

The answer with bursts is an approximation whose error depends on everything: how many centres are in a row, how long
and how variable the periods are, what other flows there are. No rule about these tells a wrong answer from a right one
as well as a simulation of the question itself, and `roamq.sim.tandem` takes a fraction of a second for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roamq.models.bursts import SolvedCentre
    from roamq.models.queueing import Centre
    from roamq.sim.tandem import Station

ERROR_MAX: Final = 0.1
"""The relative error of mean and 95th percentile up to which the approximation is called good."""

EVENTS: Final = 100_000
"""Number of events in one run."""

RUNS: Final = (4, 16)
"""The fewest and the most runs."""

CONFIDENCE: Final = 0.95
"""The confidence of the interval that must lie within `ERROR_MAX`."""

IMMATERIAL: Final = 0.02
"""Share of the path's mean: if bursts cannot add more, they are not simulated."""

BACKLOG: Final = 100
"""Events in a peer's backlog; a longer backlog is simulated with this many larger events, as a fluid would be."""


@dataclass(frozen=True, slots=True)
class Compared:
    """One measure by the model and by simulation, in seconds, with half the width of the interval of their ratio."""

    name: str
    model_s: float
    simulated_s: float
    half_width: float

    @property
    def error(self) -> float:
        return self.model_s / self.simulated_s - 1

    @property
    def is_good(self) -> bool:
        """Whether the whole interval is within `ERROR_MAX`."""
        return abs(self.error) + self.half_width <= ERROR_MAX

    @property
    def is_decided(self) -> bool:
        return self.is_good or abs(self.error) - self.half_width > ERROR_MAX

    def warning(self, events: int) -> str:
        said = f"a simulation gives {self.simulated_s:.3g} s in place of {self.model_s:.3g} s"
        if self.is_decided:
            return f"bursts make this an approximation, whose {self.name} is off by {self.error:+.0%}: {said}"
        return (
            f"bursts make this an approximation, whose {self.name} may be off by more than {ERROR_MAX:.0%}: {said}, "
            f"to ±{self.half_width:.0%} after {events:,} events"
        )


def warned(solved: "Sequence[SolvedCentre]", *, on_scv: float = 1.0, off_scv: float = 1.0) -> list[str]:
    """Returns warnings in words; none if the approximation is sure to be good, or if there are no bursts."""
    if not _has_bursts(solved):
        return []
    measures, events = held_against_simulation(solved, on_scv=on_scv, off_scv=off_scv)
    return [measure.warning(events) for measure in measures if not measure.is_good]


def careful(warnings: Sequence[str]) -> list[str]:
    """Turns warnings into the notes of an answer."""
    return [f"take the answer with care: {warning}" for warning in warnings]


def _has_bursts(solved: "Sequence[SolvedCentre]") -> bool:
    """Whether bursts could change the answer at all: behind a backlog that a fast centre takes over they cannot."""
    mean_s = 0.0
    for part in solved:
        if part.law is None:
            return False
        mean_s += part.law.mean()
    return sum(part.burst_bound_s for part in solved) > IMMATERIAL * mean_s


def held_against_simulation(
    solved: "Sequence[SolvedCentre]", *, on_scv: float, off_scv: float
) -> tuple[list[Compared], int]:
    """Returns mean and 95th percentile of the path, both ways, and the number of simulated events.

    Runs are added until the intervals tell whether the errors are below or above `ERROR_MAX`.
    """
    from roamq.models.bursts import law_of, solve_path

    asked = law_of(solved)
    assert asked is not None
    larger = _larger(solved)
    centres = [_with_larger_events(part.centre, larger) for part in solved]
    modelled = solve_path(centres, on_scv=on_scv, off_scv=off_scv) if larger > 1 else solved
    law = law_of(modelled)
    assert law is not None
    # The values for the path as asked, and as simulated, where events may be larger.
    both = {
        "mean": (asked.mean(), law.mean()),
        "95th percentile": (asked.quantile(0.95), law.quantile(0.95)),
    }
    runs = SimulatedPath(modelled, on_scv=on_scv, off_scv=off_scv)
    found: list[Compared] = []
    for run in range(1, RUNS[1] + 1):
        runs.run(EVENTS, seed=run - 1)
        if run < RUNS[0]:
            continue
        found = [
            Compared(name, model_s, model_s * fmean(simulated) / scaled_s, half_width(scaled_s, simulated))
            for (name, (model_s, scaled_s)), simulated in zip(both.items(), runs.answers(), strict=True)
        ]
        if all(measure.is_decided for measure in found):
            break
    return found, run * EVENTS


class SimulatedPath:
    """Runs of a path, and its mean and 95th percentile by them.

    The mean response time until behind the first ON/OFF centre is known exactly. Answers are also computed as multiples
    of this time; these have less noise unless another centre is slower by far. The less noisy ones count.
    """

    def __init__(self, solved: "Sequence[SolvedCentre]", *, on_scv: float, off_scv: float) -> None:
        self._first = next(place for place, part in enumerate(solved) if part.centre.is_on_off)
        self._known_s = sum(part.poisson_mean_s or 0.0 for part in solved[: self._first + 1])
        self._rate = solved[0].centre.rate
        self._stations = stations_of([part.centre for part in solved], on_scv, off_scv)
        self._plain: tuple[list[float], list[float]] = ([], [])
        self._multiples: tuple[list[float], list[float]] = ([], [])

    def run(self, events: int, seed: int) -> None:
        import numpy as np

        from roamq.sim.tandem import passages

        times = list(passages(self._stations, rate=self._rate, events=events, seed=seed))
        factor = self._known_s / float(times[self._first].mean())
        found = float(times[-1].mean()), float(np.quantile(times[-1], 0.95))
        for plain, multiples, value in zip(self._plain, self._multiples, found, strict=True):
            plain.append(value)
            multiples.append(factor * value)

    def answers(self) -> tuple[list[float], list[float]]:
        """Returns the means and the 95th percentiles, one of each per run."""
        means, p95s = (
            min(both, key=relative_error) for both in zip(self._plain, self._multiples, strict=True)
        )
        return means, p95s


def relative_error(values: Sequence[float]) -> float:
    """Returns the standard error of the mean, divided by the mean."""
    return stdev(values) / sqrt(len(values)) / fmean(values)


def half_width(model_s: float, simulated: Sequence[float]) -> float:
    """Returns half the width of the interval of model over simulation, by Student's distribution over the runs."""
    from roamq.models.quantiles import student_quantile

    reach = student_quantile((1 + CONFIDENCE) / 2, len(simulated) - 1)
    return reach * relative_error(simulated) * model_s / fmean(simulated)


def _larger(solved: "Sequence[SolvedCentre]") -> float:
    """Returns how many events one simulated event stands for, so that a run sees many disconnections."""
    backlog = max(part.centre.rate * part.centre.t_off_s for part in solved if part.centre.is_on_off)
    return max(1.0, backlog / BACKLOG)


def _with_larger_events(centre: "Centre", larger: float) -> "Centre":
    return replace(
        centre,
        rate=centre.rate / larger,
        other_rate=centre.other_rate / larger,
        demand_s=centre.demand_s * larger,
    )


def stations_of(centres: "Sequence[Centre]", on_scv: float = 1.0, off_scv: float = 1.0) -> "list[Station]":
    """Turns centres into stations of the simulation without an event loop."""
    from roamq.models.phase_type import with_moments
    from roamq.sim.tandem import Station

    stations = []
    for centre in centres:
        if not centre.is_on_off:
            stations.append(Station(centre.demand_s, other_rate=centre.other_rate))
            continue
        drawn = with_moments(centre.t_on_s, on_scv).draw, with_moments(centre.t_off_s, off_scv).draw
        stations.append(
            Station(centre.demand_s, centre.t_on_s, centre.t_off_s, centre.other_rate, drawn=drawn)
        )
    return stations
