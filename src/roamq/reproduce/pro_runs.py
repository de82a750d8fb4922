"""The runs behind [PRO] section 5: the simulated testbed with Table 1's values.

What Table 1's queue size bounds is not said in the paper. Here it bounds the one store of a broker for durable
subscriptions, and the queue of one subscriber for the other two (docs/pro.md says why).
"""

import functools
import json
from collections.abc import Sequence
from typing import Any, Final

from roamq.pipeline.jobs import Job
from roamq.sim.scenario import load_scenario

SCENARIO: Final = "pro-testbed"
SCHEMES: Final = ("durable", "reactive", "proactive")
PATTERNS: Final = ("RND", "NBR")
TABLE_POPULATIONS: Final = (10, 100, 200)
FIGURE_POPULATIONS: Final = (10, 50, 100, 150, 200)
QUEUE_BYTES: Final = "1000000"
LONG_STAY_S: Final = "150"
LONGER_QUEUE_BYTES: Final = "1640000"
"""As many seconds of messages as 1 MB is with short stays, which are served at a slower pace."""

BOUNDS: Final[dict[str, dict[str, str]]] = {
    "durable": {"scheme.buffer_bytes": QUEUE_BYTES, "visited": "true"},
    "reactive": {"scheme.queue_bytes": QUEUE_BYTES, "service.queue_bytes": QUEUE_BYTES},
    "proactive": {"scheme.queue_bytes": QUEUE_BYTES},
}


def populations(quick: bool) -> tuple[int, ...]:
    """Of Tables 2 to 4."""
    return (10, 30) if quick else TABLE_POPULATIONS


def fit_populations(quick: bool) -> tuple[int, ...]:
    """Of the random runs that the curve of section 6.3 is fitted on: a cubic needs five."""
    return (10, 20, 30, 40, 50) if quick else FIGURE_POPULATIONS


def seeds(quick: bool) -> range:
    return range(2) if quick else range(5)


def what_if_seeds(quick: bool) -> range:
    """Of runs beside the paper's, which no published figure is compared with."""
    return range(1) if quick else seeds(quick)


def job(scheme: str, subscribers: int, pattern: str, seed: int, quick: bool, **more: str) -> Job:
    """One run. `more` are further overrides; `bounds="none"` takes the bounds away."""
    overrides = dict(BOUNDS[scheme])
    if more.pop("bounds", "") == "none":
        overrides = {key: value for key, value in overrides.items() if not key.endswith("_bytes")}
    overrides |= {"clients": str(subscribers), "mobility.pattern": pattern}
    overrides |= {key.replace("__", "."): value for key, value in more.items()}
    if quick:
        overrides |= {"duration_s": "90", "warmup_s": "40", "drain_s": "20"}
    return Job(
        scenario=SCENARIO,
        scheme=scheme,
        seed=seed,
        params=overrides,
        payload=_payload(scheme, tuple(sorted(overrides.items()))),
        cost=float(subscribers),
    )


@functools.cache
def _payload(scheme: str, overrides: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    scenario = load_scenario(SCENARIO, scheme=scheme, overrides=dict(overrides))
    payload: dict[str, Any] = json.loads(scenario.to_json())
    return payload


def table_jobs(quick: bool) -> Sequence[Job]:
    """Tables 2 to 4: three schemes, two patterns, three populations."""
    return [
        job(scheme, subscribers, pattern, seed, quick)
        for scheme in SCHEMES
        for pattern in PATTERNS
        for subscribers in populations(quick)
        for seed in seeds(quick)
    ]


def figure_5_jobs(quick: bool) -> Sequence[Job]:
    """Fig. 5: five populations under random mobility."""
    return [
        job(scheme, subscribers, "RND", seed, quick)
        for scheme in SCHEMES
        for subscribers in (populations(quick) if quick else FIGURE_POPULATIONS)
        for seed in seeds(quick)
    ]


def largest(quick: bool) -> int:
    return populations(quick)[-1]


def figure_6_jobs(quick: bool) -> Sequence[Job]:
    """Fig. 6: Table 1's default population, random mobility."""
    return [job(scheme, largest(quick), "RND", seed, quick) for scheme in SCHEMES for seed in seeds(quick)]


def long_stay_jobs(quick: bool) -> Sequence[Job]:
    """Fig. 7: clients that stay for 150 s rather than 60."""
    return [
        job(scheme, largest(quick), "RND", seed, quick, mobility__connect_s=LONG_STAY_S)
        for scheme in SCHEMES
        for seed in seeds(quick)
    ]


def figure_7_jobs(quick: bool) -> Sequence[Job]:
    return [*figure_6_jobs(quick), *long_stay_jobs(quick)]


DURABLE_EVENT_S: Final = "0.0191"
"""Seconds per event of a broker with durable subscriptions, if it has the fixed cost that Table 2 lets one see.

By that table an event takes it 20.4 ms with 10 subscribers and 43.9 ms with 200. It stores for 8.5 and 170 of them, a
fifth of the events each: 0.73 ms per stored event, 19.1 ms without any; pro-active caching takes 16.3 ms with 10."""


def dear_durable_jobs(quick: bool) -> Sequence[Job]:
    """What if durable subscriptions had that fixed cost, where it shows most? At full size only."""
    return [
        job("durable", populations(quick)[0], pattern, seed, quick, service__event_s=DURABLE_EVENT_S)
        for pattern in PATTERNS
        for seed in range(0 if quick else 2)
    ]


CHEAPER_TRANSFER_S: Final = "0.012"
"""Seconds that a broker takes for one message of a state transfer, if three quarters of what the testbed has."""

TRANSFER_TIMES: Final = ("0.002", CHEAPER_TRANSFER_S, "0.065")
"""The same, from an eighth to four times."""


def longer_queue_jobs(quick: bool) -> Sequence[Job]:
    """Long stays with queues that hold as many seconds of messages as those of short stays do. At full size only."""
    return [
        job(
            "proactive",
            largest(quick),
            "RND",
            seed,
            quick,
            mobility__connect_s=LONG_STAY_S,
            scheme__queue_bytes=LONGER_QUEUE_BYTES,
        )
        for seed in range(0 if quick else 2)
    ]


def cheaper_transfer_jobs(quick: bool) -> Sequence[Job]:
    """Would reactive stand between the others if a transfer cost less? At full size only."""
    return [
        job("reactive", subscribers, pattern, seed, quick, service__transfer_s=CHEAPER_TRANSFER_S)
        for pattern in PATTERNS
        for subscribers in populations(quick)[1:]
        for seed in range(0 if quick else 2)
    ]


def transfer_jobs(quick: bool) -> Sequence[Job]:
    """What if a state transfer were cheaper or dearer, at both handoff frequencies? At full size only."""
    return [
        job("reactive", largest(quick), "RND", seed, quick, service__transfer_s=transfer_s, **stay)
        for transfer_s in TRANSFER_TIMES
        for stay in ({}, {"mobility__connect_s": LONG_STAY_S})
        for seed in range(0 if quick else 2)
    ]


def figure_8_jobs(quick: bool) -> Sequence[Job]:
    """Fig. 8: pro-active caching in both patterns."""
    return [
        job("proactive", largest(quick), pattern, seed, quick)
        for pattern in PATTERNS
        for seed in seeds(quick)
    ]


def fit_jobs(quick: bool) -> Sequence[Job]:
    """Fig. 11 to 13: random runs to fit on, neighboring ones to predict."""
    return [
        job("proactive", subscribers, pattern, seed, quick)
        for pattern, sizes in (("RND", fit_populations(quick)), ("NBR", populations(quick)))
        for subscribers in sizes
        for seed in seeds(quick)
    ]


def unbounded_jobs(quick: bool) -> Sequence[Job]:
    """Beyond the paper: pro-active caching with sufficient buffers."""
    return [
        job("proactive", subscribers, pattern, seed, quick, bounds="none")
        for pattern in PATTERNS
        for subscribers in populations(quick)[:2]
        for seed in what_if_seeds(quick)
    ]


def shared_store_jobs(quick: bool) -> Sequence[Job]:
    """What if the bound were that of one store for all, in the other two as well?"""
    return [
        job(scheme, subscribers, "RND", seed, quick, bounds="none", scheme__buffer_bytes=QUEUE_BYTES)
        for scheme in ("reactive", "proactive")
        for subscribers in populations(quick)[:2]
        for seed in what_if_seeds(quick)
    ]
