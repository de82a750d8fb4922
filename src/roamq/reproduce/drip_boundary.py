"""[DRIP] against epidemic spreading: where does DRIP win, if anywhere?

The paper's "m + l" copies mean about one subscriber for an event; its workload has five. Both are run, at the paper's
load and at five and ten times as much, on a radio without contention and on 802.11 (`manet/simulation/contention.py`),
with buffers of the same finite size for all schemes. An event that is not delivered within a minute counts as a minute
(restricted mean), so that a scheme gains nothing by delivering the easy ones alone. Beside SF stand Spray-and-Wait (m
copies sprayed by the source that wait for the subscriber's own broker) and PRoPHET (copies for brokers that are more
likely to meet that broker). All have the same regions and know the l nearest brokers of a node.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.contention import Channel
from roamq.manet.simulation.experiment import Setting
from roamq.manet.simulation.workload import NumberInterval
from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.drip_runs import RATIO, RESTRICTED, TRANSMISSIONS, Results, jobs_of, with_intervals
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Holds, Judgement, Wanted
from roamq.reproduce.registry import Outcome, claim
from roamq.reproduce.settings import decides, text_of

K, M, L = 20, 4, 5
BUFFER_EVENTS: Final = 100
DRAIN_S: Final = 60.0
"""As long as an event lives (`pipeline.regions.LATEST_S`): the last ones have their time too."""
PUBLISHING_S: Final = 40.0

SUBSCRIBERS: Final = {1: (1.0, 0.08), 5: (5.0, 2.0)}
"""Subscribers of an event, on average -> mean and variance of the length of an interval."""
LOADS: Final = (0.8, 4.0, 8.0)
RADIOS: Final[dict[str, Channel | None]] = {"free": None, "802.11": Channel()}
SEEDS: Final = {"free": 5, "802.11": 3}
"""Runs with 802.11 take about ten times as long."""
QUICK_SEEDS: Final = 2


class Case(NamedTuple):
    """One combination of what is varied."""

    subscribers: int
    load: float
    radio: str

    def __str__(self) -> str:
        return text_of({"radio": self.radio, "subscribers": self.subscribers, "events/s": self.load})


def cases(quick: bool) -> list[Case]:
    loads = LOADS[:1] if quick else LOADS
    radios = [*RADIOS][:1] if quick else [*RADIOS]
    return [Case(wanted, load, radio) for radio in radios for wanted in SUBSCRIBERS for load in loads]


SCHEMES: Final = {"DRIP": "drip", "SF": "sf", "Spray-and-Wait": "spray-and-wait", "PRoPHET": "prophet"}
COPYING: Final = {"drip", "spray-and-wait"}
"""The schemes that have a number of copies m; others run with m = 1 and ignore it."""


def setting_of(case: Case, name: str) -> Setting:
    scheme = SCHEMES[name]
    mean, variance = SUBSCRIBERS[case.subscribers]
    return Setting(
        scheme=scheme,
        parameters=Parameters(k=K, l=L, m=M if scheme in COPYING else 1, buffer_events=BUFFER_EVENTS),
        workload=replace(
            NumberInterval(), events_per_s=case.load, length_mean=mean, length_variance=variance
        ),
        channel=RADIOS[case.radio],
        publishing_s=PUBLISHING_S,
        drain_s=DRAIN_S,
    )


def boundary_jobs(quick: bool) -> list[Job]:
    return [
        job
        for case in cases(quick)
        for name in SCHEMES
        for job in jobs_of([setting_of(case, name)], QUICK_SEEDS if quick else SEEDS[case.radio])
    ]


@claim("DRIP-boundary", jobs=boundary_jobs)
def where_drip_wins_against_epidemic_spreading(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    results = Results(evidence, boundary_jobs(quick))

    def restricted(case: Case, name: str) -> dict[int, float]:
        return results.seeds(setting_of(case, name), RESTRICTED)

    def against(case: Case, other: str) -> Estimate:
        return ratio(
            restricted(case, "DRIP"),
            restricted(case, other),
            comparisons=len(cases(quick)) if not quick else 1,
        )

    found = {str(case): against(case, "SF") for case in cases(quick)}
    judgement = Judgement(complete=not quick)
    judgement.says("DRIP's delay over SF's, undelivered events counted at a minute", found, below=1.0)
    judged = {case: Wanted(below=1.0).judge(measured) for case, measured in found.items()}
    wins = {
        case: {Holds.YES: "DRIP wins", Holds.NO: "SF wins"}.get(holds, "undecided")
        for case, holds in judged.items()
    }
    rows: list[list[Cell]] = [
        [
            case.radio,
            case.subscribers,
            f"{case.load:g}",
            name,
            str(interval([*restricted(case, name).values()])),
            round(results.mean(setting_of(case, name), RATIO), 3),
            round(results.mean(setting_of(case, name), TRANSMISSIONS), 1),
            "" if name == "DRIP" else str(against(case, name)),
        ]
        for case in cases(quick)
        for name in SCHEMES
    ]
    won = sum(outcome == "DRIP wins" for outcome in wins.values())
    return judgement.outcome(
        f"DRIP is faster in {won} of {len(wins)} cases, SF in {sum(o == 'SF wins' for o in wins.values())}; over SF: "
        + ", ".join(f"{case}: {measured.mean:.2g}" for case, measured in found.items()),
        note=decides(wins) if len(set(wins.values())) > 1 else "",
        figures=[boundary({case: against(case, "SF") for case in cases(quick)})],
        tables=[
            Table(
                title=f"DRIP, SF, Spray-and-Wait and PRoPHET: k = {K}, m = {M}, buffers of {BUFFER_EVENTS} events",
                columns=[
                    "radio",
                    "subscribers",
                    "events/s",
                    "scheme",
                    "delay, undelivered counted at a minute, s",
                    "delivery ratio",
                    "transmissions per delivery",
                    "DRIP over it",
                ],
                rows=rows,
                note="Intervals of ratios are widened for the number of cases. Spray-and-Wait and PRoPHET have one "
                "destination for each subscriber, its own broker.",
            )
        ],
    )


def boundary(found: Mapping[Case, Estimate]) -> Figure:
    """DRIP's delay over SF's by load: below the line at 1, DRIP wins."""
    loads = sorted({case.load for case in found})
    curves: dict[str, list[Estimate]] = {}
    for case, measured in sorted(found.items(), key=lambda item: item[0].load):
        curves.setdefault(f"{case.radio}, subscribers={case.subscribers}", []).append(measured)
    return Figure(
        title="Where DRIP is faster than epidemic spreading",
        kind="line",
        x_label="events per second",
        y_label="DRIP's delay over SF's",
        series=[
            Series(name="as fast as SF", x=loads, y=[1.0] * len(loads)),
            *(with_intervals(name, loads, curve) for name, curve in curves.items()),
        ],
        caption="Undelivered events count as a minute. Below 1 DRIP is faster; a band that holds 1 tells nothing.",
    )
