"""One broker, as MQTT 5 and 3.1.1 describe it: sessions, subscriptions, wills, retained messages, one shared group.

What the standard leaves open stays open here: messages of QoS 0 for a client that is away may be kept, which member of
a shared group gets a message is the broker's choice, and so is whether another one gets what a member whose session
ended had not acknowledged at QoS 1.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from roamq.core.topics import parse_topic_filter, topic_matches

GROUP = "$share/g/a/#"
EMPTY = 0
"""The number of a message without a payload, which cannot say it."""


@dataclass(frozen=True)
class Message:
    """A message as its publisher meant it, or as one client is sent it."""

    number: int
    topic: str
    qos: int
    retain: bool = False
    publisher: str = ""
    expires_at: float | None = None
    identifiers: tuple[int, ...] = ()
    shared: "Message | None" = None
    """The message as it was published, if the client is sent it as the member of the shared group."""
    sent_on: int = 0
    """The last connection of the session on which it was sent; 0: none."""
    dup: bool = False

    def has_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    @property
    def seen(self) -> "Seen":
        """What a client can tell of it."""
        return self.number, self.topic, self.qos, self.retain, self.identifiers, self.dup


Seen = tuple[int, str, int, bool, tuple[int, ...], bool]
"""Number, topic, QoS, RETAIN, subscription identifiers, DUP."""


class ReferenceWill(NamedTuple):
    message: Message
    delay: int


class Options(NamedTuple):
    """Section 3.8.3.1."""

    qos: int
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0
    identifier: int = 0


@dataclass
class Session:
    """Section 4.1."""

    expiry: int
    subscriptions: dict[str, Options] = field(default_factory=dict)
    unacknowledged: list[Message] = field(default_factory=list)
    """What the client has been sent and not acknowledged, or is to be sent when it is back, in order."""
    connection: int = 0
    """How many connections it has had."""
    released: int = 0
    """How many QoS 2 messages the client has confirmed with PUBREC and not with PUBCOMP."""
    is_connected: bool = True
    is_mute: bool = False
    """Whether the client acknowledges what it is told to, and nothing by itself."""
    window: int | None = None
    """Receive Maximum of such a client. How soon a broker fills it is open: see `Play.take_window`."""
    will: ReferenceWill | None = None
    will_at: float | None = None
    ends_at: float | None = None


class Model:
    """The broker."""

    def __init__(self, clients: tuple[str, ...]) -> None:
        self.now = 0.0
        self.sessions: dict[str, Session] = {}
        self.retained: dict[str, Message] = {}
        self.due: dict[str, list[Message]] = {client: [] for client in clients}
        """What each connected client must have been sent since the last look."""
        self.pool: dict[int, Message] = {}
        """Messages of the shared group that nobody has been seen to get: one member gets each."""
        self.spare: set[int] = set()
        """Those of the pool that a member whose session has ended had been sent: nobody has to get them."""

    # --- what clients do ------------------------------------------------------------------------------------

    def connect(
        self,
        client: str,
        clean: bool,
        expiry: int,
        will: ReferenceWill | None,
        mute: bool,
        window: int | None = None,
    ) -> bool:
        """Returns Session Present."""
        self.drop(client)  # [MQTT-3.1.4-3]
        session = self.sessions.get(client)
        if session is not None and clean:
            self.end(client)  # [MQTT-3.1.2-4]
            session = None
        present = session is not None
        if session is None:
            session = self.sessions[client] = Session(expiry)
        session.expiry, session.will, session.will_at, session.ends_at = expiry, will, None, None
        session.is_connected, session.is_mute = True, mute
        session.window = window if mute else None
        session.connection += 1
        kept = [
            replace(message, dup=message.sent_on > 0)  # [MQTT-3.3.1-1]
            for message in session.unacknowledged
            if message.sent_on or not message.has_expired(self.now)  # [MQTT-3.3.2-5]
        ]
        session.unacknowledged = []
        if not mute:
            session.released = 0
        for message in kept:  # [MQTT-4.4.0-1]
            self.send(client, message)
        return present

    def drop(self, client: str) -> None:
        """The connection is lost, or taken over."""
        session = self.sessions.get(client)
        if session is None or not session.is_connected:
            return
        session.is_connected = False
        session.ends_at = self.now + session.expiry
        if session.will is not None:
            session.will_at = self.now + min(session.will.delay, session.expiry)  # [MQTT-3.1.2-8]
        self.advance(self.now)

    def disconnect(self, client: str, with_will: bool = False, expiry: int | None = None) -> None:
        session = self.sessions.get(client)
        if session is None or not session.is_connected:
            return
        if not with_will:
            session.will = None  # [MQTT-3.14.4-3]
        if expiry is not None:
            session.expiry = expiry  # section 3.14.2.2.2
        self.drop(client)

    def subscribe(self, client: str, topic_filter: str, options: Options) -> None:
        session = self.sessions[client]
        is_new = topic_filter not in session.subscriptions
        session.subscriptions[topic_filter] = options  # [MQTT-3.8.4-3]
        handling = options.retain_handling
        if topic_filter == GROUP or handling == 2 or (handling == 1 and not is_new):
            return  # section 4.8.2, [MQTT-3.3.1-10], [MQTT-3.3.1-11]
        for message in self.retained.values():  # [MQTT-3.3.1-9]
            if matches(topic_filter, message.topic) and not message.has_expired(self.now):
                routed = self.routed(client, message)
                if routed is not None:
                    self.send(client, replace(routed, retain=True))

    def unsubscribe(self, client: str, topic_filter: str) -> bool:
        """Whether there was such a subscription."""
        existed = self.sessions[client].subscriptions.pop(topic_filter, None) is not None
        self.check_group()
        return existed

    def acknowledge(
        self,
        client: str,
        number: int,
        qos: int,
        identifiers: tuple[int, ...] | None,
        *,
        is_retained: bool,
        is_complete: bool,
        skipped: int = 0,
    ) -> None:
        """A client acknowledges a message, at QoS 2 perhaps with PUBREC alone.

        It may have another copy of it, as the member of the group, or as a retained message; `skipped`: so many copies
        that look like this one came before it, and wait. MQTT 3.1.1 does not tell `identifiers`.
        """
        session = self.sessions[client]
        copies = [
            message
            for message in session.unacknowledged
            if (message.number, message.qos) == (number, qos) and message.sent_on
        ]
        if copies:
            copies.sort(
                key=lambda copy: (copy.retain != is_retained, identifiers not in (None, copy.identifiers))
            )
            session.unacknowledged.remove(copies[min(skipped, len(copies) - 1)])
            session.released += not is_complete

    def publish(self, message: Message, payload: bool = True) -> None:
        group = GROUP.split("/", 2)[2]
        if payload and self.members() and matches(group, message.topic):
            self.pool[message.number] = message
        if message.retain:
            self.retained.pop(message.topic, None)
            if payload:  # [MQTT-3.3.1-6]
                self.retained[message.topic] = message
        if not payload:
            message = replace(message, number=EMPTY)
        for client in self.sessions:
            routed = self.routed(client, message)
            if routed is not None:
                self.send(client, routed)

    # --- what follows from it -------------------------------------------------------------------------------

    def routed(self, client: str, message: Message) -> Message | None:
        """The message as one client gets it because of all its subscriptions together."""
        own = [
            options
            for topic_filter, options in self.sessions[client].subscriptions.items()
            if topic_filter != GROUP
            and matches(topic_filter, message.topic)
            and not (options.no_local and message.publisher == client)  # [MQTT-3.8.3-3]
        ]
        if not own:
            return None
        return replace(
            message,
            qos=min(message.qos, max(options.qos for options in own)),  # [MQTT-3.3.4-2], [MQTT-3.8.4-8]
            # [MQTT-3.3.1-12], [MQTT-3.3.1-13]
            retain=message.retain and any(options.retain_as_published for options in own),
            # [MQTT-3.3.4-3], [MQTT-3.3.4-4]
            identifiers=tuple(sorted(options.identifier for options in own if options.identifier)),
        )

    def send(self, client: str, message: Message) -> None:
        session = self.sessions[client]
        if session.is_connected and session.window is None:
            self.due[client].append(message)
            if message.qos and session.is_mute:
                session.unacknowledged.append(replace(message, sent_on=session.connection))
        else:
            session.unacknowledged.append(message)

    def end(self, client: str) -> None:
        session = self.sessions.pop(client)
        for message in session.unacknowledged:
            if (
                message.sent_on
                and message.shared is not None
                and message.qos == 1
                and message.number not in self.pool
            ):
                self.pool[message.number] = message.shared
                self.spare.add(message.number)
        self.check_group()
        if session.will is not None:
            self.publish(session.will.message)

    def advance(self, now: float) -> None:
        """Time passes: wills are sent and sessions end, in the order in which they are due."""
        while True:
            due = [
                (at, client)
                for client, session in self.sessions.items()
                for at in (session.will_at, session.ends_at)
                if at is not None and at <= now
            ]
            if not due:
                break
            at, client = min(due)
            self.now = max(self.now, at)
            session = self.sessions[client]
            if session.ends_at is not None and session.ends_at <= at:
                self.end(client)
            else:
                will, session.will, session.will_at = session.will, None, None
                assert will is not None
                self.publish(will.message)
        self.now = now

    def deadlines(self) -> list[float]:
        """When something happens by itself."""
        pairs = ((session.will_at, session.ends_at) for session in self.sessions.values())
        found = [at for pair in pairs for at in pair if at is not None]
        kept = [*self.retained.values(), *self.pool.values()]
        kept += [message for session in self.sessions.values() for message in session.unacknowledged]
        return found + [m.expires_at for m in kept if m.expires_at is not None and m.expires_at > self.now]

    def members(self) -> list[str]:
        return [client for client, session in self.sessions.items() if GROUP in session.subscriptions]

    def check_group(self) -> None:
        if not self.members():
            self.pool.clear()


def matches(topic_filter: str, topic: str) -> bool:
    return topic_matches(parse_topic_filter(topic_filter), topic)
