"""What a client may take of a live broker, and what it is told when it would take more."""

import msgspec
import pytest

from roamq.core.context import Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.records import Record
from roamq.net.clients.mqtt.codec import Connack, ReasonCode, Unsubscribe, Version, encode
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.ops.settings import Quotas
from tests.net.fleet import Fleet, FleetClient
from tests.support.live_world import settings

B1 = BrokerId("b1")


def refusal_of(client: FleetClient) -> Connack | None:
    return client.device.refused


def test_no_more_is_stored_for_one_session_than_its_quota() -> None:
    fleet = Fleet(1, "standard", quotas=Quotas(session_bytes_max=10_000, session_full="drop"))
    sleeper, other, publisher = fleet.client("sleeper"), fleet.client("other"), fleet.client("publisher")
    publisher.connect("b1")
    for client in (sleeper, other):
        client.connect("b1")
        client.subscribe("t", 1)
    fleet.settle()
    sleeper.vanish()
    fleet.settle()

    sent = [b"%02d" % number * 50 for number in range(50)]
    for payload in sent:
        publisher.publish("t", payload, 1)
        fleet.settle()
    stored = fleet.machines[B1].status().stored_bytes
    dropped = [record for record in fleet.records if record.kind == "dropped"]
    sleeper.connect("b1")
    fleet.settle()

    assert stored <= 10_000
    assert other.payloads() == sent, "nobody else is disturbed"
    kept = len(sleeper.payloads())
    assert 0 < kept < len(sent)
    assert sleeper.payloads() == sent[:kept], "what was stored first was promised first"
    assert [(record.client, record.detail) for record in dropped] == [("sleeper", "queue_full")] * (50 - kept)


def test_a_session_beyond_the_quota_is_refused_and_recorded() -> None:
    """Section 3.2.2.2: 0x97, Quota exceeded."""
    fleet = Fleet(2, "standard", quotas=Quotas(sessions_max=2))
    first, second, third = (fleet.client(name) for name in ("first", "second", "third"))
    for client in (first, second):
        client.connect("b1")
        fleet.settle()
    first.vanish()
    fleet.settle()

    third.may_be_refused = True
    third.connect("b1")
    fleet.settle()

    refused = refusal_of(third)
    assert refused is not None
    assert refused.reason is ReasonCode.QUOTA_EXCEEDED
    (record,) = (record for record in fleet.records if record.kind == "refused")
    assert record == Record("refused", record.time_s, "b1", "third", detail="sessions_max")
    first.connect("b1")
    second.connect("b1", clean=True)
    fleet.settle()
    assert first.present[-1] is True, "its session counts already"
    assert second.present[-1] is False, "the new session takes the place of the old one"
    third.connect("b2")
    fleet.settle()
    assert refusal_of(third) is None, "another broker has room"


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_session_that_moves_here_is_let_in_whatever_the_quota(scheme: str) -> None:
    fleet = Fleet(3, scheme, quotas=Quotas(sessions_max=1))
    here, mover = fleet.client("here"), fleet.client("mover")
    here.connect("b1")
    mover.connect("b2")
    fleet.settle()

    mover.connect("b1")
    fleet.settle()

    assert mover.present == [False, True]


def test_copies_that_wait_for_a_client_are_no_sessions() -> None:
    fleet = Fleet(4, "proactive", quotas=Quotas(sessions_max=1))
    elsewhere, here = fleet.client("elsewhere"), fleet.client("here")
    elsewhere.connect("b1")
    elsewhere.subscribe("t", 1)
    fleet.settle()
    elsewhere.connect("b2")  # b1 becomes a neighbor, and keeps a copy
    fleet.settle()

    here.connect("b1")
    fleet.settle()

    assert here.present == [False]


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("version", Version)
def test_what_cannot_be_stored_is_not_acknowledged_as_if_it_were(qos: int, version: Version) -> None:
    """The review's finding: with the store full, 5 of 10 QoS 2 messages were acknowledged with code 0, and lost."""
    fleet = Fleet(5, "standard", brokers=1, quotas=Quotas(store_bytes_max=8_000))
    sleeper, publisher = fleet.client("sleeper"), fleet.client("publisher", version)
    publisher.connect("b1")
    sleeper.connect("b1")
    sleeper.subscribe("t", 2)
    fleet.settle()
    sleeper.vanish()
    fleet.settle()

    acknowledged = []
    for number in range(20):
        payload = b"%03d" % number * 33
        if publisher.at is None or not publisher.device.is_open:
            break
        publisher.publish("t", payload, qos)
        fleet.settle()
        refused = [record for record in fleet.records if record.detail == "store_bytes_max"]
        if len(refused) == 0:
            acknowledged.append(payload)
    sleeper.connect("b1")
    fleet.settle()

    assert 5 < len(acknowledged) < 15
    assert sleeper.payloads()[: len(acknowledged)] == acknowledged
    assert [record for record in fleet.records if record.kind == "dropped"] == []
    assert [record.kind for record in fleet.records if record.detail == "store_bytes_max"]


@pytest.mark.parametrize("version", Version)
def test_what_a_subscriber_has_no_room_for_is_refused(version: Version) -> None:
    """The other subscriber does not get it either; what was acknowledged reaches both, and there is room again."""
    fleet = Fleet(6, "standard", brokers=1, quotas=Quotas(session_bytes_max=10_000))
    sleeper, other, publisher = (
        fleet.client("sleeper"),
        fleet.client("other"),
        fleet.client("publisher", version),
    )
    publisher.connect("b1")
    for client in (sleeper, other):
        client.connect("b1")
        client.subscribe("t", 1)
    fleet.settle()
    sleeper.vanish()
    fleet.settle()

    for number in range(50):
        if publisher.at is None or not publisher.device.is_open:
            publisher.connect("b1")
            fleet.settle()
        publisher.publish("t", b"%02d" % number * 50, 1)
        fleet.settle()
    refused = [record for record in fleet.records if record.detail == "session_bytes_max"]
    sleeper.connect("b1")
    fleet.settle()
    kept = len(sleeper.payloads())

    assert refused and all(record.kind == "refused" for record in refused)
    assert [record for record in fleet.records if record.kind == "dropped"] == []
    assert 5 < kept < 50
    assert sleeper.payloads()[:kept] == other.payloads()[:kept]
    if version is Version.V5:
        publisher.publish("t", b"again", 1)
        fleet.settle()
        assert sleeper.payloads()[-1] == other.payloads()[-1] == b"again"


@pytest.mark.parametrize("version", Version)
def test_what_follows_a_refusal_in_the_same_read_is_no_fault_of_the_broker(version: Version) -> None:
    """MQTT 3.1.1 has no word for it, so the connection is closed; what came with the refused message is not looked at.
    The broker took that for an internal error of its own."""
    fleet = Fleet(7, "standard", brokers=1, quotas=Quotas(session_bytes_max=10_000))
    sleeper, publisher = fleet.client("sleeper"), fleet.client("publisher", version)
    publisher.connect("b1")
    sleeper.connect("b1")
    sleeper.subscribe("t", 1)
    fleet.settle()
    sleeper.vanish()
    fleet.settle()

    for number in range(50):
        publisher.publish("t", b"%02d" % number * 50, 1)
    publisher.subscribe("t", 1)
    at_once = b"".join(publisher.up)
    publisher.up.clear()
    fleet.machines[BrokerId("b1")].received(publisher.number, at_once, fleet.clock(BrokerId("b1")))
    fleet.settle()

    refused = [record for record in fleet.records if record.detail == "session_bytes_max"]
    assert len(refused) == 1 if version is Version.V311 else len(refused) > 1


def test_one_publisher_fills_only_its_own_share() -> None:
    fleet = Fleet(
        7, "standard", brokers=1, quotas=Quotas(store_bytes_max=40_000, store_bytes_per_client_max=10_000)
    )
    sleeper, flood, honest = fleet.client("sleeper"), fleet.client("flood"), fleet.client("honest")
    for client in (sleeper, flood, honest):
        client.connect("b1")
    sleeper.subscribe("t", 1)
    fleet.settle()
    sleeper.vanish()
    fleet.settle()

    for number in range(50):
        flood.publish("t", b"%02d" % number * 50, 1)
        fleet.settle()
    refused = [record.client for record in fleet.records if record.detail == "store_bytes_max"]
    honest.publish("t", b"honest", 1)
    fleet.settle()
    sleeper.connect("b1")
    fleet.settle()

    assert set(refused) == {"flood"} and len(refused) > 30
    assert sleeper.payloads()[-1] == b"honest"
    assert fleet.machines[B1].broker.contexts.buffer._shares == {}, "what is read is given back"


def test_topic_filters_of_all_sessions_place_wildcards_in_so_many_ways_and_no_more() -> None:
    """What an event costs at a broker is bounded, however many clients subscribe to deep filters."""
    fleet = Fleet(1, "standard", quotas=Quotas(wildcard_shapes_max=2))
    deep = "/".join(["a", "+"] * 60)
    wishes = {"one": ["x/+", deep, "+/x", "y/+"], "two": ["y/+", "#", "t"]}
    clients = {name: fleet.client(name) for name in wishes}
    for name, topic_filters in wishes.items():
        clients[name].connect("b1")
        for topic_filter in topic_filters:
            clients[name].subscribe(topic_filter, 1)
            fleet.settle()

    contexts = fleet.machines[B1].broker.contexts
    granted = {name: {filter.topic for filter in contexts[ClientId(name)].filters} for name in wishes}
    assert granted == {"one": {"x/+", deep, "y/+"}, "two": {"y/+", "t"}}
    refused = [(record.client, record.detail) for record in fleet.records if record.kind == "refused"]
    assert refused == [("one", "wildcard_shapes_max"), ("two", "wildcard_shapes_max")]
    leaving = encode(Unsubscribe(9, (deep,)), Version.V5)
    fleet.machines[B1].received(clients["one"].number, leaving, fleet.clock(B1))
    fleet.settle()
    clients["two"].subscribe("#", 1)
    fleet.settle()
    assert "#" in {filter.topic for filter in contexts[ClientId("two")].filters}, "the place is free again"


def test_quotas_that_an_operator_changed_hold_for_a_folder_that_was_there() -> None:
    """A broker that starts again with other quotas applies them, and so does one that reads its own snapshot."""
    at_first = settings("b1", 1, "standard")
    quotas = Quotas(
        session_bytes_max=1_000,
        session_full="drop",
        store_bytes_max=2_000,
        store_bytes_per_client_max=1_500,
        retained_max=1,
        sessions_max=3,
        sessions_bytes_max=4_000,
        outbox_bytes_max=5_000,
        wildcard_shapes_max=7,
    )
    live = LiveBroker(at_first, 1000.0)
    context = live.machine.broker.contexts.open(ClientId("c"), Epoch(1000.0, B1), Mode.ACTIVE)
    changed = msgspec.structs.replace(at_first, quotas=quotas)
    assert live.apply((int(InputKind.SETTINGS), 1001.0, msgspec.msgpack.encode(changed))) is None

    assert context.limit_bytes == 1_000
    for broker in (live, snapshot.load(snapshot.dump(live))):
        machine = broker.machine
        buffer, kept = machine.broker.contexts.buffer, machine.broker.contexts
        assert (buffer.limit_bytes, buffer.share_bytes, kept.room.queue_bytes) == (2_000, 1_500, 1_000)
        assert [held.limit_bytes for held in kept.values()] == [1_000]
        assert (machine.quota.sessions_max, machine.quota.bytes_max) == (3, 4_000)
        assert machine.outboxes.bytes_max == 5_000
        assert machine.quota.shapes_max == 7
        assert machine.requests.refuses_full is False
        for number in range(2):
            machine.retained.observe(
                Event(
                    id=EventId(B1, number + 1),
                    topic=f"t/{number}",
                    payload=b"x",
                    published_at=1.0,
                    retain=True,
                )
            )
        assert (len(machine.retained), machine.retained.refused) == (1, 1)
