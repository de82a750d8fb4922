"""Fakes for the port: a host that writes down every effect, and a router that only unicasts."""

from collections.abc import Iterable, Mapping
from typing import Any

from roamq.build import build_scheme
from roamq.core.context import UNLIMITED, Context
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource, Routed
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.geo.region import Region
from roamq.schemes.base import SchemeOptions
from roamq.schemes.parts.prediction import Oracle
from roamq.schemes.table import scheme_named

Effect = tuple[Any, ...]


class RecordingHost:
    """Writes every effect into `effects`, in order; records into `records`. Time is what a test says it is."""

    settles_at_once = False

    def __init__(self, now: float = 0.0, me: str = "b1") -> None:
        self.me = BrokerId(me)
        self.time = now
        self.effects: list[Effect] = []
        self.cut_off: set[BrokerId] = set()
        self.records: list[Record] = []
        self.classes: dict[ClientId, str] = {}

    def now(self) -> float:
        return self.time

    def send(self, to: BrokerId, message: Message | Event) -> None:
        self.effects.append(("send", to, message))

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        for message in source:
            self.send(to, message)

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        for neighbour in to:
            self.send(neighbour, event)

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        self.send(via, Routed(to=to, sender=self.me, message=message))

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        self.effects.append(("deliver", to, event.id, how))

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        return False

    def window(self, client: ClientId) -> int:
        return UNLIMITED

    def has_begun(self, context: Context, event: Event) -> bool:
        return False

    def client_class(self, client: ClientId, context: Context | None) -> str:
        return self.classes.get(client, "")

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        return neighbour in self.cut_off

    def ready(self, client: ClientId) -> None:
        self.effects.append(("ready", client))

    def detach(self, client: ClientId, reason: str) -> None:
        self.effects.append(("detach", client, reason))

    def take_session(self, context: Context, session: object | None) -> None:
        context.session = session

    def join_session(self, context: Context, session: object) -> None:
        context.session = session

    def end_session(self, context: Context) -> None:
        context.session = None

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None:
        self.effects.append(("places_ended", client, filters, events))

    def set_timer(self, key: TimerKey, after: float) -> None:
        self.effects.append(("set_timer", key, after))

    def cancel_timer(self, key: TimerKey) -> None:
        """Cancelling what may not be set is no effect worth a line."""

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

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        self.host.effects.append(("neighbour forgot", neighbour))

    def doubt(self) -> None:
        self.host.effects.append(("doubt",))

    def restarted(self) -> None:
        self.host.effects.append(("restarted",))

    def count_on(self, number: int) -> None:
        self.host.effects.append(("count on", number))

    def broker_joined(self, broker: BrokerId, mark: str) -> None: ...

    def broker_departed(self, broker: BrokerId) -> None: ...

    def is_departed(self, broker: BrokerId) -> bool:
        return False

    def rewired(self) -> None: ...

    def in_step(self, neighbour: BrokerId) -> None:
        self.host.effects.append(("in step", neighbour))

    def publish(self, event: Event) -> None:
        self.host.effects.append(("publish", event.id))

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        return True

    def receive(self, sender: BrokerId, message: Message) -> bool:
        raise AssertionError(f"no routing messages here: {message}")

    def unicast(self, to: BrokerId, message: Message) -> None:
        self.host.effects.append(("unicast", to, message))

    def brokers(self) -> tuple[BrokerId, ...]:
        return (self.me,)

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        return None

    def next_hop(self, to: BrokerId) -> BrokerId:
        return to

    def distance(self, a: BrokerId, b: BrokerId) -> int:
        """Test brokers are named by their place on a line: b1, b2, ..."""
        return abs(int(a[1:]) - int(b[1:]))

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        return {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return set()

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        return dict(self.seen)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return not self.late(fence)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        return frozenset(origin for origin, sequence in fence.items() if self.seen.get(origin, 0) < sequence)

    def joined_later(self) -> frozenset[BrokerId]:
        return frozenset()

    def may_miss(self, origin: BrokerId) -> bool:
        return False


def scheme_at(
    me: BrokerId,
    host: RecordingHost,
    router: RecordingRouter,
    name: str,
    options: SchemeOptions | None = None,
    *,
    oracle: Oracle | None = None,
    region: Region | None = None,
) -> Any:
    """A scheme on its own, between a host and a router that write everything down."""
    entry = scheme_named(name)
    options = options or entry.options_type()
    return build_scheme(me, host, router, entry, options, oracle=oracle, region=region)
