"""Which of the parameters that [PRO] leaves open fit what it prints? Fitted on Table 2 RND and Fig. 6, on nothing else.

A first wave of parameter sets fills the prior evenly. A rough formula of each fitted figure, corrected by a regression
on the runs so far, says where in the prior the figures may come out; the next wave is drawn there, and so on (history
matching). The models only choose what is run next. Whether a set is accepted is decided by its own runs, and by the
stated distance. Waves have short runs and one seed; the accepted sets are run again at full size by
`roamq reproduce PRO`, which judges the distance again and drops the sets that fail it.
`python -m benchmarks.identify_pro` runs the waves, as one campaign.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import MetricRow
from roamq.reproduce import pro_prior
from roamq.reproduce.pro_prior import Floats, ParameterSet
from roamq.reproduce.pro_runs import SCHEMES, job_of
from roamq.reproduce.pro_tables import PUBLISHED_THROUGHPUT

SHORT_S: Final = {10: 125.0, 100: 85.0, 200: 65.0}
"""How long the short runs are: few subscribers take longer to learn the neighbor graph, and cost less."""
METRICS: Final = ("throughput", "handoff_s_at")
CANDIDATES: Final = 2**14
RIDGE: Final = 0.01


class Target(NamedTuple):
    """One figure that parameters are fitted on."""

    name: str
    scheme: str
    subscribers: int
    metric: str
    entity: str
    published: float
    factor: float
    """Ours may be the published value times or over this."""
    at_most: bool = False
    """The paper gives a bound: a smaller value is as good."""

    def distance(self, ours: float) -> float:
        """How far off it is, in units of what is allowed: up to 1 is accepted."""
        if not ours > 0:
            return math.inf
        off = math.log(ours / self.published) / math.log(self.factor)
        return max(0.0, off) if self.at_most else abs(off)


WITHIN: Final = 1.2
"""Every figure of Table 2 RND within 20% of the printed one."""

TARGETS: Final = (
    *(
        Target(
            f"{scheme} {n}", scheme, n, "throughput", "all", PUBLISHED_THROUGHPUT[scheme, "RND", n], WITHIN
        )
        for scheme in SCHEMES
        for n in (10, 100, 200)
    ),
    Target("reactive's handoffs, 40%", "reactive", 200, "handoff_s_at", "40", 1.2, 1.5),
    Target("pro-active's handoffs, 60%", "proactive", 200, "handoff_s_at", "60", 0.35, 1.2, at_most=True),
    Target("durable's handoffs, 60%", "durable", 200, "handoff_s_at", "60", 0.05, 1.2, at_most=True),
)

Figures = Mapping[str, float]
"""Name of a target -> what a parameter set gave."""


def short_jobs(chosen: ParameterSet, populations: Iterable[int]) -> list[Job]:
    """The runs of one set in a wave."""
    return [
        job_of(scheme, n, "RND", 0, chosen, duration_s=f"{SHORT_S[n]:g}", drain_s="15", records__buffer_s="0")
        for scheme in SCHEMES
        for n in populations
    ]


def figures_of(rows: Iterable[MetricRow], jobs: Iterable[Job]) -> dict[str, float]:
    """What the runs of one set gave for the targets that they measure; the mean over their seeds."""
    wanted = {job.run_id: (job.scheme, int(job.params["clients"])) for job in jobs}
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.run_id in wanted:
            for target in TARGETS:
                here = (target.scheme, target.subscribers, target.metric, target.entity)
                if here == (*wanted[row.run_id], row.metric, row.entity):
                    values.setdefault(target.name, []).append(row.value)
    return {name: math.fsum(some) / len(some) for name, some in values.items()}


def distance(figures: Figures) -> tuple[float, str]:
    """The largest distance of a target that was measured, and which target it is."""
    found = {t.name: t.distance(figures[t.name]) for t in TARGETS if t.name in figures}
    worst = max(found, key=lambda name: found[name])
    return found[worst], worst


def accepts(figures: Figures) -> bool:
    """Is every target within its factor?"""
    return distance(figures)[0] <= 1


# --- where the next wave is drawn ----------------------------------------------------------------------------


def rough(target: Target, chosen: ParameterSet) -> float:
    """A throughput by a back-of-the-envelope balance of the slowest broker's time; 1 for other figures.

    A broker takes its time for every event (filtering, delivering, storing), for the messages of state transfers and
    for subscriptions that come and go. 88.6% of the subscribers are connected, the others are away for 7 s on average.
    """
    if target.metric != "throughput":
        return 1.0
    n, scheme = target.subscribers, target.scheme
    here, away = 0.886 * n / 6, 0.114 * n
    stored = {"durable": n - here, "reactive": away / 6, "proactive": away}[scheme]
    handoffs = 0.886 * n / 60 * 0.75
    event_s = chosen["service.event_s"] + chosen["service.store_s"] * (1 - 0.8**stored)
    event_s += 0.2 * (here * chosen["service.delivery_s"] + stored * chosen["service.buffer_s"])
    if scheme == "reactive":
        event_s += 2 * handoffs / 6 * 0.2 * 7 * chosen["service.message_s"]
    changes = {"durable": 0.0, "reactive": 2 * handoffs / 6, "proactive": 0.0245 * n}[scheme]
    free = max(0.1, 0.95 * chosen["weak"] - changes * chosen["service.subscription_s"])
    return float(free / event_s * 0.2 * 0.886 * n)


def _terms(points: Floats) -> Floats:
    return np.hstack([np.ones((len(points), 1)), points - 0.5])


def _fitted(points: Floats, values: Floats) -> Floats:
    """Coefficients of a ridge regression, whose constant is not held back."""
    terms = _terms(points)
    penalty = RIDGE * len(points) * np.eye(terms.shape[1])
    penalty[0, 0] = 0.0
    return np.asarray(np.linalg.solve(terms.T @ terms + penalty, terms.T @ values))


def next_wave(
    known: Sequence[tuple[ParameterSet, Figures]], count: int, *, seed: int = 1
) -> list[dict[str, float]]:
    """The `count` sets of a dense sample that the models give the smallest distance.

    A model is the rough figure, corrected by a regression on the runs so far; a figure that no run has measured has no
    correction yet.
    """
    candidates = pro_prior.designed(CANDIDATES, seed=seed)
    sets = [pro_prior.at(point) for point in candidates]
    distances = np.zeros(len(candidates))
    for target in TARGETS:
        guessed = np.log([rough(target, chosen) for chosen in sets])
        runs = [(chosen, figures[target.name]) for chosen, figures in known if target.name in figures]
        if runs:
            points = np.array([pro_prior.point_of(chosen) for chosen, _ in runs])
            off = [math.log(max(value, 1e-4) / rough(target, chosen)) for chosen, value in runs]
            guessed += _terms(candidates) @ _fitted(points, np.array(off))
        elif target.metric != "throughput":
            continue
        away = (guessed - math.log(target.published)) / math.log(target.factor)
        distances = np.maximum(distances, np.maximum(away, 0.0) if target.at_most else np.abs(away))
    return [sets[index] for index in np.argsort(distances, kind="stable")[:count]]
