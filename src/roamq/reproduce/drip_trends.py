"""[DRIP] Figure 3: how coverage and delay go with m and k, and against SF, on both radios."""

import math
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from roamq.manet.simulation.experiment import Setting
from roamq.models.paired import Estimate, ratio
from roamq.report.exhibits import Table
from roamq.reproduce.drip_runs import radios, setting, spread
from roamq.reproduce.judging import Judgement, Wanted
from roamq.reproduce.settings import text_of

Measure = Callable[[Setting], dict[int, float]]
"""A quantity of a setting, seed by seed."""


class Trends(NamedTuple):
    """How a quantity moves over the grid of Figure 3, seed by seed: along m, along k, and against SF."""

    with_m: dict[int, Estimate]
    """k -> the value at the largest m over that at the smallest."""
    with_k: dict[int, Estimate]
    """m -> the value at the largest k over that at the smallest."""
    to_sf: dict[tuple[int, int], Estimate]
    """k and m -> the value over SF's."""


def trends(measure: Measure, l: int, quick: bool, radio: str = "free") -> Trends:  # noqa: E741
    channel, ks, ms, _ = radios(quick)[radio]
    value = {(k, m): measure(setting(k, l, m, quick=quick, channel=channel)) for k in ks for m in ms}
    epidemic = {k: measure(setting(k, l, scheme="sf", quick=quick, channel=channel)) for k in ks}
    every = len(ks) * len(ms)
    return Trends(
        with_m={k: ratio(value[k, ms[-1]], value[k, ms[0]], comparisons=len(ks)) for k in ks},
        with_k={m: ratio(value[ks[-1], m], value[ks[0], m], comparisons=len(ms)) for m in ms},
        to_sf={(k, m): ratio(value[k, m], epidemic[k], comparisons=every) for k in ks for m in ms},
    )


def by_setting(measures: Mapping[str, Measure], l: int, quick: bool) -> dict[str, Trends]:  # noqa: E741
    """The trends of a quantity for every way to measure it, on every radio."""
    return {
        text_of({"measured": name, "radio": radio}): trends(measure, l, quick, radio)
        for name, measure in measures.items()
        for radio in radios(quick)
    }


FALLS, GROWS = Wanted(below=1.0), Wanted(above=1.0)


def judge_trends(
    judgement: Judgement, found: Mapping[str, Trends], *, with_m: Wanted, with_k: Wanted
) -> None:
    """The three sentences of Figure 3, each at every point of the grid: how a quantity goes with m and k, and that it
    is below SF."""
    along_m = {name: least_so(one.with_m.values(), with_m) for name, one in found.items()}
    along_k = {name: least_so(one.with_k.values(), with_k) for name, one in found.items()}
    for axis, wanted, measured in (("m, at every k", with_m, along_m), ("k, at every m", with_k, along_k)):
        verb = "falls" if wanted is FALLS else "grows"
        judgement.says(f"{verb} with {axis} (ratio, where it does so least)", measured, wanted)
    judgement.says(
        "stays below SF, at every k and m (ratio, the largest)",
        {name: least_so(one.to_sf.values(), FALLS) for name, one in found.items()},
        FALLS,
    )


def least_so(several: Collection[Estimate], wanted: Wanted) -> Estimate:
    """The largest of several quantities that must lie below a bound, or the smallest of those that must lie above.
    Their intervals hold together, and so does this one."""
    pick = max if math.isfinite(wanted.ends[1]) else min
    return Estimate(
        pick(one.mean for one in several),
        pick(one.low for one in several),
        pick(one.high for one in several),
        min(one.freedom for one in several),
        max(one.comparisons for one in several),
    )


def trends_table(found: Mapping[str, Trends]) -> Table:
    """Every ratio by itself."""
    return Table(
        title="Trends at every point of the grid",
        columns=["setting", "ratio", "at", "with its 95% interval"],
        rows=[
            [name, what, at, str(measured)]
            for name, one in found.items()
            for what, by_place in (
                ("largest m over smallest", {f"k={k}": value for k, value in one.with_m.items()}),
                ("largest k over smallest", {f"m={m}": value for m, value in one.with_k.items()}),
                ("over SF", {f"k={k}, m={m}": value for (k, m), value in one.to_sf.items()}),
            )
            for at, measured in by_place.items()
        ],
        note="Intervals are widened for the number of points along the same axis.",
    )


def told(found: Trends, quick: bool, radio: str = "free") -> str:
    """The trends as ranges over the grid."""
    _, ks, ms, _ = radios(quick)[radio]
    changes = ([one.mean - 1 for one in some.values()] for some in (found.with_m, found.with_k, found.to_sf))
    along_m, along_k, to_sf = map(spread, changes)
    return f"{along_m} from m={ms[0]} to {ms[-1]}, {along_k} from k={ks[0]} to {ks[-1]}, {to_sf} against SF"
