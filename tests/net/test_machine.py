"""Live brokers without sockets: clients nobody wrote for us roam, and get everything once, in order."""

import gc
import sys
from collections.abc import Callable

import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.admission import PATIENCE
from roamq.net.clients.mqtt.codec import (
    PINGREQ,
    Connect,
    Disconnect,
    Properties,
    ReasonCode,
    Version,
    Will,
    encode,
)
from roamq.net.ops.settings import Quotas
from tests.net.fleet import Fleet


def test_session_present_tells_the_truth() -> None:
    fleet = Fleet(1, "standard")
    client = fleet.client("c")

    client.connect("b1")
    fleet.settle()
    client.connect("b2")
    fleet.settle()
    client.connect("b3", clean=True)
    fleet.settle()
    client.connect("b1")
    fleet.settle()

    assert client.present == [False, True, False, True]


def test_the_newest_connection_wins_and_the_old_one_is_told() -> None:
    fleet = Fleet(2, "standard")
    first, second = fleet.client("same"), fleet.client("same")
    first.connect("b1")
    fleet.settle()

    second.connect("b2")
    fleet.settle()

    assert isinstance(first.device.closed_because, Disconnect)
    assert first.device.closed_because.reason is ReasonCode.SESSION_TAKEN_OVER
    assert fleet.machines[BrokerId("b2")].serves("same")


@pytest.mark.parametrize("scheme", ["standard", "proactive", "prefetching", "logging", "prehandoff"])
def test_a_previous_broker_that_does_not_answer_delays_nobody_and_its_messages_follow(scheme: str) -> None:
    fleet = Fleet(3, scheme)
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect("b3")
    mover.connect("b1")
    mover.subscribe("t", 2)
    mover.subscribe("u", 2)
    fleet.settle()
    mover.vanish()
    fleet.settle()
    publisher.publish("t", b"stored at b1", 2)
    fleet.settle()
    fleet.cut = {frozenset(pair) for pair in (("b1", "b2"), ("b1", "b3"))}  # type: ignore[arg-type]

    mover.device.subscriptions.pop()  # it forgets one of two when it is told that there is no session
    mover.connect("b2")
    for _ in range(1000):  # two seconds
        fleet.step()
    publisher.publish("t", b"meanwhile", 2)
    publisher.publish("u", b"of the old session", 2)
    for _ in range(1000):
        fleet.step()

    assert mover.present == [False, False]
    assert mover.payloads() == [], "for the sake of order, new messages wait for a while"
    fleet.now += PATIENCE
    fleet.settle()
    assert mover.payloads() == [b"meanwhile"]
    fleet.cut = set()
    fleet.settle()
    assert mover.payloads() == [b"meanwhile", b"stored at b1", b"of the old session"]
    publisher.publish("u", b"in order again", 2)
    fleet.settle()
    assert mover.payloads()[-1] == b"in order again"
    assert mover.unexplained_repeats() == []


def test_a_client_knows_where_it_was_when_the_network_has_not_heard_of_it() -> None:
    """Cut off, b2 served the client; b3 still believes in b1, which would give again what was read at b2."""
    fleet = Fleet(5, "proactive")
    mover, publisher = fleet.client("mover", shows_ticket=True), fleet.client("publisher")
    publisher.connect("b3")
    mover.connect("b2")
    mover.subscribe("t", 2)
    fleet.settle()
    mover.connect("b1", previous="b2")
    fleet.settle()
    mover.vanish()
    fleet.settle()
    publisher.publish("t", b"once", 2)
    fleet.settle()
    fleet.cut = {frozenset(pair) for pair in (("b1", "b2"), ("b2", "b3"))}  # type: ignore[arg-type]
    mover.connect("b2", previous="b1")
    for _ in range(1000):  # two seconds
        fleet.step()
    read_at_b2 = mover.payloads()

    mover.connect("b3", previous="b2")
    for _ in range(1000):
        fleet.step()
    fleet.cut = set()
    fleet.settle()

    assert read_at_b2 == [b"once"]
    assert mover.payloads() == [b"once"]


def test_a_device_that_vanished_before_it_had_subscribed_does_so_when_it_is_back() -> None:
    fleet = Fleet(6, "standard")
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect("b3")
    mover.connect("b1")
    fleet.settle()
    mover.subscribe("t", 1)
    mover.vanish()  # the SUBSCRIBE was under way
    fleet.settle()

    mover.connect("b2")
    fleet.settle()
    publisher.publish("t", b"heard", 1)
    fleet.settle()

    assert mover.present == [False, True]
    assert mover.device.is_subscribed
    assert mover.payloads() == [b"heard"]


def test_a_session_begun_anew_does_not_replace_the_one_at_home() -> None:
    """A visited broker that let the client in without a word from home reports an empty session when it leaves."""
    fleet = Fleet(3, "home-broker")
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect("b3")
    mover.connect("b1")
    mover.subscribe("t", 2)
    fleet.settle()
    fleet.cut = {frozenset(("b1", "b2"))}  # type: ignore[arg-type]
    mover.device.subscriptions.clear()
    mover.connect("b2")
    fleet.settle()
    mover.vanish()
    fleet.settle()
    fleet.cut = set()
    publisher.publish("t", b"for the first session", 2)
    fleet.settle()

    mover.connect("b3")
    fleet.settle()

    assert mover.present == [False, False, True]
    assert mover.payloads() == [b"for the first session"]


@pytest.mark.parametrize("version", [Version.V311, Version.V5])
def test_both_versions_roam(version: Version) -> None:
    fleet = Fleet(4, "proactive")
    mover, publisher = fleet.client("mover", version), fleet.client("publisher")
    publisher.connect("b1")
    mover.connect("b1")
    mover.subscribe("t", 1)
    fleet.settle()
    for number in range(6):
        mover.vanish()
        publisher.publish("t", str(number).encode(), 1)
        fleet.settle()
        mover.connect(f"b{number % 3 + 1}")
        fleet.settle()

    assert mover.payloads() == [b"0", b"1", b"2", b"3", b"4", b"5"]


def test_retained_messages_reach_a_new_subscription_at_any_broker() -> None:
    fleet = Fleet(5, "standard")
    publisher, late = fleet.client("publisher"), fleet.client("late")
    publisher.connect("b1")
    fleet.settle()
    publisher.publish("t/a", b"old", 1, retain=True)
    publisher.publish("t/a", b"new", 1, retain=True)
    publisher.publish("t/b", b"gone", 1, retain=True)
    publisher.publish("t/b", b"", 1, retain=True)
    fleet.settle()

    late.connect("b3")
    late.subscribe("t/#", 1)
    fleet.settle()

    assert late.payloads() == [b"new"]


def test_a_shared_group_gives_each_message_to_one_member_wherever_they_are() -> None:
    fleet = Fleet(6, "standard")
    publisher = fleet.client("publisher")
    members = [fleet.client(f"m{n}") for n in range(3)]
    publisher.connect("b1")
    for number, member in enumerate(members):
        member.connect(f"b{number + 1}")
        member.subscribe("$share/group/t/#", 1)
    fleet.settle()

    sent = [str(n).encode() for n in range(30)]
    for payload in sent:
        publisher.publish("t/x", payload, 1)
    fleet.settle()

    got = [member.payloads() for member in members]
    assert sorted((p for payloads in got for p in payloads), key=int) == sent
    assert all(len(payloads) == 10 for payloads in got), "each takes its turn"


def test_a_shared_member_that_moves_takes_its_membership_along() -> None:
    fleet = Fleet(7, "standard")
    publisher, member = fleet.client("publisher"), fleet.client("member")
    publisher.connect("b1")
    member.connect("b2")
    member.subscribe("$share/group/t", 1)
    fleet.settle()
    member.connect("b3")
    fleet.settle()

    publisher.publish("t", b"here", 1)
    fleet.settle()

    assert member.payloads() == [b"here"]


def test_a_drained_broker_sends_clients_and_sessions_elsewhere() -> None:
    fleet = Fleet(8, "standard", references={"b2": "two:1883", "b3": "three:1883"})
    here, away, publisher = fleet.client("here"), fleet.client("away"), fleet.client("publisher")
    publisher.connect("b2")
    for client in (here, away):
        client.connect("b1")
        client.subscribe("t", 1)
    fleet.settle()
    away.vanish()
    fleet.settle()
    publisher.publish("t", b"kept", 1)
    fleet.settle()

    fleet.machines[BrokerId("b1")].drain(fleet.now)
    fleet.settle()

    assert isinstance(here.device.closed_because, Disconnect)
    assert here.device.closed_because.reason is ReasonCode.USE_ANOTHER_SERVER
    assert here.device.closed_because.properties.server_reference in ("two:1883", "three:1883")
    assert fleet.machines[BrokerId("b1")].held() == []
    away.connect("b3")
    fleet.settle()
    assert away.payloads() == [b"kept"]


@pytest.mark.parametrize("overlay", ["flooding", "hierarchy", "interest"])
@pytest.mark.parametrize("scheme", ["standard", "proactive", "home-broker"])
def test_status_topics_are_there_for_who_asks_and_nobody_may_write_them(overlay: str, scheme: str) -> None:
    """Every broker has its own: a client gets those of the broker where it is."""
    fleet = Fleet(9, scheme, overlay=overlay, given=[("b1", "b2"), ("b1", "b3")])
    clients = [fleet.client(f"at {name}") for name in fleet.machines]
    for client, name in zip(clients, fleet.machines, strict=True):
        client.connect(name)
        client.subscribe("$SYS/#", 0)
        client.subscribe("#", 0)
    fleet.settle()

    for number, (client, machine) in enumerate(zip(clients, fleet.machines.values(), strict=True)):
        client.publish("$SYS/broker/clients/connected", b"a lie", 0)
        fleet.settle()
        machine.publish_status({"clients/connected": str(number)}, fleet.now)
        fleet.settle()

    assert [client.payloads() for client in clients] == [[b"0"], [b"1"], [b"2"]]


@pytest.mark.parametrize("seed", range(4))
def test_a_ticket_in_connack_lets_an_active_copy_serve_at_once(seed: int) -> None:
    fleet = Fleet(seed, "proactive")
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    mover.device.shows_ticket = True
    publisher.connect("b1")
    mover.connect("b1")
    mover.subscribe("t", 2)
    fleet.settle()
    for number in range(6):
        mover.vanish()
        publisher.publish("t", str(number).encode(), 2)
        fleet.settle()
        mover.connect(f"b{number % 2 + 1}")
        fleet.settle()

    assert mover.payloads() == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert mover.device.ticket


def test_a_neighbour_that_stays_away_costs_no_more_than_its_quota() -> None:
    fleet = Fleet(10, "standard", quotas=Quotas(outbox_bytes_max=4_000))
    publisher, here, there = fleet.client("publisher"), fleet.client("here"), fleet.client("there")
    publisher.connect("b1")
    here.connect("b2")
    there.connect("b3")
    for client in (here, there):
        client.subscribe("t", 1)
    fleet.settle()
    machine = fleet.machines[BrokerId("b1")]
    fleet.cut = {frozenset(pair) for pair in (("b1", "b3"), ("b2", "b3"))}  # type: ignore[arg-type]

    sent = [str(n).encode() * 50 for n in range(100)]
    for payload in sent:
        publisher.publish("t", payload, 1)
        fleet.settle()

    assert here.payloads() == sent, "nobody else is disturbed"
    assert max(machine.status().outbox_bytes.values()) <= 4_000
    fleet.cut = set()
    fleet.settle()
    assert 0 < len(there.payloads()) < len(sent)
    assert there.payloads() == sent[: len(there.payloads())]
    assert set(machine.status().outbox_bytes.values()) == {0}
    publisher.publish("t", b"and on", 1)
    fleet.settle()
    assert there.payloads()[-1] == b"and on"


def test_a_will_is_published_once_by_the_broker_that_loses_the_client() -> None:
    """The client appears at b2 and is gone again before its session has come: b1 publishes the will, b2 does not."""
    fleet = Fleet(11, "standard")
    mover, watcher = fleet.client("mover"), fleet.client("watcher")
    watcher.connect("b3")
    watcher.subscribe("wills", 1)
    mover.connect("b1")
    mover.up.clear()
    with_will = Connect(
        client_id="mover",
        clean_start=False,
        will=Will(topic="wills", payload=b"gone", qos=1),
        properties=Properties(session_expiry_interval=1000),
    )
    mover.up.append(encode(with_will, Version.V5))
    fleet.settle()
    fleet.cut = {frozenset(("b1", "b2"))}  # type: ignore[arg-type]
    b2 = fleet.machines[BrokerId("b2")]
    mover.connect("b2", previous="b1")
    while not b2.serves("mover"):
        fleet.step()
    b2.lost(mover.number, fleet.now)
    fleet.cut = set()
    fleet.settle()

    assert watcher.payloads() == [b"gone"]


def calls_of(action: Callable[[], None]) -> int:
    """How many calls an action makes: its cost, whatever else the machine has to do."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    gc.disable()  # what it collects just now is not the action's
    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


def test_an_input_costs_the_same_however_many_clients_wait_for_their_sessions() -> None:
    costs = []
    for waiting in (0, 100):
        fleet = Fleet(12, "standard")
        stranger = fleet.client("stranger")
        stranger.connect("b1")
        fleet.settle()
        fleet.cut = {frozenset(pair) for pair in (("b1", "b2"), ("b1", "b3"))}  # type: ignore[arg-type]
        for number in range(waiting):
            client = fleet.client(f"waiting-{number}")
            client.connect("b1", previous="b2")
            fleet.machines[BrokerId("b1")].received(client.number, client.up.popleft(), fleet.now)
            fleet.take_outputs()
            assert not client.present, "it waits for b2"
        machine, number, now = fleet.machines[BrokerId("b1")], stranger.number, fleet.now
        ping = encode(PINGREQ, Version.V5)
        machine.received(number, ping, now)
        costs.append(
            (
                calls_of(lambda: machine.received(number, ping, now)),  # noqa: B023
                calls_of(lambda: machine.lost(number, now)),  # noqa: B023
            )
        )

    assert costs[0] == costs[1]
