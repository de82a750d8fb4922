"""Which scheme to use: schemes in order of safety and price, with ties called ties, and the answer in one sentence.

A scheme that loses messages never ranks above one that does not, and one that repeats messages never above one that
does neither. Schemes that are equally safe are compared by their price, seed by seed: they tie unless the interval of
the paired difference, widened for the number of comparisons, excludes zero.
"""

import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from roamq.models.paired import difference, interval
from roamq.models.tariff import UNITS, Tariff, amounts
from roamq.pipeline.schemas import MetricRow
from roamq.report.exhibits import Figure, Series, Table
from roamq.report.numbers import short_number, with_interval

PRICE: Final = "price"

SHOWN: Final[dict[str, tuple[str, float]]] = {
    "loss_pct": ("lost %", 1.0),
    "duplication_pct": ("twice %", 1.0),
    "waiting_delay_s_mean": ("wait ms", 1e-3),
    "mobility_delay_s_mean": ("late ms", 1e-3),
    "traffic_bytes": ("MB", 1e6),
    "memory_byte_s": ("MB s", 1e6),
    PRICE: (PRICE, 1.0),
}
"""Metric -> its short label, and by what it is divided to be shown."""

LEGEND: Final = (
    "Wait: from the reconnect to the first message that was waiting. Late: how much later a message came than to a "
    "client that never moved. MB: all traffic over links. MB s: bytes that brokers stored, for as long as they did. "
    "Price: of a million messages."
)

MATTERS: Final = 0.01
"""A difference below this share of the lower price is a tie, however certain it is."""


class Harm(enum.IntEnum):
    """What a scheme did to messages, the best first."""

    NONE = 0
    REPEATS = 1
    LOSES = 2


@dataclass(frozen=True, slots=True)
class Ranked:
    """A scheme, its place (schemes that tie share one), and what each seed measured."""

    scheme: str
    place: int
    values: Mapping[str, Mapping[int, float]]
    """Metric -> seed -> value."""

    @property
    def harm(self) -> Harm:
        return harm_of(self.values)

    def mean(self, metric: str) -> float:
        by_seed = self.values.get(metric)
        return math.fsum(by_seed.values()) / len(by_seed) if by_seed else math.nan

    @property
    def amounts(self) -> dict[str, float]:
        """Units of each cost for a million messages, means over seeds."""
        seeds = self.values[PRICE]
        of_seeds = [
            amounts({name: by[seed] for name, by in self.values.items() if seed in by}) for seed in seeds
        ]
        return {name: math.fsum(one[name] for one in of_seeds) / len(of_seeds) for name in UNITS}


class Change(NamedTuple):
    """Where the answer changes: past `threshold` of one rate, `scheme` is cheaper than the best one of now."""

    rate: str
    threshold: float
    now: float
    scheme: str

    @property
    def factor(self) -> float:
        """By how much the rate would have to change."""
        low, high = sorted((self.threshold, self.now))
        return high / low if low > 0 else math.inf

    def __str__(self) -> str:
        side = "above" if self.threshold > self.now else "below"
        return f"to {self.scheme} {side} {self.rate}={self.threshold:.3g}"


def harm_of(values: Mapping[str, Mapping[int, float]]) -> Harm:
    if any(value > 0 for value in values.get("loss_pct", {}).values()):
        return Harm.LOSES
    if any(value > 0 for value in values.get("duplication_pct", {}).values()):
        return Harm.REPEATS
    return Harm.NONE


def rank_schemes(rows: Sequence[MetricRow]) -> list[Ranked]:
    """The metrics of every run, `price` among them -> schemes, the best first."""
    measured: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        if row.entity == "all":
            measured.setdefault(row.scheme, {}).setdefault(row.metric, {})[row.seed] = row.value
    schemes = [Ranked(scheme, 0, values) for scheme, values in measured.items()]

    def order(one: Ranked) -> tuple[Harm, float, float, str]:
        price = one.mean(PRICE)
        lost = round(one.mean("loss_pct"), 6) if one.harm is Harm.LOSES else 0.0
        return one.harm, lost, math.inf if math.isnan(price) else price, one.scheme

    schemes.sort(key=order)
    comparisons = pairs_compared(schemes)

    def place(one: Ranked) -> int:
        return 1 + sum(
            other.harm < one.harm or (other.harm is one.harm and is_cheaper(other, one, comparisons))
            for other in schemes
        )

    return [Ranked(one.scheme, place(one), one.values) for one in schemes]


def pairs_compared(schemes: Sequence[Ranked]) -> int:
    """How many pairs of schemes are compared by price: every two that are equally safe and have one.

    Places rest on all these comparisons, so each interval is widened for all of them; at least 1.
    """
    alike = Counter(one.harm for one in schemes if PRICE in one.values)
    return max(1, sum(math.comb(count, 2) for count in alike.values()))


def is_cheaper(one: Ranked, other: Ranked, comparisons: int) -> bool:
    """Whether `one` costs measurably less than `other`, by enough to matter."""
    prices = one.values.get(PRICE), other.values.get(PRICE)
    if not prices[0] or not prices[1] or one is other or not prices[0].keys() & prices[1].keys():
        return False
    saved = difference(prices[1], prices[0], comparisons=comparisons)
    return saved.low > 0 and saved.mean > MATTERS * one.mean(PRICE)


def changes(ranked: Sequence[Ranked], tariff: Tariff) -> list[Change]:
    """Where another scheme that is as safe would be cheaper than the best, for one changed rate; nearest first."""
    best, rates = ranked[0], tariff.rates
    rivals = [
        one for one in ranked[1:] if one.harm is best.harm and one.place > best.place and PRICE in one.values
    ]
    if PRICE not in best.values:
        return []
    mine = best.amounts
    nearest: dict[tuple[str, bool], Change] = {}
    for rival in rivals:
        theirs = rival.amounts
        for rate, now in rates.items():
            saved = mine[rate] - theirs[rate]
            dearer = sum(rates[name] * (theirs[name] - mine[name]) for name in UNITS if name != rate)
            if saved == 0 or dearer / saved < 0:
                continue
            found = Change(rate, dearer / saved, now, rival.scheme)
            side = rate, found.threshold > now
            if side not in nearest or found.factor < nearest[side].factor:
                nearest[side] = found
    return sorted(nearest.values(), key=lambda change: change.factor)


def advice(ranked: Sequence[Ranked], tariff: Tariff) -> str:
    """Which scheme to use, by which tariff, and where the answer would change; then what the others did to messages."""
    if not ranked:
        return "No scheme was measured."
    best = ranked[0]
    if PRICE not in best.values:
        return f"No price can be computed for {best.scheme}: a run has no samples of its buffers, or received nothing."
    seeds = len(best.values[PRICE])
    ties = [one.scheme for one in ranked[1:] if one.place == best.place]
    parts = [
        f"Use {best.scheme}, which {_did(best)} and costs {best.mean(PRICE):.3g} per million messages at {tariff}"
    ]
    if ties:
        because = "with one seed" if seeds == 1 else f"over {seeds} seeds"
        parts.append(f"{_listed(ties)} cannot be told from it {because} (more may tell)")
    found = changes(ranked, tariff)[:2]
    if found:
        parts.append(f"the answer would change {' and '.join(map(str, found))}")
    elif any(one.harm is best.harm and one.place > best.place for one in ranked):
        parts.append("no equally safe scheme would be cheaper at any rate of traffic, memory or delay")
    sentences = ["; ".join(parts) + "."]
    lossy = [one.scheme for one in ranked if one.harm is Harm.LOSES]
    repeating = [one.scheme for one in ranked if one.harm is Harm.REPEATS]
    if best.harm is not Harm.LOSES and lossy:
        sentences.append(f"{_listed(lossy)} lost messages.")
    if best.harm is Harm.NONE and repeating:
        sentences.append(f"{_listed(repeating)} repeated messages.")
    return " ".join(sentences)


def _did(best: Ranked) -> str:
    if best.harm is Harm.NONE:
        return "lost and repeated no message"
    if best.harm is Harm.REPEATS:
        return (
            f"lost no message but repeated {best.mean('duplication_pct'):.3g}%, as every scheme did or worse,"
        )
    return f"lost {best.mean('loss_pct'):.3g}% of the messages, the least of all,"


def _listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, or `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def place_of(one: Ranked, ranked: Sequence[Ranked]) -> str:
    """`1`, or `1=` where another scheme shares the place."""
    return f"{one.place}{'=' if sum(other.place == one.place for other in ranked) > 1 else ''}"


def short_table(ranked: Sequence[Ranked]) -> Table:
    """The means alone: narrow enough for a terminal of 80 columns."""
    rows = [
        [
            place_of(one, ranked),
            one.scheme,
            *(short_number(one.mean(metric) / per) for metric, (_, per) in SHOWN.items()),
        ]
        for one in ranked
    ]
    return Table(
        title="", columns=["", "scheme", *(label for label, _ in SHOWN.values())], rows=rows, note=LEGEND
    )


def ranking_table(ranked: Sequence[Ranked]) -> Table:
    """Means with their intervals."""
    rows = [
        [f"{place_of(one, ranked)} {one.scheme}", *(_with_interval(one, metric) for metric in SHOWN)]
        for one in ranked
    ]
    return Table(
        title="Schemes, the best first",
        columns=["scheme", *(label for label, _ in SHOWN.values())],
        rows=rows,
        note=f"Mean over seeds ± half the 95% confidence interval. Schemes that tie share a place (1=). {LEGEND}",
    )


def _with_interval(one: Ranked, metric: str) -> str | None:
    by_seed, (_, per) = one.values.get(metric), SHOWN[metric]
    if not by_seed:
        return None
    found = interval([value / per for value in by_seed.values()])
    return with_interval(found.mean, found.high)


def front(ranked: Sequence[Ranked]) -> list[Ranked]:
    """The safest schemes that no other of them beats: none has less of delay, traffic or memory, and no more of any.

    By means over seeds; schemes with the same means stay together.
    """
    safe = [one for one in ranked if one.harm is ranked[0].harm and PRICE in one.values]
    costs = {one.scheme: tuple(one.amounts.values()) for one in safe}

    def is_beaten(mine: tuple[float, ...]) -> bool:
        return any(
            theirs != mine and all(their <= my for their, my in zip(theirs, mine, strict=True))
            for theirs in costs.values()
        )

    return [one for one in safe if not is_beaten(costs[one.scheme])]


def front_words(ranked: Sequence[Ranked]) -> str:
    """The front in a sentence; empty where nothing has a price."""
    names = [one.scheme for one in front(ranked)] if ranked else []
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} has the least delay, traffic and memory at once: no tariff makes another scheme better."
    return (
        f"The front of delay, traffic and memory: {_listed(names)}. Of the schemes as safe, each other one is in none "
        "of the three better than one of these."
    )


def front_figures(ranked: Sequence[Ranked]) -> list[Figure]:
    """Delay against traffic and against memory: no scheme left of and below another is worth more."""
    with_price = [one for one in ranked if PRICE in one.values]
    figures = []
    for unit, label in (("traffic", "GB over links"), ("memory", "GB hours of memory")):
        series = [
            Series(
                name=one.scheme, x=[one.amounts[unit]], y=[one.mean("mobility_delay_s_mean")], joined=False
            )
            for one in with_price
        ]
        if series:
            figures.append(
                Figure(
                    title=f"Delay against {unit}",
                    kind="line",
                    x_label=f"{label} per million messages",
                    y_label="lateness of a message, mean s",
                    series=series,
                    caption="Nearer to the corner at the left and below is better. Schemes that lose or repeat "
                    f"messages are shown too: the table says which. {front_words(ranked)}",
                )
            )
    return figures
