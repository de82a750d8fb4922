"""The session as a value: what outlives a connection and travels with the client's context to another broker.

Plain data and nothing else (docs/decisions/0051): msgspec turns it into bytes and back. The events
themselves are the context's; the session only remembers which of them are under way, by which packet id.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from roamq.core.events import BrokerId, ClientId, EventId, Seconds
from roamq.net.mqtt.codec import Will
from roamq.net.mqtt.limits import NEVER

RETAINED: Final = BrokerId("$retained")
"""The origin of retained messages replayed to a new subscription: they count on a line of their own, so
that they never disturb the read position of the broker where they were published."""


class Subscription(msgspec.Struct, frozen=True):
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


class InFlight(msgspec.Struct, gc=False):
    """An event that was sent at QoS 1 or 2 and is not done with."""

    event_id: EventId
    qos: int
    released: bool = False
    """QoS 2: PUBREC has come; from now on only PUBREL is sent ([MQTT-4.3.3-6])."""


class SessionState(msgspec.Struct, kw_only=True):
    """Section 4.1: all that the server knows of a client beyond the connection."""

    client_id: ClientId
    expiry_interval: int = 0
    subscriptions: dict[str, Subscription] = {}
    outbound: dict[int, InFlight] = {}
    """Packet id -> event, in the order in which they were first sent."""
    inbound: set[int] = set()
    """Packet ids of QoS 2 messages received and not yet released by the client."""
    last_packet_id: int = 0
    will: Will | None = None
    will_at: Seconds | None = None
    """When the will is due; set while nobody is connected."""
    expires_at: Seconds | None = None
    """When the session ends; set while nobody is connected."""
    replays: int = 0
    """How many retained messages were replayed: the last sequence of the origin `RETAINED`."""

    had: dict[BrokerId, dict[int, None]] = {}
    """What the client got ahead of older events, by origin: it must not get it again when those come."""
    begun_anew: bool = False
    """Whether an earlier session may still be on its way here, for which the client was not made to wait."""

    @property
    def is_void(self) -> bool:
        """Begun anew and never used: perhaps the client has not even heard of it."""
        return self.begun_anew and not self.subscriptions and not self.had

    def join(self, earlier: "SessionState") -> None:
        """The other half of the session has come: from now on there is one.

        Who was told of the new one takes any packet id; who never heard of it goes by those of the earlier.
        """
        self.subscriptions = {**earlier.subscriptions, **self.subscriptions}
        self.outbound = {**earlier.outbound, **self.outbound}
        for origin, sequences in earlier.had.items():
            self.had.setdefault(origin, {}).update(sequences)
        self.last_packet_id = max(self.last_packet_id, earlier.last_packet_id)
        self.replays = max(self.replays, earlier.replays)
        self.begun_anew = self.begun_anew and earlier.begun_anew

    def got_ahead(self, event_id: EventId) -> None:
        self.had.setdefault(event_id[0], {})[event_id[1]] = None

    def has_had(self, event_id: EventId) -> bool:
        """Whether the client got this event ahead of its time; asked once, when that time has come."""
        sequences = self.had.get(event_id[0], {})
        if event_id[1] not in sequences:
            return False
        del sequences[event_id[1]]
        if not sequences:
            del self.had[event_id[0]]
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
        """When the shell has to look again: the will or the expiry, whichever comes first."""
        due: Iterable[Seconds] = [at for at in (self.will_at, self.expires_at) if at is not None]
        return min(due, default=None)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(SessionState)


def dump(state: SessionState) -> bytes:
    """The session as bytes, for a link or a database."""
    return _ENCODER.encode(state)


def load(data: bytes) -> SessionState:
    return _DECODER.decode(data)
