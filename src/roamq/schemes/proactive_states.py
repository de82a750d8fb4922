"""The states of a client's context at one broker, and every legal move between them ([PRO] Fig. 1).

A broker holds up to two things for a client: its *own* context, if the client is or was connected here, and a
*copy* that a neighboring broker keeps here in case the client comes. The diagram in `docs/pro.md` is drawn from
`LEGAL_MOVES`; the scheme changes a state by this table alone.
"""

from enum import Enum
from typing import Final, NamedTuple

from roamq.core.context import Mode


class State(Enum):
    """The state of what one broker has for a client."""

    NONE = "none"
    PASSIVE = "passive copy"
    ACTIVE = "active copy"
    SERVING = "serving"
    AWAY = "away"
    """This broker served the client, which is gone: this broker stores its events, and so do the neighbors."""


class Stimulus(Enum):
    """The causes of a change of state."""

    CONNECT = "connect"
    DISCONNECT = "disconnect"
    RECONNECT = "reconnect"
    MOVED_HERE = "moved here"
    MOVED_AWAY = "moved away"
    UNSUBSCRIBE = "unsubscribe"
    TIMEOUT = "timeout"
    COPY = "passive copy"
    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    DELETE = "delete"


class Move(NamedTuple):
    """One arrow of the diagram, and the case of section 4.1 that it belongs to."""

    before: State
    stimulus: Stimulus
    after: State
    case: str


_MOVES: Final = (
    Move(State.NONE, Stimulus.CONNECT, State.SERVING, "1"),
    Move(State.NONE, Stimulus.MOVED_HERE, State.SERVING, "5, context requested"),
    Move(State.PASSIVE, Stimulus.MOVED_HERE, State.SERVING, "5, context requested"),
    Move(State.ACTIVE, Stimulus.MOVED_HERE, State.SERVING, "5, found"),
    Move(State.SERVING, Stimulus.DISCONNECT, State.AWAY, "2"),
    Move(State.SERVING, Stimulus.MOVED_AWAY, State.NONE, "4, unnoticed"),
    Move(State.SERVING, Stimulus.UNSUBSCRIBE, State.NONE, "6"),
    Move(State.AWAY, Stimulus.RECONNECT, State.SERVING, "3"),
    Move(State.SERVING, Stimulus.RECONNECT, State.SERVING, "3, unnoticed"),
    Move(State.AWAY, Stimulus.MOVED_AWAY, State.NONE, "4"),
    Move(State.AWAY, Stimulus.UNSUBSCRIBE, State.NONE, "6"),
    Move(State.AWAY, Stimulus.TIMEOUT, State.NONE, "8"),
    Move(State.NONE, Stimulus.COPY, State.PASSIVE, "1, 4, 7"),
    Move(State.PASSIVE, Stimulus.COPY, State.PASSIVE, "1, 7"),
    Move(State.ACTIVE, Stimulus.COPY, State.PASSIVE, "1, 7"),
    Move(State.PASSIVE, Stimulus.ACTIVATE, State.ACTIVE, "2"),
    Move(State.ACTIVE, Stimulus.ACTIVATE, State.ACTIVE, "2, new control"),
    Move(State.ACTIVE, Stimulus.DEACTIVATE, State.PASSIVE, "3, 4"),
    Move(State.PASSIVE, Stimulus.DEACTIVATE, State.PASSIVE, "3, 4"),
    Move(State.ACTIVE, Stimulus.DELETE, State.NONE, "4, 6, 8"),
    Move(State.PASSIVE, Stimulus.DELETE, State.NONE, "4, 6, 8"),
)

LEGAL_MOVES: Final[dict[tuple[State, Stimulus], Move]] = {(m.before, m.stimulus): m for m in _MOVES}

MODES: Final[dict[State, Mode]] = {
    State.PASSIVE: Mode.PASSIVE,
    State.ACTIVE: Mode.ACTIVE,
    State.SERVING: Mode.SERVING,
    State.AWAY: Mode.ACTIVE,
}
"""State -> what a broker does with events: an away client's context stores them like an active copy."""


def after(before: State, stimulus: Stimulus) -> State:
    """The state to which a stimulus leads; a move that is not in the table is a bug."""
    move = LEGAL_MOVES.get((before, stimulus))
    assert move is not None, f"a context that is {before.value} cannot {stimulus.value}"
    return move.after


def diagram() -> str:
    """The table as a Mermaid state diagram, which `docs/pro.md` shows."""
    names = {state: state.name.title() for state in State}
    lines = ["stateDiagram-v2", f"    [*] --> {names[State.NONE]}"]
    lines += [
        f"    {names[move.before]} --> {names[move.after]}: {move.stimulus.value} ({move.case})"
        for move in LEGAL_MOVES.values()
    ]
    return "\n".join(lines)
