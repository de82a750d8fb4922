"""A network of a few brokers and one client, in which every next step is a choice.

Links keep their order, and that is all that is promised: which link delivers next, when a broker notices that the
client is gone, when the client consumes what was sent to it and when an event is published may happen in any order.
A step is a string, so that a way through the choices can be written down and played again.
"""

import copyreg
import io
import pickle
import re
from collections import deque
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

from roamq.broker.broker import Broker
from roamq.broker.mailbox import Mailbox
from roamq.build import build_broker
from roamq.core.context import UNLIMITED, Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource, Routed
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.overlay.interest import ByInterest
from roamq.overlay.topology import Topology
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.locations import Choice, Expectation, LocationTable
from roamq.schemes.prehandoff import PreHandoff

CLIENT = ClientId("s")
FILTER = Filter.parse("t")

TRIANGLE = Topology(["a", "b", "c"], [("a", "b"), ("b", "c"), ("a", "c")])
LINE = Topology(["a", "b", "c"], [("a", "b"), ("b", "c")])
SQUARE = Topology(["a", "b", "c", "d"], [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")])
TOPOLOGIES = {"triangle": TRIANGLE, "line": LINE, "square": SQUARE}


def topology_of(links: str, says: str | None = None) -> Topology:
    """Brokers and links by name; brokers declare that the client's topic is published at those of `says` alone."""
    plain = TOPOLOGIES[links]
    if says is None:
        return plain
    name = f"{links}, published at {says}"
    if name not in TOPOLOGIES:
        publishes: dict[str, list[str]] = {
            broker: [FILTER.topic if broker in says else "other"] for broker in plain.brokers
        }
        TOPOLOGIES[name] = Topology(plain.brokers, plain.links, publishes)
    return TOPOLOGIES[name]


class NextTo(Expectation):
    """A client is where it may come to these brokers next, whatever cells there are."""

    def __init__(self, me: BrokerId, servers: list[BrokerId]) -> None:
        super().__init__(me, None, Choice.BORDER, cone_deg=90.0, lead_s=0.0, haste=1.0)
        self.servers = servers

    def due(self, client: ClientId, table: LocationTable) -> Mapping[BrokerId, Seconds]:
        return dict.fromkeys(self.servers, 0.0)


class ChoiceHost:
    """A broker's world: what it sends waits until somebody chooses to deliver it."""

    settles_at_once = False

    def __init__(self, me: BrokerId, world: "World") -> None:
        self.me = me
        self.world = world

    def __getstate__(self) -> dict[str, Any]:
        """The world is not part of a broker: it puts itself in place again (`World.restore`)."""
        return {"me": self.me}

    def now(self) -> float:
        return float(self.world.time)

    def send(self, to: BrokerId, message: Message | Event) -> None:
        text = str(message.id) if isinstance(message, Event) else message_text(message)
        self.world.links[self.me, to].append((message, text))

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        for message in source:
            self.send(to, message)

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        for neighbour in to:
            self.send(neighbour, event)

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        self.send(via, Routed(to=to, sender=self.me, message=message))

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        if self.world.at == self.me:
            self.world.inbox.append(event.id)

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        return False

    def window(self, client: ClientId) -> int:
        return UNLIMITED

    def has_begun(self, context: Context, event: Event) -> bool:
        return False

    def client_class(self, client: ClientId, context: Context | None) -> str:
        return ""

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        return False

    def ready(self, client: ClientId) -> None:
        """The client does not wait for an answer."""

    def detach(self, client: ClientId, reason: str) -> None:
        self.world.believed.discard(self.me)

    def take_session(self, context: Context, session: object | None) -> None: ...

    def join_session(self, context: Context, session: object) -> None: ...

    def end_session(self, context: Context) -> None: ...

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None: ...

    def set_timer(self, key: TimerKey, after: float) -> None:
        """Timers do not run out here: a time-out is a step of its own."""

    def cancel_timer(self, key: TimerKey) -> None: ...

    def record(self, record: Record) -> None: ...


class World:
    """The whole network, as one state that steps change."""

    def __init__(
        self,
        scheme: str,
        plan: Iterable[str],
        says: Iterable[str] = (),
        *,
        topology: Topology = TRIANGLE,
        overlay: str = "flooding",
        known: Iterable[tuple[str, str]] = (),
        shows_epoch: bool = True,
        options: Mapping[str, Any] | None = None,
        late_after_s: float | None = None,
        sends_heads: bool = False,
        tells_last_read: bool = False,
        falls: int = 0,
    ) -> None:
        self.time = 0
        self.falls = falls
        """How many brokers may still fall, and come back with their stores; what is on its way to them waits."""
        self.plan = deque(plan)
        """What the client will do, in this order: `go b`, `vanish`, `leave`; `near b`: come to a border beyond which is
        b; `try b`: connect to b, and hear nothing from it."""
        self.says = deque(BrokerId(broker) for broker in says)
        """Where events will be published, in this order, as soon as the client has subscribed."""
        self.shows_epoch = shows_epoch
        self.links: dict[tuple[BrokerId, BrokerId], deque[tuple[Message | Event, str]]] = {
            (one, other): deque() for one in topology.brokers for other in topology.neighbours[one]
        }
        self.brokers: dict[BrokerId, Broker] = {}
        values = dict(options or {})
        if scheme == "proactive":
            values["warm_start"] = [(one, other, 1.0, 0.0) for one, other in known]
        for broker in topology.brokers:
            host = ChoiceHost(broker, self)
            self.brokers[broker] = build_broker(
                broker,
                host,
                topology,
                scheme=scheme,
                options=values,
                overlay=overlay,
                late_after_s=late_after_s,
            )
            self.brokers[broker].contexts.sends_heads = sends_heads
            self.brokers[broker].contexts.tells_last_read = tells_last_read
        self.at: BrokerId | None = None
        self.last: BrokerId | None = None
        self.ticket: Ticket | None = None
        self.gone = False
        self.believed: set[BrokerId] = set()
        """Brokers that think the client is connected there."""
        self.inbox: deque[EventId] = deque()
        self.read: list[EventId] = []
        self.owed: list[EventId] = []
        self.subscribed = False
        self.confirmation: tuple[BrokerId, Mapping[BrokerId, int]] | None = None
        """The broker where the client subscribed, and what must pass there before anything is owed."""
        self._texts: dict[str, str] = {}
        """What each broker's state looks like, until something happens to it."""
        self._frozen: dict[str, bytes] = {}
        """Each broker by `pickle`, until something happens to it."""

    # --- choices ------------------------------------------------------------------------------------------

    def choices(self) -> list[str]:
        """All that may happen next."""
        found = [f"link {one} {other}" for (one, other), waiting in self.links.items() if waiting]
        found += [f"notice {broker}" for broker in sorted(self.believed) if broker != self.at]
        if self.inbox:
            found.append("read")
        if self.plan:
            found.append("plan")
        if self.says and self.is_confirmed():
            found.append("say")
        if self.falls and self.subscribed:
            found += [f"fall {broker}" for broker in self.brokers]
        return found

    def touched(self, choice: str) -> frozenset[str]:
        """What a step may read or change: brokers, the `client`, and what it does next (`plan`).

        Two steps that touch nothing in common lead to the same state in either order, and neither takes the other
        away: links keep their order by themselves.
        """
        what, *where = choice.split()
        if what == "link":
            return frozenset({where[1]})
        if what == "notice":
            return frozenset(where)
        if what == "fall":
            return frozenset({*where, *([self.at] if self.at else []), "client", "plan", "falls"})
        if what == "say":
            return frozenset({self.says[0], "plan"})
        # Where the client is decides what a broker's delivery comes to, so that broker is touched as well.
        here = {"client", *([self.at] if self.at else [])}
        return frozenset(here if what == "read" else {*here, "plan", *self.plan[0].split()[1:]})

    def step(self, choice: str) -> None:
        self.time += 1
        for broker in self.touched(choice):
            self._changes(broker)
        what, *where = choice.split()
        if what == "link":
            one, other = BrokerId(where[0]), BrokerId(where[1])
            self.brokers[other].on_message(one, self.links[one, other].popleft()[0])
        elif what == "notice":
            self.notice(BrokerId(where[0]))
        elif what == "fall":
            self.fall(BrokerId(where[0]))
        elif what == "read":
            self.consume()
        elif what == "say":
            self.publish(self.says.popleft())
        else:
            self.do(self.plan.popleft())

    def do(self, action: str) -> None:
        what, *where = action.split()
        if what == "go":
            self.connect(BrokerId(where[0]))
        elif what == "try":
            self.reach(BrokerId(where[0]))
        elif what == "near":
            self.near([BrokerId(broker) for broker in where])
        elif what == "vanish":
            self.at = None
            self.inbox.clear()
        elif what == "timeout":
            self.brokers[BrokerId(where[0])].on_timer(("timeout", CLIENT))
        elif what == "leave":
            assert self.at is not None
            self.gone = True
            self.inbox.clear()
            self.brokers[self.at].on_leave(CLIENT)
            self.believed.discard(self.at)
            self.at = None
        else:
            raise AssertionError(f"no such action: {action}")

    def fall(self, broker: BrokerId) -> None:
        """A broker falls; for how long does not matter here. A client that was there comes back to it."""
        self.falls -= 1
        self.believed.discard(broker)
        if self.at == broker:
            self.at = None
            self.inbox.clear()
            self.plan.appendleft(f"go {broker}")
        self.brokers[broker].on_restart()

    def publish(self, broker: BrokerId) -> None:
        event = self.brokers[broker].on_publish(None, "t")
        if not self.gone:
            self.owed.append(event.id)

    def connect(self, broker: BrokerId) -> None:
        if self.at is not None:
            self.inbox.clear()
        self.at = broker
        self.reach(broker)
        self.last = broker
        epoch = self.brokers[broker].contexts.epoch_of(CLIENT)
        self.ticket = Ticket(broker, epoch)
        if not self.subscribed:
            self.subscribed = True
            self.brokers[broker].on_subscribe(CLIENT, FILTER)

            self.confirmation = (broker, self.brokers[broker].router.confirm())

    def reach(self, broker: BrokerId) -> None:
        """The broker takes a connection of the client, which may never hear of that."""
        if broker in self.believed:
            self.brokers[broker].on_disconnect(CLIENT, "replaced")
        self.believed.add(broker)
        shown = self.ticket if self.shows_epoch else None
        self.brokers[broker].on_connect(CLIENT, self.last, (FILTER,), shown)

    def near(self, servers: list[BrokerId]) -> None:
        """Under `prehandoff`: the client is seen in a cell from which it may come to these."""
        assert self.at is not None
        scheme = self.brokers[self.at].scheme
        assert isinstance(scheme, PreHandoff)
        scheme.expectation = NextTo(self.at, servers)
        scheme.moving.add(CLIENT)
        scheme.a1_register(self.brokers[self.at].contexts[CLIENT])

    def is_confirmed(self) -> bool:
        """Does every broker know by now that the client has subscribed?"""
        if self.confirmation is None:
            return False
        broker, fence = self.confirmation
        return self.brokers[broker].router.passed(fence)

    def notice(self, broker: BrokerId) -> None:
        self.believed.discard(broker)
        self.brokers[broker].on_disconnect(CLIENT, "vanished")

    def consume(self) -> None:
        event = self.inbox.popleft()
        self.read.append(event)
        assert self.at is not None
        self.brokers[self.at].on_acknowledge(CLIENT, event)

    def settle(self, *links: str) -> None:
        """Let what is under way arrive: on these links (`ab` is from a to b), or on all; and the client reads."""
        while ready := [
            choice
            for choice in self.choices()
            if choice == "read"
            or (choice.startswith("link") and (not links or choice[5] + choice[7] in links))
        ]:
            self.step(ready[0])

    def tell(self, *actions: str) -> None:
        """The client does this, and brokers notice at once that it is gone."""
        for action in actions:
            self.time += 1
            for broker in self.brokers:
                self._changes(broker)
            self.do(action)
            for broker in sorted(self.believed - {self.at}):
                self.notice(broker)

    # --- what must hold -----------------------------------------------------------------------------------

    def broken_now(self) -> str | None:
        """What may never be, in any state: something read twice or out of order."""
        for place, event in enumerate(self.read):
            earlier = [e for e in self.read[:place] if e.origin == event.origin]
            if event in earlier:
                return f"duplicate: {event} read twice"
            if earlier and earlier[-1].sequence > event.sequence:
                return f"order: {event} read after {earlier[-1]}"
        return None

    def broken_at_rest(self) -> str | None:
        """What may not be when nothing more happens: loss, a second serving broker, something left behind."""
        missing = [event for event in self.owed if event not in self.read]
        if missing and not self.gone:
            return f"loss: {missing[0]} was never read"
        holding = {broker: self.brokers[broker].scheme.held() for broker in self.brokers}
        serving = [b for b, held in holding.items() for c in held if c.mode is Mode.SERVING]
        expected = [] if self.gone else [self.at]
        if serving != expected:
            return f"serving: {serving}, and the client is at {self.at}"
        for broker, held in holding.items():
            for context in held:
                if self._is_expected(broker, context):
                    continue
                if context.mode is Mode.ACTIVE or (self.gone and context.mode is Mode.PASSIVE):
                    return f"left behind: {context} at {broker}"
        return self._stray_copy(holding)

    def _is_expected(self, broker: BrokerId, context: Context) -> bool:
        """Whether this is the virtual consumer of where the client is."""
        scheme = self.brokers[broker].scheme
        serving = self.brokers[self.at].scheme if self.at is not None else None
        if not isinstance(scheme, PreHandoff) or not isinstance(serving, PreHandoff):
            return False
        virtual = scheme.virtual.get(CLIENT)
        attempt = serving.preforwarding.of(serving.contexts[CLIENT]).get(broker)
        is_known = virtual is not None and attempt is not None and virtual.attempt == attempt.number
        return is_known and virtual is not None and virtual.context is context

    def _stray_copy(self, holding: Mapping[BrokerId, list[Context]]) -> str | None:
        """A passive copy that the serving broker does not know of will never be deleted."""
        if self.at is None:
            return None
        scheme: Any = self.brokers[self.at].scheme
        if not hasattr(scheme, "sent"):
            return None
        known = {b for held in scheme.sent.holders.values() for b in held}
        stray = [b for b, held in holding.items() if b != self.at and held and b not in known]
        return f"stray: a copy at {stray[0]} that {self.at} does not know of" if stray else None

    # --- going back to a state ----------------------------------------------------------------------------

    def keep(self) -> "Kept":
        """This state, to be restored; brokers that are as they were are not written down again."""
        for name, broker in self.brokers.items():
            if name not in self._frozen:
                self._frozen[name] = frozen(broker)
        links = {pair: tuple(waiting) for pair, waiting in self.links.items()}
        values = {name: copy(getattr(self, name)) for name in CHANGING}
        return Kept(dict(self._frozen), dict(self._texts), links, values)

    def restore(self, kept: "Kept") -> None:
        for name, data in kept.frozen.items():
            if self._frozen.get(name) is not data:
                broker: Broker = pickle.loads(data)  # noqa: S301 - our own
                host: Any = broker.host
                host.world = self
                restore_handlers(broker)
                self.brokers[BrokerId(name)] = broker
        self._frozen, self._texts = dict(kept.frozen), dict(kept.texts)
        for pair, waiting in kept.links.items():
            self.links[pair] = deque(waiting)
        for name, value in kept.values.items():
            setattr(self, name, copy(value))

    def _changes(self, broker: str) -> None:
        """Something is about to happen to a broker."""
        self._texts.pop(broker, None)
        self._frozen.pop(broker, None)

    # --- identity of a state ------------------------------------------------------------------------------

    def fingerprint(self) -> int:
        """Equal for states from which the same can follow: all but the clock's absolute value."""
        parts = [f"{one}{other}:{text}" for (one, other), queue in self.links.items() for _, text in queue]
        parts.append(
            f"{list(self.plan)} {list(self.says)} {self.at} {self.last} {self.ticket} {sorted(self.believed)} "
            f"{list(self.inbox)} {self.read} {self.falls}"
        )
        for name, broker in self.brokers.items():
            text = self._texts.get(name)
            if text is None:
                router: Any = broker.router
                text = f"{router.frontier} {describe_routing(router)} {describe_broker(broker)}"
                self._texts[name] = text
            parts.append(text)
        return hash(numbered("|".join(parts)))


CHANGING = (
    *("time", "plan", "says", "at", "last", "ticket", "gone", "believed", "falls"),
    *("inbox", "read", "owed", "subscribed", "confirmation"),
)
"""What a state is besides brokers and links."""


class Kept(NamedTuple):
    """A state of a world, to go back to."""

    frozen: dict[str, bytes]
    texts: dict[str, str]
    links: dict[tuple[BrokerId, BrokerId], tuple[tuple[Message | Event, str], ...]]
    values: dict[str, Any]


def topology_named(name: str) -> Topology:
    return TOPOLOGIES[name]


def name_of(topology: Topology) -> str:
    return next(name for name, known in TOPOLOGIES.items() if known is topology)


class _Freezer(pickle.Pickler):
    """Leaves out what does not change: of a topology it is enough to know which, and which part handles which message
    is the same for all brokers with one scheme (`restore_handlers`)."""

    dispatch_table = {  # noqa: RUF012
        **copyreg.dispatch_table,
        Topology: lambda topology: (topology_named, (name_of(topology),)),
        Mailbox: lambda mailbox: (Mailbox, (mailbox.me, mailbox.router)),
    }


HANDLERS: dict[type[Any], dict[type[Message], tuple[int, str]]] = {}
"""By type of scheme: which of its parts handles which message, and by what method; part 0 is the scheme itself."""


def parts_of(broker: Broker) -> list[Any]:
    scheme: Any = broker.scheme
    inside = [
        inner
        for part in scheme.parts
        if isinstance(part, HandOver)
        for inner in (part.inquiries, part.late)
        if inner not in scheme.parts
    ]
    return [scheme, *scheme.parts, *inside]


def note_handlers(broker: Broker) -> None:
    if type(broker.scheme) not in HANDLERS:
        places = {id(part): place for place, part in enumerate(parts_of(broker))}
        handlers: dict[type[Message], Any] = broker.mailbox._handlers
        HANDLERS[type(broker.scheme)] = {
            kind: (places[id(handler.__self__)], handler.__name__) for kind, handler in handlers.items()
        }


def restore_handlers(broker: Broker) -> None:
    parts = parts_of(broker)
    for kind, (place, name) in HANDLERS[type(broker.scheme)].items():
        broker.mailbox.handle(kind, getattr(parts[place], name))


def frozen(broker: Broker) -> bytes:
    note_handlers(broker)
    target = io.BytesIO()
    _Freezer(target, pickle.HIGHEST_PROTOCOL).dump(broker)
    return target.getvalue()


EPOCH = re.compile(r"connected_at=([0-9.e-]+)")


def numbered(text: str) -> str:
    """Epochs are times: what matters of them is their order, so they are numbered."""
    times = sorted({float(time) for time in EPOCH.findall(text)})
    rank = {time: place for place, time in enumerate(times)}
    return EPOCH.sub(lambda found: f"#{rank[float(found.group(1))]}", text)


def message_text(message: Message) -> str:
    return re.sub(r"published_at=[0-9.]+", "", str(message))


PLAIN = (str, int, float, Epoch, EventId, Message, type(None))
IRRELEVANT = frozenset(
    {"host", "router", "contexts", "mailbox", "options", "own", "care", "parts", "_listeners", "me"}
    | {"beside", "setup", "before_fence"}
    | {"last_seen", "crossings", "lifetime_s", "limit", "outlier_crossings", "outlier_s", "session"}
    | {"expectation", "table", "pattern", "left_s"}
)
"""What does not decide what can follow: ports, parameters, and times that nothing waits for."""


def describe_routing(router: Any) -> Any:
    """What a router knows besides how far it has seen: nothing under flooding."""
    if not isinstance(router, ByInterest):
        return ""
    tables = (router._asked, router._sent)
    asked = [[n, sorted((str(f), o) for f, o in table[n].items())] for table in tables for n in sorted(table)]
    return [
        sorted(map(str, router._here.items())),
        asked,
        router.markers.number,
        sorted(router.markers.echoed.items()),
    ]


def describe_broker(broker: Broker) -> Any:
    """The state of a broker's contexts, of its scheme and of the parts of that."""
    parts = parts_of(broker)
    described = {*map(id, parts)}
    tables = [vars(part) for part in parts]
    if hasattr(broker.scheme, "handover"):
        account = broker.scheme.handover.whereabouts
        described.add(id(account))
        tables.append(vars(account))
    return [
        sorted((client, describe(context)) for client, context in broker.contexts.items()),
        *(
            (name, describe(item))
            for table in tables
            for name, item in table.items()
            if name != "pending"  # that is another name for one of the others
            if name not in IRRELEVANT and id(item) not in described and item and not callable(item)
        ),
    ]


def describe(value: Any) -> Any:
    """A scheme's own state: its tables, with contexts spelled out."""
    if isinstance(value, PLAIN):
        return str(value)
    if isinstance(value, Context):
        return (
            value.epoch,
            value.mode.value,
            value.position,
            value.reach,
            value.ahead_rows,
            [held.event.id for held in value.stored],
            value.in_flight,
            value.delivers_head,
            None if value.local_queue is None else [event.id for event in value.local_queue],
            None if value.late is None else {o: [e.id for e in queue] for o, queue in value.late.items()},
            None if value.only is None else sorted(value.only),
            len(value.filters),
        )
    if isinstance(value, dict):
        return sorted([str(describe(key)), str(describe(item))] for key, item in value.items())
    if isinstance(value, list | tuple | deque):
        return [describe(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(describe(item)) for item in value)
    names = [field.name for field in fields(value)] if is_dataclass(value) else list(vars(value))
    return [
        (name, describe(item))
        for name in names
        if name not in IRRELEVANT and (item := getattr(value, name)) and not callable(item)
    ]
