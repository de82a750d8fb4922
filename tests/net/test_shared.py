"""Shared subscriptions in a network: each message goes to one member, wherever the members are and move (4.8.2)."""

from collections import Counter
from random import Random

import pytest

from roamq.net.clients.mqtt.codec import (
    Properties,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Will,
)
from tests.net.network import SCHEMES, Line, Network
from tests.support.few import few

SHARE = "$share/group/t/#"
every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
every_delay = pytest.mark.parametrize("delay", [0.0, 0.04])


def send(network: Network, publisher: Line, payloads: range, topic: str = "t/x", every: float = 0.01) -> None:
    for number in payloads:
        publisher.publish(topic, str(number))
        network.run(every)


def got(*lines: Line) -> list[int]:
    return sorted(int(payload) for line in lines for payload in line.payloads)


@every_scheme
@every_delay
def test_members_take_turns_whatever_the_topics(scheme: str, delay: float) -> None:
    network = Network(scheme, delay)
    publisher = network.connect("p", "b1")
    members = [network.connect(f"m{n}", f"b{n % 3 + 1}") for n in range(2)]
    for member in members:
        member.subscribe(SHARE)
    network.run(1)
    for number in range(40):
        publisher.publish(f"t/{number % 2}", str(number))
        publisher.publish("elsewhere", "x")
        network.run(0.01)
    network.run(1)
    assert got(*members) == list(range(40))
    assert [len(member.payloads) for member in members] == [20, 20]


@every_scheme
@every_delay
def test_a_member_that_moves_while_absent_gets_what_it_was_assigned_and_leaves_no_ghost(
    scheme: str, delay: float
) -> None:
    network = Network(scheme, delay)
    publisher = network.connect("p", "b3")
    lines: list[Line] = []
    for broker in ("b1", "b2", "b3", "b1", "b2"):
        line = network.connect("m", broker)
        lines.append(line)
        if len(lines) == 1:
            line.subscribe(SHARE)
        network.run(1)
        line.drop()
        network.run(1)
        send(network, publisher, range(len(lines) * 8 - 8, len(lines) * 8))
        network.run(1)
    lines.append(network.connect("m", "b3"))
    network.run(1)
    assert got(*lines) == list(range(40))
    for machine in network.machines.values():
        (group,) = machine.groups.groups.values()
        assert list(group.places) == ["m"]


@every_scheme
@pytest.mark.parametrize("seed", few(range(2)))
def test_nothing_acknowledged_is_lost_or_given_twice_while_members_move(scheme: str, seed: int) -> None:
    """1,000 messages at QoS 1, links of 40 ms, three members of which one is always moving."""
    random = Random(seed)
    network = Network(scheme, 0.04)
    publishers = [network.connect(f"p{n}", f"b{n}") for n in (1, 2, 3)]
    lines = [network.connect(f"m{n}", f"b{n + 1}") for n in range(3)]
    old: list[Line] = []
    for line in lines:
        line.subscribe(SHARE)
    network.run(1)
    for number in range(1000):
        random.choice(publishers).publish("t/x", str(number))
        network.run(random.choice([0.0, 0.001, 0.01, 0.05]))
        if random.random() < 0.1:
            moving = random.randrange(3)
            old.append(lines[moving])
            if random.random() < 0.5:
                lines[moving].drop()
            if random.random() < 0.5:
                network.run(random.random() * 0.2)
            lines[moving] = network.connect(f"m{moving}", f"b{random.randrange(3) + 1}")
    network.run(10)
    counts = Counter(got(*lines, *old))
    assert sorted(counts) == list(range(1000))
    repeated = [p for line in (*lines, *old) for p in line.publishes if counts[int(p.payload)] > 1]
    assert all(sum(not p.dup for p in repeated if p.payload == one.payload) == 1 for one in repeated)
    assert network.failures == []


@every_scheme
@pytest.mark.parametrize("seed", few(range(4)))
def test_nothing_is_lost_while_members_join_and_leave(scheme: str, seed: int) -> None:
    """A member unsubscribes, ends its session or begins another while messages for it are on their way."""
    random = Random(seed)
    network = Network(scheme, 0.04)
    publishers = [network.connect(f"p{n}", f"b{n}") for n in (1, 2, 3)]
    old: list[Line] = []
    steady = network.connect("steady", "b1")
    steady.subscribe(SHARE)
    network.run(1)
    others = [network.connect(f"m{n}", f"b{n + 1}") for n in range(2)]
    sent = 0
    for _ in range(60):
        for _ in range(5):
            random.choice(publishers).publish("t/x", str(sent))
            sent += 1
            network.run(random.choice([0.0, 0.001, 0.02]))
        place = random.randrange(2)
        match random.randrange(4):
            case 0:
                others[place].subscribe(SHARE)
            case 1:
                others[place].send(Unsubscribe(999, (SHARE,)))
            case 2:
                old.append(others[place])
                others[place].drop()
                others[place] = network.connect(f"m{place}", f"b{random.randrange(3) + 1}")
            case 3:
                old.append(others[place])
                clean = random.random() < 0.5
                others[place] = network.connect(f"m{place}", f"b{random.randrange(3) + 1}", clean=clean)
    for line in others:
        line.send(Unsubscribe(1000, (SHARE,)))
    network.run(10)
    counts = Counter(got(steady, *others, *old))
    assert set(counts) == set(range(sent))
    assert network.failures == []


@every_scheme
def test_a_group_is_served_from_its_first_suback_on(scheme: str) -> None:
    """The publisher's broker has not heard of the group yet."""
    network = Network(scheme, 0.04)
    publisher = network.connect("p", "b1")
    network.run(1)
    member = network.connect("m", "b2")
    network.run(1)
    member.subscribe(SHARE)
    network.run(1, until=lambda: bool(member.has(Suback)))
    send(network, publisher, range(20), every=0.005)
    network.run(1)
    assert got(member) == list(range(20))


@every_scheme
@pytest.mark.parametrize("before", ["a client wants more", "a member has left"])
def test_a_member_is_served_from_its_suback_on_though_its_broker_gets_all_of_it_already(
    scheme: str, before: str
) -> None:
    """The publisher's broker b1 knows no member: it has not heard of the one at b2 yet, nor of an older one at b3. So
    b1 assigns the event to nobody; b2 leaves it to the broker of the older member, which does not get it."""
    network = Network(scheme, link_delays={("b3", "b1"): 0.6, ("b2", "b1"): 0.2}, overlay="interest")
    publisher = network.connect("p", "b1")
    earlier = network.connect("earlier", "b2")
    older, member = network.connect("older", "b3"), network.connect("m", "b2")
    earlier.subscribe("t/#" if before == "a client wants more" else SHARE)
    network.run(5)
    if before == "a member has left":
        earlier.send(Unsubscribe(1000, (SHARE,)))
        network.run(0.1)
    older.subscribe(SHARE)
    network.run(0.01)
    member.subscribe(SHARE)
    network.run(5, until=lambda: bool(member.has(Suback)))
    assert not older.has(Suback), "nothing is promised to the older member yet"
    publisher.publish("t/x", "1")
    network.run(10)
    assert got(older, member) == [1]


@every_scheme
@every_delay
def test_what_an_absent_member_was_assigned_goes_to_others_when_its_session_expires(
    scheme: str, delay: float
) -> None:
    network = Network(scheme, delay)
    publisher = network.connect("p", "b1")
    absent = network.connect("absent", "b2", expiry=30)
    absent.subscribe(SHARE)
    network.run(1)
    absent.drop()
    network.run(1)
    send(network, publisher, range(10))
    member = network.connect("m", "b3")
    member.subscribe(SHARE)
    network.run(1)
    assert got(member) == [], "an absent member keeps what was assigned to it"
    send(network, publisher, range(10, 20))
    network.run(1)
    assert got(member) == list(range(10, 20)), "a connected member gets what comes while another is away"
    network.run(60)
    assert got(member) == list(range(20))


@every_scheme
@every_delay
def test_wills_reach_shared_groups(scheme: str, delay: float) -> None:
    network = Network(scheme, delay)
    members = [network.connect(f"m{n}", f"b{n + 1}") for n in range(3)]
    for member in members:
        member.subscribe(SHARE)
    will = Will(topic="t/will", payload=b"7", qos=1, properties=Properties(will_delay_interval=5))
    line = network.connect("c", "b2", will=will)
    network.run(1)
    line.drop()
    network.run(10)
    assert got(*members) == [7]


def test_one_broker_gives_what_a_leaving_member_was_not_sent_to_another() -> None:
    network = Network(brokers=1)
    publisher = network.connect("p", "b1")
    slow = network.connect("slow", "b1", receive_maximum=2)
    slow.answers = False
    slow.subscribe(SHARE)
    network.run(1)
    send(network, publisher, range(10))
    assert got(slow) == [0, 1]
    other = network.connect("other", "b1")
    other.subscribe(SHARE)
    network.run(1)
    slow.send(Unsubscribe(99, (SHARE,)))
    network.run(1)
    assert got(other) == list(range(2, 10)), "[MQTT-3.10.4-3]: what was sent is completed"
    slow.drop()
    again = network.connect("slow", "b1", clean=True)
    network.run(1)
    assert got(other, again) == list(range(2, 10))


# --- a shared subscription beside others of the same client -----------------------------------------------------


def subscribe_with(line: Line, topic_filter: str, qos: int, identifier: int) -> None:
    properties = Properties(subscription_identifiers=(identifier,))
    line.send(Subscribe(next(line.packet_ids), (SubscriptionRequest(topic_filter, qos),), properties))


@every_scheme
@every_delay
@pytest.mark.parametrize("overlay", ["flooding", "interest", "hierarchy"])
def test_a_client_gets_a_copy_for_each_group_and_one_for_its_other_subscriptions(
    scheme: str, delay: float, overlay: str
) -> None:
    """Section 4.8.2: a copy goes to one session of each group, and further copies to those who subscribe otherwise."""
    network = Network(scheme, delay, overlay=overlay)
    publishers = [network.connect(f"p{n}", f"b{n}") for n in (1, 2, 3)]
    lines = [network.connect("m", "b1")]
    subscribe_with(lines[0], "t/#", 0, 1)
    subscribe_with(lines[0], "t/+", 1, 2)
    subscribe_with(lines[0], "$share/g/t/#", 2, 3)
    subscribe_with(lines[0], "$share/h/t/x", 1, 4)
    network.run(1)
    for number in range(12):
        publishers[number % 3].publish("t/x", str(number), 2)
        network.run(0.01)
        if number % 4 == 3:
            lines[-1].drop()
            network.run(0.5)
            publishers[0].publish("t/x", str(number + 100), 2)
            lines.append(network.connect("m"))
    network.run(5)
    copies = [p for line in lines for p in line.publishes if not p.dup]
    came = Counter((p.payload, p.qos, tuple(sorted(p.properties.subscription_identifiers))) for p in copies)
    numbers = [str(n).encode() for n in (*range(12), 103, 107, 111)]
    assert came == Counter((n, qos, ids) for n in numbers for qos, ids in ((1, (1, 2)), (2, (3,)), (1, (4,))))
    assert network.failures == []


@every_scheme
def test_the_copy_for_the_group_goes_to_another_member_when_the_session_ends(scheme: str) -> None:
    """What the client was sent for another subscription says nothing of the group's copy."""
    network = Network(scheme, 0.04)
    publisher = network.connect("p", "b3")
    leaver = network.connect("leaver", "b1", answers=False, receive_maximum=3)
    subscribe_with(leaver, "t/#", 2, 1)
    subscribe_with(leaver, SHARE, 1, 2)
    network.run(1)
    send(network, publisher, range(8))
    network.run(1)
    heir = network.connect("heir", "b2")
    heir.subscribe(SHARE)
    network.run(1)
    leaver.drop()
    network.connect("leaver", "b3", clean=True)
    network.run(5)
    assert heir.payloads.count("0") == 1
    assert got(heir) == list(range(8))
    assert network.failures == []


@pytest.mark.parametrize("overlay", ["interest", "hierarchy"])
def test_a_retained_message_reaches_every_broker_after_a_share_of_the_same_topic_was_handed_on(
    overlay: str,
) -> None:
    """A copy for a group goes where its member is; the next retained message must not take that way for its own."""
    network = Network("standard", overlay=overlay)
    member = network.connect("m", "b1")
    member.subscribe("t/x", 1)
    member.subscribe(SHARE, 1)
    publishers = [network.connect(f"p{n}", f"b{n}") for n in (2, 1)]
    network.run(1)
    for number, publisher in enumerate(publishers):
        publisher.publish("t/x", str(number), retain=True)
        network.run(1)
    late = [network.connect(f"late-{n}", f"b{n}") for n in (1, 2, 3)]
    for line in late:
        line.subscribe("t/x")
    network.run(1)
    assert [line.payloads for line in late] == [["1"]] * 3
