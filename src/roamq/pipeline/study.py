"""A study: every infrastructure scheme on the network and the moves that traces suggest.

`run_study` does it all: it learns the network from the tables of a warehouse, writes the moves to replay, runs every
scheme as one campaign, and returns the numbers that a report ranks.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F

from roamq.config import Source
from roamq.models.tariff import Tariff
from roamq.pipeline.campaign import Progress, run_campaign
from roamq.pipeline.jobs import Job, file_digest
from roamq.pipeline.learned import learned_rows
from roamq.pipeline.metrics import NAMES, waiting_distribution
from roamq.pipeline.replay import LearnedNetwork, learn_network, replay_steps, write_steps
from roamq.pipeline.results import over_seeds, per_run, rows_of, run_rows, with_prices
from roamq.pipeline.schemas import MetricRow, RunRow, SummaryRow
from roamq.pipeline.session import SparkSettings, open_session
from roamq.pipeline.store import Store
from roamq.pipeline.warehouse import open_tables
from roamq.schemes.table import scheme_names
from roamq.sim.scenario import checked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

APART: Final = ("cells", "onoff", "tuples")
"""Formats whose clients were recorded one after the other: their clocks are shifted to begin together."""

NEEDS_CELLS: Final = frozenset({"pre-handoff", "prehandoff"})
"""Schemes that need a map of cells and areas, which traces of associations do not have."""

SCHEME_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    # A real network does not know the future: prefetching pushes to the neighbors that the learned graph predicts.
    "prefetching": {"prediction": "learned"},
    "prefetching+on-device": {"prediction": "learned"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """What a study simulates."""

    dataset: str
    format: str
    brokers: int = 12
    clients: int = 60
    duration_s: float = 3600.0
    rate: float = 1.0
    seeds: int = 3
    schemes: tuple[str, ...] = ()
    tariff: Tariff = field(default_factory=Tariff)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """What the runs of a study gave, and what the traces taught."""

    network: str
    """The simulated network, in words."""
    metrics: list[MetricRow]
    """Of every run, its price included."""
    numbers: list[SummaryRow]
    """The same over seeds."""
    runs: list[RunRow]
    waits: list[dict[str, Any]]
    """The distribution of waiting delays, `schemas.DISTRIBUTION`."""
    learned: Mapping[str, list[dict[str, Any]]]
    """Gold rows of the dataset, by table."""


def run_study(
    settings: SparkSettings,
    plan: StudyPlan,
    out: Path,
    *,
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Simulate every scheme on the dataset of the plan; the runs are kept in `out`, and existing ones are reused.

    `phase` is told what begins: `progress` counts runs, which is only a part of the work.
    """
    assert settings.warehouse is not None, "a study reads the tables of a warehouse"
    phase("starting Spark")
    with open_session(settings) as spark:
        phase("learning the network from the traces")
        open_tables(spark, settings.warehouse)
        network = learn_network(spark, plan.dataset, plan.brokers)
        sojourns = spark.read.table("sojourns").where(F.col("dataset") == plan.dataset)
        result = study_of(
            spark,
            plan,
            out,
            network,
            sojourns,
            runs=campaign_place(settings, out),
            progress=progress,
            phase=phase,
        )
        return replace(result, learned=learned_rows(spark, plan.dataset))


def campaign_place(settings: SparkSettings, out: Path) -> Path | str:
    """Where a study keeps its runs: beside its report, or in a warehouse elsewhere, where all workers can write."""
    assert settings.warehouse is not None
    store = Store.at(settings.warehouse)
    return out / "campaign" if store.is_local else store.for_spark(f"studies/{out.name}/campaign")


def study_of(
    spark: "SparkSession",
    plan: StudyPlan,
    out: Path,
    network: LearnedNetwork,
    sojourns: "DataFrame",
    *,
    runs: Path | str | None = None,
    progress: Progress | None = None,
    phase: Callable[[str], None] = lambda text: None,
) -> StudyResult:
    """Simulate every scheme on a network with the clients of these sojourns, in a session that is there already."""
    jobs, clients = study_jobs(plan, out, network, sojourns)
    phase(f"simulating {len(jobs)} runs")
    campaign = run_campaign(spark, jobs, runs or out / "campaign", progress=progress)
    phase("measuring")
    metrics = with_prices(spark, per_run(campaign, NAMES), plan.tariff)
    return StudyResult(
        network=(
            f"{len(network.brokers)} brokers, {len(network.links)} links, {clients} clients, "
            f"{plan.duration_s / 3600:g} h, {len(jobs)} runs"
        ),
        metrics=metrics,
        numbers=over_seeds(spark, metrics),
        runs=run_rows(campaign),
        waits=rows_of(campaign, waiting_distribution),
        learned={},
    )


def study_jobs(
    plan: StudyPlan, out: Path, network: LearnedNetwork, sojourns: "DataFrame"
) -> tuple[list[Job], int]:
    """Write the steps to replay, and return the runs to make, with the clients they have."""
    steps = replay_steps(
        sojourns,
        network,
        clients=plan.clients,
        duration_s=plan.duration_s,
        align=plan.format in APART,
    )
    written = (out / f"{plan.dataset}-steps.csv").resolve()
    clients = write_steps(steps, written)
    # A worker that replayed an older trace remembers it by its path, so every trace has a path of its own.
    trace = written.rename(written.with_stem(f"{written.stem}-{file_digest(written)}"))
    return jobs_of(plan, network, trace, clients), clients


def jobs_of(plan: StudyPlan, network: LearnedNetwork, trace: Path, clients: int) -> list[Job]:
    """One run per scheme and seed."""
    jobs = []
    again = f"--brokers {plan.brokers} --clients {plan.clients} --hours {plan.duration_s / 3600:g} --rate {plan.rate:g}"
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
                replay=f"roamq study --dataset {plan.dataset} --scheme {scheme} --seeds {plan.seeds} {again}",
            )
            for seed in range(1, plan.seeds + 1)
        ]
    return jobs


def infrastructure_schemes() -> Sequence[str]:
    """The registered schemes that run between fixed brokers and need no map."""
    return [name for name in scheme_names() if name not in NEEDS_CELLS]


def scenario_of(
    plan: StudyPlan, network: LearnedNetwork, trace: Path, clients: int, scheme: str
) -> dict[str, Any]:
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
