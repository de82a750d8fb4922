"""An MQTT client without I/O, for field tests and for tests of the broker: it keeps its state across connections.

It does what the standard asks of a client: keeps unfinished publications and received QoS 2 packet ids, resumes with
DUP set, acknowledges at once. Bytes in, bytes out; the program that uses it owns the socket.
"""

from collections.abc import Callable
from typing import NamedTuple

from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    Connack,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)

FOREVER = 0xFFFF_FFFF
PACKET_ID_MAX = 0xFFFF


class ReceivedMessage(NamedTuple):
    """A publication as the device got it; repetitions that QoS 2 filters out are not among them."""

    topic: str
    payload: bytes
    qos: int
    dup: bool


class Device:
    """One MQTT client across all of its connections."""

    def __init__(
        self,
        name: str,
        on_message: Callable[[ReceivedMessage], None],
        *,
        version: Version = Version.V5,
        shows_ticket: bool = False,
        user: str | None = None,
        will: Will | None = None,
    ) -> None:
        self.name = name
        self.user = user
        self.will = will
        self.version = version
        self.on_message = on_message
        self.shows_ticket = shows_ticket
        self.ticket = ""
        self.is_open = False
        self.present: list[bool] = []
        """The Session Present flag of each CONNACK."""
        self.refused: Connack | None = None
        self.closed_because: Disconnect | None = None
        self.subscriptions: list[tuple[SubscriptionRequest, str | None]] = []
        self._asked: dict[int, tuple[SubscriptionRequest, str | None]] = {}
        """Packet id -> a subscription that no SUBACK has confirmed on this connection."""
        self._confirmed: list[tuple[SubscriptionRequest, str | None]] = []
        self.unfinished: dict[int, tuple[Publish, bool]] = {}
        self._received: set[int] = set()
        self._packet_id = 0
        self._decoder = Decoder(version)
        self._output: list[bytes] = []

    # --- saying -------------------------------------------------------------------------------------------

    def connect(self, *, clean: bool = False, previous: str | None = None, cell: str | None = None) -> bytes:
        """The first bytes of a new connection. The device forgets a packet that the last connection left half-read."""
        self.is_open = False
        self.refused = self.closed_because = None
        self._decoder = Decoder(self.version)
        told = [("roamq-previous", previous)] if previous else []
        if cell:
            told.append(("roamq-cell", cell))
        if self.shows_ticket:
            told.append(("roamq-ticket", self.ticket))
        properties = NO_PROPERTIES
        if self.version is Version.V5:
            properties = Properties(session_expiry_interval=FOREVER, user_properties=tuple(told))
        self._say(
            Connect(
                version=self.version,
                client_id=self.name,
                clean_start=clean,
                properties=properties,
                user_name=self.user,
                will=self.will,
            )
        )
        return self.take()

    def lost(self) -> None:
        """The connection is lost: no packet is answered on it any more."""
        self.is_open = False
        self._asked.clear()

    @property
    def is_subscribed(self) -> bool:
        """Has a broker confirmed every subscription?"""
        return all(subscription in self._confirmed for subscription in self.subscriptions)

    def subscribe(self, topic_filter: str, qos: int, selector: str | None = None) -> bytes:
        self.subscriptions.append((SubscriptionRequest(topic_filter, qos), selector))
        if self.is_open:
            self._subscribe(*self.subscriptions[-1])
        return self.take()

    def publish(
        self,
        topic: str,
        payload: bytes,
        qos: int,
        *,
        retain: bool = False,
        properties: Properties = NO_PROPERTIES,
    ) -> bytes:
        packet_id = self._next_packet_id() if qos else 0
        packet = Publish(topic, payload, qos, retain, packet_id=packet_id, properties=properties)
        if qos:
            self.unfinished[packet_id] = (packet, False)
        if self.is_open:
            self._say(packet)
        return self.take()

    def take(self) -> bytes:
        output, self._output = self._output, []
        return b"".join(output)

    # --- hearing ------------------------------------------------------------------------------------------

    def hear(self, data: bytes) -> bytes:
        """Take bytes that came from the broker, and return the answer to them."""
        for packet in self._decoder.feed(data):
            self._handle(packet)
        return self.take()

    def _handle(self, packet: Packet) -> None:
        match packet:
            case Publish():
                self._take_message(packet)
            case Pubrel():
                self._received.discard(packet.packet_id)
                self._say(Pubcomp(packet.packet_id))
            case Pubrec():
                if packet.packet_id in self.unfinished:
                    self.unfinished[packet.packet_id] = (self.unfinished[packet.packet_id][0], True)
                self._say(Pubrel(packet.packet_id))
            case Puback() | Pubcomp():
                self.unfinished.pop(packet.packet_id, None)
            case Suback():
                if packet.packet_id in self._asked:
                    self._confirmed.append(self._asked.pop(packet.packet_id))
            case Connack():
                self._answered(packet)
            case Disconnect():
                self.closed_because = packet

    def _take_message(self, packet: Publish) -> None:
        known = packet.qos == 2 and packet.packet_id in self._received
        if not known:
            self.on_message(ReceivedMessage(packet.topic, packet.payload, packet.qos, packet.dup))
        if packet.qos == 2:
            self._received.add(packet.packet_id)
            self._say(Pubrec(packet.packet_id))
        elif packet.qos:
            self._say(Puback(packet.packet_id))

    def _answered(self, packet: Connack) -> None:
        if packet.reason.failed:
            self.refused = packet
            return
        self.is_open = True
        self.ticket = packet.properties.user_property("roamq-ticket") or ""
        self.present.append(packet.session_present)
        if not packet.session_present:
            self._received.clear()
            self._confirmed.clear()
        for subscription in self.subscriptions:
            if subscription not in self._confirmed:  # a session may be there without its subscriptions
                self._subscribe(*subscription)
        for packet_id, (publish, released) in self.unfinished.items():
            if released:
                self._say(Pubrel(packet_id))
            else:
                again = Publish(
                    publish.topic,
                    publish.payload,
                    publish.qos,
                    publish.retain,
                    True,
                    packet_id,
                    publish.properties,
                )
                self._say(again)

    def _subscribe(self, request: SubscriptionRequest, selector: str | None) -> None:
        properties = Properties(user_properties=(("filter", selector),)) if selector else NO_PROPERTIES
        packet_id = self._next_packet_id()
        self._asked[packet_id] = (request, selector)
        self._say(Subscribe(packet_id, (request,), properties))

    def _next_packet_id(self) -> int:
        self._packet_id = self._packet_id % PACKET_ID_MAX + 1
        while self._packet_id in self.unfinished:
            self._packet_id = self._packet_id % PACKET_ID_MAX + 1
        return self._packet_id

    def _say(self, packet: Packet) -> None:
        self._output.append(encode(packet, self.version))
