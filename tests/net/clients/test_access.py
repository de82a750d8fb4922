"""Access rules: names are text, wills are publications, and a change of rules takes effect at once."""

import msgspec
import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.access import Access
from roamq.net.clients.mqtt.codec import (
    Connect,
    Disconnect,
    Properties,
    Pubcomp,
    Publish,
    Pubrel,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)
from roamq.net.machine import Machine
from roamq.net.ops.settings import AccessRules, Rule
from tests.net.fleet import Fleet
from tests.support.live_world import settings

B1 = BrokerId("b1")
DEVICES = AccessRules(rules=(Rule(topics=("dev/%c/#", "home/%u/#", "log-%c", "%c/own")),))


@pytest.mark.parametrize("name", ["+", "#", "a/b", "a/#", "+/+", "x+", "$SYS", "/", "a/", "\0"])
def test_a_name_never_widens_a_rule(name: str) -> None:
    access = Access(DEVICES)
    asked = ["dev/a/b", "dev/a/#", "dev/+/#", "dev/#", "home/ann/x", "home/+/#", "log-a", "a/own", "a/b/own"]
    asked += ["dev/a/b/c", "dev/a/b/#", "$SYS/own", "#", "+"]

    for topic in asked:
        assert not access.may_subscribe("ann" if "home" not in topic else name, name, topic), topic
        if not set("+#") & set(topic):
            assert not access.may_publish("ann" if "home" not in topic else name, name, topic), topic


def test_a_name_opens_its_own_level() -> None:
    access = Access(DEVICES)

    assert access.may_subscribe("ann", "a", "dev/a/#")
    assert access.may_publish("ann", "a", "home/ann/x")
    assert access.may_publish("%c", "a", "home/%c/x"), "a user name may look like a mark"
    assert not access.may_publish("%c", "a", "home/a/x")


def test_a_name_never_slips_past_a_rule_that_forbids() -> None:
    access = Access(AccessRules(rules=(Rule(may=frozenset(), topics=("%c/secret",)), Rule())))

    assert not access.may_publish(None, "a/b", "a/b/secret")
    assert not access.may_subscribe(None, "a/b", "a/#")
    assert access.may_publish(None, "a/b", "a/b/open")


RULES = AccessRules(
    rules=(
        Rule(user="ann"),
        Rule(user="bob", topics=("open/#",)),
        Rule(user="reader", topics=("#", "$SYS/#")),
    )
)


def test_a_will_on_a_forbidden_topic_is_refused() -> None:
    fleet = Fleet(1, "standard", access=RULES)
    bob = fleet.client("bob", user="bob", will=Will(topic="secret/x", payload=b"forged"))
    bob.may_be_refused = True

    bob.connect("b1")
    fleet.settle()

    assert bob.device.refused is not None
    assert bob.device.refused.reason is ReasonCode.NOT_AUTHORIZED
    assert [record.detail for record in fleet.records if record.kind == "refused"] == ["will"]


@pytest.mark.parametrize("user", ["ann", "bob", None])
@pytest.mark.parametrize("rules", [RULES, AccessRules()])
def test_nobody_leaves_a_will_on_a_topic_of_the_server(user: str | None, rules: AccessRules) -> None:
    fleet = Fleet(2, "standard", access=rules)
    client = fleet.client(
        "c", user=user, will=Will(topic="$SYS/broker/version", payload=b"forged", retain=True)
    )
    client.may_be_refused = True

    client.connect("b1")
    fleet.settle()

    assert client.device.refused is not None
    assert client.device.refused.reason is ReasonCode.NOT_AUTHORIZED


def test_a_will_that_is_not_allowed_any_more_is_not_published() -> None:
    fleet = Fleet(3, "standard", access=RULES)
    reader = fleet.client("reader", user="reader")
    reader.connect("b2")
    reader.subscribe("#", 1)
    delayed = Properties(will_delay_interval=10)
    allowed = fleet.client(
        "a", user="bob", will=Will(topic="open/stays", payload=b"published", properties=delayed)
    )
    forbidden = fleet.client(
        "f", user="bob", will=Will(topic="open/goes", payload=b"forged", properties=delayed)
    )
    for client in (allowed, forbidden):
        client.connect("b1")
    fleet.settle()
    for client in (allowed, forbidden):
        client.vanish()

    changed = AccessRules(rules=(Rule(user="reader"), Rule(user="bob", topics=("open/stays",))))
    for machine in fleet.machines.values():
        machine.set_rules(changed, fleet.now)
    fleet.settle()

    assert reader.payloads() == [b"published"]


def test_a_user_who_is_gone_is_cut_and_others_stay() -> None:
    fleet = Fleet(4, "standard", access=RULES)
    ann, bob, nameless = fleet.client("a", user="ann"), fleet.client("b", user="bob"), fleet.client("n")
    for client in (ann, bob, nameless):
        client.connect("b1")
    fleet.settle()

    fleet.machines[B1].set_rules(RULES, fleet.now, gone=["bob"])
    fleet.settle()
    assert isinstance(bob.device.closed_because, Disconnect)
    assert bob.device.closed_because.reason is ReasonCode.NOT_AUTHORIZED
    assert ann.device.closed_because is nameless.device.closed_because is None
    fleet.machines[B1].set_rules(RULES, fleet.now, closed_to_anonymous=["test"])
    fleet.settle()
    assert ann.device.closed_because is None
    assert isinstance(nameless.device.closed_because, Disconnect)


@pytest.mark.parametrize("qos", [1, 2])
def test_what_may_no_longer_be_read_is_not_sent_again_either(qos: int) -> None:
    """It was under way when the connection broke: perhaps the client never had it."""
    rules = AccessRules(rules=(Rule(topics=("open/#",)),))
    machine = Machine(msgspec.structs.replace(settings("b1", 1, "standard"), access=rules), 1000.0)

    def connected(number: int, name: str) -> None:
        machine.opened(number, 1000.0, "test", "client")
        properties = Properties(session_expiry_interval=1000)
        connect = Connect(client_id=name, clean_start=False, properties=properties)
        machine.received(number, encode(connect, Version.V5), 1000.0)
        machine.authenticated(number, "bob", 1000.0, allowed=True)

    def written(number: int) -> bytes:
        dirty = machine.take_outputs().dirty
        return b"".join(dirty[number].take_output()) if number in dirty else b""

    connected(1, "reader")
    connected(2, "writer")
    wanted = (SubscriptionRequest("open/#", qos),)
    machine.received(1, encode(Subscribe(1, wanted), Version.V5), 1000.0)
    written(1)
    machine.received(2, encode(Publish("open/x", b"SECRET", qos, packet_id=1), Version.V5), 1000.0)
    if qos == 2:
        machine.received(2, encode(Pubrel(1), Version.V5), 1000.0)
    assert b"SECRET" in written(1)
    machine.lost(1, 1000.0)
    connected(3, "reader")
    assert b"SECRET" in written(3), "as long as it may"
    machine.lost(3, 1000.0)
    machine.set_rules(AccessRules(rules=(Rule(topics=("other/#",)),)), 1000.0)
    connected(4, "reader")
    again = written(4)

    assert b"SECRET" not in again
    assert again.endswith(encode(Pubrel(1), Version.V5)) == (qos == 2), (
        "the client may wait for the end of it"
    )
    if qos == 2:
        machine.received(4, encode(Pubcomp(1), Version.V5), 1000.0)
    machine.take_outputs()
    assert not machine.status().stored_events


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_what_may_no_longer_be_read_stops_at_once(scheme: str) -> None:
    """For those who are connected, for those who are away, and for what was stored before."""
    fleet = Fleet(5, scheme, access=RULES)
    here, away, ann = (
        fleet.client(name, user=user) for name, user in (("h", "bob"), ("w", "bob"), ("a", "ann"))
    )
    for client in (here, away):
        client.connect("b1")
        client.subscribe("open/#", 1)
        client.subscribe("$share/g/open/shared", 1)
    ann.connect("b2")
    fleet.settle()
    away.vanish()
    fleet.settle()
    ann.publish("open/x", b"before", 1)
    fleet.settle()

    changed = AccessRules(rules=(Rule(user="ann"), Rule(user="bob", topics=("open/y",))))
    for machine in fleet.machines.values():
        machine.set_rules(changed, fleet.now)
    for topic in ("open/x", "open/y", "open/shared"):
        ann.publish(topic, b"after", 1)
    fleet.settle()
    away.connect("b3")
    fleet.settle()

    assert here.payloads() == [b"before"]
    assert away.payloads() == []
    assert [record.count for record in fleet.records if record.detail == "subscription"] == [2, 2]
