"""A session or a store at another broker that has no room: what would go there is refused where it is published.

A PUBLISH of QoS 1 or 2 that was acknowledged reaches its subscribers, as long as the reserve takes what is on its way.
"""

import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Puback, Pubrec, ReasonCode
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import LiveBroker
from roamq.net.ops.settings import Quotas
from roamq.net.topics.fullness import LEASE_S
from tests.net.network import SCHEMES, Line, Network

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
SHARE = "$share/group/t"
BYTES = 400
"""Of a payload; an event costs about twice that and 600 bytes more."""
DELAY_S = 0.04


def network_of(scheme: str, overlay: str = "interest", **quotas: int) -> Network:
    return Network(scheme, DELAY_S, overlay=overlay, quotas=Quotas(**quotas))  # type: ignore[arg-type]


def asleep(network: Network, client: str, topic_filter: str, broker: str = "b1") -> None:
    line = network.connect(client, broker)
    line.subscribe(topic_filter, 2)
    network.run(1)
    line.drop()
    network.run(1)


def publish(network: Network, line: Line, numbers: range, qos: int = 1, every: float = 0.01) -> None:
    for number in numbers:
        line.publish("t", f"{number:04}" * (BYTES // 4), qos)
        network.run(every)
    network.run(1)


def acknowledged(line: Line, qos: int = 1) -> tuple[int, int]:
    """How many messages the broker took, and how many it refused with 0x97."""
    kind = Puback if qos == 1 else Pubrec
    reasons = [packet.reason for packet in line.packets if isinstance(packet, kind)]
    refused = reasons.count(ReasonCode.QUOTA_EXCEEDED)
    assert refused + reasons.count(ReasonCode.SUCCESS) == len(reasons)
    return len(reasons) - refused, refused


def payloads(line: Line) -> list[int]:
    return [int(packet.payload[:4]) for packet in line.publishes if not packet.dup]


@every_scheme
@pytest.mark.parametrize("overlay", ["flooding", "interest", "hierarchy"])
@pytest.mark.parametrize("qos", [1, 2])
def test_what_a_session_elsewhere_has_no_room_for_is_refused(scheme: str, overlay: str, qos: int) -> None:
    network = network_of(scheme, overlay, session_bytes_max=200_000)
    asleep(network, "sleeper", "t")
    publishers = [network.connect(f"p{n}", f"b{n}") for n in (2, 3)]
    network.run(1)
    for publisher in publishers:
        publish(network, publisher, range(150), qos)
    publish(network, publishers[0], range(150, 160), qos)
    taken = [acknowledged(publisher, qos) for publisher in publishers]
    assert all(refused for _, refused in taken), "both origins were told"
    assert taken[0][0] > 60, "most of the bound is used"

    line = network.connect("sleeper", "b2")
    network.run(2)
    assert len(line.publishes) == sum(count for count, _ in taken), "what was acknowledged has come"

    before = acknowledged(publishers[0], qos)[1]
    publish(network, publishers[0], range(160, 165), qos)
    assert acknowledged(publishers[0], qos)[1] == before, "there is room again"
    assert payloads(line)[-5:] == [160, 161, 162, 163, 164]
    assert network.failures == []


@every_scheme
def test_others_are_not_refused(scheme: str) -> None:
    """Only what would go to the full session; QoS 0 is taken, and does not use up the reserve."""
    network = network_of(scheme, session_bytes_max=200_000)
    asleep(network, "sleeper", "t")
    reader = network.connect("reader", "b3")
    reader.subscribe("u", 1)
    publisher = network.connect("p", "b2")
    network.run(1)
    publish(network, publisher, range(300), 1)
    assert acknowledged(publisher)[1]
    for number in range(20):
        publisher.publish("u", f"{number:04}")
        publisher.publish("t", "x" * BYTES, 0)
        network.run(0.01)
    network.run(1)
    assert payloads(reader) == list(range(20))
    line = network.connect("sleeper", "b1")
    network.run(2)
    assert len([p for p in line.publishes if p.qos]) == acknowledged(publisher)[0] - 20


def test_what_a_store_elsewhere_has_no_room_for_is_refused() -> None:
    network = network_of("standard", store_bytes_max=300_000)
    for number in range(3):
        asleep(network, f"sleeper-{number}", "t")
    publisher = network.connect("p", "b2")
    network.run(1)
    publish(network, publisher, range(400))
    taken, refused = acknowledged(publisher)
    assert refused and taken > 100
    for number in range(3):
        line = network.connect(f"sleeper-{number}", "b1")
        network.run(2)
        assert payloads(line) == list(range(taken))


@every_scheme
def test_a_member_without_room_is_passed_over_and_a_group_without_room_refuses(scheme: str) -> None:
    network = network_of(scheme, session_bytes_max=200_000)
    asleep(network, "full", SHARE)
    publisher = network.connect("p", "b2")
    network.run(1)
    publish(network, publisher, range(200))
    taken, refused = acknowledged(publisher)
    assert refused > 20, "the only member has no room"
    other = network.connect("other", "b3")
    other.subscribe(SHARE, 1)
    network.run(1)
    other.drop()  # both are away now, and take turns
    network.run(1)
    publish(network, publisher, range(200, 230))
    assert acknowledged(publisher) == (taken + 30, refused), "another member has room"
    lines = [network.connect("other", "b1"), network.connect("full", "b3")]
    network.run(2)
    came = sorted(number for line in lines for number in payloads(line))
    assert came == [*range(taken), *range(200, 230)]
    assert payloads(lines[0]) == list(range(200, 230))


def test_a_broker_that_is_gone_does_not_stop_publishers_for_ever() -> None:
    network = network_of("standard", session_bytes_max=200_000)
    asleep(network, "sleeper", "t")
    publisher = network.connect("p", "b2")
    network.run(1)
    publish(network, publisher, range(200))
    taken, refused = acknowledged(publisher)
    assert refused
    network.run(3 * LEASE_S)
    publish(network, publisher, range(1))
    assert acknowledged(publisher) == (taken, refused + 1), "as long as it is reminded"
    del network._timers[BrokerId("b1"), ("full", "")]  # the broker does nothing any more
    network.run(2 * LEASE_S)
    publish(network, publisher, range(1))
    assert acknowledged(publisher) == (taken + 1, refused + 1)


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
@pytest.mark.parametrize("topic_filter", ["t", SHARE])
def test_what_brokers_know_of_full_sessions_is_stored(scheme: str, topic_filter: str) -> None:
    """All brokers go on from snapshots: they refuse as before, and hear of the room that there is again."""
    network = network_of(scheme, session_bytes_max=200_000)
    asleep(network, "sleeper", topic_filter)
    publisher = network.connect("p", "b2")
    network.run(1)
    publish(network, publisher, range(200))
    taken, refused = acknowledged(publisher)
    for name, machine in network.machines.items():
        live = LiveBroker(machine.settings, network.now)
        live.machine = machine
        network.machines[name] = snapshot.load(snapshot.dump(live)).machine
    publish(network, publisher, range(200, 205))
    assert acknowledged(publisher) == (taken, refused + 5)
    line = network.connect("sleeper", "b3")
    network.run(2)
    assert payloads(line) == list(range(taken))
    publish(network, publisher, range(300, 305))
    assert acknowledged(publisher) == (taken + 5, refused + 5)
    assert payloads(line)[-5:] == list(range(300, 305))
    assert network.failures == []
