"""[DIS] section 5.2.2 over links that have a bandwidth: how many state transfers are under way at once, and what
messages wait for meanwhile.

Without a bandwidth, a transfer is over in some hundredths of a second, and the paper's "concurrent state transfers"
cannot be counted. The paper prints neither bandwidths nor sizes of messages; it leaves the latency of deliveries to
"continuing research" (section 7). Both bandwidths are far above what regular traffic needs, which is 2 kbit/s on the
busiest link (100 events a minute, of 150 bytes with their headers). A home broker is not among the schemes: it needs
more than 25 times the capacity in the peak, so its messages would wait for hours. These runs are not the paper's:
`--paper-only` leaves them out.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Final

from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.pipeline.schemas import MetricRow
from roamq.pipeline.under_way import BIN_S, latency_over_time, transfers_under_way
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.dis_timeline import correlation
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import Judgement, about
from roamq.reproduce.registry import Outcome, Verdict, claim
from roamq.reproduce.settings import text_of
from roamq.sim.scenario import load_scenario, mobility_of

SCENARIO: Final = "commute-links"
SCHEMES: Final = ("standard", "logging", "prefetching")
KBITS: Final = (20, 40)
"""Bandwidths of links between brokers, in kbit/s, for payloads of 100 bytes."""
SEEDS: Final = 5
CLIENTS: Final = 800
COST: Final = 6.0
"""Of a run for each client, beside the other runs of [DIS]: it lists its deliveries."""
HALF_HOUR: Final = 6
"""Bins in a half hour."""
LEFT_OUT: Final = "goes beyond the paper, and --paper-only leaves it out"


def link_jobs() -> list[Job]:
    """One run for each bandwidth, scheme and seed."""
    jobs = []
    for kbits in KBITS:
        params = {"clients": str(CLIENTS), "link.bandwidth_bps": str(1000.0 * kbits)}
        for scheme in SCHEMES:
            payload = json.loads(load_scenario(SCENARIO, overrides=params, scheme=scheme).to_json())
            jobs += [
                Job(
                    scenario=SCENARIO,
                    scheme=scheme,
                    seed=seed,
                    params=params,
                    payload=payload,
                    cost=COST * CLIENTS,
                )
                for seed in range(1, SEEDS + 1)
            ]
    return jobs


@dataclass(frozen=True, slots=True)
class Latency:
    """Mean latency of messages to connected clients, seed -> seconds, in the peak half hour and outside it."""

    peak: Mapping[int, float]
    outside: Mapping[int, float]


class OverLinks:
    """What the runs say, by scheme and bandwidth."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        scenario = load_scenario(SCENARIO)
        self.clock_s: float = mobility_of(scenario).clock_s  # type: ignore[attr-defined]
        self.bins = [BIN_S * n for n in range(1, int(scenario.duration_s / BIN_S) + 1)]

    @cached_property
    def _seeds(self) -> Seeds:
        jobs = link_jobs()
        rows = self._evidence.per_seed(jobs, ["unicast_hops_in_bin"])
        for transform in (transfers_under_way, latency_over_time):
            rows += [MetricRow(**row) for row in self._evidence.rows(transform, jobs)]
        return Seeds(rows)

    def of(self, metric: str, scheme: str, kbits: int) -> dict[int, float]:
        return self._seeds.of(scheme, metric, link__bandwidth_bps=1000.0 * kbits)

    def over_time(self, metric: str, scheme: str, kbits: int) -> dict[int, list[float]]:
        """Seed -> the value in each bin until 8:30 pm."""
        found = self._seeds.entities(scheme, metric, link__bandwidth_bps=1000.0 * kbits)
        return {
            seed: [found.get(str(end), {}).get(seed, 0.0) for end in self.bins]
            for seed in range(1, SEEDS + 1)
        }

    def hour(self, at_s: float) -> float:
        return (self.clock_s + at_s) / 3600

    def follows(self, scheme: str, kbits: int) -> Estimate:
        """How the cost in each bin goes with the number of transfers under way."""
        cost = self.over_time("unicast_hops_in_bin", scheme, kbits)
        under_way = self.over_time("transfers_at_once", scheme, kbits)
        return interval([correlation(cost[seed], under_way[seed]) for seed in cost])

    def share_at_once(self, scheme: str, kbits: int) -> Estimate:
        most = self.of("transfers_at_once_max", scheme, kbits)
        return interval([level / CLIENTS for level in most.values()])

    def most_at_h(self, scheme: str, kbits: int) -> Estimate:
        return interval(
            [self.hour(at) for at in self.of("transfers_at_once_max_at_s", scheme, kbits).values()]
        )

    def latency(self, scheme: str, kbits: int) -> Latency:
        """The peak is the half hour with the most transfers under `standard`: the same for all schemes of a seed."""
        under_way = self.over_time("transfers_at_once", "standard", kbits)
        count = self.over_time("live_in_bin", scheme, kbits)
        mean = self.over_time("live_latency_s_in_bin", scheme, kbits)
        peak: dict[int, float] = {}
        outside: dict[int, float] = {}
        for seed, levels in under_way.items():
            half_hours = range(0, len(levels), HALF_HOUR)
            begin = max(half_hours, key=lambda at: sum(levels[at : at + HALF_HOUR]))
            inside = set(range(begin, begin + HALF_HOUR))
            waited = [n * seconds for n, seconds in zip(count[seed], mean[seed], strict=True)]
            for into, places in ((peak, inside), (outside, set(range(len(levels))) - inside)):
                into[seed] = sum(waited[i] for i in places) / sum(count[seed][i] for i in places)
        return Latency(peak, outside)


def setting(kbits: int) -> str:
    return text_of({"kbit/s": kbits})


@claim("DIS-links", jobs=lambda quick: [], beyond=link_jobs, quick=False)
def transfers_over_finite_links(evidence: Evidence) -> Outcome:
    if not evidence.beyond:
        return Outcome(verdict=Verdict.NOT_RUN, why=LEFT_OUT)
    measured = OverLinks(evidence)
    judgement = Judgement()
    for scheme in ("standard", "logging"):
        judgement.says(
            f"the cost of {scheme} closely tracks the number of concurrent transfers (correlation)",
            {setting(kbits): measured.follows(scheme, kbits) for kbits in KBITS},
            above=0.9,
        )
    judgement.says(
        "standard: up to 10% of the subscribers perform a transfer at once",
        {setting(kbits): measured.share_at_once("standard", kbits) for kbits in KBITS},
        about(0.1),
    )
    judgement.says(
        "standard: the most transfers at once are between 5:00 and 5:30 pm (hours)",
        {setting(kbits): measured.most_at_h("standard", kbits) for kbits in KBITS},
        at_least=17.0,
        at_most=17.5,
    )
    judgement.says(
        "prefetching hides the transfer: clients have what waited sooner (over standard)",
        {
            setting(kbits): ratio(
                *(measured.of("transfer_s_mean", s, kbits) for s in ("prefetching", "standard"))
            )
            for kbits in KBITS
        },
        below=1.0,
    )
    slow, fast = (measured.of("transfer_s_mean", "standard", kbits) for kbits in (KBITS[0], KBITS[-1]))
    judgement.says(
        f"faster links perform a transfer quicker ({KBITS[-1]} over {KBITS[0]} kbit/s)",
        ratio(fast, slow),
        below=1.0,
    )
    narrow = KBITS[0]
    at_peak = {s: measured.latency(s, narrow) for s in SCHEMES}
    return judgement.outcome(
        f"at {narrow} kbit/s, up to {measured.share_at_once('standard', narrow).mean:.1%} of the subscribers at once; "
        "latency in the peak half hour and outside it: "
        + ", ".join(
            f"{s} {fmean(of.peak.values()):.3g} s and {fmean(of.outside.values()):.3g} s"
            for s, of in at_peak.items()
        ),
        figures=[
            over_time(
                measured,
                "transfers_at_once",
                "Fig. 5, the other curve: state transfers under way",
                "transfers",
            ),
            over_time(
                measured, "live_latency_s_in_bin", "Latency of messages to connected clients", "seconds"
            ),
        ],
        tables=[latency_table(measured)],
    )


def latency_table(measured: OverLinks) -> Table:
    rows: list[list[Cell]] = []
    for kbits in KBITS:
        for scheme in SCHEMES:
            latency = measured.latency(scheme, kbits)
            rows.append(
                [
                    kbits,
                    scheme,
                    str(interval([*measured.of("transfers_at_once_max", scheme, kbits).values()])),
                    str(measured.most_at_h(scheme, kbits)),
                    str(interval([*measured.of("transfer_s_mean", scheme, kbits).values()])),
                    str(interval([*latency.peak.values()])),
                    str(interval([*latency.outside.values()])),
                    str(ratio(latency.peak, latency.outside)),
                ]
            )
    return Table(
        title=f"Transfers and latency over links with a bandwidth, commute, {CLIENTS} subscribers",
        columns=[
            "kbit/s",
            "scheme",
            "most transfers at once",
            "when, h",
            "transfer, s",
            "latency in the peak, s",
            "outside it, s",
            "peak / outside",
        ],
        rows=rows,
        note="The peak is the half hour in which most transfers are under way with standard. Latency is that of "
        "messages which came as they were published to a client that was connected; those which wait at its new broker "
        "for its transfer to end are among them. The paper prints no latency: none of these columns is judged.",
    )


def over_time(measured: OverLinks, metric: str, title: str, unit: str) -> Figure:
    """One curve for each scheme and bandwidth, the mean over seeds."""
    series = []
    for kbits in KBITS:
        for scheme in SCHEMES:
            by_seed = measured.over_time(metric, scheme, kbits).values()
            means = [fmean(values) for values in zip(*by_seed, strict=True)]
            xs = [measured.hour(end) for end in measured.bins]
            series.append(Series(name=f"{scheme}, {kbits} kbit/s", x=xs, y=means))
    return Figure(
        title=f"{title}, commute, {CLIENTS} subscribers",
        kind="step",
        x_label="time of day (hours)",
        y_label=unit,
        series=series,
        y_log=unit == "seconds",
        marks={"5:00": 17.0, "5:30": 17.5},
    )
