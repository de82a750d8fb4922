"""Whatever a client sends, a connection answers with packets and `Closed`; it raises nothing."""

from hypothesis import given, settings
from hypothesis import strategies as st

from roamq.net.mqtt.codec import (
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
from roamq.net.mqtt.inputs import AuthenticationStep, Closed, ConnectRequested, Input
from roamq.net.mqtt.limits import Limits
from roamq.net.mqtt.session import Phase, ServerConnection
from tests.net.mqtt.peer import NOW, event
from tests.net.mqtt.strategies import connects, packets, versions


def agreeable_shell(connection: ServerConnection, inputs: list[Input], state: list[int]) -> None:
    """Says yes to everything, and delivers an event to the topic of each message while the window is open."""
    for one in inputs:
        match one:
            case ConnectRequested():
                agreeable_shell(connection, connection.accept(None, NOW), state)
            case Publish():
                connection.published(one)
                if connection.phase is Phase.OPEN and connection.outbound.quota:
                    state[0] += 1
                    connection.deliver(event(state[0], one.topic, one.payload, one.qos), NOW)
            case Subscribe():
                examined = connection.examine(one)
                connection.subscribed(examined, [ReasonCode(w.subscription.qos) for w in examined.wanted])
            case Unsubscribe():
                connection.unsubscribe(one)
            case AuthenticationStep(again=True) if connection.phase is Phase.OPEN:
                connection.reauthenticated()
            case _:
                pass


def drive(version: Version, reads: list[bytes], limits: Limits) -> list[Input]:
    connection = ServerConnection(limits, lambda: "assigned")
    decoder = Decoder(version)
    seen: list[Input] = []
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
    authentication_methods=st.just(frozenset({"m"})),
)


@settings(max_examples=120, deadline=None)
@given(st.data(), versions, LIMITS)
def test_any_packets_in_any_order(data: st.DataObject, version: Version, limits: Limits) -> None:
    connect = data.draw(connects(version).filter(lambda c: c.properties.authentication_method in (None, "m")))
    sent: list[Packet] = [connect, *data.draw(st.lists(packets(version), max_size=12))]
    inputs = drive(version, [encode(packet, version) for packet in sent], limits)
    assert sum(isinstance(one, Closed) for one in inputs) <= 1


@settings(max_examples=100, deadline=None)
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
