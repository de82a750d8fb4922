"""Which scheme to use: a ranking over several costs, and the reasons in words.

Two schemes are tied on a cost while their 95% confidence intervals overlap: a difference that the seeds do not support
decides nothing. What loses or repeats messages ranks below what does not, whatever it saves.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from roamq.report.exhibits import Table
from roamq.report.numbers import with_interval

COSTS: Final = {
    "loss_pct": "loss, %",
    "duplication_pct": "duplicates, %",
    "handoff_s_mean": "handoff, s",
    "overhead": "overhead",
    "buffer_message_s": "buffered, 1000 message-s",
}
"""What is ranked, the unforgivable first: metric -> label."""

SHOWN_PER: Final = {"buffer_message_s": 1000.0}
"""Metrics that are shown in larger units than they are measured in."""

HARM: Final = ("loss_pct", "duplication_pct")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scheme, its rank on each cost (1 is best, ties share), and its numbers."""

    scheme: str
    ranks: dict[str, int]
    rows: dict[str, Any]

    @property
    def key(self) -> tuple[int, int, str]:
        harm = sum(self.ranks.get(cost, 1) for cost in HARM)
        return harm, sum(rank for cost, rank in self.ranks.items() if cost not in HARM), self.scheme


def rank_schemes(summary: Sequence[Any]) -> list[Ranked]:
    """Rows of a summary -> schemes, the best first."""
    schemes = list(dict.fromkeys(row.scheme for row in summary))
    found = {(row.scheme, row.metric): row for row in summary if row.entity == "all"}
    ranked = []
    for scheme in schemes:
        rows = {cost: found[scheme, cost] for cost in COSTS if (scheme, cost) in found}
        ranks = {
            cost: 1 + sum(_below(found.get((other, cost)), row) for other in schemes)
            for cost, row in rows.items()
        }
        ranked.append(Ranked(scheme, ranks, rows))
    return sorted(ranked, key=lambda one: one.key)


def _below(other: Any, row: Any) -> bool:
    """Whether `other` is better beyond doubt: its interval ends below the row's."""
    if other is None:
        return False
    high = other.mean if other.high is None else other.high
    low = row.mean if row.low is None else row.low
    return bool(high < low)


def ranking_table(ranked: Sequence[Ranked]) -> Table:
    rows = [
        [f"{place}. {one.scheme}", *(_shown(one, cost) for cost in COSTS)]
        for place, one in enumerate(ranked, start=1)
    ]
    return Table(
        title="Schemes, the best first",
        columns=["scheme", *COSTS.values()],
        rows=rows,
        note="Mean over seeds ± half the 95% confidence interval; in brackets the rank on that cost, where schemes "
        "whose intervals overlap share a rank. Loss and duplicates come first, then the sum of the other ranks.",
    )


def _shown(one: Ranked, cost: str) -> str | None:
    if cost not in one.rows:
        return None
    row, per = one.rows[cost], SHOWN_PER.get(cost, 1.0)
    high = None if row.high is None else row.high / per
    return f"{with_interval(row.mean / per, high)} ({one.ranks[cost]})"


def advice(ranked: Sequence[Ranked]) -> str:
    """Which scheme to use and why, and when another one would be better.

    Costs are compared with schemes that do no more harm: what is saved by losing messages is no saving.
    """
    if not ranked:
        return "No scheme was measured."
    best = ranked[0]
    peers = [one for one in ranked if all(one.ranks.get(c, 1) <= best.ranks.get(c, 1) for c in HARM)]
    sentences = [f"Use {best.scheme}.", _harm_of(best)]
    for cost, what, unit in (
        ("handoff_s_mean", "handoff delay", " s"),
        ("overhead", "overhead", ""),
        ("buffer_message_s", "buffer cost", " message-seconds"),
    ):
        sentences.append(_compare(peers, best, cost, what, unit))
    harmful = [one.scheme for one in ranked if any(one.rows[c].mean > 0 for c in HARM if c in one.rows)]
    if harmful and len(harmful) < len(ranked):
        sentences.append(f"Not without loss or duplicates here: {', '.join(harmful)}.")
    return " ".join(sentence for sentence in sentences if sentence)


def _harm_of(best: Ranked) -> str:
    values = [best.rows[cost].mean for cost in HARM if cost in best.rows]
    if all(value == 0 for value in values):
        return "It lost nothing and repeated nothing on these traces."
    lost, repeated = (best.rows[cost].mean if cost in best.rows else 0.0 for cost in HARM)
    return f"It lost {lost:.3g}% and repeated {repeated:.3g}% of the messages, the least of all."


def _compare(peers: Sequence[Ranked], best: Ranked, cost: str, what: str, unit: str) -> str:
    rivals = [one for one in peers if cost in one.rows and one is not best]
    if cost not in best.rows or not rivals:
        return ""
    mine = best.rows[cost].mean
    surely_less = [one for one in rivals if _below(one.rows[cost], best.rows[cost])]
    if not surely_less:
        worst = max(rivals, key=lambda one: one.rows[cost].mean)
        against = f"{worst.scheme} has {_number(worst.rows[cost].mean)}"
        return f"Its {what} is {_number(mine)}{unit}: nothing as safe is clearly below that, and {against}."
    cheapest = min(surely_less, key=lambda one: one.rows[cost].mean)
    least = cheapest.rows[cost].mean
    times = f"{mine / least:.1f} times that" if least > 0 else "more than that"
    return (
        f"Its {what} is {_number(mine)}{unit}, {times} of {cheapest.scheme} ({_number(least)}), "
        "which is the choice if that matters most."
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
