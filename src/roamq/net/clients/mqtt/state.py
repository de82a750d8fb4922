"""The session as a value: what outlives a connection and travels with the client's context to another broker.

Plain data and nothing else (docs/decisions/0051): msgspec turns it into bytes and back. The events
themselves are the context's; the session only remembers which of them are under way, by which packet id.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from roamq.core.events import BrokerId, ClientId, EventId, Seconds
from roamq.net.clients.mqtt.codec import Will
from roamq.net.clients.mqtt.limits import NEVER

RETAINED: Final = BrokerId("$retained")
"""The origin of retained messages replayed to a new subscription: they count on a line of their own, so
that they never disturb the read position of the broker where they were published."""


SESSION_BYTES: Final = 1700
"""What a session costs of the memory, without what is in it. `python -m benchmarks memory` compares all of these."""
SUBSCRIPTION_BYTES: Final = 1600
LEVEL_BYTES: Final = 16
"""A level of a topic filter: its place in the filter and in the indexes."""
LEVEL_TEXT_BYTES: Final = 60
"""The text of a level, without its characters."""
WILL_BYTES: Final = 400


def will_bytes(will: Will | None) -> int:
    """What a will costs of the memory."""
    return 0 if will is None else WILL_BYTES + len(will.payload) + 2 * len(will.topic)


class Subscription(msgspec.Struct, frozen=True, gc=False):
    """A topic filter as granted, with its options (section 3.8.3.1)."""

    topic_filter: str
    """As the client wrote it, `$share/...` included."""
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    identifier: int = 0
    """The subscription identifier; zero for none."""
    selector: str | None = None
    """The content filter, from the user property `filter`."""

    @property
    def cost_bytes(self) -> int:
        """What it costs of the memory, within a factor of two: here, in the broker's context and in both indexes."""
        characters, selector = len(self.topic_filter), self.selector
        levels = self.topic_filter.count("/") + 1
        # Python has one object for all texts of one character. The others: as many as there are characters beyond.
        own = characters + 1 - 2 * levels
        own = 0 if own < 0 else levels if own > levels else own
        texts = 2 * characters + (12 * len(selector) if selector else 0)
        return SUBSCRIPTION_BYTES + texts + LEVEL_BYTES * levels + LEVEL_TEXT_BYTES * own


class InFlight(msgspec.Struct, gc=False):
    """An event that was sent at QoS 1 or 2 and is not done with."""

    event_id: EventId
    qos: int
    released: bool = False
    """QoS 2: PUBREC has come; from now on only PUBREL is sent ([MQTT-4.3.3-6])."""
    retain: bool = False
    """The RETAIN flag it was sent with. What is sent again is the same packet, whatever the client asks for since."""
    identifiers: tuple[int, ...] = ()
    """The subscription identifiers it was sent with."""
    is_shared: bool = False
    """Whether it was sent to the client as the member of a shared group."""


NO_IDS: Final = set[int]()
"""What sessions share that have received nothing at QoS 2: an empty set takes 216 bytes. Nobody adds to it."""
NOTHING_EARLY: Final = dict[BrokerId, dict[int, None]]()
"""Likewise, of clients that got nothing before older events."""


class SessionState(msgspec.Struct, kw_only=True):
    """Section 4.1: all that the server knows of a client beyond the connection."""

    client_id: ClientId
    owner: str | None = None
    """The user who began the session, and who alone may go on with it; None: a client that gave no user name."""
    claims: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What the last login said of the owner beside the name (`Claims`): rules ask for it when nobody is connected."""
    client_class: str = ""
    """The class of clients that the last CONNECT was of: it says under which scheme the session is kept."""
    expiry_interval: int = 0
    subscriptions: dict[str, Subscription] = {}
    subscription_bytes: int = 0
    """What all subscriptions cost."""
    outbound: dict[int, InFlight] = {}
    """Packet id -> event, in the order in which they were first sent."""
    inbound: set[int] = msgspec.field(default_factory=lambda: NO_IDS)
    """Packet ids of QoS 2 messages received and not yet released by the client."""
    last_packet_id: int = 0
    will: Will | None = None
    will_at: Seconds | None = None
    """When the will is due; set while nobody is connected."""
    expires_at: Seconds | None = None
    """When the session ends; set while nobody is connected."""
    replays: int = 0
    """How many retained messages were replayed: the last sequence of the origin `RETAINED`."""

    sent_early: dict[BrokerId, dict[int, None]] = msgspec.field(default_factory=lambda: NOTHING_EARLY)
    """Events that the client got before older ones, by origin: it must not get them again when the older ones come."""
    is_provisional: bool = False
    """Whether an earlier session may still be on its way here, for which the client was not made to wait."""

    @property
    def cost_bytes(self) -> int:
        """What the session costs of the memory, within a factor of two; stored events are charged apart."""
        return SESSION_BYTES + self.subscription_bytes + will_bytes(self.will)

    @property
    def is_unused(self) -> bool:
        """Is this a provisional session that nothing happened in? Perhaps the client has not even heard of it."""
        return self.is_provisional and not self.subscriptions and not self.sent_early

    def join(self, earlier: "SessionState") -> None:
        """The earlier session of the client has come: from now on the two are one.

        A client that was told of this one takes any packet id; one that never heard of it goes by the earlier's.
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
        """The client got this event before older ones."""
        self._early_of(event_id[0])[event_id[1]] = None

    def _early_of(self, origin: BrokerId) -> dict[int, None]:
        """What the client got of an origin before older events, to be added to."""
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
        """The connection is gone: from now on the will's delay and the session's expiry run."""
        # [MQTT-4.1.0-2]
        self.expires_at = None if self.expiry_interval == NEVER else now + self.expiry_interval
        if self.will is not None:
            delay = self.will.properties.will_delay_interval or 0
            # [MQTT-3.1.2-8] the delay, or the end of the session, whichever comes first
            self.will_at = now + min(delay, self.expiry_interval)

    def connected(self, will: Will | None, expiry_interval: int) -> None:
        """A connection took the session up: its will replaces the last, which is not sent
        ([MQTT-3.1.3-9])."""
        self.will = will
        self.expiry_interval = expiry_interval
        self.will_at = None
        self.expires_at = None

    def take_will(self, now: Seconds) -> Will | None:
        """The will, if it is due; it is given once ([MQTT-3.1.2-10])."""
        if self.will is None or self.will_at is None or now < self.will_at:
            return None
        will, self.will, self.will_at = self.will, None, None
        return will

    def end(self) -> Will | None:
        """The session ends now, by expiry or because the client started anew: its will, if one is left."""
        will, self.will, self.will_at = self.will, None, None
        return will

    def expired(self, now: Seconds) -> bool:
        return self.expires_at is not None and now >= self.expires_at

    def deadline(self) -> Seconds | None:
        """When the machine has to look again: the will or the expiry, whichever comes first."""
        due: Iterable[Seconds] = [at for at in (self.will_at, self.expires_at) if at is not None]
        return min(due, default=None)


def merged(held: SessionState, arrived: SessionState) -> SessionState:
    """The session of a client for whom a broker holds one and another has come.

    What came replaces what is held, unless one of the two began while the other was on its way: then they join.
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
    """The session as bytes, for a link or a database."""
    return _ENCODER.encode(state)


def load(data: bytes) -> SessionState:
    return _DECODER.decode(data)
