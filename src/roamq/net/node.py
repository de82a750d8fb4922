"""The machine, and the little that has to be remembered beside it; every input goes through here.

An input is a tuple `(kind, now, ...)` of plain values. The shell applies it and appends it to the journal; a
recovery applies what it reads there. Both take the same path, so that a recovered node equals the one that fell.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final

import msgspec

from roamq.core.events import BrokerId
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.machine import Machine
from roamq.net.settings import AccessRules, Settings
from roamq.net.wiring import Outputs

Input = tuple[Any, ...]
MICROSECONDS: Final = 1_000_000


class Kind(IntEnum):
    """What happened. The numbers are written to disk: never give one another meaning."""

    OPENED = 1
    RECEIVED = 2
    LOST = 3
    AUTHENTICATED = 4
    BLOCKED = 5
    KEEP_ALIVE = 6
    LINK_FRAMES = 7
    LINK_ACKED = 8
    TIMER = 9
    RULES = 10
    SETTINGS = 11
    RECOVERED = 12
    DRAIN = 13
    SHUTDOWN = 14
    STATUS = 15


class Node:
    """A broker's whole state. Equal inputs give equal nodes."""

    def __init__(self, settings: Settings, now: float) -> None:
        self.machine = Machine(settings, now)
        self.timers: dict[TimerKey, float] = {}
        """What the machine waits for -> when."""
        self.connections = 0
        """The number of the last connection."""
        self.records = int(now * MICROSECONDS)
        """How many records there were, counted from a number that no earlier life of this broker reached."""

    @property
    def time(self) -> float:
        """Of the last input."""
        return self.machine.time

    def apply(self, entry: Input) -> Exception | None:
        """Let it happen. What a peer or a bug of ours breaks is given back and harms no one else.

        An input that fails fails again when it is replayed, and leaves the same behind.
        """
        try:
            _APPLY[entry[0]](self, *entry[1:])
        except Exception as error:
            return error
        return None

    def take(self) -> Outputs:
        """What the inputs since the last call have caused; timers and the count of records are kept here."""
        self.note_timers()
        out = self.machine.out
        self.machine.out = Outputs()
        self.records += len(out.records)
        return out

    def note_timers(self) -> None:
        """Bring `timers` up to date with what the machine has asked for since the last `take`."""
        for key, at in self.machine.out.timers.items():
            if at is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at

    def replay(self, entry: Input) -> list[Record]:
        """Apply an input of the past: all that is left of its effects are the records of it."""
        self.apply(entry)
        out = self.take()
        for connection in out.dirty.values():
            connection.output.clear()
        return out.records

    # --- inputs that are more than a call of the machine -------------------------------------------------------

    def _opened(self, now: float, connection: int, listener: str, peer: str) -> None:
        self.connections = connection
        self.machine.opened(connection, now, listener, peer)

    def _link_frames(self, now: float, peer: str, frames: list[tuple[int, bytes]]) -> None:
        received = self.machine.link_received
        failure: Exception | None = None
        for sequence, frame in frames:
            try:
                received(BrokerId(peer), sequence, frame, now)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def _timer(self, now: float, key: TimerKey) -> None:
        key = tuple(key)
        self.note_timers()
        self.timers.pop(key, None)
        self.machine.out.timers.pop(key, None)
        self.machine.timer(key, now)

    def _settings(self, now: float, settings: bytes) -> None:
        """The broker was started with other settings; those that shape the network do not change."""
        self.machine.settings = msgspec.msgpack.decode(settings, type=Settings)
        self.machine.set_rules(self.machine.settings.access, now)

    def _received(self, now: float, connection: int, data: bytes) -> None:
        self.machine.received(connection, data, now)

    def _lost(self, now: float, connection: int) -> None:
        self.machine.lost(connection, now)

    def _authenticated(self, now: float, connection: int, user: str | None, allowed: bool) -> None:
        self.machine.authenticated(connection, user, now, allowed=allowed)

    def _blocked(self, now: float, connection: int, is_blocked: bool) -> None:
        self.machine.blocked(connection, now, is_blocked=is_blocked)

    def _keep_alive(self, now: float, connection: int) -> None:
        self.machine.check_keep_alive(connection, now)

    def _link_acked(self, now: float, peer: str, sequence: int) -> None:
        self.machine.link_acked(BrokerId(peer), sequence, now)

    def _rules(self, now: float, rules: bytes) -> None:
        self.machine.set_rules(msgspec.msgpack.decode(rules, type=AccessRules), now)

    def _recovered(self, now: float) -> None:
        self.machine.recovered(now)

    def _drain(self, now: float) -> None:
        self.machine.drain(now)

    def _shutdown(self, now: float) -> None:
        self.machine.shutdown(now)

    def _status(self, now: float, values: dict[str, str]) -> None:
        self.machine.publish_status(values, now)


_APPLY: Final[dict[int, Callable[..., None]]] = {
    Kind.OPENED: Node._opened,
    Kind.RECEIVED: Node._received,
    Kind.LOST: Node._lost,
    Kind.AUTHENTICATED: Node._authenticated,
    Kind.BLOCKED: Node._blocked,
    Kind.KEEP_ALIVE: Node._keep_alive,
    Kind.LINK_FRAMES: Node._link_frames,
    Kind.LINK_ACKED: Node._link_acked,
    Kind.TIMER: Node._timer,
    Kind.RULES: Node._rules,
    Kind.SETTINGS: Node._settings,
    Kind.RECOVERED: Node._recovered,
    Kind.DRAIN: Node._drain,
    Kind.SHUTDOWN: Node._shutdown,
    Kind.STATUS: Node._status,
}
