"""A live broker as the journal sees it: its machine, its timers and counters, and every input as plain values.

An input is a tuple `(kind, now, ...)`. The shell applies an input and appends it to the journal; a recovery applies the
inputs that it reads there. Both call the same methods, so that a recovered broker equals the one that fell.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum
from typing import Any, Final

import msgspec

from roamq.core.events import BrokerId, ClientId
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.clients.mqtt.session import ServerConnection
from roamq.net.links.lives import MICROSECONDS
from roamq.net.links.members import Member
from roamq.net.machine import Machine
from roamq.net.ops.settings import AccessRules, Settings
from roamq.net.ops.status import BrokerStatus
from roamq.net.outputs import Outputs, UserIdentity

JournalEntry = tuple[Any, ...]


class InputKind(IntEnum):
    """The kinds of input. The numbers are written to disk: never give one another meaning."""

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
    KICK = 16
    MEMBER = 17
    LEAVE = 18


KINDS: Final = frozenset(map(int, InputKind))
FROM_A_CLIENT: Final = frozenset(
    {
        InputKind.OPENED,
        InputKind.RECEIVED,
        InputKind.AUTHENTICATED,
        InputKind.BLOCKED,
        InputKind.KEEP_ALIVE,
    }
)
"""Inputs whose first detail is the number of a client's connection."""


class LiveBroker:
    """The whole state of one live broker. Equal inputs give equal state."""

    def __init__(self, settings: Settings, now: float, in_force: Settings | None = None) -> None:
        """`settings`: what the broker was made of; `in_force`: the settings that have replaced them since."""
        self.machine = Machine(settings, now, in_force)
        self.timers: dict[TimerKey, float] = {}
        """Timer that the machine has set -> when it is due."""
        self.connections = 0
        """The number of the last connection that a client opened."""
        self.records = int(now * MICROSECONDS)
        """The number of the next record, counted from a number that no earlier life of this broker reached."""

    @property
    def time(self) -> float:
        """The time of the last input."""
        return self.machine.time

    @property
    def published(self) -> int:
        """A number that grows by one with every event that enters the network here."""
        return self.machine.broker.sequence

    def mqtt(self, connection: int) -> ServerConnection | None:
        """Returns the MQTT side of a client's connection, for callers that only read it."""
        return self.machine.mqtt(connection)

    def status(self) -> BrokerStatus:
        return self.machine.status()

    def apply(self, entry: JournalEntry) -> Exception | None:
        """Applies an input. Returns the error if applying it fails unexpectedly; such an error harms no other client.

        An input that failed fails again when it is replayed, and leaves the same state behind.
        """
        try:
            _APPLY[entry[0]](self, *entry[1:])
        except Exception as error:
            return error
        return None

    def take(self) -> Outputs:
        """Returns the outputs of the inputs since the last call; remembers the timers, and counts the records."""
        self.note_timers()
        out = self.machine.take_outputs()
        self.records += len(out.records)
        return out

    def note_timers(self) -> None:
        """Brings `timers` up to date with the timers that the machine has set since the last `take`."""
        for key, at in self.machine.out.timers.items():
            if at is None:
                self.timers.pop(key, None)
            else:
                self.timers[key] = at

    def replay(self, entry: JournalEntry) -> list[Record]:
        """Applies an input of the past; returns its records, and discards its other outputs."""
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
        self.machine.set_settings(msgspec.msgpack.decode(settings, type=Settings), now)

    def received(self, now: float, connection: int, data: bytes) -> None:
        """Applies bytes of a client, the most frequent input: the shell calls it without making a tuple first."""
        self.machine.received(connection, data, now)

    def _lost(self, now: float, connection: int) -> None:
        self.machine.lost(connection, now)

    def _authenticated(
        self,
        now: float,
        connection: int,
        user: str | None,
        allowed: bool,
        expires_at: float | None = None,
        credential: str | None = None,
        claims: Sequence[tuple[str, Sequence[str]]] = (),
    ) -> None:
        told = None
        if user is not None and credential is not None:
            kept = tuple((name, tuple(values)) for name, values in claims)
            told = UserIdentity(user, kept, expires_at, credential)
        self.machine.authenticated(connection, user, now, allowed=allowed, told=told)

    def _blocked(self, now: float, connection: int, is_blocked: bool) -> None:
        self.machine.blocked(connection, now, is_blocked=is_blocked)

    def _keep_alive(self, now: float, connection: int) -> None:
        self.machine.check_keep_alive(connection, now)

    def _link_acked(self, now: float, peer: str, sequence: int) -> None:
        self.machine.link_acked(BrokerId(peer), sequence, now)

    def _rules(
        self,
        now: float,
        rules: bytes,
        gone: Collection[str] = (),
        closed_to_anonymous: Collection[str] = (),
        withdrawn: Collection[str] = (),
    ) -> None:
        self.machine.set_rules(
            msgspec.msgpack.decode(rules, type=AccessRules), now, gone, closed_to_anonymous, withdrawn
        )

    def _recovered(self, now: float) -> None:
        self.machine.recovered(now)

    def _drain(self, now: float) -> None:
        self.machine.drain(now)

    def _shutdown(self, now: float) -> None:
        self.machine.shutdown(now)

    def _status(self, now: float, values: dict[str, str]) -> None:
        self.machine.publish_status(values, now)

    def _kick(self, now: float, client: str) -> None:
        self.machine.kick(ClientId(client), now)

    def _member(self, now: float, member: bytes) -> None:
        self.machine.change_network(msgspec.msgpack.decode(member, type=Member), now)

    def _leave(self, now: float) -> None:
        self.machine.leave(now)


_APPLY: Final[dict[int, Callable[..., None]]] = {
    InputKind.OPENED: LiveBroker._opened,
    InputKind.RECEIVED: LiveBroker.received,
    InputKind.LOST: LiveBroker._lost,
    InputKind.AUTHENTICATED: LiveBroker._authenticated,
    InputKind.BLOCKED: LiveBroker._blocked,
    InputKind.KEEP_ALIVE: LiveBroker._keep_alive,
    InputKind.LINK_FRAMES: LiveBroker._link_frames,
    InputKind.LINK_ACKED: LiveBroker._link_acked,
    InputKind.TIMER: LiveBroker._timer,
    InputKind.RULES: LiveBroker._rules,
    InputKind.SETTINGS: LiveBroker._settings,
    InputKind.RECOVERED: LiveBroker._recovered,
    InputKind.DRAIN: LiveBroker._drain,
    InputKind.SHUTDOWN: LiveBroker._shutdown,
    InputKind.STATUS: LiveBroker._status,
    InputKind.KICK: LiveBroker._kick,
    InputKind.MEMBER: LiveBroker._member,
    InputKind.LEAVE: LiveBroker._leave,
}
