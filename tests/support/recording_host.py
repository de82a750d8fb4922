"""Fakes for the port: a host that writes down every effect, and a router that only unicasts."""

from collections.abc import Mapping
from typing import Any

from roamq.core.context import Context
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.core.records import Record

Effect = tuple[Any, ...]


class RecordingHost:
    """Writes every effect into `effects`, in order; records into `records`. Time is what a test says it is."""

    def __init__(self, now: float = 0.0) -> None:
        self.time = now
        self.effects: list[Effect] = []
        self.records: list[Record] = []

    def now(self) -> float:
        return self.time

    def send(self, to: BrokerId, message: Message | Event) -> None:
        self.effects.append(("send", to, message))

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        for neighbour in to:
            self.send(neighbour, event)

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        self.effects.append(("deliver", to, event.id, how))

    def attached(self, client: ClientId, resumed: bool) -> None:
        self.effects.append(("attached", client, resumed))

    def detach(self, client: ClientId, reason: str) -> None:
        self.effects.append(("detach", client, reason))

    def take_session(self, context: Context, session: object | None) -> None:
        context.session = session

    def join_session(self, context: Context, session: object) -> None:
        context.session = session

    def set_timer(self, key: TimerKey, after: float) -> None:
        self.effects.append(("set_timer", key, after))

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancelling what may not be set is no effect worth a line."""

    def store(self, client: ClientId) -> None:
        """What is stored is tested with the stores."""

    def record(self, record: Record) -> None:
        self.records.append(record)

    def take(self) -> list[Effect]:
        """The effects since the last call: a step of a test."""
        effects, self.effects = self.effects, []
        return effects


class RecordingRouter:
    """A router whose effects join the host's; its fence is what a test sets."""

    def __init__(self, me: BrokerId, host: RecordingHost) -> None:
        self.me = me
        self.host = host
        self.seen: dict[BrokerId, int] = {}

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        self.host.effects.append(("subscribe", filter))

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        self.host.effects.append(("unsubscribe", filter))

    def advertise(self, filter: Filter) -> None:
        self.host.effects.append(("advertise", filter))

    def unadvertise(self, filter: Filter) -> None:
        self.host.effects.append(("unadvertise", filter))

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        self.host.effects.append(("neighbour forgot", neighbour))

    def publish(self, event: Event) -> None:
        self.host.effects.append(("publish", event.id))

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        return True

    def receive(self, sender: BrokerId, message: Message) -> None:
        raise AssertionError(f"no routing messages here: {message}")

    def unicast(self, to: BrokerId, message: Message) -> None:
        self.host.effects.append(("unicast", to, message))

    def next_hop(self, to: BrokerId) -> BrokerId:
        return to

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """Test brokers are named by their place on a line: b1, b2, ..."""
        return abs(int(a[1:]) - int(b[1:]))

    def fence(self) -> Mapping[BrokerId, int]:
        return dict(self.seen)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return all(self.seen.get(origin, 0) >= sequence for origin, sequence in fence.items())
