"""[DIS] section 5.2.3: what explains the random scenario's figures: the size of the log, and how interests are shared.

Runs give the log no end, and sweep interest locality from the 90% of Figure 7 to 100%.
"""

from statistics import fmean
from typing import Final

from roamq.models.paired import Estimate, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.dis_open import Counted, Model, overrides
from roamq.reproduce.dis_runs import SEEDS, runs
from roamq.reproduce.evidence import Seeds

FEW, MANY = 200, 800
ENDLESS: Final = {"scheme.log_size": "1000000"}
LOCAL: Final = {"workload.locality": "0.9"}

TURN: Final = Model(edge="turn")
SWEPT: Final = ("0.9", "0.95", "0.99", "1.0")
SWEEP_SCHEMES: Final = ("standard", "logging", "prefetching")


def endless_jobs() -> list[Job]:
    """Logging with a log that never turns over: what the size of the log leaves to be explained."""
    return [
        job
        for overrides in ({"clients": str(FEW)}, {"clients": str(MANY)}, {"clients": str(MANY), **LOCAL})
        for job in runs("random", ["logging"], {**overrides, **ENDLESS}, quick=False, seeds=SEEDS)
    ]


def sweep_jobs() -> list[Job]:
    """Interest locality from 0.9 to 1, where travellers turn around at the edge: every leaf is alike then."""
    return [
        job
        for locality in SWEPT
        for job in runs(
            "random",
            SWEEP_SCHEMES,
            {"clients": str(MANY), "workload.locality": locality, **overrides(TURN.edge)},
            quick=False,
        )
    ]


def gap(counted: Counted, locality: str, model: Model) -> Estimate:
    """What logging still costs more than prefetching, as a share of standard."""
    logging, prefetching, standard = (
        counted.ratio("random", scheme, model, workload__locality=locality)
        for scheme in ("logging", "prefetching", "standard")
    )
    return ratio({seed: logging[seed] - prefetching[seed] for seed in logging}, standard)


def sweep_table(counted: Counted) -> Table:
    """What of the gap between logging and prefetching is left as interests become alike, and what it is made of."""
    rows: list[list[Cell]] = []
    for locality in SWEPT:
        sent, kept = (
            counted.of_kind("random", scheme, TURN, "stored_event", workload__locality=locality)
            for scheme in ("standard", "logging")
        )
        means = [
            fmean(counted.ratio("random", scheme, TURN, workload__locality=locality).values())
            for scheme in SWEEP_SCHEMES
        ]
        left = ratio({seed: kept.get(seed, 0.0) for seed in sent}, sent)
        rows.append(
            [
                locality,
                *(round(mean, 3) for mean in means),
                str(gap(counted, locality, TURN)),
                str(left),
                f"{1 - float(locality):.2g}",
            ]
        )
    return Table(
        title="Interest locality from 0.9 to 1, edge=turn",
        columns=[
            "locality",
            *SWEEP_SCHEMES,
            "gap, of standard",
            "logging still transfers, of standard's stored events",
            "clients with another interest",
        ],
        rows=rows,
        note="The column before the last is measured: link traversals of stored events with logging over those with "
        "standard, seed by seed. The last one is the share that the locality leaves to other interests.",
    )


def outermost(seeds: Seeds, clients: int) -> str:
    """How many subscribers are at the two leaves that have most of them, computed from the runs."""
    by_broker = seeds.entities("logging", "broker_subscribers", clients=clients, scheme__log_size=None)
    means = sorted(sum(of.values()) / len(of) for of in by_broker.values())
    return f"the two leaves with most subscribers have {sum(means[-2:]) / (sum(means) or 1.0):.0%} of them"


def endless_table(seeds: Seeds) -> Table:
    """What an endless log does to logging, beside the log of Table 2."""

    def of(clients: int, size: str | None) -> dict[int, float]:
        return seeds.of(
            "logging", "overhead", clients=clients, scheme__log_size=size, workload__locality=None
        )

    endless = ENDLESS["scheme.log_size"]
    what = f"logging at {MANY} / at {FEW}"
    bounded, free = ratio(of(MANY, None), of(FEW, None)), ratio(of(MANY, endless), of(FEW, endless))
    rows: list[list[Cell]] = [[what, str(bounded), str(free)]]
    return Table(
        title="What the size of the log decides", columns=["", "a log of 1000", "an endless log"], rows=rows
    )
