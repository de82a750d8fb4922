"""`roamq plan regions`: delay and number of mobile brokers."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import about, asks
from roamq.report.exhibits import Cell, Figure, Series, Table

if TYPE_CHECKING:
    from roamq.models.region_delay import Formula, Meeting, RegionDelay

PRESETS: Final = {"drip": {"grid_cells": 10_000.0, "brokers": 20, "copies": 3, "destinations": 4}}

SECOND_ORDER_MAX: Final = 2
"""The number of destinations up to which the second-order series gives the exact mean."""
FORMULAS_FOR_TARGET: "Final[tuple[Formula, ...]]" = ("exact", "paper")


class RegionsQuestion(msgspec.Struct, kw_only=True):
    grid_cells: (
        Annotated[float, about("Cells of the grid that nodes walk on (the paper's N).", ge=1)] | None
    ) = None
    brokers: Annotated[int, about("Number of mobile brokers (k).", ge=1)] = 20
    copies: Annotated[int, about("Copies of an event (m).", ge=1)] = 3
    destinations: Annotated[int, about("Brokers that must receive it (l).", ge=1)] = 4
    share: Annotated[float, about("Share of events for the percentile.", gt=0, lt=1)] = 0.95
    meeting_s: (
        Annotated[
            float,
            about(
                "Seconds until the regions of two of these brokers meet, measured as DRIP-eq does; no grid then.",
                gt=0,
            ),
        ]
        | None
    ) = None
    meeting_power: Annotated[float, about("It grows with this power of the number of brokers.")] = 0.0
    target_s: Annotated[float, about("Find the number of brokers for this mean delay.", gt=0)] | None = None


def unused(question: RegionsQuestion) -> dict[str, str]:
    return {"meeting_power": "is used only with meeting_s"} if question.meeting_s is None else {}


@asks("regions", RegionsQuestion, PRESETS, unused=unused)
def regions(question: RegionsQuestion, preset: str | None) -> Answer:
    """Delay until all destinations of a mobile-broker network have an event ([DRIP] Eq. 1 and 2).

    Times are in steps of the nodes' random walk, or in seconds if the time until two regions meet is given:
    `roamq reproduce DRIP-eq` measures it in DRIP's own runs.

    \b
    Examples:
      roamq plan regions --preset drip
      roamq plan regions --brokers 10 --copies 3 --destinations 5 --meeting-s 20 --meeting-power 0.5
      roamq plan regions --grid-cells 40000 --copies 4 --destinations 5 --target-s 20000
    """
    if question.grid_cells is None and question.meeting_s is None:
        raise ValueError(
            "grid_cells: is needed; give it in the file, or as --grid-cells; or give --meeting-s"
        )
    # With three destinations the series is 18% short, with five it says 0.
    formulas: tuple[Formula, ...] = ("exact", "second-order", "paper")
    if question.destinations > SECOND_ORDER_MAX:
        formulas = ("exact", "paper")
    unit = "steps" if question.meeting_s is None else "seconds"
    here = _delay(question, question.brokers)
    data: dict[str, Any] = {
        "meeting": here.meeting_s(),
        "mean": {formula: here.mean_s(formula) for formula in formulas},
        "quantile": {str(question.share): here.quantile_s(question.share)},
    }
    rows: list[list[Cell]] = [[f"mean, {formula}", here.mean_s(formula)] for formula in formulas]
    rows.append([f"{question.share:.0%} within", here.quantile_s(question.share)])
    tables = [
        Table(
            title=f"{question.brokers} brokers, {question.copies} copies, {question.destinations} destinations",
            columns=["delay", unit],
            rows=rows,
        )
    ]
    if question.target_s is not None:
        brokers = _brokers_for(question, question.target_s)
        data["brokers_for_target"] = brokers
        tables.append(
            Table(
                title=f"Most brokers for a mean delay of {question.target_s:g}",
                columns=["formula", "brokers"],
                rows=[list(item) for item in brokers.items()],
            )
        )
    slip = (
        "`second-order` is what its series integrates to"
        if "second-order" in formulas
        else f"what its series integrates to is good for at most {SECOND_ORDER_MAX} destinations"
    )
    return Answer(
        data=data,
        tables=tables,
        notes=[f"the paper's mean has a sign slip; {slip}"],
        figure=_figure(question, unit),
    )


def _meeting(question: RegionsQuestion) -> "Meeting | None":
    from roamq.models.region_delay import Meeting

    if question.meeting_s is None:
        return None
    return Meeting(question.meeting_s, question.brokers, question.meeting_power)


def _delay(question: RegionsQuestion, brokers: int) -> "RegionDelay":
    """Returns the delay in a network of this many brokers."""
    from roamq.models.region_delay import RegionDelay

    return RegionDelay(
        grid_cells=question.grid_cells,
        brokers=brokers,
        copies=question.copies,
        destinations=question.destinations,
        meeting=_meeting(question),
    )


def _brokers_for(question: RegionsQuestion, target_s: float) -> dict[str, int | None]:
    """Formula -> the number of brokers whose mean delay is the wanted one; None: no number by the printed formula."""
    from roamq.models.region_delay import brokers_for_delay

    brokers: dict[str, int | None] = {}
    for formula in FORMULAS_FOR_TARGET:
        try:
            brokers[formula] = brokers_for_delay(
                target_s,
                grid_cells=question.grid_cells,
                copies=question.copies,
                destinations=question.destinations,
                formula=formula,
                meeting=_meeting(question),
            )
        except ValueError:
            if formula == "exact":
                raise
            brokers[formula] = None
    return brokers


def _figure(question: RegionsQuestion, unit: str) -> Figure:
    """Draws the mean delay by number of brokers, exact and by the paper's formula."""
    least = question.copies + question.destinations + 1
    numbers = [n for n in (8, 10, 15, 20, 30, 50, 80, 120, 200) if n >= least]
    delays = [_delay(question, n) for n in numbers]
    return Figure(
        title="Mean delay by number of brokers",
        kind="line",
        x_label="brokers",
        y_label=unit,
        series=[
            Series(name="exact", x=numbers, y=[one.mean_s() for one in delays]),
            Series(name="as printed", x=numbers, y=[one.mean_s("paper") for one in delays], published=True),
        ],
    )
