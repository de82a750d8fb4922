"""The short way at QoS 0: taken only where every receiver of a version gets the same bytes."""

from collections.abc import Callable

import pytest

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients.access import Access
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.attributes import event_of
from roamq.net.clients.mqtt.codec import Connect, Decoder, Properties, Publish, Version, encode
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.session import ServerConnection
from roamq.net.clients.mqtt.state import Subscription
from roamq.net.host import LiveHost
from roamq.net.links.outboxes import Outboxes
from roamq.net.ops.settings import AccessRules


def connected(
    properties: Properties | None = None, version: Version = Version.V5, qos: int = 1
) -> ServerConnection:
    connection = ServerConnection(Limits(), lambda: "unnamed")
    connect = Connect(version=version, client_id="c", properties=properties or Properties())
    connection.receive(encode(connect, version), 0.0)
    connection.accept(None, 0.0)
    connection.subscriptions.add(Subscription("t", qos=qos))
    connection.take_output()
    return connection


def at_once(connection: ServerConnection, said: Event) -> bool:
    """Whether the event goes to the client by the short way."""
    connections = Connections()
    client = Connection(1, connection, "mqtt", "127.0.0.1:1")
    client.client = ClientId("c")
    connections.assign(client.client, client)
    host = LiveHost(BrokerId("b1"), connections, Outboxes((), 0, 0), Access(AccessRules()), 1.0)
    is_sent = host.deliver_at_once(client.client, said)
    assert list(host.out.dirty.values()) == ([connection] if is_sent else [])
    assert [record.kind for record in host.out.records] == (["delivered"] if is_sent else [])
    return is_sent


def event(qos: int = 0, retain: bool = False, version: Version = Version.V5) -> Event:
    """As it comes from a socket, its bytes along."""
    sent = Publish("t", b"hello", qos, retain=retain, packet_id=7 if qos else 0)
    (packet,) = Decoder(version).feed(encode(sent, version))
    assert isinstance(packet, Publish)
    return event_of(packet, version, EventId(BrokerId("b1"), 1), ClientId("p"), 0.0)


def test_bytes_are_forwarded_once_the_route_is_known() -> None:
    connection, said = connected(), event()
    assert not at_once(connection, said), "nobody has looked for the route yet"
    assert connection.deliver(said, 0.0) is DeliveryOutcome.DONE
    first = connection.take_output()
    assert at_once(connection, said)
    assert connection.take_output() == first


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: (connected(), event(qos=1)), "QoS 1 is to be acknowledged"),
        (lambda: (connected(), event(retain=True)), "RETAIN depends on the subscription"),
        (lambda: (connected(Properties(maximum_packet_size=100)), event()), "the client takes only so much"),
        (lambda: (connected(Properties(topic_alias_maximum=5)), event()), "aliases are the connection's"),
    ],
)
def test_what_is_not_that_simple_takes_the_long_way(
    make: Callable[[], tuple[ServerConnection, Event]], why: str
) -> None:
    connection, said = make()
    connection.subscriptions.route(said)
    assert not at_once(connection, said), why
    assert connection.take_output() == []


def test_the_first_receiver_of_a_version_has_the_message_encoded() -> None:
    """As with an event that came over a link. The long way counts what one input sends to a client, and the first of
    twenty receivers had to rest while the others got everything."""
    connection, said = connected(version=Version.V311), event()
    connection.subscriptions.route(said)

    assert at_once(connection, said)

    assert connection.take_output() == [encode(Publish("t", b"hello"), Version.V311)]


def test_qos_1_to_a_subscription_at_qos_0_needs_no_acknowledgement() -> None:
    connection, said = connected(qos=0), event(qos=1)
    assert connection.deliver(said, 0.0) is DeliveryOutcome.DONE
    first = connection.take_output()
    assert at_once(connection, said)
    assert connection.take_output() == first
