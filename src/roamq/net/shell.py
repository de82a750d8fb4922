"""The turn of the event loop: inputs go into the live broker and the journal; their effects leave when they are safe.

Reads feed the live broker at once. When the loop has handled all reads that were ready, one flush follows: the inputs
become one group of the journal, then every connection with output gets it in one write. While connections take turns
because they have sent much, the effects of all leave together every few milliseconds (docs/decisions/0106). With
durability `disk` the outputs wait for the disk while the next group gathers. The shell makes no decision of the
protocol.
"""

import asyncio
import heapq
import logging
import math
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.clients.mqtt.session import CLOSED, ServerConnection
from roamq.net.clients.tokens import without_token
from roamq.net.clients.turns import Turns
from roamq.net.clients.verdicts import Verdicts
from roamq.net.clock import SteadyClock
from roamq.net.durable.inputs import FROM_A_CLIENT, InputKind, JournalEntry, LiveBroker
from roamq.net.durable.journal import Journal, StorageError
from roamq.net.durable.secrets import leave_out_second_connect, without_password
from roamq.net.durable.writing import JournalWriter
from roamq.net.ops.options import Durability
from roamq.net.outputs import Login, Staged, UserIdentity
from roamq.net.surroundings import Client, LoginDesk, LoginVerdict, Neighbours, Watcher

log = logging.getLogger("roamq.shell")
T = TypeVar("T")

TICK_S: Final = 1.0
FARTHEST_CHECK_S: Final = 60.0
"""Most seconds between two checks of a client: one that named a keep alive of 18 hours and left is soon forgotten."""
GATHER_S: Final = 0.02
"""Seconds that outputs gather while there is more to read: a write costs as much as a few deliveries."""
HURRY_S: Final = 0.003
"""Seconds that outputs gather if one of them is for a client that sends little."""
NEVER: Final = math.inf
RETRY_S: Final = 1.0
REST_S: Final = 0.001
PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"
CLOCK_OFF_S: Final = 2.0
_OPENED: Final = int(InputKind.OPENED)
_RECEIVED: Final = int(InputKind.RECEIVED)


class Shell:
    """Drives one live broker: brings it inputs and the time, and lets its outputs out."""

    def __init__(
        self,
        live: LiveBroker,
        loop: asyncio.AbstractEventLoop,
        logins: LoginDesk,
        *,
        journal: Journal | None = None,
        durability: Durability = Durability.MEMORY,
        on_records: Callable[[int, list[Record]], None] | None = None,
    ) -> None:
        assert (journal is None) == (durability is Durability.MEMORY)
        self.live = live
        self.loop = loop
        self.journal = journal
        self.clients: dict[int, Client] = {}
        self.neighbours: Neighbours | None = None
        self.watcher: Watcher | None = None
        self.verdicts = Verdicts(logins, self._authenticated)
        self.on_records = on_records
        self.counts: Counter[str] = Counter()
        """Records by kind, and events that the shell itself counts."""
        self.stalled: str | None = None
        """Why no outputs leave: the journal cannot be written."""
        self._pending = journal.pending if journal is not None else None
        syncs = durability is Durability.DISK
        self._writer = JournalWriter(journal, syncs=syncs) if journal is not None else None
        self._held: Staged | None = None
        """Outputs that wait for the disk."""
        self._resting = 0
        """How many callers of `when_at_rest` wait until nothing is under way: meanwhile no flush begins."""
        self._scheduled = False
        self.turns = Turns(loop)
        """Connections that have more to read."""
        self._leave_by = NEVER
        """The time at which the gathered outputs leave while there is more to read; `NEVER` while none gather."""
        self._closed = False
        self._clock = SteadyClock(live.time)
        self.now = self._clock.now
        """Wall time, which other brokers share; it never goes back and never jumps."""
        self._is_off = False
        self._wheel: dict[int, list[int]] = {}
        self._wheel_at = int(self.now())
        self._due: list[tuple[float, TimerKey]] = [(at, key) for key, at in live.timers.items()]
        heapq.heapify(self._due)
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = NEVER
        self._ticker: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._set_alarm()
        self._ticker = self.loop.call_later(TICK_S, self._tick)

    # --- inputs ------------------------------------------------------------------------------------------------

    def feed(self, kind: InputKind, *details: Any) -> None:
        """Apply an input that happens now, and put it into the journal."""
        entry = (int(kind), self.now(), *details)
        if self._pending is not None:
            self._pending.append(entry)
        error = self.live.apply(entry)
        if error is not None:
            self._fault(entry, error)
        self._hurry()
        if not self._scheduled:
            self._schedule()

    @property
    def told(self) -> int:
        """How many records the inputs since the last flush have caused."""
        return len(self.live.machine.out.records)

    def hurry(self, number: int, told: int) -> None:
        """Let the effects of an input leave soon, whatever others send: the client that sent it sends little.

        `told` is the property's value before the input. An acknowledgement without effects can wait.
        """
        mqtt = self.mqtt(number)
        if self.told > told or (mqtt is not None and mqtt.output):
            self._hurry()

    def _hurry(self) -> None:
        self._leave_by = min(self._leave_by, time.perf_counter() + HURRY_S)

    def received(self, number: int, data: bytes) -> None:
        """`feed`, for the most frequent input."""
        now = self.now()
        mqtt = self.mqtt(number)
        if mqtt is None or mqtt.phase is CLOSED:
            return  # a closed connection ignores these bytes, which could be a CONNECT with a password, or its rest
        if self._pending is not None:
            self._pending.append((_RECEIVED, now, number, data))
        pings = mqtt if data == PINGREQ and self._held is not None else None
        owed = 0 if pings is None else len(pings.output)
        try:
            self.live.received(now, number, data)
        except Exception as error:
            self._fault((_RECEIVED, now, number), error)
        if self._pending and self.live.machine.out.closing:
            leave_out_second_connect(self._pending, number, mqtt)
        if pings is not None and pings.output[owed:] == [PINGRESP]:
            # PINGRESP promises nothing, and need not wait for the disk as the rest does.
            del pings.output[owed:]
            self.clients[number].send(PINGRESP)
        if not self._scheduled:
            self._schedule()

    def connect(self, number: int, data: bytes, end: int) -> None:
        """`received`, for bytes that begin with a whole CONNECT: the journal gets them without the password.

        The password is the last field of the packet, which ends at `end` (section 3.1.3.6).
        """
        now = self.now()
        try:
            self.live.received(now, number, data)
        except Exception as error:
            self._fault((_RECEIVED, now, number), error)
        if self._pending is not None:
            mqtt = self.mqtt(number)
            self._pending.append((_RECEIVED, now, number, without_password(mqtt, data, end)))
            leave_out_second_connect(self._pending, number, mqtt)
        logins = self.live.machine.out.logins
        while logins:
            self._check(logins.pop(0))  # the answer is an input of its own, behind CONNECT in the journal
        if not self._scheduled:
            self._schedule()

    def opened(self, client: Client, listener: str, peer: str) -> int:
        """Note a new connection. It causes no output, and the journal has it before anything that does."""
        number = self.live.connections + 1
        self.clients[number] = client
        entry = (_OPENED, self.now(), number, listener, peer)
        if self._pending is not None:
            self._pending.append(entry)
        error = self.live.apply(entry)
        if error is not None:
            self._fault(entry, error)
        return number

    def lost(self, number: int) -> None:
        self.verdicts.forget(number)
        if self.clients.pop(number, None) is not None and not self._closed:
            self.feed(InputKind.LOST, number)

    def mqtt(self, number: int) -> ServerConnection | None:
        """The state of MQTT on a connection, to look at."""
        return self.live.mqtt(number)

    def _fault(self, entry: JournalEntry, error: Exception) -> None:
        """Log an input that failed, by a mistake of a client that no check found or by a bug, and cut its
        connection."""
        log.error("input %s failed: %s", InputKind(entry[0]).name, error, exc_info=error)
        self.counts["fault"] += 1
        if entry[0] in FROM_A_CLIENT:
            client = self.clients.get(entry[2])
            if client is not None:
                self.loop.call_soon(client.abort)

    # --- outputs -----------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._scheduled = True
        if not self.turns:
            self._hurry()  # the input is of a client that sends little, whoever comes right after
        self.loop.call_soon(self.flush)

    def flush(self) -> None:
        """Make the inputs safe, then let out their outputs."""
        self._scheduled = False
        if self._held is not None or self.stalled is not None or self._resting:
            return  # the flush follows when the disk is done
        if self.turns and not self._closed:
            now = time.perf_counter()
            if self._leave_by is NEVER:
                self._leave_by = now + GATHER_S
            if now < self._leave_by:
                self._schedule()
                return
        done = None
        if self._writer is not None:
            try:
                done = self._writer.write()
            except StorageError as error:
                self._stall(error)
                return
        staged = self._stage()
        if done is None:
            self._release(staged)
        else:
            self._hold(staged, done)

    def _hold(self, staged: Staged, done: "Future[None]") -> None:
        """Keep the outputs until the disk is done."""
        self._held = staged
        asyncio.wrap_future(done, loop=self.loop).add_done_callback(self._on_disk)

    @property
    def is_holding(self) -> bool:
        """Whether outputs wait for the disk."""
        return self._held is not None

    def at_rest(self, act: Callable[[int], T]) -> T:
        """Begin a segment of the journal and call `act` with its number while nothing is under way. Not while outputs
        wait for the disk."""
        assert self.journal is not None and self._held is None
        segment = self.journal.rotate()
        staged = self._stage()
        try:
            return act(segment)
        finally:
            self._release(staged)  # the journal has the inputs behind these outputs, even if `act` failed

    async def when_at_rest(self, act: Callable[[int], T]) -> T:
        """`at_rest`, soon. Only outputs wait for the disk meanwhile."""
        assert self.journal is not None and self._writer is not None
        await asyncio.to_thread(self.journal.make_next)
        self._resting += 1
        try:
            while self._held is not None:
                await asyncio.sleep(REST_S)
            if self.stalled is not None:
                raise StorageError(self.stalled)
            self.journal.write()
            ended = self.journal.begin_next()
            staged = self._stage()
            try:
                return act(self.journal.segment)
            finally:
                done = self._writer.finish(ended)
                self._hold(staged, done)
        finally:
            self._resting -= 1
            if not self._scheduled:
                self._schedule()

    def _stage(self) -> Staged:
        """Take the outputs of the live broker."""
        self._leave_by = NEVER
        out = self.live.take()
        staged = Staged(closing=out.closing)
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
        for notice in out.notices:
            log.warning("%s", notice)
        if out.timers:
            self._watch(out.timers)
        kinds = out.kinds()
        if self.watcher is not None:
            self.watcher.take(out, kinds)
        if out.records:
            self.counts.update(kinds)
            if self.on_records is not None:
                self.on_records(self.live.records - len(out.records), out.records)
        return staged

    def _release(self, staged: Staged) -> None:
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

    def _check(self, login: Login) -> None:
        client = self.clients.get(login.connection)
        if client is not None and client.certified_user is not None:
            login = login._replace(certified=client.certified_user)
        self.verdicts.ask(login)
        if client is None:
            self.verdicts.forget(login.connection)

    def _authenticated(self, login: Login, verdict: LoginVerdict) -> None:
        if not verdict:
            self.counts["login_refused"] += 1
            log.info("login refused: client %r, user %r", login.client, without_token(login.username))
        if isinstance(verdict, UserIdentity):
            more = (self._clock.reading_at(verdict.expires_at), verdict.credential, verdict.claims)
            self.feed(InputKind.AUTHENTICATED, login.connection, verdict.user, True, *more)
            return
        user = login.username if login.certified is None else login.certified
        self.feed(InputKind.AUTHENTICATED, login.connection, user if verdict else None, verdict)

    def _on_disk(self, done: "asyncio.Future[None]") -> None:
        if self._held is None:
            return  # `stop` has let the outputs out
        error = done.exception()
        if isinstance(error, StorageError):
            self._stall(error)  # the held outputs leave when the journal can be written
            return
        staged, self._held = self._held, None
        if error is not None:
            # Nobody knows what a failed sync has left on the disk: the broker may promise nothing any more.
            self._stall(StorageError(f"the journal cannot be made durable: {error}"), retry=False)
            return
        self._release(staged)
        if not self._scheduled and self._pending:
            self._schedule()

    def _stall(self, error: StorageError, *, retry: bool = True) -> None:
        """Read and answer nothing until the journal can be written: without it the broker may promise nothing."""
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
        assert self._writer is not None
        try:
            done = self._writer.write_again()
        except StorageError as error:
            self._stall(error)
            return
        log.warning("the journal can be written again")
        self.stalled = None
        staged, self._held = self._held or self._stage(), None
        if done is None:
            self._release(staged)
        else:
            self._hold(staged, done)
        for client in list(self.clients.values()):
            client.resume("stalled")
        if self.neighbours is not None:
            self.neighbours.resume()
        self.flush()

    # --- time --------------------------------------------------------------------------------------------------

    def watch(self, number: int, at: float) -> None:
        """Have the client checked at about time `at`: a wheel of seconds, not a timer per packet."""
        slot = max(int(at) + 1, self._wheel_at + 1)
        self._wheel.setdefault(slot, []).append(number)

    def _tick(self) -> None:
        self._ticker = self.loop.call_later(TICK_S, self._tick)
        self._follow_wall_clock()
        now = self.now()
        if self.stalled is not None:
            return
        while self._wheel_at < int(now):
            self._wheel_at += 1
            for number in self._wheel.pop(self._wheel_at, ()):
                client = self.clients.get(number)
                next_check = None if client is None else client.check(now)
                if next_check is not None:
                    self.watch(number, min(next_check, now + FARTHEST_CHECK_S))
        if self.neighbours is not None:
            self.neighbours.tick(now)
        if self.watcher is not None:
            self.watcher.tick(now)

    def _follow_wall_clock(self) -> None:
        """Log once if somebody set the wall clock: until the broker's time has caught up, expiry is early or late."""
        ahead = self._clock.follow()
        is_off = abs(ahead) > CLOCK_OFF_S
        if is_off and not self._is_off:
            log.warning("the wall clock is %+.1f s off the broker's time, which follows it slowly", ahead)
        self._is_off = is_off

    def _watch(self, timers: dict[TimerKey, float | None]) -> None:
        for key, at in timers.items():
            if at is not None:
                heapq.heappush(self._due, (at, key))
        if len(self._due) > 64 + 4 * len(self.live.timers):
            # A timer that is set again leaves its old entry behind: drop old entries before they outnumber the others.
            self._due = [(at, key) for key, at in self.live.timers.items()]
            heapq.heapify(self._due)
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._due and self._due[0][0] < self._alarm_at:
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm_at = self._due[0][0]
            delay = max(0.0, self._alarm_at - self.now())
            self._alarm = self.loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        self._alarm_at = NEVER
        if self.stalled is not None or self._closed:
            self._alarm = self.loop.call_later(RETRY_S, self._ring)
            return
        now = self.now()
        while self._due and self._due[0][0] <= now:
            at, key = heapq.heappop(self._due)
            self.live.note_timers()
            if self.live.timers.get(key) == at:
                self.feed(InputKind.TIMER, key)
        self._set_alarm()

    # --- the end -----------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Take no more inputs, and let out the outputs of safe inputs."""
        self._closed = True
        for handle in (self._alarm, self._ticker):
            if handle is not None:
                handle.cancel()
        if self._writer is not None and self.stalled is None:
            try:
                self._writer.close()
                if self._held is not None:
                    staged, self._held = self._held, None
                    self._release(staged)
            except (StorageError, OSError) as error:
                self.stalled = str(error)
                log.critical("the last inputs are not safe, and nobody is answered: %s", error)
        if self.stalled is None:
            self._release(self._stage())
