"""The runs behind [PRO] section 5: the simulated testbed, once for every set of what the paper does not print.

What Table 1's queue size bounds is not said in the paper. Here it bounds a broker's input queue, the one store of a
broker for durable subscriptions, and the queue of one subscriber for the other two (docs/pro.md says why).
"""

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from roamq.pipeline.jobs import Job
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.pro_prior import ParameterSet, overrides_of
from roamq.reproduce.pro_sets import named_sets
from roamq.sim.scenario import load_scenario

SCENARIO: Final = "pro-testbed"
SCHEMES: Final = ("durable", "reactive", "proactive")
PATTERNS: Final = ("RND", "NBR")
TABLE_POPULATIONS: Final = (10, 100, 200)
FIGURE_POPULATIONS: Final = (10, 50, 100, 150, 200)
QUEUE_BYTES: Final = "1000000"
SHORT_STAY_S: Final = "60"
LONG_STAY_S: Final = "150"

BOUNDS: Final[Mapping[str, Mapping[str, str]]] = {
    "durable": {"scheme.buffer_bytes": QUEUE_BYTES, "visited": "true"},
    "reactive": {"scheme.queue_bytes": QUEUE_BYTES},
    "proactive": {"scheme.queue_bytes": QUEUE_BYTES},
}

DURATION_S: Final = {10: 305, 50: 245, 100: 205, 150: 165, 200: 125}
"""How long a run is, by its subscribers: few of them take longer to cross every edge of the neighbor graph. The paper
says "long enough to reach a steady state"; its first five seconds are not counted."""
QUICK_DURATION_S: Final = 65


class Cell(NamedTuple):
    """One configuration of the experiments: its runs differ by their seeds alone."""

    name: str
    """Of the parameter set."""
    scheme: str
    pattern: str
    subscribers: int
    stay_s: str = SHORT_STAY_S


def names(quick: bool) -> tuple[str, ...]:
    """The parameter sets: `--quick` has the closest one alone, which can show no dependence."""
    return tuple(named_sets())[: 1 if quick else None]


def populations(quick: bool) -> tuple[int, ...]:
    """Of Tables 2 to 4."""
    return (10, 30) if quick else TABLE_POPULATIONS


def fit_populations(quick: bool) -> tuple[int, ...]:
    """Of the random runs that the curve of section 6.3 is fitted on: a cubic needs five."""
    return (10, 20, 30, 40, 50) if quick else FIGURE_POPULATIONS


def largest(quick: bool) -> int:
    return populations(quick)[-1]


def seeds(quick: bool) -> range:
    return range(2) if quick else range(4)


def job_of(scheme: str, subscribers: int, pattern: str, seed: int, chosen: ParameterSet, **more: str) -> Job:
    """One run with a set of what the paper leaves open. `more` are further overrides."""
    overrides = {**BOUNDS[scheme], **overrides_of(chosen, scheme)}
    overrides |= {"clients": str(subscribers), "mobility.pattern": pattern}
    overrides |= {key.replace("__", "."): value for key, value in more.items()}
    return Job(
        scenario=SCENARIO,
        scheme=scheme,
        seed=seed,
        params=overrides,
        payload=_payload(scheme, tuple(sorted(overrides.items()))),
        cost=float(subscribers) * float(overrides["duration_s"]),
    )


@functools.cache
def _payload(scheme: str, overrides: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    scenario = load_scenario(SCENARIO, scheme=scheme, overrides=dict(overrides))
    payload: dict[str, Any] = json.loads(scenario.to_json())
    return payload


def jobs_of(cells: Iterable[Cell], quick: bool) -> list[Job]:
    """The runs of these cells, one per seed."""
    jobs = []
    for cell in cells:
        duration_s = QUICK_DURATION_S if quick else DURATION_S[cell.subscribers]
        more = {"duration_s": str(duration_s)}
        if cell.stay_s != SHORT_STAY_S:
            more["mobility__connect_s"] = cell.stay_s
        jobs += [
            job_of(cell.scheme, cell.subscribers, cell.pattern, seed, named_sets()[cell.name], **more)
            for seed in seeds(quick)
        ]
    return jobs


# --- which cells the exhibits have ---------------------------------------------------------------------------


def table_cells(quick: bool) -> list[Cell]:
    """Tables 2 to 4: three schemes, two patterns, three populations. Fig. 5, 6 and 8 are among them."""
    return [
        Cell(name, scheme, pattern, subscribers)
        for name in names(quick)
        for scheme in SCHEMES
        for pattern in PATTERNS
        for subscribers in populations(quick)
    ]


def long_stay_cells(quick: bool) -> list[Cell]:
    """Fig. 7: clients that stay for 150 s rather than 60."""
    return [
        Cell(name, scheme, "RND", largest(quick), LONG_STAY_S) for name in names(quick) for scheme in SCHEMES
    ]


def fit_cells(quick: bool) -> list[Cell]:
    """Fig. 11 to 13, for every set: random runs to fit on, neighboring ones to predict."""
    return [
        Cell(name, "proactive", pattern, subscribers)
        for name in names(quick)
        for pattern, sizes in (("RND", fit_populations(quick)), ("NBR", populations(quick)))
        for subscribers in sizes
    ]


def table_jobs(quick: bool) -> Sequence[Job]:
    return jobs_of(table_cells(quick), quick)


def figure_7_jobs(quick: bool) -> Sequence[Job]:
    """The short stays are those of the tables, by which the sets are accepted."""
    return jobs_of([*table_cells(quick), *long_stay_cells(quick)], quick)


def fit_jobs(quick: bool) -> Sequence[Job]:
    """The runs of the tables are those by which the sets are accepted."""
    return jobs_of([*table_cells(quick), *fit_cells(quick)], quick)


class Measured:
    """What the runs of some cells measured, seed by seed."""

    def __init__(self, evidence: Evidence, cells: Sequence[Cell], metrics: Sequence[str]) -> None:
        runs = {job.run_id: (cell, job) for cell in cells for job in jobs_of([cell], evidence.quick)}
        self._values: dict[tuple[Cell, str, str], dict[int, float]] = {}
        for row in evidence.per_seed([job for _, job in runs.values()], metrics):
            cell, job = runs[row.run_id]
            self._values.setdefault((cell, row.metric, row.entity), {})[job.seed] = row.value

    def of(self, cell: Cell, metric: str, entity: str = "all") -> dict[int, float]:
        """Seed -> value; a run in which nothing happened that the metric counts has none."""
        return self._values.get((cell, metric, entity), {})

    def mean(self, cell: Cell, metric: str, entity: str = "all") -> float:
        """Over the seeds; not a number where there is none."""
        values = self.of(cell, metric, entity).values()
        return sum(values) / len(values) if values else float("nan")

    def entities(self, cell: Cell, metric: str) -> list[str]:
        """Brokers, mostly."""
        return sorted({e for c, m, e in self._values if (c, m) == (cell, metric) and e != "all"})
