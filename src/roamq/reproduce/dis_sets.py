"""[DIS] sections 3.2.1 and 4.1: prefetching to several brokers, and to the wrong one.

"We do not evaluate prefetching to multiple brokers in this paper": here it is, in the random scenario at its largest
population. `targets` brokers get the context: the right one, and those where most clients of the old broker went.
"""

from statistics import fmean
from typing import Final

from roamq.core.records import MIGRATION
from roamq.models.paired import interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.dis_runs import populations, runs
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import Judgement
from roamq.reproduce.registry import Outcome, claim

LINEAR: Final = 0.25
"""How far the cost of the third broker may be from that of the second, if cost is linear in their number."""

VARIANTS: Final[dict[str, dict[str, str]]] = {
    "one, right": {},
    "two, one of them right": {"scheme.targets": "2"},
    "three, one of them right": {"scheme.targets": "3"},
    "one, wrong": {"scheme.prediction": "wrong"},
    "three, all wrong": {"scheme.prediction": "wrong", "scheme.targets": "3"},
    "one, learned": {"scheme.prediction": "learned"},
    "three, learned": {"scheme.prediction": "learned", "scheme.targets": "3"},
}
TRAFFIC: Final = {"records.level": "traffic"}


def _runs(scheme: str, variant: dict[str, str], quick: bool) -> list[Job]:
    clients = {"clients": str(populations(quick)[-1])}
    return runs("random", [scheme], {**clients, **variant, **(TRAFFIC if variant else {})}, quick=quick)


def set_jobs(quick: bool) -> list[Job]:
    jobs = [job for variant in VARIANTS.values() for job in _runs("prefetching", variant, quick)]
    return jobs + _runs("standard", {}, quick)


METRICS: Final = ["overhead", "unicast_hops", "multicast_hops", "hops_of_kind"]


@claim("DIS-sets", jobs=set_jobs)
def prefetching_to_sets_and_mispredicted(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    made = {
        name: Seeds(evidence.per_seed(_runs("prefetching", v, quick), METRICS))
        for name, v in VARIANTS.items()
    }
    standard = Seeds(evidence.per_seed(_runs("standard", {}, quick), METRICS))

    def of(name: str, metric: str) -> dict[int, float]:
        return made[name].of("prefetching", metric)

    def migration(name: str) -> dict[int, float]:
        kinds = made[name].entities("prefetching", "hops_of_kind")
        return {
            seed: sum(kinds.get(kind, {}).get(seed, 0.0) for kind in MIGRATION)
            for seed in of(name, "overhead")
        }

    one, two, three = (migration(name) for name in [*VARIANTS][:3])
    second, third = ({seed: b[seed] - a[seed] for seed in a} for a, b in ((one, two), (two, three)))
    judgement = Judgement()
    judgement.says(
        "a failed prediction costs more messages than none (over standard)",
        ratio(of("one, wrong", "unicast_hops"), standard.of("standard", "unicast_hops")),
        above=1.0,
    )
    judgement.says(
        "migrating subscriptions grows linearly with the number of brokers (the third over the second)",
        ratio(third, second),
        at_least=1 - LINEAR,
        at_most=1 + LINEAR,
    )
    judgement.says(
        "a set costs significantly less than a wrong prediction (three brokers, over one wrong)",
        ratio(of("three, one of them right", "unicast_hops"), of("one, wrong", "unicast_hops")),
        below=0.5,
    )
    judgement.says(
        "replicated subscriptions increase regular traffic little (three brokers over one)",
        ratio(of("three, one of them right", "multicast_hops"), of("one, right", "multicast_hops")),
        at_most=1.1,
    )
    rows: list[list[Cell]] = [
        [
            name,
            str(interval([*of(name, "overhead").values()])),
            str(ratio(of(name, "unicast_hops"), standard.of("standard", "unicast_hops"))),
            str(ratio(of(name, "multicast_hops"), standard.of("standard", "multicast_hops"))),
            round(fmean(migration(name).values())),
        ]
        for name in VARIANTS
    ]
    return judgement.outcome(
        "unicast over standard's: "
        + ", ".join(
            f"{name} {ratio(of(name, 'unicast_hops'), standard.of('standard', 'unicast_hops')).mean:.2g}"
            for name in VARIANTS
        ),
        tables=[
            Table(
                title=f"Prefetching to sets, random, {populations(quick)[-1]} subscribers",
                columns=[
                    "to which brokers",
                    "overhead",
                    "unicast, of standard",
                    "regular, of standard",
                    "migration hops",
                ],
                rows=rows,
            )
        ],
    )
