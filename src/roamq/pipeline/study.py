"""A study: every infrastructure scheme on the network and the moves that traces suggest."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from roamq.config import Source
from roamq.pipeline.jobs import Job
from roamq.pipeline.replay import Network, learn_network, replay_steps, write_steps
from roamq.schemes import scheme_names
from roamq.sim.scenario import checked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

APART: Final = ("cells", "onoff")
"""Formats whose clients were recorded one after the other: their clocks are shifted to begin together."""

NEEDS_CELLS: Final = frozenset({"pre-handoff", "prehandoff"})
"""Schemes that need a map of cells and areas, which traces of associations do not have."""

SCHEME_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    # A real network knows no future: what is pushed goes where the learned graph says.
    "prefetching": {"prediction": "learned"},
    "prefetching+on-device": {"prediction": "learned"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a study simulates."""

    dataset: str
    format: str
    brokers: int = 12
    clients: int = 60
    duration_s: float = 3600.0
    rate: float = 1.0
    seeds: int = 3
    schemes: tuple[str, ...] = ()


def study_jobs(spark: "SparkSession", plan: Plan, out: Path) -> tuple[list[Job], Network, int]:
    """Learn the network, write the steps to replay, and return the runs to make, with the clients they have."""
    network = learn_network(spark, plan.dataset, plan.brokers)
    sojourns = spark.read.table("sojourns").where(F.col("dataset") == plan.dataset)
    steps = replay_steps(
        sojourns,
        network,
        clients=plan.clients,
        duration_s=plan.duration_s,
        align=plan.format in APART,
    )
    trace = (out / f"{plan.dataset}-steps.csv").resolve()
    clients = write_steps(steps, trace)
    return jobs_of(plan, network, trace, clients), network, clients


def jobs_of(plan: Plan, network: Network, trace: Path, clients: int) -> list[Job]:
    """One run per scheme and seed."""
    jobs = []
    for scheme in plan.schemes or infrastructure_schemes():
        payload = json.loads(
            checked(scenario_of(plan, network, trace, clients, scheme), Source("study")).to_json()
        )
        jobs += [
            Job(
                scenario=f"study of {plan.dataset}",
                scheme=scheme,
                seed=seed,
                payload=payload,
                replay=f"roamq study --dataset {plan.dataset} --scheme {scheme} --seeds {plan.seeds}",
            )
            for seed in range(1, plan.seeds + 1)
        ]
    return jobs


def infrastructure_schemes() -> Sequence[str]:
    """The registered schemes that run between fixed brokers and need no map."""
    return [name for name in scheme_names() if name not in NEEDS_CELLS]


def scenario_of(plan: Plan, network: Network, trace: Path, clients: int, scheme: str) -> dict[str, Any]:
    """A scenario as plain data: the learned network, its clients' recorded steps, one scheme."""
    options: dict[str, Any] = {"name": scheme, **SCHEME_OPTIONS.get(scheme, {})}
    if scheme == "proactive":
        options["warm_start"] = [[e.source, e.target, float(e.moves), e.last_seen_s] for e in network.edges]
    return {
        "name": f"study-{plan.dataset}",
        "description": f"{clients} clients of {plan.dataset} on {len(network.brokers)} brokers",
        "scheme": options,
        "clients": clients,
        "duration_s": plan.duration_s,
        "drain_s": 600.0,
        "network": {
            "overlay": "flooding",
            "brokers": list(network.brokers),
            "links": [list(link) for link in network.links],
        },
        "mobility": {"model": "trace", "path": str(trace)},
        "workload": {"model": "groups", "rate": plan.rate, "share": 0.2, "topics": 5},
        "records": {"level": "all", "buffer_s": 60.0},
    }
