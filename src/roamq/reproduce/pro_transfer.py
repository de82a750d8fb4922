"""What if a state transfer cost less, or more? Reactive's runs again with other service times, for the notes of [PRO].

Three published figures of reactive transfer need transfers that take as long as the stays: 37-42% of its messages came
by them, its loss rises with the population, and fewer handoffs do not help it. The paper does not say what a
transferred message costs; this looks whether any cost would give these figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from roamq.report.exhibits import Table
from roamq.reproduce.pro_runs import LONG_STAY_S, figure_7_jobs, largest, transfer_jobs
from roamq.reproduce.registry import Evidence


@dataclass(frozen=True, slots=True)
class TransferCost:
    """Reactive transfer at the largest population, for one cost of a transferred message."""

    message_s: float
    throughput: float
    share_pct: float
    """Of the messages consumed, those that came by state transfer."""
    loss_pct: float
    gain_pct: float
    """Of throughput, with stays of 150 s in place of 60 s."""


def transfer_costs(evidence: Evidence) -> list[TransferCost]:
    """By rising cost; the middle one is the testbed's own."""
    own = [job for job in figure_7_jobs(evidence.quick) if job.scheme == "reactive"]
    jobs = [*own, *transfer_jobs(evidence.quick)]
    usual = str(own[0].payload["service"]["transfer_s"])
    cells: dict[tuple[float, bool, str], float] = {}
    for row in evidence.summary(jobs, ["throughput", "transferred_pct", "loss_pct"]):
        message_s = float(row.params.get("service.transfer_s", usual))
        cells[message_s, row.params.get("mobility.connect_s") == LONG_STAY_S, row.metric] = row.mean
    return [
        TransferCost(
            message_s=cost,
            throughput=cells[cost, False, "throughput"],
            share_pct=cells[cost, False, "transferred_pct"],
            loss_pct=cells[cost, False, "loss_pct"],
            gain_pct=100 * (cells[cost, True, "throughput"] / cells[cost, False, "throughput"] - 1),
        )
        for cost in sorted({key[0] for key in cells})
    ]


def swept(costs: Sequence[TransferCost], what: str, says: str) -> str:
    """One column of the sweep as the end of a sentence; nothing where only one cost was run."""
    if len(costs) < 2:
        return ""
    times = "/".join(f"{1000 * cost.message_s:.3g}" for cost in costs)
    values = "/".join(f"{getattr(cost, what):.3g}" for cost in costs)
    throughput = "/".join(f"{cost.throughput:.0f}" for cost in costs)
    return f"; with {times} ms for each message of a transfer ({throughput} msg/s) {values}% {says}"


def sweep_table(costs: Sequence[TransferCost], *, quick: bool) -> Table:
    return Table(
        title=f"Reactive transfer at {largest(quick)} subscribers, by what one transferred message costs a broker",
        columns=[
            "ms per message",
            "throughput msg/s",
            "came by transfer %",
            "lost %",
            "gain with stays of 150 s %",
        ],
        rows=[
            [
                round(1000 * cost.message_s, 1),
                round(cost.throughput, 1),
                round(cost.share_pct, 1),
                round(cost.loss_pct, 2),
                round(cost.gain_pct, 1),
            ]
            for cost in costs
        ],
        note="Published: 981 msg/s, 37-42%, 9.62%, about 0%. A dearer transfer slows the publisher down, so that less "
        "is stored and transferred.",
    )
