"""Tells what happens at a broker, as an operator would ask: who came, who moved from where, who was refused what.

The shell gives every batch of outputs to `Activity`, which writes log lines (INFO, a bounded number a second), keeps
the last happenings for operators who ask, and counts the delays of handoffs. The machine itself logs nothing.
"""

import logging
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

import msgspec

from roamq.core.events import BrokerId, ClientId
from roamq.core.records import Record
from roamq.net.clients.access import NOT_TAKEN, Access
from roamq.net.machine import Machine
from roamq.net.ops.forecast import Forecast
from roamq.net.ops.settings import AccessRules, Rule
from roamq.net.outputs import Claims, Outputs

log = logging.getLogger("roamq.activity")

LINES_PER_S: Final = 20
"""Log lines of one kind a second; one more line tells how many were left out."""
KEPT: Final = 1000
"""Number of happenings that a broker keeps for operators who ask."""
BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_TOLD: Final = {
    kind: f"_on_{kind}"
    for kind in (
        "connected",
        "disconnected",
        "refused",
        "denied",
        "transferred",
        "handoff",
        "dropped",
        "missed",
    )
}
"""Kind of record -> the method that turns such a record into a happening."""
_TAKEN_OVER: Final = {
    "connected again": "here",
    "connected elsewhere": "elsewhere",
    "taken over": "elsewhere",
}


class Happening(NamedTuple):
    """One thing that an operator may want to know."""

    number: int
    """Counts up: a program that has seen one happening asks for those after its number."""
    time: float
    kind: str
    client: str | None
    text: str
    fields: dict[str, Any]


class DelayCounts:
    """A histogram of delays in seconds."""

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        """Returns upper bound -> how many delays were not longer, as Prometheus wants them."""
        total, found = 0, []
        for bound, count in zip((*map(str, BOUNDS_S), "+Inf"), self.counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


class _Arriving(NamedTuple):
    """A client that came from another broker and waits for its session."""

    client: str
    previous: str
    entered_at: float


class Activity:
    """Turns the outputs of one broker into log lines and happenings."""

    def __init__(self, machine: Machine, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """`cpu_s`: the processor time that the broker has used of its one interpreter."""
        self.machine = machine
        self.happenings: deque[Happening] = deque(maxlen=KEPT)
        self.number = 0
        """The number of the last happening."""
        self.handoffs = DelayCounts()
        """Delays from CONNECT to CONNACK, of clients that came from another broker."""
        self.first_messages = DelayCounts()
        """Delays from CONNECT to the first message, of the same clients."""
        self._handed_over: dict[str, str] = {}
        """Client -> the broker that the client's session was sent to, since draining began."""
        self._draining_of: tuple[ClientId, ...] | None = None
        """The clients whose sessions the drain moves; None when no session is left, or if the broker does not drain."""
        self._drained: tuple[ClientId, ...] = ()
        self._arriving: dict[int, _Arriving] = {}
        self._second = 0
        self._lines: dict[str, int] = {}
        """Kind of happening -> its log lines in this second."""
        self._left_out: dict[str, int] = {}
        self.forecast = Forecast(cpu_s)
        self.every_second: list[Callable[[float], None]] = [self.forecast.tick]
        """Callbacks for about once a second; each gets the time."""

    def take(self, out: Outputs, kinds: Counter[str]) -> None:
        """Turns the records of the last inputs into happenings, before their outputs leave the broker."""
        self.forecast.count(out.records, kinds, out.acknowledged)
        if not _TOLD.keys().isdisjoint(kinds):
            for record in out.records:
                if record[0] in _TOLD:
                    self.forecast.take(record)
                    getattr(self, _TOLD[record[0]])(record)
        if self._arriving:
            for number in self._arriving.keys() & out.dirty.keys():
                self._look_whether_in(number, out.records)

    def tick(self, now: float) -> None:
        """Called about once a second: logs how many lines were left out, and whether draining is done."""
        if int(now) != self._second:
            self._begin_second(int(now))
        for number in [
            number for number in self._arriving if number not in self.machine.connections.by_number
        ]:
            del self._arriving[number]
        if self._draining_of is not None and not self.machine.status().sessions:
            where = ", ".join(f"{count} to {peer}" for peer, count in sorted(self.handed_to.items()))
            self.happened(now, "drained", None, f"drained: no session is left; {where or 'none moved'}")
            self._draining_of = None
        for call in self.every_second:
            call(now)

    def drain_began(self, sessions: int) -> None:
        contexts = self.machine.broker.contexts
        self._draining_of = self._drained = tuple(context.client for context in contexts.values())
        self._handed_over.clear()
        now = self.machine.time
        self.happened(
            now,
            "drain",
            None,
            f"drain: {_counted(sessions, 'session')} to be moved to other brokers",
            sessions=sessions,
        )
        self.tick(now)

    @property
    def handed_to(self) -> Counter[str]:
        """Broker -> sessions that went there since draining began, by a transfer or because its copy took over."""
        found: Counter[str] = Counter()
        for client in self._drained:
            epoch = self.machine.directory.last_epoch(client)
            at = epoch.broker if epoch is not None else self.machine.me
            if at == self.machine.me:
                at = BrokerId(self._handed_over.get(client, at))
            if at != self.machine.me:
                found[at] += 1
        return found

    def since(self, number: int) -> list[Happening]:
        """Returns the happenings after the one of this number, as far as they are kept."""
        return [one for one in self.happenings if one.number > number]

    # --- happenings made of records -----------------------------------------------------------------------------

    def _on_connected(self, record: Record) -> None:
        client = ClientId(record.client or "")
        connection = self.machine.connections.by_client.get(client)
        previous = record.peer
        came_from = previous if previous not in (None, record.broker) else None
        if connection is None:
            return
        user = f", user {connection.user!r}" if connection.user is not None else ""
        before = f", was at {came_from}" if came_from else ", was here before" if previous else ""
        self.happened(
            record.time_s,
            "connect",
            client,
            f"connect: client {client!r}{user} from {connection.peer}{before}",
            user=connection.user,
            address=connection.peer,
            came_from=came_from,
        )
        if came_from:
            self._arriving[connection.number] = _Arriving(client, came_from, record.time_s)

    def _look_whether_in(self, number: int, records: Iterable[Record]) -> None:
        """Ends the handoff if the client has its CONNACK: tells how long it took, and how many messages waited."""
        connection = self.machine.connections.by_number.get(number)
        if connection is None or connection.client is None:
            return
        client, previous, entered_at = self._arriving.pop(number)
        context = self.machine.broker.contexts.get(connection.client)
        now = self.machine.time
        if context is None:
            return
        if context.local_queue is not None and not context.delivers_head:
            told = f"connect: client {client!r} is let in without its session: {previous} does not answer yet"
            self.happened(now, "without_session", client, told, level=logging.WARNING, previous=previous)
            return
        sent = sum(1 for one in records if one[0] == "delivered" and one[3] == client and one[7] != "live")
        messages = sent + len(context.stored) - context.in_flight
        took_s = max(0.0, now - entered_at)
        self.handoffs.add(took_s)
        me = self.machine.me
        self.happened(
            now,
            "handoff",
            client,
            f"handoff: client {client!r} from {previous} to {me} in {took_s:.3f} s, {_messages(messages)}",
            previous=previous,
            to=me,
            seconds=round(took_s, 6),
            messages=messages,
        )

    def _on_handoff(self, record: Record) -> None:
        self.first_messages.add(record.duration_s or 0.0)

    def _on_disconnected(self, record: Record) -> None:
        client, reason = ClientId(record.client or ""), record.detail or ""
        where = _TAKEN_OVER.get(reason)
        if where is None:
            self.happened(
                record.time_s,
                "disconnect",
                client,
                f"disconnect: client {client!r}: {reason}",
                reason=reason,
            )
            return
        epoch = self.machine.directory.last_epoch(client)
        at = record.broker if where == "here" else None
        if at is None and epoch is not None and epoch.broker != record.broker:
            at = epoch.broker
        place = where if where == "here" or at is None else f"at {at}"
        self.happened(
            record.time_s,
            "takeover",
            client,
            f"takeover: client {client!r} is connected {place}; its older connection was closed",
            at=at,
        )

    def _on_transferred(self, record: Record) -> None:
        client, count = record.client or "", record.count or 0
        if self._draining_of is not None:
            self._handed_over[client] = record.peer or ""
        self.happened(
            record.time_s,
            "handed_over",
            client,
            f"handed over: session of {client!r} to {record.peer}, {_messages(count)}, {record.bytes or 0:,} bytes",
            to=record.peer,
            messages=count,
            bytes=record.bytes or 0,
        )

    def _on_refused(self, record: Record) -> None:
        text = f"refused: client {record.client!r}: {record.detail}"
        self.happened(record.time_s, "refused", record.client, text, reason=record.detail)

    def _on_denied(self, record: Record) -> None:
        client = ClientId(record.client or "")
        what, _, topic = (record.detail or "").partition(" ")
        connection = self.machine.connections.by_client.get(client)
        user = connection.user if connection is not None else None
        claims = connection.claims if connection is not None else ()
        access = self.machine.access
        is_taken = what != "publish" or topic.startswith("$") or access.takes(topic)
        why = explain(access.rules, what, user, client, topic, claims) if is_taken else NOT_TAKEN
        self.happened(
            record.time_s,
            "denied",
            client,
            f"denied: client {client!r}, user {user!r}, may not {what} {topic!r}: {why}",
            user=user,
            what=what,
            topic=topic,
            rule=why,
        )

    def _on_dropped(self, record: Record) -> None:
        who = f"client {record.client!r}" if record.client else f"all behind {record.peer}"
        text = f"dropped: event {record.origin} {record.sequence} for {who}: {record.detail}"
        self.happened(
            record.time_s, "dropped", record.client, text, level=logging.WARNING, reason=record.detail
        )

    def _on_missed(self, record: Record) -> None:
        why = {"store_lost": "has lost its store"}.get(record.detail or "", "is gone for good")
        of = f" of {record.origin}" if record.origin else ""
        who = f"client {record.client!r} may have missed messages{of}"
        text = f"missed: {who}: {record.peer}, which had them for it, {why}"
        self.happened(
            record.time_s, "missed", record.client, text, level=logging.WARNING, reason=record.detail
        )

    # --- lines -------------------------------------------------------------------------------------------------

    def happened(
        self,
        time: float,
        kind: str,
        client: str | None,
        text: str,
        *,
        level: int = logging.INFO,
        **fields: Any,
    ) -> None:
        self.number += 1
        self.happenings.append(Happening(self.number, time, kind, client, text, fields))
        second = int(time)
        if second != self._second:
            self._begin_second(second)
        lines = self._lines.get(kind, 0)
        if lines >= LINES_PER_S:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        self._lines[kind] = lines + 1
        log.log(level, "%s", text, extra={"fields": {"event": kind, "client": client, **fields}})

    def _begin_second(self, second: int) -> None:
        for kind, count in sorted(self._left_out.items()):
            log.info(
                "%s: %d more in that second", kind, count, extra={"fields": {"event": kind, "more": count}}
            )
        self._second = second
        self._lines.clear()
        self._left_out.clear()


def explain(
    rules: AccessRules, what: str, user: str | None, client: str, topic: str, claims: Claims = ()
) -> str:
    """Says which rule forbids what the client wanted, counted from 1; or that no rule allows it."""
    if topic.startswith("$") and what == "publish":
        return "topics that begin with $ belong to the server"
    for number, rule in enumerate(rules.rules, 1):
        # This rule set allows everything after rule `number`, so that only a rule up to `number` can forbid.
        access = Access(msgspec.structs.replace(rules, rules=(*rules.rules[:number], Rule())))
        ask = access.may_publish if what == "publish" else access.may_subscribe
        if not ask(user, client, topic, claims):
            return f"rule {number} forbids it (user {rule.user!r}, topics {', '.join(rule.topics)})"
    return "no rule allows it"


def _messages(count: int) -> str:
    return _counted(count, "message")


def _counted(count: int, word: str) -> str:
    return f"{count:,} {word}" + ("" if count == 1 else "s")
