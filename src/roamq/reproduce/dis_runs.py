"""[DIS] section 5.2: the runs that its figures are made of, and how their numbers are picked out.

Claims of one figure share their runs with the others: a run is named by its scenario, its scheme and what was
overridden in the preset, and made once.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import SummaryRow
from roamq.report.exhibits import Series
from roamq.sim.scenario import load_scenario

SCHEMES: Final = ("standard", "logging", "prefetching", "home-broker")
"""The four that the paper's figures compare, in the order of their legends."""

POPULATIONS: Final = (200, 400, 600, 800)
QUICK_POPULATIONS: Final = (50, 100)
SEEDS: Final = 5
ENDS_SEEDS: Final = 10
"""Of commute at its smallest and its largest population: what its figures are judged by. The evenings of one scheme
differ more than the runs of other scenarios do."""
QUICK_SEEDS: Final = 2
"""Two give an interval, if a wide one: what is far from its bound is decided, the rest is not."""

_QUICK: Final = {
    "commute": {"workload.publishers_count": "50"},
    "random": {"duration_s": "4800.0", "warmup_s": "2400.0"},
    "pervasive": {"duration_s": "3000.0"},
}
"""What `--quick` shortens, besides populations and seeds."""

_COST: Final = {"commute": 4.0, "random": 1.0, "pervasive": 1.5}


def runs(
    scenario: str,
    schemes: Iterable[str],
    overrides: Mapping[str, str],
    *,
    quick: bool,
    seeds: int = SEEDS,
) -> list[Job]:
    """One job per scheme and seed of a preset with `overrides`."""
    shortened = {**overrides, **(_QUICK[scenario] if quick else {})}
    jobs = []
    for scheme in schemes:
        loaded = load_scenario(scenario, overrides=shortened, scheme=scheme)
        payload = json.loads(loaded.to_json())
        cost = _COST[scenario] * loaded.clients * (2 if scheme == "home-broker" else 1)
        jobs += [
            Job(scenario=scenario, scheme=scheme, seed=seed, params=shortened, payload=payload, cost=cost)
            for seed in range(1, 1 + (QUICK_SEEDS if quick else seeds))
        ]
    return jobs


def populations(quick: bool) -> tuple[int, ...]:
    return QUICK_POPULATIONS if quick else POPULATIONS


def by_population(scenario: str, quick: bool, schemes: Iterable[str] = SCHEMES) -> list[Job]:
    """Figures 3, 4, 6 and 9: every scheme at every population."""
    return [
        job
        for clients in populations(quick)
        for job in runs(
            scenario, schemes, {"clients": str(clients)}, quick=quick, seeds=seeds_at(scenario, clients)
        )
    ]


def seeds_at(scenario: str, clients: int) -> int:
    """How many seeds a population has."""
    return ENDS_SEEDS if scenario == "commute" and clients in (POPULATIONS[0], POPULATIONS[-1]) else SEEDS


class Value(NamedTuple):
    """A mean over seeds, and its 95% interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g}"


class Values:
    """The measured values of a claim, by scheme, one varied parameter, and metric."""

    def __init__(self, rows: Iterable[SummaryRow], parameter: str, default: str = "") -> None:
        self._values: dict[tuple[str, str, str, str], Value] = {}
        for row in rows:
            low = row.mean if row.low is None else row.low
            high = row.mean if row.high is None else row.high
            at = row.params.get(parameter, default)
            self._values[row.scheme, at, row.metric, row.entity] = Value(row.mean, low, high)

    def get(self, scheme: str, at: object, metric: str = "overhead") -> Value:
        return self._values.get((scheme, str(at), metric, "all"), Value(0.0, 0.0, 0.0))

    def entities(self, scheme: str, at: object, metric: str) -> dict[str, Value]:
        """A metric that has a value per kind of traffic or bin of time."""
        return {
            entity: value
            for (s, a, m, entity), value in self._values.items()
            if (s, a, m) == (scheme, str(at), metric)
        }

    def series(self, name: str, scheme: str, xs: Sequence[object], metric: str = "overhead") -> Series:
        values = [self.get(scheme, x, metric) for x in xs]
        return Series(
            name=name,
            x=[float(str(x)) for x in xs],
            y=[value.mean for value in values],
            low=[value.low for value in values],
            high=[value.high for value in values],
        )
