"""The world of a live broker's core: its `Host`, whose effects gather in `Outputs`.

The host decides nothing and never calls back into the core. If an effect leaves something to do - an event needs no
acknowledgement, a client may be let in - the host notes it, and the machine does it when the input is over.
"""

from collections import Counter
from typing import Any, Final, NamedTuple

from roamq.broker.contexts import Contexts
from roamq.core.context import FORWARDED, Context, Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource, Routed
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.core.tuples import new_tuple
from roamq.net.clients.access import Access
from roamq.net.clients.classes import class_of
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.codec import EncodedMessage, ReasonCode, Will
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.state import SessionState, merged
from roamq.net.clients.mqtt.subscriptions import IDENTIFIERS, QOS
from roamq.net.links import wire
from roamq.net.links.outboxes import Outboxes
from roamq.net.links.traffic import LinkTraffic
from roamq.net.ops.settings import ClientClass
from roamq.net.outputs import Outputs

BURST_BYTES: Final = 128 * 1024
"""Most bytes of stored events that one input may send to one client, by their cost; then other clients come first."""
BURST_TIMER: Final = "burst"
"""The timer for the stored events that are left."""
LINK_BURST_BYTES: Final = 32 * 1024
"""Most bytes, beside events, that one input may send to one neighbour. The rest follows in turns, so that it holds up
neither event loop."""
LINK_TIMER: Final = "tell"
"""The timer for the rest of the messages."""
_IN_FLIGHT: Final = DeliveryOutcome.IN_FLIGHT


class Ready(NamedTuple):
    """The client's context is whole here: CONNACK may go out, if the client waits for it."""

    client: ClientId


class Detached(NamedTuple):
    """Another broker serves the client: its connection here is closed, and its session is on the way there."""

    client: ClientId
    session: SessionState
    will: Will | None
    """The will, if it has no delay. It was taken from the session, so that the other broker does not publish it too."""


class Foreign(NamedTuple):
    """A session has come, and the user who began it is not the user who connected with its client id."""

    client: ClientId
    is_taken: bool
    """Whether the context has the session that came; otherwise it keeps the session that it had."""


class Joined(NamedTuple):
    """An earlier session of the client has come and is now part of the session on which the client was let in."""

    client: ClientId


class Over(NamedTuple):
    """A session came to this broker and ends here: its client left for good, or has begun another session."""

    client: ClientId
    epoch: Epoch
    """The epoch of the last connection that the session had."""
    session: SessionState
    events: tuple[Event, ...]
    """Events that were stored for the client."""


class Kept(NamedTuple):
    """A session has come, with or before its context; perhaps its client is not connected here."""

    client: ClientId
    context: Context


class Unwanted(NamedTuple):
    """An event that was for the client as a member of a shared group, which the client has left."""

    client: ClientId
    event: Event
    is_forwarded: bool
    """Whether the client's place was at another broker, which has passed the event on to this one."""


class SharesDue(NamedTuple):
    """An event that was sent to the client is also for the client as a member of shared groups: it gets a copy for
    each."""

    client: ClientId
    event: Event
    groups: tuple[str, ...]


class PlacesEnded(NamedTuple):
    """Places in shared groups that were at this broker have ended, because another broker said so."""

    client: ClientId
    filters: tuple[Filter, ...]
    events: tuple[Event, ...]
    """Events that were stored for the client's places, and are not to be delivered."""


HostNews = Ready | Detached | Foreign | Joined | Over | Kept | Unwanted | SharesDue | PlacesEnded


class LiveHost:
    """The answers of the world to the core of one live broker."""

    settles_at_once = True

    def __init__(
        self, me: BrokerId, connections: Connections, outboxes: Outboxes, access: Access, now: float
    ) -> None:
        self.me = me
        self.time = now
        """The time of the input that is being handled."""
        self.out = Outputs()
        self.traffic = LinkTraffic(me)
        self.done: list[tuple[ClientId, EventId, Connection]] = []
        """Events that need no acknowledgement: the client has consumed them when the input is over."""
        self.news: list[HostNews] = []
        """News that the machine has to look after when the input is over."""
        self._told_at = 0.0
        self._told_bytes: Counter[BrokerId] = Counter()
        """Neighbour -> bytes of messages that the input at `_told_at` has sent to it."""
        self.cut_offs_noted: dict[BrokerId, int] = {}
        """Neighbour -> the number of its cut-offs that operators were told of."""
        self.contexts: Contexts | None = None
        """The contexts of the broker that this host serves; the broker is made after its host."""
        self.classes: tuple[ClientClass, ...] = ()
        """The classes of clients, as the configuration names them."""
        self._connections = connections
        self._by_client = connections.by_client
        self._outboxes = outboxes
        self._access = access

    def now(self) -> float:
        return self.time

    # --- to other brokers ---------------------------------------------------------------------------------

    def send(self, to: BrokerId, message: Message | Event) -> None:
        outboxes = self._outboxes
        if to not in outboxes.frames:
            return  # the next hop has departed: operators know that brokers behind it have no link
        if to not in outboxes.behind:
            self._send_now(to, message)
        elif not outboxes.put_behind(to, message):
            assert isinstance(message, Event)
            self._drop(to, message)

    def send_kept(self, to: BrokerId, data: bytes) -> None:
        """`send`, for a message that was kept as bytes."""
        if to in self._outboxes.behind:
            self._outboxes.put_behind(to, data)
        else:
            self.send(to, wire.decode(data))

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        """Send the messages of `source`. Beyond a share, each is made when it is due: ten thousand at once would take
        longer than a turn of the event loop may."""
        outboxes = self._outboxes
        while to in outboxes.frames:
            if to in outboxes.behind:
                outboxes.put_behind(to, source)
                return
            message = source.next_message()
            if message is None:
                return
            self.send(to, message)

    def _send_now(self, to: BrokerId, message: Message | Event) -> None:
        frame = self._outboxes.add(to, message)
        if frame is None:
            if isinstance(message, Event):
                self._drop(to, message)
            else:
                self._note_cut_off(to)
            return
        frames = self.out.frames.get(to)
        if frames is None:
            frames = self.out.frames[to] = []
        frames.append(frame)
        self.traffic.count(message, len(frame[1]))
        if message.__class__ is not Event:
            self._note_told(to, len(frame[1]))

    def _drop(self, to: BrokerId, event: Event) -> None:
        if event.retain:
            self._outboxes.note_missed(to, event.topic)
        origin, number = event.id
        self.record(
            Record("dropped", self.time, self.me, None, origin, number, peer=to, detail="outbox_full")
        )

    def _note_told(self, to: BrokerId, size: int) -> None:
        """Count what this input has sent to the neighbour; when the neighbour has had its share, the rest waits."""
        if self._told_at != self.time:
            self._told_at = self.time
            self._told_bytes.clear()
        self._told_bytes[to] += size
        if self._told_bytes[to] > LINK_BURST_BYTES and to not in self._outboxes.behind:
            self._outboxes.behind.add(to)
            self.set_timer((LINK_TIMER, to), 0.0)

    def tell_on(self, to: BrokerId) -> None:
        """Send the neighbour its next share of the messages that wait for it."""
        outboxes = self._outboxes
        self._told_bytes.pop(to, None)
        while (message := outboxes.take_behind(to)) is not None:
            if isinstance(message, MessageSource):
                source, message = message, message.next_message()
                if message is None:
                    continue
                outboxes.said[to].behind.appendleft(source)
            self._send_now(to, message)
            if self._told_bytes[to] > LINK_BURST_BYTES:
                self.set_timer((LINK_TIMER, to), 0.0)
                return

    def _note_cut_off(self, neighbour: BrokerId) -> None:
        """Tell operators, once for each time that a neighbour is cut off."""
        outboxes = self._outboxes
        if outboxes.cut_offs[neighbour] > self.cut_offs_noted.get(neighbour, 0):
            self.cut_offs_noted[neighbour] = outboxes.cut_offs[neighbour]
            self.record(Record("cut_off", self.time, self.me, peer=neighbour))
            self.out.notices.append(
                f"broker {neighbour} is cut off: more messages wait for it than quotas.outbox_messages_bytes_max. What "
                "can be told again is told when it is back; `roamq forget` gives up a broker that will not come back"
            )

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        return self._outboxes.is_cut_off(neighbour)

    def is_crowded(self, neighbour: BrokerId) -> bool:
        """Whether too many messages that cannot be told again wait for the neighbour."""
        return self._outboxes.is_crowded(neighbour)

    @property
    def choked(self) -> BrokerId | None:
        """A neighbour for which too many messages wait that cannot be told again: clients may cause no more."""
        return self._outboxes.choked

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        for neighbour in to:
            self.send(neighbour, event)

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        self.send(via, Routed(to=to, sender=self.me, message=message))

    # --- to clients ---------------------------------------------------------------------------------------

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        connection = self._by_client.get(to)
        if connection is None or connection.client is None:
            return
        mqtt, time, out = connection.mqtt, self.time, self.out
        state = mqtt.state
        if state.sent_early and state.take_sent_early(event.id):
            self.done.append((to, event.id, connection))
            return
        out.dirty[connection.number] = mqtt
        outbound = mqtt.outbound
        if outbound.begun and event.id in outbound.begun and not self._may_read(connection, to, event):
            outcome = outbound.withhold(event)
        else:
            outcome = outbound.deliver(event, time)
        if outbound.further:
            self.news.append(SharesDue(to, event, outbound.further))
            outbound.further = ()
        if outcome is not _IN_FLIGHT:
            self.done.append((to, event.id, connection))
            if outcome is DeliveryOutcome.UNWANTED:
                if event.assigned is not None:
                    self.news.append(Unwanted(to, event, how == FORWARDED))
                return
            if connection.delivers_early:
                state.note_sent_early(event.id)
            if outcome is not DeliveryOutcome.DONE:
                origin, sequence = event.id
                self.record(Record("dropped", self.time, self.me, to, origin, sequence, detail=outcome.value))
                return
        burst_bytes = event.cost_bytes
        if connection.burst_at == time:
            burst_bytes += connection.burst_bytes
        else:
            connection.burst_at = time
        connection.burst_bytes = burst_bytes
        if burst_bytes > BURST_BYTES:
            self._rest(to, connection)
        if connection.previous is not None:
            waited = self.time - connection.entered_at
            self.record(
                Record(
                    "handoff", self.time, self.me, to, peer=connection.previous, detail=how, duration_s=waited
                )
            )
            connection.previous = None
        origin, sequence = event.id
        waited = time - event.published_at
        columns = ("delivered", time, self.me, to, origin, sequence, None, how, None, None, None, waited)
        out.records.append(new_tuple(Record, columns))

    def _may_read(self, connection: Connection, client: ClientId, event: Event) -> bool:
        """Whether the rules in force let the client have an event that was sent before and that it has not
        acknowledged."""
        access = self._access
        return access.is_open or access.may_subscribe(connection.user, client, event.topic, connection.claims)

    def _rest(self, client: ClientId, connection: Connection) -> None:
        """Let the client rest after its share of this input: the rest of its stored events follows in later inputs."""
        context = self.contexts.get(client) if self.contexts is not None else None
        if context is not None and context.outlet is None and context.window:
            connection.rests = True
            context.window = 0
            self.set_timer((BURST_TIMER, client), 0.0)

    def go_on(self, client: ClientId) -> None:
        """Send the client its next share."""
        connection = self._by_client.get(client)
        if connection is not None and self.contexts is not None:
            connection.rests, connection.burst_bytes = False, 0
            self.contexts.set_window(client, self.window(client))

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        """`deliver`, for QoS 0 to a client for which nothing waits: a sent event counts as read. An event whose bytes
        are not the same for all receivers of an MQTT version goes through `deliver` instead."""
        connection = self._by_client.get(to)
        if connection is None or connection.client is None or connection.previous is not None:
            return False
        mqtt = connection.mqtt
        outbound = mqtt.outbound
        message: Any = event.properties
        route = outbound.routes.get(event.topic)
        if (
            route is None
            or outbound.begun
            or outbound.is_particular
            or event.retain
            or event.expires_at is not None
            or (event.qos and route[QOS])
            or route[IDENTIFIERS]
            or message.__class__ is not EncodedMessage
        ):
            return False
        whole: bytes = message.whole_5 if outbound.v5 else message.whole_311
        if not whole:
            try:
                whole = message.qos_0(outbound.v5)  # for the first receiver of this version
            except OverflowError:
                return False
        mqtt.output.append(whole)
        out, time = self.out, self.time
        out.dirty[connection.number] = mqtt
        origin, sequence = event.id
        waited = time - event.published_at
        columns = ("delivered", time, self.me, to, origin, sequence, None, "live", None, None, None, waited)
        out.records.append(new_tuple(Record, columns))
        return True

    def window(self, client: ClientId) -> int:
        """Receive Maximum of a client that was let in and reads what the broker sends; else 0."""
        connection = self._by_client.get(client)
        if connection is None or connection.client is None or connection.is_blocked or connection.rests:
            return 0
        return connection.mqtt.terms.window

    def has_begun(self, context: Context, event: Event) -> bool:
        """Has the client been sent this event before? [MQTT-3.3.2-5] is about messages whose delivery has not
        started."""
        session = context.session
        return isinstance(session, SessionState) and any(
            entry.event_id == event.id for entry in session.outbound.values()
        )

    def client_class(self, client: ClientId, context: Context | None) -> str:
        """The client's class, by its CONNECT; if the client is away, by its session; empty if unknown."""
        if not self.classes:
            return ""
        connection = self._by_client.get(client)
        if connection is not None:
            return class_of(self.classes, client, connection.user, connection.mqtt.connect)
        session = context.session if context is not None else None
        return session.client_class if isinstance(session, SessionState) else ""

    def ready(self, client: ClientId) -> None:
        self.news.append(new_tuple(Ready, (client,)))

    def detach(self, client: ClientId, reason: str) -> None:
        """Close the client's connection; the core has given the context away already."""
        connection = self._connections.release(client)
        if connection is None:
            return
        self._connections.end_wait(client)
        self.record(Record("disconnected", self.time, self.me, client, detail=reason))
        was_open = connection.is_open
        connection.mqtt.close(ReasonCode.SESSION_TAKEN_OVER, self.time, reason)
        self.close(connection)
        if was_open:
            session = connection.mqtt.state
            self.news.append(Detached(client, session, session.take_will(self.time)))

    def close(self, connection: Connection) -> None:
        """Close the socket after the bytes that the connection has written."""
        self.out.dirty[connection.number] = connection.mqtt
        self.out.closing.append(connection.number)

    # --- session state --------------------------------------------------------------------------------------

    def take_session(self, context: Context, session: object | None) -> None:
        if not isinstance(session, SessionState):
            return
        held = context.session
        connection = self._by_client.get(context.client)
        user = connection.user if connection is not None else getattr(held, "owner", session.owner)
        if not self._access.may_continue(session.owner, user):
            # Two users, one client id: a session that began while the other was on its way gives way.
            is_taken = not session.is_provisional or not isinstance(held, SessionState)
            if is_taken:
                context.session = session
            self.news.append(Foreign(context.client, is_taken))
        elif connection is not None and connection.is_open and connection.mqtt.state is held:
            connection.mqtt.join(session)  # the client was let in on this session
            self.news.append(Joined(context.client))
        else:
            context.session = merged(held, session) if isinstance(held, SessionState) else session
            if connection is None:
                self.news.append(Kept(context.client, context))

    def join_session(self, context: Context, session: object) -> None:
        """Join the sessions only if one is provisional, or none is here: else the one that came is an old copy of
        ours."""
        held = context.session
        provisional = [s for s in (held, session) if isinstance(s, SessionState) and s.is_provisional]
        if provisional or not isinstance(held, SessionState):
            self.take_session(context, session)

    def end_session(self, context: Context) -> None:
        session, context.session = context.session, None
        if isinstance(session, SessionState):
            events = (*context.events(), *context.waiting())
            self.news.append(Over(context.client, context.epoch, session, events))

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None:
        self.news.append(PlacesEnded(client, filters, events))

    # --- time and records -----------------------------------------------------------------------------------

    def set_timer(self, key: TimerKey, after: float) -> None:
        self.out.timers[key] = self.time + after

    def cancel_timer(self, key: TimerKey) -> None:
        self.out.timers[key] = None

    def record(self, record: Record) -> None:
        self.out.records.append(record)
