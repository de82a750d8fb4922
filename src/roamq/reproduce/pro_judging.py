"""Judging [PRO]'s claims over every parameter set that fits what the paper prints.

A set counts if its full-size runs give Table 2 RND and Fig. 6 within the stated distance; what the sets were fitted on
is shown and not counted. Where the sets disagree, the parameter that tells them apart is named, with its threshold.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from roamq.models.paired import Estimate, exactly, interval
from roamq.report.exhibits import Cell as TableCell
from roamq.report.exhibits import Table
from roamq.reproduce import pro_prior
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Holds, Judgement
from roamq.reproduce.pro_identify import METRICS, TARGETS, distance
from roamq.reproduce.pro_prior import PRIOR, ParameterSet
from roamq.reproduce.pro_runs import Cell, Measured, names, populations, table_cells
from roamq.reproduce.pro_sets import named_sets
from roamq.reproduce.registry import Outcome, Verdict

CPU_PCT: Final = 75.0
"""Section 5.1.3: the processors of the broker machines stayed below this."""


class Fitted:
    """The parameter sets beside what they were fitted on, by their full-size runs."""

    def __init__(self, evidence: Evidence) -> None:
        self.quick = evidence.quick
        cells = [cell for cell in table_cells(self.quick) if cell.pattern == "RND"]
        measured = Measured(evidence, cells, [*METRICS, "busy_pct"])
        self.figures = {
            name: {
                target.name: measured.mean(
                    Cell(name, target.scheme, "RND", target.subscribers), target.metric, target.entity
                )
                for target in TARGETS
                if target.subscribers in populations(self.quick)
            }
            for name in names(self.quick)
        }
        self.busy_pct = {
            name: max(
                measured.mean(cell, "busy_pct", broker)
                for cell in cells
                if cell.name == name
                for broker in measured.entities(cell, "busy_pct")
            )
            for name in names(self.quick)
        }
        """The busiest broker of any run, by set."""

    @property
    def names(self) -> tuple[str, ...]:
        """The sets that are accepted. The smaller runs of `--quick` cannot tell: there all count."""
        if self.quick:
            return tuple(self.figures)
        return tuple(name for name, figures in self.figures.items() if distance(figures)[0] <= 1)

    def none_fits(self) -> Outcome:
        """What is said where no set is accepted: there is nothing to judge a claim by."""
        told = "; ".join(
            f"{name} is {worst:.2f} of what is allowed off at {which}"
            for name, (worst, which) in ((n, distance(f)) for n, f in self.figures.items())
        )
        return Outcome(
            verdict=Verdict.UNDECIDED,
            why=f"no parameter set fits Table 2 RND and Fig. 6 in these runs: {told}",
            tables=[self.table()],
        )

    def outcome(self, judgement: Judgement, ours: str, note: str = "", **exhibits: Any) -> Outcome:
        """The verdict over the accepted sets, beside the condition of section 5.1.3. One set alone, which is what
        `--quick` runs, decides nothing: the claim may hold with it and not with others, or the other way round."""
        judgement.says(
            "brokers are busy for less than 75% of the time (5.1.3: processors; ours counts what a broker waits for)",
            {name: exactly(self.busy_pct[name]) for name in self.names},
            below=CPU_PCT,
            is_condition=True,
        )
        found = judgement.outcome(ours, "; ".join(filter(None, [deciding(judgement), note])), **exhibits)
        if not self.quick:
            return found
        why = f"one parameter set of {len(named_sets())} was run, with fewer subscribers: it says {found.verdict}"
        return replace(found, verdict=Verdict.UNDECIDED, why="; ".join(filter(None, [why, found.why])))

    def table(self) -> Table:
        """Every set with its parameters, and how far it is from what it was fitted on."""
        rows: list[list[TableCell]] = []
        for parameter in PRIOR:
            values = [
                pro_prior.told(parameter.name, named_sets()[name][parameter.name]) for name in self.figures
            ]
            label = values[0].rpartition(" ")[0] if " ms" not in values[0] else values[0].split()[0]
            rows.append(
                [label, f"{parameter.low:g} to {parameter.high:g}", *map(_value, values), parameter.why]
            )
        for target in TARGETS:
            if all(target.name in figures for figures in self.figures.values()):
                bound = "at most " if target.at_most else ""
                wanted = f"{bound}{target.published:g}, factor {target.factor:g}"
                found = [f"{figures[target.name]:.4g}" for figures in self.figures.values()]
                rows.append(
                    [f"fitted on: {target.name}", wanted, *found, f"Table 2 RND or Fig. 6 ({target.metric})"]
                )
        rows.append(
            [
                "busiest broker, % of the time",
                f"processor below {CPU_PCT:g}",
                *(f"{self.busy_pct[name]:.0f}" for name in self.figures),
                "section 5.1.3; a broker's time includes what it waits for",
            ]
        )
        return Table(
            title="What the paper does not print: the sets of parameters that the claim is judged over",
            columns=["parameter", "declared range, or fitted value", *self.figures, "why"],
            rows=rows,
            note=f"Judged over {', '.join(self.names) or 'none'}: the sets whose runs fit.",
        )

    def idle_note(self) -> str:
        """Section 5.1.3 beside what the runs say."""
        busiest = max(self.busy_pct.values())
        if busiest <= CPU_PCT:
            return f"brokers are busy for at most {busiest:.0f}% of the time, below the paper's {CPU_PCT:g}%"
        return (
            f"the busiest broker works {busiest:.0f}% of the time; processors below {CPU_PCT:g}% (section 5.1.3) need "
            f"at least {1 - CPU_PCT / busiest:.0%} of its service times to be waiting, not computing"
        )


def _value(told: str) -> str:
    """`8 ms` of `message_s 8 ms`."""
    parts = told.split()
    return " ".join(parts[-2:]) if parts[-1] == "ms" else parts[-1]


UNKNOWN: Final = Estimate(float("nan"), float("-inf"), float("inf"))
"""Where a run measured nothing, nothing is known."""


def mean_of(values: Mapping[int, float]) -> Estimate:
    return interval([*values.values()]) if values else UNKNOWN


def deciding(judgement: Judgement) -> str:
    """Which parameter tells apart the sets for which a sentence holds from those for which it does not.

    Of several such parameters, the one with the widest gap in its range is named first.
    """
    told = []
    for sentence in judgement.sentences:
        if sentence.calibrated or sentence.is_condition:
            continue
        judged = {
            name: judgement.judged(sentence, name) for name in sentence.measured if name in named_sets()
        }
        yes, no = ([n for n, holds in judged.items() if holds is which] for which in (Holds.YES, Holds.NO))
        if yes and no:
            found = separating([named_sets()[n] for n in yes], [named_sets()[n] for n in no])
            told.append(f"{sentence.says}: {found or 'no single parameter tells the sets apart'}")
    return "; ".join(told)


def separating(yes: Sequence[ParameterSet], no: Sequence[ParameterSet]) -> str:
    """`holds with message_s at most 4 ms and not from 8 ms on (or by flow_bytes)`; empty if no parameter separates."""
    gaps: dict[str, tuple[float, str]] = {}
    for parameter in PRIOR:
        shares = [
            [float(pro_prior.point_of(one)[pro_prior.NAMES.index(parameter.name)]) for one in some]
            for some in (yes, no)
        ]
        values = [[one[parameter.name] for one in some] for some in (yes, no)]
        for holds_below in (True, False):
            low, high = (0, 1) if holds_below else (1, 0)
            gap = min(shares[high]) - max(shares[low])
            if gap > 0:
                inner = pro_prior.told(parameter.name, (max if holds_below else min)(values[0]))
                outer = pro_prior.told(parameter.name, (min if holds_below else max)(values[1]))
                words = ("at most", "from") if holds_below else ("at least", "up to")
                gaps[parameter.name] = (
                    gap,
                    f"holds with {inner} ({words[0]}), not with {outer} ({words[1]})",
                )
    if not gaps:
        return ""
    ordered = sorted(gaps, key=lambda name: -gaps[name][0])
    others = [name.rpartition(".")[2] for name in ordered[1:4]]
    return gaps[ordered[0]][1] + (f"; {', '.join(others)} would tell them apart as well" if others else "")
