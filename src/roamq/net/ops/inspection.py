"""A broker as operators see it: who is connected, whose session waits here with how many messages, where a client is.

`Inspector` reads everything from the machine's state when somebody asks; lists come in pages, so that a broker with
many clients answers as quickly as one with few. The other classes are the answers of the HTTP API (`api.py`).
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeVar

import msgspec

from roamq import __version__
from roamq.core.context import Context
from roamq.core.events import ClientId
from roamq.net.clients.connections import Connection
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.ops.activity import Activity
from roamq.net.ops.alarms import Alarms
from roamq.net.shell import Shell

T = TypeVar("T")
PAGE_MAX: Final = 1000
COUNTED: Final = ("published", "delivered", "dropped", "connected", "denied", "login_refused")


class ApiAnswer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the answers of the API."""


class LinkAnswer(ApiAnswer, frozen=True):
    """A link of the broker to a neighbour."""

    peer: str
    is_up: bool
    through: list[str]
    """The brokers that carry the link while there is no direct connection, in order from this one."""
    waiting_frames: int
    """Frames that the neighbour has not acknowledged."""
    waiting_bytes: int


class AlarmRow(ApiAnswer, frozen=True):
    """A condition that lasts and that an operator should look at."""

    alarm: str
    """The kind of the alarm: link_down, cut_off, link_detour, stalled, draining, no_snapshot, no_records, filling,
    dropping, fault or logins."""
    about: str | None
    """The link or quota that the alarm is about."""
    level: str
    """warning or critical."""
    text: str
    since: float
    """Seconds since 1970."""


class StatusAnswer(ApiAnswer, frozen=True):
    """The state of one broker."""

    broker: str
    version: str
    status: str
    """ok, draining or stalled."""
    reason: str | None
    scheme: str
    durability: str
    uptime_s: float
    connections: int
    sessions: int
    copies: int
    """Contexts that wait here for a client that may come."""
    stored_events: int
    stored_bytes: int
    retained_messages: int
    known_clients: int
    """Clients of the whole network of whom this broker knows which broker serves them."""
    links: list[LinkAnswer]
    links_refused: dict[str, str]
    """Neighbour -> why the last link with it was refused, while it is not up."""
    counts: dict[str, int]
    """Kind of happening -> how often it happened since the broker started: published, delivered, dropped, connected,
    denied, login_refused."""
    handoffs: int
    """Number of clients that came from another broker since the broker started."""
    handoff_mean_s: float | None
    """Mean time from CONNECT to CONNACK of these clients; null: there were none."""
    awaited: dict[str, int]
    """Broker -> number of sessions here for which that broker still has messages: a third broker that was down."""
    alarms: list[AlarmRow]
    """The alarms that last, the critical ones first."""


class ClientRow(ApiAnswer, frozen=True):
    """A client that is connected, or waits to be let in."""

    client: str
    broker: str
    user: str | None
    address: str
    listener: str
    protocol: str
    connected_at: float
    """Seconds since 1970."""
    is_in: bool
    """Whether the client has its session and CONNACK; false while its session is on its way."""
    is_slow: bool
    """Whether the client does not read as fast as the broker writes."""
    subscriptions: int
    in_flight: int
    waiting: int
    """Number of stored messages that were not sent yet."""


class ClientsAnswer(ApiAnswer, frozen=True):
    """A page of clients, ordered by their ids."""

    clients: list[ClientRow]
    total: int
    next: str | None
    """The value of `after` for the next page; null: this is the last one."""


class SessionRow(ApiAnswer, frozen=True):
    """A session, or a copy of one, at a broker."""

    client: str
    broker: str
    mode: str
    """serving: the client is connected here; active: messages are stored for it; copy: kept for a client that is
    elsewhere."""
    subscriptions: int
    waiting: int
    """Number of messages stored for the client, those in flight included."""
    oldest_s: float | None
    """The age of the oldest of these messages; null: there are none."""
    expires_at: float | None
    client_class: str
    """The class of the client; empty for a client that is of no class."""
    scheme: str
    """The scheme of the session, with the class that the scheme is for: `proactive/vehicles`."""


class SessionsAnswer(ApiAnswer, frozen=True):
    """A page of sessions, ordered by client id."""

    sessions: list[SessionRow]
    total: int
    next: str | None


class WhereAnswer(ApiAnswer, frozen=True):
    """What one broker knows of one client."""

    client: str
    asked: str
    """The broker that answers."""
    broker: str | None
    """The broker with the newest connection, as far as this broker knows; null: it knows nothing of the client."""
    since: float | None
    home: str | None
    """The broker of the client's first connection; null: the broker that answers does not know it."""
    is_connected: bool
    """Whether the client is connected at the broker that answers."""
    session: SessionRow | None
    """The session that the broker that answers keeps for the client; null: none."""
    subscriptions: list[str]
    connection: ClientRow | None
    """The client's connection, if the client is connected at the broker that answers."""
    copies: list[str]
    """Brokers that keep a copy of the session because the broker that answers told them to."""
    expected: list[str]
    """Brokers at which the mobility scheme expects the client next, the likeliest first."""


class EventRow(ApiAnswer, frozen=True):
    """Something that happened at the broker."""

    number: int
    time: float
    kind: str
    client: str | None
    text: str
    fields: dict[str, Any]


class EventsAnswer(ApiAnswer, frozen=True):
    """The last happenings at the broker, oldest first."""

    events: list[EventRow]
    last: int
    """The value of `after` for happenings after these."""


class StepRow(ApiAnswer, frozen=True):
    """One record of a message or a client."""

    time: float
    kind: str
    broker: str
    client: str | None
    message: str | None
    """The message's id, as in `/api/trace/{what}`."""
    text: str
    """The record as a sentence."""


class TracedRow(ApiAnswer, frozen=True):
    """A message of a topic."""

    message: str
    """The message's id, as in `/api/trace/{what}`."""
    time: float
    broker: str
    """The broker at which the message was published."""
    client: str | None
    topic: str
    delivered: int
    dropped: int
    slowest_s: float | None
    """Seconds from its publication to its last delivery; null: it was delivered to nobody."""
    receivers: list[str]


class TraceAnswer(ApiAnswer, frozen=True):
    """The records of a message, a client or a topic in this broker's folder."""

    about: Literal["message", "client", "topic"]
    """The kind of the thing that was asked for."""
    steps: list[StepRow] = []
    """The records of a message or a client, in order of time."""
    messages: list[TracedRow] = []
    """The messages of a topic, in order of time."""


class DoneAnswer(ApiAnswer, frozen=True):
    """The result of an action."""

    done: str
    """The action that was done, in words."""
    details: dict[str, Any]


class ErrorAnswer(ApiAnswer, frozen=True):
    """The reason why a question was not answered, or an action not done."""

    error: str
    """The reason, in words."""


class PlaceRow(ApiAnswer, frozen=True):
    """A broker of the network, as seen from the one that answers."""

    broker: str
    clients: int
    """Number of clients whose newest known connection is at this broker."""
    reference: str
    position: list[float] | None = None
    at: list[str] = []
    """For a broker that joined later: the brokers that it is linked with."""
    publishes: list[str] | None = None
    """Topic filters of all that may be published at this broker; null: anything."""


class NetworkAnswer(ApiAnswer, frozen=True):
    """The network as one broker knows it, because brokers tell each other whom they serve."""

    asked: str
    places: list[PlaceRow]
    links: list[list[str]]
    version: int = 0
    """The version of the description of the network: how often brokers have joined, left or were forgotten."""


class Inspector:
    """Answers questions about one broker from the broker's state."""

    def __init__(
        self, shell: Shell, activity: Activity, health: Callable[[], dict[str, Any]], alarms: Alarms
    ) -> None:
        self._shell = shell
        self._machine = shell.live.machine
        self._activity = activity
        self._health = health
        self._alarms = alarms

    def status(self) -> StatusAnswer:
        health = self._health()
        now = self._machine.status()
        up = getattr(self._shell.neighbours, "up", {})
        through = getattr(self._shell.neighbours, "through", {})
        links = [
            LinkAnswer(
                peer=peer,
                is_up=peer in up,
                through=through.get(peer, []),
                waiting_frames=frames,
                waiting_bytes=now.outbox_bytes[peer],
            )
            for peer, frames in now.outbox_frames.items()
        ]
        delays = self._activity.handoffs
        handoffs = sum(delays.counts)
        return StatusAnswer(
            broker=self._machine.me,
            version=__version__,
            status=health["status"],
            reason=health.get("reason"),
            scheme=health["scheme"],
            durability=health["durability"],
            uptime_s=health["uptime_s"],
            connections=len(self._shell.clients),
            sessions=now.sessions,
            copies=len(self.beside()),
            stored_events=now.stored_events,
            stored_bytes=now.stored_bytes,
            retained_messages=now.retained_messages,
            known_clients=now.known_clients,
            links=links,
            links_refused=dict(getattr(self._shell.neighbours, "refused", {})),
            counts={name: self._shell.counts[name] for name in COUNTED},
            handoffs=handoffs,
            handoff_mean_s=round(delays.sum_s / handoffs, 6) if handoffs else None,
            awaited={str(peer): count for peer, count in now.awaited.items()},
            alarms=[AlarmRow(**one._asdict()) for one in self._alarms.raised()],
        )

    def clients(self, *, after: str = "", limit: int = 100, search: str = "") -> ClientsAnswer:
        connections = self._machine.connections.by_client
        names, more = _page(connections, after, limit, search)
        found = [self._client(ClientId(name), connections[ClientId(name)]) for name in names]
        return ClientsAnswer(clients=found, total=len(connections), next=names[-1] if more else None)

    def sessions(self, *, after: str = "", limit: int = 100, search: str = "") -> SessionsAnswer:
        contexts = {context.client: context for context in self.beside()}
        contexts |= dict(self._machine.broker.contexts.items())
        names, more = _page(contexts, after, limit, search)
        found = [self._session(contexts[ClientId(name)]) for name in names]
        return SessionsAnswer(sessions=found, total=len(contexts), next=names[-1] if more else None)

    def where(self, client: str) -> WhereAnswer:
        name = ClientId(client)
        machine = self._machine
        epoch = machine.directory.last_epoch(name)
        context = machine.broker.contexts.get(name)
        if context is None:
            context = next((one for one in self.beside() if one.client == name), None)
        state = context.session if context is not None else None
        filters = sorted(state.subscriptions) if isinstance(state, SessionState) else []
        connection = machine.connections.by_client.get(name)
        scheme = machine.broker.scheme
        return WhereAnswer(
            client=client,
            asked=machine.me,
            broker=epoch.broker if epoch is not None else None,
            since=epoch.connected_at if epoch is not None else None,
            home=machine.directory.home(name),
            is_connected=machine.serves(client),
            session=self._session(context) if context is not None else None,
            subscriptions=filters,
            connection=self._client(name, connection) if connection is not None else None,
            copies=list(scheme.copies_at(context)) if context is not None else [],
            expected=[one for one in scheme.expected_at(name) if one != machine.me],
        )

    def events(self, *, after: int = 0, limit: int = 100) -> EventsAnswer:
        found = self._activity.since(after)[-limit:] if limit else []
        return EventsAnswer(events=[EventRow(**one._asdict()) for one in found], last=self._activity.number)

    def network(self) -> NetworkAnswer:
        """Returns the brokers, links and clients at each broker, counted over all clients in the directory."""
        machine = self._machine
        directory = machine.directory
        counts = Counter(
            epoch.broker for name in directory.clients() if (epoch := directory.last_epoch(name))
        )
        settings, account = machine.settings, machine.membership
        gone = {member.name for member in account.members.values() if member.is_gone}
        areas = settings.positions or settings.scheme_options.get("areas") or {}
        places = [
            PlaceRow(
                broker=name,
                clients=counts[name],
                reference=settings.references.get(name, ""),
                position=[float(value) for value in areas[name]] if name in areas else None,
                publishes=list(settings.publishes[name]) if name in settings.publishes else None,
            )
            for name in settings.brokers
            if name not in gone
        ]
        joined = [member for member in account.members.values() if not member.is_gone]
        places += [
            PlaceRow(
                broker=member.name,
                clients=counts[member.name],
                reference=member.reference,
                position=None if member.position is None else list(member.position),
                at=list(member.at),
                publishes=None if member.publishes is None else list(member.publishes),
            )
            for member in joined
        ]
        links = [list(link) for link in settings.links if not gone & set(link)] + [
            [m.name, one] for m in joined for one in m.at if one not in gone
        ]
        marked = {member.mark: member.name for member in joined}
        links += [[m.name, marked[mark]] for m in joined for mark in m.beside if mark in marked]
        return NetworkAnswer(asked=machine.me, places=places, links=links, version=account.version)

    def places(self) -> dict[str, str]:
        """Client -> the broker of its newest known connection, for all clients of the network."""
        directory = self._machine.directory
        return {name: epoch.broker for name in directory.clients() if (epoch := directory.last_epoch(name))}

    def beside(self) -> list[Context]:
        """Lists contexts that this broker keeps for clients of other brokers: copies, and contexts on their way."""
        machine = self._machine
        mine = machine.broker.contexts
        found = dict.fromkeys(one for one in machine.held() if mine.get(one.client) is not one)
        return list(found)

    # --- rows --------------------------------------------------------------------------------------------------

    def _client(self, name: ClientId, connection: Connection) -> ClientRow:
        context = self._machine.broker.contexts.get(name)
        terms = connection.mqtt.terms
        state = context.session if context is not None else None
        return ClientRow(
            client=name,
            broker=self._machine.me,
            user=connection.user,
            address=connection.peer,
            listener=connection.listener,
            protocol={3: "MQTT 3.1", 4: "MQTT 3.1.1", 5: "MQTT 5"}.get(
                int(terms.version), str(terms.version)
            ),
            connected_at=connection.entered_at,
            is_in=connection.client is not None,
            is_slow=connection.is_blocked,
            subscriptions=len(state.subscriptions) if isinstance(state, SessionState) else 0,
            in_flight=context.in_flight if context is not None else 0,
            waiting=len(context.stored) - context.in_flight if context is not None else 0,
        )

    def _mode(self, context: Context) -> str:
        if self._machine.broker.contexts.get(context.client) is context:
            return context.mode.value
        return "copy"

    def _session(self, context: Context) -> SessionRow:
        now = time.time()
        first = context.stored[0].event.published_at if context.stored else None
        state = context.session if isinstance(context.session, SessionState) else None
        return SessionRow(
            client=context.client,
            broker=self._machine.me,
            mode=self._mode(context),
            subscriptions=len(state.subscriptions if state is not None else context.filters),
            waiting=len(context.stored) + sum(1 for _ in context.waiting()),
            oldest_s=round(max(0.0, now - first), 3) if first is not None else None,
            expires_at=state.expires_at if state is not None else None,
            client_class=self._machine.host.client_class(context.client, context),
            scheme=context.under or self._machine.settings.scheme,
        )


def _page(names: Iterable[str], after: str, limit: int, search: str) -> tuple[list[str], bool]:
    """Returns the next names in order, and whether there are more."""
    wanted = (name for name in names if name > after and search in name)
    found = heapq.nsmallest(limit + 1, wanted)
    return found[:limit], len(found) > limit
