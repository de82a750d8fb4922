"""[DIS] section 5.2.3: why Figures 6 to 8 differ. The random scenario with one choice made otherwise.

What the paper leaves open is chosen in docs/decisions/0035: who reaches the edge of the city stops there, and Table 2's
log of 1000 events is taken by its word. These runs turn travellers around at the edge, or give the log no end.
"""

from collections.abc import Mapping
from typing import Final

from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Table
from roamq.reproduce.dis_runs import Values, runs
from roamq.reproduce.registry import Evidence

FEW, MANY = 200, 800
TURN: Final = {"mobility.edge": "turn"}
ENDLESS: Final = {"scheme.log_size": "1000000"}
LOCAL: Final = {"workload.locality": "0.9"}
SEEDS: Final = 2


def why_jobs() -> list[Job]:
    """Both choices at the smallest and the largest population, and with high locality at the largest."""
    alternatives: list[tuple[str, int, Mapping[str, str]]] = [
        ("logging", MANY, {**ENDLESS, **LOCAL}),
        ("logging", MANY, {**TURN, **LOCAL}),
        ("prefetching", MANY, {**TURN, **LOCAL}),
    ]
    for clients in (FEW, MANY):
        alternatives += [
            ("standard", clients, TURN),
            ("logging", clients, TURN),
            ("logging", clients, ENDLESS),
        ]
        alternatives += [("logging", clients, {**TURN, "scheme.log_size": size}) for size in ("800", "1200")]
    return [
        job
        for scheme, clients, changed in alternatives
        for job in runs("random", [scheme], {"clients": str(clients), **changed}, quick=False, seeds=SEEDS)
    ]


class Why:
    """The overhead ratios of the runs with one choice made otherwise."""

    def __init__(self, evidence: Evidence) -> None:
        rows = evidence.summary(why_jobs(), ["overhead"])
        self._ratios = {(row.scheme, frozenset(row.params.items())): row.mean for row in rows}

    def ratio(self, scheme: str, clients: int, *changes: Mapping[str, str]) -> float:
        params = {"clients": str(clients)}
        for change in changes:
            params |= change
        return self._ratios[scheme, frozenset(params.items())]

    def growth(self, scheme: str, change: Mapping[str, str]) -> float:
        return self.ratio(scheme, MANY, change) / self.ratio(scheme, FEW, change)

    def saved_by_a_larger_log(self, clients: int) -> float:
        """What a log of 1200 saves against one of 800 where travellers turn around."""
        small, large = ({"scheme.log_size": size} for size in ("800", "1200"))
        return 1 - self.ratio("logging", clients, TURN, large) / self.ratio("logging", clients, TURN, small)


def edge(subscribers: Mapping[str, float]) -> str:
    """Where subscribers gather who stop at the edge; `subscribers` is their mean number at each broker."""
    outermost = sum(sorted(subscribers.values())[-2:]) / (sum(subscribers.values()) or 1.0)
    return (
        f"travellers stop at the city's edge, so {outermost:.0%} of the subscribers are at its two outermost leaves; a "
        "log of 1000 there takes in all 27 kinds of events and turns over in ten minutes, absences last 10 to 30"
    )


def choices_table(why: Why, stop: Values, share: float) -> Table:
    """What either choice at the edge does to each sentence of the paper; `stop` is by population, as in Figure 6."""
    standard, logging = stop.get("standard", MANY).mean, stop.get("logging", MANY).mean
    turned = {scheme: why.ratio(scheme, MANY, TURN) for scheme in ("standard", "logging")}
    return Table(
        title=f"Why: travellers who reach the edge stop there or turn around, at {MANY} subscribers",
        columns=["", "paper", "stop", "turn", "stop, endless log"],
        rows=[
            ["standard", "about 1.0", f"{standard:.2f}", f"{turned['standard']:.2f}", ""],
            [
                "logging / standard",
                "under 70%",
                f"{share:.0%}",
                f"{turned['logging'] / turned['standard']:.0%}",
                f"{why.ratio('logging', MANY, ENDLESS) / standard:.0%}",
            ],
            [
                f"logging at {MANY} / at {FEW}",
                "almost flat",
                f"{logging / stop.get('logging', FEW).mean:.2f}",
                f"{why.growth('logging', TURN):.2f}",
                f"{why.growth('logging', ENDLESS):.2f}",
            ],
            [
                "a log of 1200 against one of 800 saves",
                "marginal",
                "Fig. 8",
                f"{why.saved_by_a_larger_log(FEW):.0%} at {FEW}, {why.saved_by_a_larger_log(MANY):.0%} at {MANY}",
                "",
            ],
            [
                "locality 90%: logging, prefetching",
                "equal",
                "Fig. 7",
                f"{why.ratio('logging', MANY, TURN, LOCAL):.2f}, {why.ratio('prefetching', MANY, TURN, LOCAL):.2f}",
                f"{why.ratio('logging', MANY, ENDLESS, LOCAL):.2f}",
            ],
        ],
        note=f"The paper does not say which. Turned around and endless: {SEEDS} seeds.",
    )
