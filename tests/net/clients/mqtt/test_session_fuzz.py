"""Whatever a client sends, a connection answers with packets and `Closed`; it raises nothing."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.net.clients.mqtt.codec import (
    Connect,
    Decoder,
    Packet,
    Publish,
    ReasonCode,
    Subscribe,
    Unsubscribe,
    Version,
    encode,
)
from roamq.net.clients.mqtt.inputs import ClientInput, Closed, ConnectRequested
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from tests.net.clients.mqtt.peer import NOW, event
from tests.net.clients.mqtt.strategies import connects, packets, versions


def agreeable_shell(connection: ServerConnection, inputs: list[ClientInput], state: list[int]) -> None:
    """Says yes to everything, and delivers an event to the topic of each message while the window is open."""
    for one in inputs:
        match one:
            case ConnectRequested():
                agreeable_shell(connection, connection.accept(None, NOW), state)
            case Publish():
                connection.published(one)
                if connection.phase is ConnectionPhase.OPEN and connection.outbound.quota:
                    state[0] += 1
                    connection.deliver(event(state[0], one.topic, one.payload, one.qos), NOW)
            case Subscribe():
                examined = connection.examine(one)
                connection.subscribed(examined, [ReasonCode(w.subscription.qos) for w in examined.wanted])
            case Unsubscribe():
                connection.unsubscribe(one)
            case _:
                pass


def drive(version: Version, reads: list[bytes], limits: Limits) -> list[ClientInput]:
    connection = ServerConnection(limits, lambda: "assigned")
    decoder = Decoder(version)
    seen: list[ClientInput] = []
    state = [0]
    for data in reads:
        inputs = connection.receive(data, NOW)
        seen += inputs
        agreeable_shell(connection, inputs, state)
        decoder.feed(b"".join(connection.take_output()))  # raises if we send what is malformed
    connection.lost(NOW)
    return seen


LIMITS = st.builds(
    Limits,
    receive_maximum=st.sampled_from([1, 5, 65535]),
    maximum_packet_size=st.sampled_from([60, 1000, 268_435_460]),
    topic_alias_maximum=st.sampled_from([0, 3, 65535]),
    maximum_qos=st.sampled_from([0, 1, 2]),
    retain_available=st.booleans(),
    shared_subscription_available=st.booleans(),
)


@given(st.data(), versions, LIMITS)
def test_any_packets_in_any_order(data: st.DataObject, version: Version, limits: Limits) -> None:
    connect = data.draw(connects(version).filter(lambda c: c.properties.authentication_method is None))
    sent: list[Packet] = [connect, *data.draw(st.lists(packets(version), max_size=12))]
    inputs = drive(version, [encode(packet, version) for packet in sent], limits)
    assert sum(isinstance(one, Closed) for one in inputs) <= 1


@given(versions, st.binary(max_size=80))
def test_any_bytes_after_connect(version: Version, data: bytes) -> None:
    hello = encode(Connect(version=version, client_id="c"), version)
    drive(version, [hello, data], Limits())


@given(st.lists(st.binary(max_size=40), max_size=3))
def test_any_bytes_at_all(reads: list[bytes]) -> None:
    connection = ServerConnection(Limits(), lambda: "assigned")
    for data in reads:
        agreeable_shell(connection, connection.receive(data, NOW), [0])
    connection.lost(NOW)
