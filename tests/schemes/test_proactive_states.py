"""The table of legal moves, and the diagram drawn from it."""

from pathlib import Path

import pytest

from roamq.schemes.proactive_states import LEGAL_MOVES, MODES, State, Stimulus, after, diagram

DOCS = Path(__file__).parents[2] / "docs" / "pro.md"


def test_the_diagram_in_the_docs_is_the_table() -> None:
    """If this fails: `python scripts/draw_states.py` draws it anew."""
    assert f"```mermaid\n{diagram()}\n```" in DOCS.read_text()


def test_a_move_that_is_not_in_the_table_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="a context that is none cannot activate"):
        after(State.NONE, Stimulus.ACTIVATE)


def test_every_state_can_be_reached_and_left() -> None:
    assert {move.after for move in LEGAL_MOVES.values()} == set(State)
    assert {move.before for move in LEGAL_MOVES.values()} == set(State)
    assert set(MODES) == set(State) - {State.NONE}


def test_every_case_of_the_paper_has_a_move() -> None:
    cases = {case.strip() for move in LEGAL_MOVES.values() for case in move.case.split(",")}
    assert {str(number) for number in range(1, 9)} <= cases
