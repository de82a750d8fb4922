"""What a paper says and what we measured, sentence by sentence in one figure, whatever their units.

Sentences with a printed number are divided by it. The others say where a quantity must lie: they are drawn by how far
inside its bounds it lies.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from roamq.models.paired import Estimate
from roamq.report.exhibits import Figure, Series

if TYPE_CHECKING:
    from roamq.reproduce.judging import Sentence, Wanted


class Drawn(NamedTuple):
    """One sentence on the figure's axis: the range that it allows, the value that stands for it, and ours."""

    allowed: tuple[float, float]
    value: float
    ours: Estimate


def printed_beside(sentences: "Sequence[Sentence]") -> list[Figure]:
    """Published values and ours, each over the published one; of a printed range, over its middle."""
    drawn: dict[str, Drawn] = {}
    for sentence in sentences:
        value, ours = sentence.wanted.named, over_settings(sentence)
        if value and ours:
            low, high = (end if math.isfinite(end) else value for end in sentence.wanted.ends)
            allowed = sorted((low / value, high / value))
            drawn[sentence.says] = Drawn((allowed[0], allowed[1]), 1.0, ours.scaled(1 / value))
    return _figure(
        drawn,
        "What the paper says in numbers, and what we measured",
        "over the published value",
        "Each value is divided by the published one (of a range, by its middle), so that all fit on one axis; whiskers "
        "of published values end where the sentence does. Ours over several settings: the mean, with whiskers from the "
        "lowest to the highest end of their intervals.",
    )


def allowed_beside(sentences: "Sequence[Sentence]") -> list[Figure]:
    """Where the paper prints no number: what the sentence allows begins at 0, and ours lies on either side of it."""
    drawn: dict[str, Drawn] = {}
    for sentence in sentences:
        ours = over_settings(sentence)
        if sentence.wanted.named or ours is None or not any(map(math.isfinite, sentence.wanted.ends)):
            continue
        inside = _inside(sentence.wanted)
        low, high = sentence.wanted.ends
        middle = min(max((low + high) / 2, ours.low), ours.high) if math.isfinite(high - low) else ours.mean
        ends = [inside(ours.low), inside(ours.high), inside(ours.mean), inside(middle)]
        farthest = max(map(abs, ends)) or 1.0
        most = min(1.0, (high - low) / 2 / farthest)
        drawn[sentence.says] = Drawn(
            (0.0, most),
            most,
            Estimate(inside(ours.mean) / farthest, min(ends) / farthest, max(ends) / farthest),
        )
    return _figure(
        drawn,
        "What the paper says without a number, and what we measured",
        "how far inside what the sentence allows (0: at its bound)",
        "Hollow: what a sentence allows, from its bound at 0 on. Ours: how far inside the nearest bound it lies, "
        "or, below 0, outside, in parts of the farthest end of its interval. An interval that holds 0 is undecided.",
    )


def over_settings(sentence: "Sentence") -> Estimate | None:
    """The mean over all settings, and the lowest and the highest end of their intervals, if there are any."""
    told = [m for m in sentence.measured.values() if m is not None and math.isfinite(m.width)]
    if not told:
        return None
    return Estimate(
        math.fsum(m.mean for m in told) / len(told), min(m.low for m in told), max(m.high for m in told)
    )


def _inside(wanted: "Wanted") -> Callable[[float], float]:
    """How far a value lies inside the nearest bound; negative outside."""
    low, high = wanted.ends
    return lambda value: min(value - low, high - value)


def _figure(drawn: dict[str, Drawn], title: str, axis: str, caption: str) -> list[Figure]:
    if not drawn:
        return []
    names, all_drawn = list(drawn), list(drawn.values())
    return [
        Figure(
            title=title,
            kind="bar",
            x_label="",
            y_label=axis,
            series=[
                Series(
                    name="value",
                    x=names,
                    y=[one.value for one in all_drawn],
                    low=[one.allowed[0] for one in all_drawn],
                    high=[one.allowed[1] for one in all_drawn],
                    published=True,
                ),
                Series(
                    name="value",
                    x=names,
                    y=[one.ours.mean for one in all_drawn],
                    low=[one.ours.low for one in all_drawn],
                    high=[one.ours.high for one in all_drawn],
                ),
            ],
            caption=caption,
        )
    ]
