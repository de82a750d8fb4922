"""A client on the other end of a `ServerConnection`, and a shell that says yes to everything."""

from itertools import count

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients.mqtt.codec import (
    Connack,
    Connect,
    Decoder,
    Packet,
    Properties,
    Publish,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.clients.mqtt.inputs import ClientInput
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ServerConnection
from roamq.net.clients.mqtt.state import SessionState

NOW = 1000.0
ORIGIN = BrokerId("b1")


class Peer:
    """Sends packets to a connection and reads its answers."""

    def __init__(self, version: Version = Version.V5, limits: Limits | None = None) -> None:
        names = count(1)
        self.version = version
        self.connection = ServerConnection(limits or Limits(), lambda: f"assigned-{next(names)}")
        self.now = NOW
        self._decoder = Decoder(version)

    def send(self, *packets: Packet) -> list[ClientInput]:
        data = b"".join(encode(packet, self.version) for packet in packets)
        return self.connection.receive(data, self.now)

    def received(self) -> list[Packet]:
        return self._decoder.feed(b"".join(self.connection.take_output()))

    def published(self) -> list[Publish]:
        return [packet for packet in self.received() if isinstance(packet, Publish)]

    def open(
        self, connect: Connect | None = None, state: SessionState | None = None
    ) -> tuple[Connack, list[Packet]]:
        """Connect and be let in: the CONNACK, and what came after it."""
        if connect is None:
            connect = Connect(version=self.version, client_id="c", clean_start=state is None)
        self.send(connect)
        self.connection.accept(state, self.now)
        first, *rest = self.received()
        assert isinstance(first, Connack)
        return first, rest

    def subscribe(
        self, topic_filter: str, qos: int = 2, properties: Properties | None = None, **options: int
    ) -> None:
        """Subscribe, granted as asked."""
        request = SubscriptionRequest(topic_filter, qos, **options)  # type: ignore[arg-type]
        self.grant(Subscribe(1, (request,), properties or Properties()))
        self.received()

    def grant(self, packet: Subscribe) -> None:
        (wanted,) = self.send(packet)
        assert isinstance(wanted, Subscribe)
        examined = self.connection.examine(wanted)
        reasons = [ReasonCode(one.subscription.qos) for one in examined.wanted]
        self.connection.subscribed(examined, reasons)


def event(sequence: int = 1, topic: str = "t", payload: bytes = b"", qos: int = 1, **rest: object) -> Event:
    id_ = EventId(ORIGIN, sequence)
    publisher = ClientId("p")
    fields = {"id": id_, "publisher": publisher, **rest}
    return Event(topic=topic, payload=payload, qos=qos, **fields)  # type: ignore[arg-type]
