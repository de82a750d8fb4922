"""Which of the parameters that [PRO] leaves open fit what it prints? Fitted on Table 2 RND and Fig. 6, on nothing else.

A first wave of parameter sets fills the prior evenly. A rough formula of each fitted figure, corrected by a regression
on the runs so far, says where in the prior the figures may come out; the next wave is drawn there, and so on (history
matching). Candidates fill the prior, and lie around the closest sets so far; a wave takes promising ones that are far
apart. The models only choose what is run next. Whether a set is accepted is decided by its own runs, and by the
stated distance. Waves have short runs and one seed; the accepted sets are run again at full size by
`roamq reproduce PRO`, which judges the distance again and drops the sets that fail it.
`python -m benchmarks.identify_pro` runs the waves, as one campaign.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
PARENTS: Final = 8
"""So many of the closest sets have candidates around them."""
SPREAD: Final = 0.1
"""How far these candidates lie from them, as a share of a parameter's range (the standard deviation)."""
TURNED: Final = 0.1
"""How often a choice is another one there."""
PROMISING: Final = 8
"""A wave chooses among so many times its size of promising candidates."""
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
    """The sets of the next wave: among the candidates to which the models give the smallest distance, `count` that are
    far apart.
    """
    candidates = np.vstack([pro_prior.designed(CANDIDATES, seed=seed), _around_closest(known, seed)])
    sets = [pro_prior.at(point) for point in candidates]
    promising = np.argsort(_guessed_distances(candidates, sets, known), kind="stable")[: PROMISING * count]
    return [sets[promising[index]] for index in _far_apart(candidates[promising], count)]


def wave_by_choice(known: Sequence[tuple[ParameterSet, Figures]], *, seed: int = 1) -> list[dict[str, float]]:
    """One set for each combination of the choices, yes or no: the one to which the models give the smallest distance.

    The sets that fit best may share a choice by chance. This looks whether the others have sets that fit, too.
    """
    candidates = np.vstack([pro_prior.designed(CANDIDATES, seed=seed), _around_closest(known, seed)])
    is_choice = np.array([parameter.scale == "choice" for parameter in pro_prior.PRIOR])
    every = np.vstack(
        [
            _chosen(candidates, is_choice, choices)
            for choices in itertools.product((0.0, 1.0), repeat=int(is_choice.sum()))
        ]
    )
    sets = [pro_prior.at(point) for point in every]
    distances = _guessed_distances(every, sets, known).reshape(-1, len(candidates))
    return [sets[row * len(candidates) + int(np.argmin(found))] for row, found in enumerate(distances)]


def _chosen(points: Floats, is_choice: NDArray[np.bool_], choices: Sequence[float]) -> Floats:
    """The same points with these choices."""
    moved = points.copy()
    moved[:, is_choice] = choices
    return moved


def spread_out(accepted: Sequence[tuple[ParameterSet, Figures]], count: int) -> list[ParameterSet]:
    """Of the sets that fit, `count` that are far apart, the closest one among them; in the order of their distance."""
    ordered = sorted(accepted, key=lambda one: distance(one[1])[0])
    points = np.array([pro_prior.point_of(chosen) for chosen, _ in ordered])
    return [ordered[index][0] for index in sorted(_far_apart(points, count))] if ordered else []


def _around_closest(known: Sequence[tuple[ParameterSet, Figures]], seed: int) -> Floats:
    """Points around the closest sets for which every figure was measured; a choice is turned over now and then."""
    measured = sorted((distance(figures)[0], index) for index, (_, figures) in enumerate(known) if figures)
    whole = [index for _, index in measured if len(known[index][1]) == len(TARGETS)][:PARENTS]
    if not whole:
        return np.empty((0, len(pro_prior.PRIOR)))
    random = np.random.default_rng(seed)
    parents = np.array([pro_prior.point_of(known[index][0]) for index in whole])
    points = parents[random.integers(len(parents), size=CANDIDATES)]
    moved = np.abs(points + random.normal(0.0, SPREAD, points.shape))
    moved = np.where(moved > 1, np.maximum(2 - moved, 0.0), moved)  # what leaves the prior is reflected
    is_choice = np.array([parameter.scale == "choice" for parameter in pro_prior.PRIOR])
    turned = np.where(random.random(points.shape) < TURNED, 1 - points, points)
    return np.where(is_choice, turned, moved)


def _guessed_distances(
    candidates: Floats, sets: Sequence[ParameterSet], known: Sequence[tuple[ParameterSet, Figures]]
) -> Floats:
    """The distance of each candidate by the models.

    A model is the rough figure, corrected by a regression on the runs so far; a figure that no run has measured has no
    correction yet.
    """
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
    return distances


def _far_apart(points: Floats, count: int) -> list[int]:
    """The first point, and then again and again the one that is farthest from those taken."""
    taken = [0]
    away = np.linalg.norm(points - points[0], axis=1)
    while len(taken) < min(count, len(points)):
        taken.append(int(np.argmax(away)))
        away = np.minimum(away, np.linalg.norm(points - points[taken[-1]], axis=1))
    return taken
