"""The page of a study: the advice, the ranking, what the traces taught, and the simulation behind it."""

from dataclasses import replace

from roamq.report.exhibits import Section, Table
from roamq.report.page import Page


def study_page(
    simulated: Page, *, title: str, advice: str, ranking: Table, network: str, learned: Section, command: str
) -> Page:
    """The simulation's page with the answer in front of it."""
    answer = Section(title="Which scheme to use", text=f"Simulated: {network}.", tables=[ranking])
    return replace(
        simulated,
        title=title,
        lead=advice,
        command=command,
        sections=[answer, learned, *simulated.sections],
    )
