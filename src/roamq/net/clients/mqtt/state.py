"""The session as a value: it outlives a connection and travels with the client's context to another broker.

The session is plain data (docs/decisions/0051): msgspec turns it into bytes and back. The context holds the events; the
session only notes which of them are under way, by which packet id.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from roamq.core.events import BrokerId, ClientId, EventId, Seconds
from roamq.net.clients.mqtt.codec import Will
from roamq.net.clients.mqtt.limits import NEVER

RETAINED: Final = BrokerId("$retained")
"""The origin of retained messages that are replayed to a new subscription. They have sequences of their own, so that
they never disturb the read position of the broker where they were published."""


SESSION_BYTES: Final = 1700
"""Bytes of memory that an empty session takes. `python -m benchmarks memory` compares all these numbers."""
SUBSCRIPTION_BYTES: Final = 1600
LEVEL_BYTES: Final = 16
"""A level of a topic filter: its place in the filter and in the indexes."""
LEVEL_TEXT_BYTES: Final = 60
"""The text of a level, without its characters."""
WILL_BYTES: Final = 400


def will_bytes(will: Will | None) -> int:
    """Bytes of memory that a will takes."""
    return 0 if will is None else WILL_BYTES + len(will.payload) + 2 * len(will.topic)


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """A granted topic filter with its options (section 3.8.3.1)."""

    topic_filter: str
    """The topic filter as the client wrote it, with `$share/...`."""
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """The subscription identifier; zero for none."""
    selector: str | None = None
    """The content filter, from the user property `filter`."""

    @property
    def cost_bytes(self) -> int:
        """Bytes of memory that the subscription takes, within a factor of two: here, in the context and in both
        indexes."""
        characters, selector = len(self.topic_filter), self.selector
        levels = self.topic_filter.count("/") + 1
        # Python shares texts of one character. Longer levels: at most one per character beyond one character a level.
        own = characters + 1 - 2 * levels
        own = 0 if own < 0 else levels if own > levels else own
        texts = 2 * characters + (12 * len(selector) if selector else 0)
        return SUBSCRIPTION_BYTES + texts + LEVEL_BYTES * levels + LEVEL_TEXT_BYTES * own


class InFlight(msgspec.Struct, gc=False):
    """An event that was sent at QoS 1 or 2 and whose exchange is not over."""

    event_id: EventId
    qos: int
    released: bool = False
    """QoS 2: PUBREC has come; from now on only PUBREL is sent ([MQTT-4.3.3-6])."""
    retain: bool = False
    """The RETAIN flag of the first delivery. A redelivery is the same packet, whatever the client subscribed to
    since."""
    identifiers: tuple[int, ...] = ()
    """The subscription identifiers of the first delivery."""
    is_shared: bool = False
    """Whether the event was sent to the client as a member of a shared group."""


NO_IDS: Final = set[int]()
"""The set of all sessions that have received nothing at QoS 2: an empty set takes 216 bytes. Nobody adds to it."""
NOTHING_EARLY: Final = dict[BrokerId, dict[int, None]]()
"""The table of all clients that got no events before older ones. Nobody adds to it."""


class SessionState(msgspec.Struct, kw_only=True):
    """Section 4.1: everything that the server knows of a client beyond the connection."""

    client_id: ClientId
    owner: str | None = None
    """The user who began the session, and who alone may continue it; None if the client gave no user name."""
    claims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """The values that the last login stated about the owner beside the name (`Claims`): rules use them when nobody is
    connected."""
    client_class: str = ""
    """The class of clients of the last CONNECT: it decides under which scheme the session is kept."""
    expiry_interval: int = 0
    subscriptions: dict[str, Subscription] = {}
    subscription_bytes: int = 0
    """Bytes of memory that all subscriptions take."""
    outbound: dict[int, InFlight] = {}
    """Packet id -> event, in the order of the first deliveries."""
    inbound: set[int] = msgspec.field(default_factory=lambda: NO_IDS)
    """Packet ids of QoS 2 messages that the broker has received and the client has not released."""
    last_packet_id: int = 0
    will: Will | None = None
    will_at: Seconds | None = None
    """The time when the will is due; set while nobody is connected."""
    expires_at: Seconds | None = None
    """The time when the session ends; set while nobody is connected."""
    replays: int = 0
    """How many retained messages were replayed: the last sequence of the origin `RETAINED`."""

    sent_early: dict[BrokerId, dict[int, None]] = msgspec.field(default_factory=lambda: NOTHING_EARLY)
    """Origin -> sequences of events that the client got before older ones: it must not get them again in their turn."""
    is_provisional: bool = False
    """Whether an earlier session, for which the client was not made to wait, may still be on its way here."""

    @property
    def cost_bytes(self) -> int:
        """Bytes of memory that the session takes, within a factor of two; stored events are charged apart."""
        return SESSION_BYTES + self.subscription_bytes + will_bytes(self.will)

    @property
    def is_unused(self) -> bool:
        """Is this a provisional session in which nothing has happened? Perhaps the client has not even heard of it."""
        return self.is_provisional and not self.subscriptions and not self.sent_early

    def join(self, earlier: "SessionState") -> None:
        """Join the earlier session of the client, which has come: from now on the two are one.

        A client that was told of this session accepts any packet id; one that never heard of it goes by the earlier
        session's.
        """
        self.subscriptions = {**earlier.subscriptions, **self.subscriptions}
        self.subscription_bytes = sum(one.cost_bytes for one in self.subscriptions.values())
        self.outbound = {**earlier.outbound, **self.outbound}
        for origin, sequences in earlier.sent_early.items():
            self._early_of(origin).update(sequences)
        self.last_packet_id = max(self.last_packet_id, earlier.last_packet_id)
        self.replays = max(self.replays, earlier.replays)
        self.is_provisional = self.is_provisional and earlier.is_provisional

    def note_sent_early(self, event_id: EventId) -> None:
        """Note that the client got this event before older ones."""
        self._early_of(event_id[0])[event_id[1]] = None

    def _early_of(self, origin: BrokerId) -> dict[int, None]:
        """The sequences of an origin that the client got before older events; the caller may add to them."""
        if self.sent_early is NOTHING_EARLY:
            self.sent_early = {}
        return self.sent_early.setdefault(origin, {})

    def take_sent_early(self, event_id: EventId) -> bool:
        """Whether the client got this event before older ones. The event's turn has come: its note is removed."""
        sequences = self.sent_early.get(event_id[0], {})
        if event_id[1] not in sequences:
            return False
        del sequences[event_id[1]]
        if not sequences:
            del self.sent_early[event_id[0]]
        return True

    def next_replay_id(self) -> EventId:
        self.replays += 1
        return EventId(RETAINED, self.replays)

    def disconnected(self, now: Seconds) -> None:
        """Begin the will's delay and the session's expiry, because the connection is closed."""
        # [MQTT-4.1.0-2]
        self.expires_at = None if self.expiry_interval == NEVER else now + self.expiry_interval
        if self.will is not None:
            delay = self.will.properties.will_delay_interval or 0
            # [MQTT-3.1.2-8] the delay, or the end of the session, whichever comes first
            self.will_at = now + min(delay, self.expiry_interval)

    def connected(self, will: Will | None, expiry_interval: int) -> None:
        """Begin a connection: its will replaces the last one, which is not sent ([MQTT-3.1.3-9])."""
        self.will = will
        self.expiry_interval = expiry_interval
        self.will_at = None
        self.expires_at = None

    def take_will(self, now: Seconds) -> Will | None:
        """Take the will, if it is due; it is given once ([MQTT-3.1.2-10])."""
        if self.will is None or self.will_at is None or now < self.will_at:
            return None
        will, self.will, self.will_at = self.will, None, None
        return will

    def end(self) -> Will | None:
        """End the session, by expiry or because the client started anew. Return its will, if one is left."""
        will, self.will, self.will_at = self.will, None, None
        return will

    def expired(self, now: Seconds) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def deadline(self) -> Seconds | None:
        """The time when the machine has to look again: the will or the expiry, whichever comes first."""
        due: Iterable[Seconds] = [at for at in (self.will_at, self.expires_at) if at is not None]
        return min(due, default=None)


def merged(held: SessionState, arrived: SessionState) -> SessionState:
    """The session of a client for which a broker holds one session and another has come.

    The arrived session replaces the held one, unless one of the two began while the other was on its way: then they
    join.
    """
    if not held.is_provisional and not arrived.is_provisional:
        return arrived
    provisional, earlier = (held, arrived) if held.is_provisional else (arrived, held)
    if provisional.is_unused:
        return earlier
    provisional.join(earlier)
    return provisional


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(SessionState)


def dump(state: SessionState) -> bytes:
    """The session as bytes, for a link or a file."""
    return _ENCODER.encode(state)


def load(data: bytes) -> SessionState:
    return _DECODER.decode(data)
