"""The turn of the event loop: inputs go into the node and the journal, and what they cause leaves when it is safe.

Reads feed the node at once. When the loop has handled all that was ready, one flush follows: the inputs become one
group of the journal, then every connection with output gets it in one write. With durability `disk` the outputs wait
for the disk while the next group gathers. No decision of the protocol is made here.
"""

import asyncio
import heapq
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, Protocol, TypeVar

from roamq.core.events import BrokerId
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.journal import Journal, StorageError
from roamq.net.links import Frame
from roamq.net.mqtt.session import ServerConnection
from roamq.net.node import Input, Kind, Node
from roamq.net.options import Durability
from roamq.net.wiring import Login

log = logging.getLogger("roamq.shell")
T = TypeVar("T")

TICK_S: Final = 1.0
RETRY_S: Final = 1.0
_kind_of: Final = itemgetter(0)
_RECEIVED: Final = int(Kind.RECEIVED)


class Client(Protocol):
    """A client's transport, as the shell sees it."""

    waits_for_login: bool

    def send(self, data: bytes) -> None: ...
    def close(self) -> None:
        """After what was sent."""

    def abort(self) -> None: ...
    def pause(self, why: str) -> None:
        """Read no more until `resume` with the same reason."""

    def resume(self, why: str) -> None: ...
    def check(self, now: float) -> float | None:
        """A deadline has come: act on it, and give the next one."""


class Neighbours(Protocol):
    """The links, as the shell sees them."""

    def stage(self, frames: dict[BrokerId, list[Frame]]) -> Any:
        """Take the new frames of this turn, and note what is received so far."""

    def release(self, staged: Any) -> None:
        """What was staged is safe: send it, and acknowledge."""

    def tick(self, now: float) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...


@dataclass
class _Staged:
    """What leaves when the inputs that caused it are safe."""

    writes: list[tuple[int, bytes]] = field(default_factory=list)
    closing: list[int] = field(default_factory=list)
    logins: list[Login] = field(default_factory=list)
    links: Any = None
    admitted: list[int] = field(default_factory=list)


class Shell:
    """Drives one node."""

    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        *,
        journal: Journal | None = None,
        durability: Durability = Durability.MEMORY,
        on_records: Callable[[int, list[Record]], None] | None = None,
    ) -> None:
        assert (journal is None) == (durability is Durability.MEMORY)
        self.node = node
        self.machine = node.machine
        self.loop = loop
        self.journal = journal
        self.clients: dict[int, Client] = {}
        self.neighbours: Neighbours | None = None
        self.on_login: Callable[[Login], None] = lambda login: None
        self.on_records = on_records
        self.counts: Counter[str] = Counter()
        """Records by kind, and what the shell itself counts."""
        self.stalled: str | None = None
        """Why nothing leaves: the journal cannot be written."""
        self._pending = journal.pending if journal is not None else None
        self._syncs = durability is Durability.DISK
        self._syncer = ThreadPoolExecutor(1, "journal") if self._syncs else None
        self._held: _Staged | None = None
        self._scheduled = False
        self._closed = False
        self._last_now = node.time
        self._wheel: dict[int, list[int]] = {}
        self._wheel_at = int(self.now())
        self._due: list[tuple[float, TimerKey]] = [(at, key) for key, at in node.timers.items()]
        heapq.heapify(self._due)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = float("inf")
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._set_alarm()
        self._ticker = self.loop.call_later(TICK_S, self._tick)

    def now(self) -> float:
        """Wall time, which other brokers share, made to never go back."""
        now = time.time()
        if now < self._last_now:
            return self._last_now
        self._last_now = now
        return now

    # --- inputs ------------------------------------------------------------------------------------------------

    def feed(self, kind: Kind, *details: Any) -> None:
        """Any entry, now."""
        entry = (int(kind), self.now(), *details)
        if self._pending is not None:
            self._pending.append(entry)
        error = self.node.apply(entry)
        if error is not None:
            self._fault(entry, error)
        if not self._scheduled:
            self._schedule()

    def received(self, number: int, data: bytes) -> None:
        """`feed`, for the most frequent input."""
        now = time.time()
        if now < self._last_now:
            now = self._last_now
        else:
            self._last_now = now
        if self._pending is not None:
            self._pending.append((_RECEIVED, now, number, data))
        try:
            self.machine.received(number, data, now)
        except Exception as error:
            self._fault((_RECEIVED, now, number), error)
        if not self._scheduled:
            self._schedule()

    def connect(self, number: int, data: bytes, end: int) -> None:
        """`received`, for bytes that begin with a whole CONNECT: the journal gets them without the password.

        The password is the last field of the packet, which ends at `end` (section 3.1.3.6).
        """
        now = self.now()
        try:
            self.machine.received(number, data, now)
        except Exception as error:
            self._fault((_RECEIVED, now, number), error)
        if self._pending is not None:
            password = self._password(number)
            if password:
                data = data[: end - len(password)] + bytes(len(password)) + data[end:]
            self._pending.append((_RECEIVED, now, number, data))
        if not self._scheduled:
            self._schedule()

    def opened(self, client: Client, listener: str, peer: str) -> int:
        number = self.node.connections + 1
        self.clients[number] = client
        self.feed(Kind.OPENED, number, listener, peer)
        return number

    def lost(self, number: int) -> None:
        if self.clients.pop(number, None) is not None and not self._closed:
            self.feed(Kind.LOST, number)

    def mqtt(self, number: int) -> ServerConnection | None:
        """The protocol's side of a connection, to look at."""
        found = self.machine.connections.get(number)
        return None if found is None else found.mqtt

    def _password(self, number: int) -> bytes | None:
        mqtt = self.mqtt(number)
        connect = getattr(mqtt, "connect", None)
        return None if connect is None else connect.password

    def _fault(self, entry: Input, error: Exception) -> None:
        """Somebody's input broke a rule that nobody checked, or a bug of ours: that one peer pays for it."""
        log.error("input %s failed: %s", Kind(entry[0]).name, error, exc_info=error)
        self.counts["fault"] += 1
        if entry[0] in (Kind.OPENED, Kind.RECEIVED, Kind.AUTHENTICATED, Kind.BLOCKED, Kind.KEEP_ALIVE):
            client = self.clients.get(entry[2])
            if client is not None:
                self.loop.call_soon(client.abort)

    # --- outputs -----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._scheduled = True
        self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Make the inputs safe, then let out what they caused."""
        self._scheduled = False
        if self._held is not None or self.stalled is not None:
            return  # goes on when the disk is done
        if self.journal is not None:
            try:
                self.journal.write()
            except StorageError as error:
                self._stall(error)
                return
        staged = self._stage()
        if self._syncer is not None:
            self._held = staged
            assert self.journal is not None
            done = self.loop.run_in_executor(self._syncer, self.journal.sync)
            done.add_done_callback(self._synced)
        else:
            self._release(staged)

    @property
    def is_holding(self) -> bool:
        """Whether outputs wait for the disk."""
        return self._held is not None

    def at_rest(self, act: Callable[[int], T]) -> T:
        """Begin a segment of the journal and call `act` with its number while nothing is under way; not while
        holding."""
        assert self.journal is not None and self._held is None
        self.journal.write()
        segment = self.journal.rotate()
        staged = self._stage()
        result = act(segment)
        self._release(staged)
        return result

    def _stage(self) -> _Staged:
        """Take the node's outputs."""
        out = self.node.take()
        staged = _Staged(closing=out.closing, logins=out.logins)
        writes = staged.writes
        clients = self.clients
        for number, mqtt in out.dirty.items():
            output = mqtt.output
            if output:
                writes.append((number, b"".join(output)))
                output.clear()
            client = clients.get(number)
            if client is not None and client.waits_for_login and not mqtt.reading_paused:
                staged.admitted.append(number)
        if self.neighbours is not None:
            staged.links = self.neighbours.stage(out.frames)
        if out.timers:
            self._watch(out.timers)
        if out.records:
            self.counts.update(map(_kind_of, out.records))
            if self.on_records is not None:
                self.on_records(self.node.records - len(out.records), out.records)
        return staged

    def _release(self, staged: _Staged) -> None:
        clients = self.clients
        for number, data in staged.writes:
            client = clients.get(number)
            if client is not None:
                client.send(data)
        for number in staged.admitted:
            client = clients.get(number)
            if client is not None:
                client.waits_for_login = False
                client.resume("login")
                self.watch(number, 0.0)
        for number in staged.closing:
            client = clients.get(number)
            if client is not None:
                client.close()
        if self.neighbours is not None:
            self.neighbours.release(staged.links)
        for login in staged.logins:
            self.on_login(login)

    def _synced(self, done: "asyncio.Future[None]") -> None:
        staged, self._held = self._held, None
        assert staged is not None
        error = done.exception()
        if error is not None:
            # What a failed sync has left on the disk is unknown: nothing may be promised any more.
            self._stall(StorageError(f"the journal cannot be made durable: {error}"), retry=False)
            return
        self._release(staged)
        if not self._scheduled:
            self._schedule_if_pending()

    def _schedule_if_pending(self) -> None:
        if self.journal is not None and self.journal.pending:
            self._schedule()

    def _stall(self, error: StorageError, *, retry: bool = True) -> None:
        """Nothing is promised that is not safe: read nothing, answer nothing, until the disk takes it."""
        if self.stalled is None:
            log.critical("%s; clients wait until it can", error)
            self.counts["stall"] += 1
            for client in self.clients.values():
                client.pause("stalled")
            if self.neighbours is not None:
                self.neighbours.pause()
        self.stalled = str(error)
        if retry:
            self.loop.call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        assert self.journal is not None
        try:
            self.journal.write()
        except StorageError as error:
            self._stall(error)
            return
        log.warning("the journal can be written again")
        self.stalled = None
        for client in list(self.clients.values()):
            client.resume("stalled")
        if self.neighbours is not None:
            self.neighbours.resume()
        self.flush()

    # --- time --------------------------------------------------------------------------------------------------

    def watch(self, number: int, at: float) -> None:
        """Have the client checked at about this time: a wheel of seconds, not a timer per packet."""
        slot = max(int(at) + 1, self._wheel_at + 1)
        self._wheel.setdefault(slot, []).append(number)

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(TICK_S, self._tick)
        now = self.now()
        if self.stalled is not None:
            return
        while self._wheel_at < int(now):
            self._wheel_at += 1
            for number in self._wheel.pop(self._wheel_at, ()):
                client = self.clients.get(number)
                next_check = None if client is None else client.check(now)
                if next_check is not None:
                    self.watch(number, next_check)
        if self.neighbours is not None:
            self.neighbours.tick(now)

    def _watch(self, timers: dict[TimerKey, float | None]) -> None:
        for key, at in timers.items():
            if at is not None:
                heapq.heappush(self._due, (at, key))
        if len(self._due) > 64 + 4 * len(self.node.timers):
            # Timers set anew leave their old entries behind: begin afresh before they outnumber the others.
            self._due = [(at, key) for key, at in self.node.timers.items()]
            heapq.heapify(self._due)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._due and self._due[0][0] < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = self._due[0][0]
            delay = max(0.0, self._alarm_at - time.time())
            self._alarm = self.loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm_at = float("inf")
        if self.stalled is not None or self._closed:
            self._alarm = self.loop.call_later(RETRY_S, self._ring)
            return
        now = self.now()
        while self._due and self._due[0][0] <= now:
            at, key = heapq.heappop(self._due)
            self.node.note_timers()
            if self.node.timers.get(key) == at:
                self.feed(Kind.TIMER, key)
        self._set_alarm()

    # --- the end -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more inputs and let out what is safe."""
        self._closed = True
        for handle in (self._alarm, self._ticker):
            if handle is not None:
                handle.cancel()
        if self._syncer is not None:
            self._syncer.shutdown(wait=True)
            self._syncer = None
            if self._held is not None:
                self._release(self._held)
                self._held = None
        self.flush()
