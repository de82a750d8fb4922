"""How a claim is judged: sentence by sentence, by intervals over paired seeds, for every setting that the paper allows.

A claim stands for several sentences of its paper. Each sentence says where a measured quantity must lie. It holds if
the whole interval of the quantity lies there, fails if the whole interval lies elsewhere, and is undecided otherwise.
An interval that is too wide decides nothing, and one that fails is widened for the number of sentences: of many, one
would fail by chance. What a paper does not print may have several values; a sentence is then
measured for each of them (`settings`), and the claim is judged for each.

    judgement = Judgement()
    judgement.says("logging is below standard", ratio(logging, standard), below=1.0)
    judgement.says("standard at most 0.9", {"edge=stop": stopping, "edge=turn": turning}, at_most=0.9)
    return judgement.outcome("0.79 at 800", figures=[figure])

The reason of a verdict is made of these measurements, and of nothing else.
"""

import enum
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from roamq.models.paired import Estimate
from roamq.report.exhibits import JUDGED, Cell, Figure, Table
from roamq.reproduce.judging_figures import allowed_beside, printed_beside
from roamq.reproduce.registry import Outcome, Verdict
from roamq.reproduce.settings import decides, within

SETTINGS_TOLD: Final = 4
"""With more settings than this, a reason names the parameters that decide, not every setting."""

SENTENCES_TOLD: Final = 3
"""A reason names this many sentences that fail, and this many that are undecided."""

NOT_HERE: Final = "not measured in these runs"

CALIBRATED: Final = "calibrated on"
CONDITION: Final = "condition of the paper"

DIGITS: Final = 3
"""Of a measured value, unless its bounds lie so close together that more are needed to tell them apart."""


class Holds(enum.StrEnum):
    """What the measurements say of a sentence."""

    YES = "holds"
    NO = "does not hold"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Where a quantity must lie; `above` and `below` exclude the bound itself.

    `named` is the value that the paper prints, or the middle of a range that it prints: figures show it beside ours.
    """

    above: float = -math.inf
    at_least: float = -math.inf
    below: float = math.inf
    at_most: float = math.inf
    named: float | None = None
    widest: float | None = None
    """An interval that decides is no wider than this, or than its mean is away from the nearest bound. Without it: the
    range between two bounds, or half of a single one. A bound of 0 tells no scale: there it must be given, or the
    distance of the mean alone counts."""

    def judge(self, measured: Estimate | None, *, comparisons: int = 1) -> Holds:
        """Whether a quantity lies there. That it does not must be told from chance in so many `comparisons`: one
        sentence that fails makes a claim differ, while all must hold to make it reproduced."""
        if measured is None or math.isnan(measured.mean) or not self._is_narrow(measured):
            return Holds.UNDECIDED
        low, high = measured.low, measured.high
        if low > self.above and low >= self.at_least and high < self.below and high <= self.at_most:
            return Holds.YES
        joint = measured.widened(comparisons)
        low, high = joint.low, joint.high
        if high <= self.above or high < self.at_least or low >= self.below or low > self.at_most:
            return Holds.NO
        return Holds.UNDECIDED

    def _is_narrow(self, measured: Estimate) -> bool:
        bounds = [bound for bound in self.ends if math.isfinite(bound)]
        distance = min((abs(measured.mean - bound) for bound in bounds), default=math.inf)
        scale = bounds[1] - bounds[0] if len(bounds) == 2 else 0.5 * abs(bounds[0]) if bounds else math.inf
        return measured.width <= max(distance, scale if self.widest is None else self.widest)

    @property
    def ends(self) -> tuple[float, float]:
        """The lower and the upper bound; infinite where there is none."""
        return max(self.above, self.at_least), min(self.below, self.at_most)

    @property
    def digits(self) -> int:
        """How many digits tell a value that lies between the bounds from one that does not."""
        low, high = self.ends
        if not 0 < high - low < math.inf:
            return DIGITS
        return max(DIGITS, 1 + math.ceil(math.log10(max(abs(low), abs(high)) / (high - low))))

    def __str__(self) -> str:
        digits = max(DIGITS + 1, self.digits)
        if math.isfinite(self.at_least) and math.isfinite(self.at_most):
            return f"{self.at_least:.{digits}g} to {self.at_most:.{digits}g}"
        bounds = {
            "above": self.above,
            "at least": self.at_least,
            "below": self.below,
            "at most": self.at_most,
        }
        return " and ".join(
            f"{name} {bound:.{digits}g}" for name, bound in bounds.items() if math.isfinite(bound)
        )


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a claim, with what was measured for each setting; `""` is the only setting of most."""

    says: str
    wanted: Wanted
    measured: Mapping[str, Estimate | None]
    calibrated: bool = False
    """Whether a parameter was fitted on it: it is shown, and does not count."""
    is_condition: bool = False
    """Whether the paper says it of its own experiment, as what its results hold under: shown, not counted."""

    def at(self, setting: str) -> Estimate | None:
        """What was measured in this setting; a sentence may depend on some of its parameters, or on none.

        Nothing where it was measured in other settings only: what holds there says nothing of this one.
        """
        if setting in self.measured:
            return self.measured[setting]
        return next((measured for part, measured in self.measured.items() if within(part, setting)), None)

    def ours(self, setting: str) -> str:
        """What was measured, with its interval, in as many digits as its bounds need."""
        measured = self.at(setting)
        return NOT_HERE if measured is None else measured.told(self.wanted.digits)

    def told(self, setting: str = "") -> str:
        return f"{self.says}: {self.ours(setting)}, wanted {self.wanted}"


class Judgement:
    """Collects the sentences of a claim, and judges them together.

    `settings` are those to judge in, where sentences depend on different parameters of them; otherwise they are those
    that sentences were measured in. With `complete=False`, not all settings that the paper allows were: what holds or
    fails in the others is not known, so the claim is undecided.
    """

    def __init__(self, settings: Sequence[str] = (), *, complete: bool = True) -> None:
        self.sentences: list[Sentence] = []
        self._settings = list(settings)
        self._complete = complete

    def says(
        self,
        text: str,
        measured: Estimate | Mapping[str, Estimate] | None,
        wanted: Wanted | None = None,
        *,
        calibrated: bool = False,
        is_condition: bool = False,
        **bounds: float,
    ) -> None:
        """Add a sentence. `None` was not measured, as what `--quick` leaves out: it stays undecided.

        Where the quantity must lie is a `Wanted`, or its `bounds`.
        """
        assert wanted or bounds, f"{text}: a sentence says where its quantity lies"
        by_setting = measured if isinstance(measured, Mapping) else {"": measured}
        assert by_setting, f"{text}: measured in no setting"
        self.sentences.append(
            Sentence(text, wanted or Wanted(**bounds), dict(by_setting), calibrated, is_condition)
        )

    @property
    def settings(self) -> list[str]:
        """Every combination of what the paper leaves open that was measured."""
        named = dict.fromkeys(s for sentence in self._counted for s in sentence.measured if s)
        return self._settings or list(named) or [""]

    @property
    def _counted(self) -> list[Sentence]:
        return [s for s in self.sentences if not (s.calibrated or s.is_condition)]

    def judged(self, sentence: Sentence, setting: str) -> Holds:
        """What is said of a sentence in one setting; that it fails must be told from chance in all counted ones."""
        return sentence.wanted.judge(sentence.at(setting), comparisons=max(1, len(self._counted)))

    def found(self, sentence: Sentence) -> str:
        """What is said of a sentence over its settings."""
        if sentence.calibrated or sentence.is_condition:
            return CALIBRATED if sentence.calibrated else CONDITION
        found = {self.judged(sentence, setting) for setting in sentence.measured}
        return str(found.pop()) if len(found) == 1 else "depends"

    def _at(self, setting: str) -> Holds:
        """Whether all sentences hold together in one setting."""
        found = {self.judged(sentence, setting) for sentence in self._counted}
        if Holds.NO in found:
            return Holds.NO
        return Holds.UNDECIDED if Holds.UNDECIDED in found or not found else Holds.YES

    @property
    def verdict(self) -> Verdict:
        if not self._complete:
            return Verdict.UNDECIDED
        found = {setting: self._at(setting) for setting in self.settings}
        if set(found.values()) == {Holds.YES}:
            return Verdict.REPRODUCED
        if set(found.values()) == {Holds.NO}:
            return Verdict.DIFFERS
        if Holds.YES in found.values() and Holds.NO in found.values():
            return Verdict.DEPENDS
        return Verdict.UNDECIDED

    def why(self) -> str:
        """Why the verdict is not plainly "reproduced": the sentences of the claim that fail or are undecided, with
        their numbers, and the figures on which the model was calibrated.

        It quotes a few of such sentences; `table` has all.
        """
        parts: list[str] = []
        told: dict[Holds, list[str]] = {Holds.NO: [], Holds.UNDECIDED: []}
        verdict = self.verdict
        if verdict is Verdict.DEPENDS:
            parts.append(self._decides())
        for sentence in self._counted:
            fails = [s for s in sentence.measured if self.judged(sentence, s) is Holds.NO]
            left_open = [s for s in sentence.measured if self.judged(sentence, s) is Holds.UNDECIDED]
            if verdict is Verdict.DIFFERS:  # what the others leave open decides nothing any more
                left_open = []
            if fails:
                told[Holds.NO].append(_quoted(sentence, Holds.NO, fails, left_open))
            elif left_open:
                told[Holds.UNDECIDED].append(_quoted(sentence, Holds.UNDECIDED, left_open))
        for judged, lines in told.items():
            parts += lines[:SENTENCES_TOLD]
            if len(lines) > SENTENCES_TOLD:
                parts.append(f"{judged}: {len(lines) - SENTENCES_TOLD} sentences more")
        if not self._complete:
            parts.append("these runs leave out settings that the paper allows")
        calibrated = [sentence.says for sentence in self.sentences if sentence.calibrated]
        if calibrated:
            parts.append(f"not counted, because parameters were fitted on it: {', '.join(calibrated)}")
        for sentence in self.sentences:
            unmet = [
                s
                for s in sentence.measured
                if sentence.is_condition and self.judged(sentence, s) is not Holds.YES
            ]
            if unmet:
                quoted = _quoted(sentence, self.judged(sentence, unmet[0]), unmet)
                parts.append(f"a condition of the paper's own, not counted, {quoted}")
        return "; ".join(parts)

    def _decides(self) -> str:
        """Which parameter decides, and between which of its values."""
        found = {setting: self._at(setting) for setting in self.settings}
        if len(found) > SETTINGS_TOLD:
            return decides(
                {s: "all sentences hold" if h is Holds.YES else str(h) for s, h in found.items()}
            ) or (
                f"all sentences hold together in {sum(h is Holds.YES for h in found.values())} of {len(found)} settings"
            )
        yes, no = ([s for s, holds in found.items() if holds is which] for which in (Holds.YES, Holds.NO))
        told = f"all sentences hold together with {' and '.join(yes)}, and not with {' and '.join(no)}"
        threshold = _threshold(found)
        return f"{told}: {threshold}" if threshold else told

    def table(self) -> Table:
        rows: list[list[Cell]] = [
            [
                sentence.says + (f" ({setting})" if setting else ""),
                str(sentence.wanted),
                sentence.ours(setting),
                CALIBRATED if sentence.calibrated else str(self.judged(sentence, setting)),
            ]
            for sentence in self.sentences
            for setting in sentence.measured
        ]
        return Table(
            title="Sentence by sentence",
            columns=["the paper says", "wanted", "ours, with its 95% interval", JUDGED],
            rows=rows,
            note=f"{self.tally()} A sentence holds if the whole interval lies where it must, and fails if the whole "
            f"interval, widened for {len(self._counted)} counted sentences, lies elsewhere. A wide "
            "interval decides nothing.",
        )

    def tally(self) -> str:
        """How many sentences hold: `Of 7 sentences 5 hold, 1 does not hold, 1 depends on the setting.`"""
        found = Counter(self.found(sentence) for sentence in self.sentences)
        words = {
            Holds.YES: ("holds", "hold"),
            Holds.NO: ("does not hold", "do not hold"),
            "depends": ("depends on the setting", "depend on the setting"),
            Holds.UNDECIDED: ("is undecided", "are undecided"),
            CALIBRATED: ("was calibrated on", "were calibrated on"),
            CONDITION: ("is a condition of the paper's own", "are conditions of the paper's own"),
        }
        told = [
            f"{found[which]} {one if found[which] == 1 else more}"
            for which, (one, more) in words.items()
            if found[which]
        ]
        count = len(self.sentences)
        return f"Of {count} sentence{'' if count == 1 else 's'} {', '.join(told)}."

    def feasible(self) -> list[Table]:
        """For which settings the sentences hold together, where there are several."""
        if len(self.settings) < 2:
            return []
        rows: list[list[Cell]] = []
        for setting in self.settings:
            failed = [s.says for s in self._counted if self.judged(s, setting) is not Holds.YES]
            rows.append([setting, str(self._at(setting)), "; ".join(failed)])
        return [
            Table(
                title="What the paper leaves open: for which settings do all sentences hold together?",
                columns=["setting", JUDGED, "not, or undecided"],
                rows=rows,
            )
        ]

    def beside(self) -> list[Figure]:
        """What the paper says and what we measured, drawn together: where it prints a number, and where it does not."""
        return [*printed_beside(self.sentences), *allowed_beside(self.sentences)]

    def outcome(self, ours: str, note: str = "", **exhibits: Any) -> Outcome:
        """The verdict with its reason. `note` is what else a run computed that a reader should know."""
        tables: Sequence[Table] = exhibits.pop("tables", ())
        figures: Sequence[Figure] = exhibits.pop("figures", ())
        return Outcome(
            verdict=self.verdict,
            ours=ours,
            why="; ".join(filter(None, (self.why(), note))),
            tables=[self.table(), *self.feasible(), *tables],
            figures=[*figures, *self.beside()],
            **exhibits,
        )


def _quoted(sentence: Sentence, judged: Holds, settings: Sequence[str], left_open: Sequence[str] = ()) -> str:
    """A sentence in the first setting where it is judged so; in how many others it is, and in how many it is open."""
    first, *others = settings
    more = [f"and in {len(others)} other setting{'' if len(others) == 1 else 's'}"] if others else []
    more += [f"undecided in {len(left_open)}"] if left_open else []
    where = f" with {first}" if first else ""
    return f"{judged}{where}: {sentence.told(first)}" + (f" ({', '.join(more)})" if more else "")


def _threshold(found: Mapping[str, Holds]) -> str:
    """`transfer_s decides, between 12 and 16.2`, where one number alone tells the settings apart."""
    numbers: dict[float, Holds] = {}
    names = set()
    for setting, holds in found.items():
        name, separator, value = setting.rpartition("=")
        try:
            numbers[float(value)] = holds
        except ValueError:
            return ""
        names.add(name if separator else "")
    if len(names) != 1:
        return ""
    changes = [
        f"{low:g} and {high:g}"
        for (low, a), (high, b) in itertools.pairwise(sorted(numbers.items()))
        if {a, b} == {Holds.YES, Holds.NO}
    ]
    return f"{names.pop()} decides, between {', and between '.join(changes)}" if changes else ""


ABOUT: Final = 0.1
"""How far a value may be from one that a paper's text calls "about" so much, or that is read off its plot."""


def about(value: float) -> Wanted:
    """Where a quantity lies that is "about `value`"."""
    near, far = sorted(((1 - ABOUT) * value, (1 + ABOUT) * value))
    return Wanted(at_least=near, at_most=far, named=value)
