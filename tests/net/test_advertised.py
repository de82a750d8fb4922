"""Live brokers that declare what is published there: what they refuse, what reaches whom, and who is asked."""

import asyncio
import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.net.clients.mqtt.codec import (
    Properties,
    Puback,
    Pubrec,
    ReasonCode,
    Version,
    Will,
)
from roamq.net.links.members import Member, published_ever
from roamq.net.links.sockets import described
from roamq.net.machine import Machine
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network
from roamq.net.ops.reloading import reloaded
from roamq.net.ops.settings import Settings
from roamq.overlay.interest import ByInterest
from tests.net.live import PlainClient, machine_of, write_network
from tests.net.network import SCHEMES, Line, Network
from tests.net.test_growing_live import act, with_edge
from tests.net.test_new_lives import Site
from tests.support.waiting import eventually

LISTS = {
    "b1": ("site/b1/#", "alarms/+"),
    "b2": ("site/b2/#",),
    "b3": (),
}
"""Nothing is published at b3. A fourth broker, if there is one, declares nothing."""


def asked_at(machine: Machine) -> dict[str, int]:
    """Topic filter -> how many neighbours this broker has asked for it."""
    router = machine.broker.router
    assert isinstance(router, ByInterest)
    found: dict[str, int] = {}
    for filters in router._sent.values():
        for filter in filters:
            found[filter.topic] = found.get(filter.topic, 0) + 1
    return found


def reasons(line: Line) -> list[ReasonCode]:
    return [packet.reason for packet in line.packets if isinstance(packet, Puback | Pubrec)]


# --- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", [False, True])
def test_a_topic_outside_the_list_is_refused_at_any_qos(retain: bool) -> None:
    network = Network(publishes=LISTS)
    reader = network.connect("reader", "b2")
    reader.subscribe("#")
    network.run(2.0)
    writer = network.connect("writer", "b1")
    for qos in (0, 1, 2):
        writer.publish("site/b2/door", f"{qos}", qos, retain=retain)
        writer.publish("site/b1/door", f"{qos}", qos, retain=retain)
    writer.publish("alarms", "a level too few")
    network.run(5.0)

    assert reasons(writer) == [
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.SUCCESS,
        ReasonCode.NOT_AUTHORIZED,
        ReasonCode.SUCCESS,
        ReasonCode.NOT_AUTHORIZED,
    ]
    assert reader.payloads == ["0", "1", "2"]
    assert {publish.topic for publish in reader.publishes} == {"site/b1/door"}
    assert len(network.machines[BrokerId("b2")].retained) == (1 if retain else 0)
    assert network.failures == []


def test_a_client_of_mqtt_311_is_refused_as_by_rules() -> None:
    """MQTT 3.1.1 has no word for it: the message is acknowledged and goes nowhere, as where no rule allows it."""
    network = Network(publishes=LISTS)
    reader = network.connect("reader", "b1")
    reader.subscribe("#")
    network.run(2.0)
    writer = network.connect("writer", "b3", version=Version.V311)
    writer.publish("site/b3/door", "refused", 1)
    network.run(5.0)

    assert reader.payloads == []
    assert writer.has(Puback) == 1


def test_a_will_outside_the_list_is_refused_at_connect() -> None:
    network = Network(publishes=LISTS)
    will = Will(topic="site/b1/gone", payload=b"gone", qos=1)
    refused = network.connect("car", "b2", will=will)
    taken = network.connect("car", "b1", will=will)

    assert refused.connack is not None and refused.connack.reason is ReasonCode.NOT_AUTHORIZED
    assert taken.is_open


def test_a_will_is_sent_where_its_topic_may_be_published_though_the_session_went_elsewhere() -> None:
    network = Network(publishes=LISTS)
    reader = network.connect("reader", "b3")
    reader.subscribe("site/#")
    network.run(2.0)
    properties = Properties(will_delay_interval=30)
    will = Will(topic="site/b1/gone", payload=b"gone", qos=1, properties=properties)
    car = network.connect("car", "b1", will=will)
    network.run(1.0)
    car.drop()
    network.feed(BrokerId("b1"), lambda m: m.drain(network.now))
    network.run(10.0)
    holders = [name for name, one in network.machines.items() if "car" in dict(one.broker.contexts.items())]
    assert holders and holders != ["b1"], "the session went elsewhere"
    assert reader.payloads == []
    network.run(60.0)

    assert reader.payloads == ["gone"]
    assert network.failures == []


def test_sys_topics_are_there_where_nothing_is_published() -> None:
    network = Network(publishes=LISTS)
    network.feed(BrokerId("b3"), lambda m: m.publish_status({"uptime": "1"}, network.now))
    reader = network.connect("reader", "b3")
    reader.subscribe("$SYS/#")
    network.run(2.0)

    assert reader.payloads == ["1"]


# --- what is asked, and what comes ----------------------------------------------------------------------------


def test_a_broker_is_asked_only_for_what_is_published_there() -> None:
    network = Network(brokers=4, publishes=LISTS)
    reader = network.connect("reader", "b3")
    for topic_filter in ("site/b1/door", "site/+/door", "nowhere", "alarms/#"):
        reader.subscribe(topic_filter)
    network.run(5.0)

    # b4 declares nothing: it is asked for everything. In a mesh each origin is its own neighbour.
    assert asked_at(network.machines[BrokerId("b3")]) == {
        "site/b1/door": 2,
        "site/+/door": 3,
        "nowhere": 1,
        "alarms/#": 2,
    }


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_client_that_moves_gets_everything_once_and_in_order(scheme: str) -> None:
    network = Network(scheme, 0.02, 4, publishes=LISTS)
    car = network.connect("car", "b3")
    car.subscribe("site/#")
    car.subscribe("alarms/+")
    network.run(5.0)
    writers = {at: network.connect(f"writer {at}", at) for at in ("b1", "b2", "b4")}
    topics = {"b1": "alarms/fire", "b2": "site/b2/door", "b4": "site/b4/door"}
    lines = [car]
    sent: dict[str, list[str]] = {at: [] for at in writers}
    for step in range(60):
        for at, writer in writers.items():
            sent[at].append(f"{at} {step}")
            writer.publish(topics[at], sent[at][-1])
        network.run(0.03)
        if step % 10 == 9:
            lines[-1].drop()
            lines.append(network.connect("car", f"b{1 + step // 10 % 4}", wait=None))
    network.run(30.0)

    got = [payload for line in lines for payload in line.payloads]
    for at, payloads in sent.items():
        mine = [payload for payload in got if payload.startswith(at)]
        assert list(dict.fromkeys(mine)) == payloads, f"of {at}"
    assert network.failures == []


def test_members_of_a_group_get_what_another_broker_hands_on() -> None:
    """The copy is an event of the broker that hands it on, where nothing of the kind is published."""
    network = Network("standard", 0.02, publishes=LISTS)
    first, second = network.connect("first", "b2", answers=False), network.connect("second", "b3")
    for member in (first, second):
        member.subscribe("$share/team/site/b1/#")
        network.run(2.0)
    writer = network.connect("writer", "b1")
    for number in range(6):
        writer.publish("site/b1/job", f"{number}")
    network.run(2.0)
    assert first.payloads and second.payloads, "each got its share"
    first.drop()
    network.connect("first", "b2", clean=True)  # which ends the session, with what it had not acknowledged
    network.run(10.0)

    assert sorted(set(second.payloads)) == [f"{number}" for number in range(6)]
    assert network.failures == []


# --- descriptions that differ, and what is stored -------------------------------------------------------------


def settings(**more: object) -> Settings:
    brokers = (BrokerId("b1"), BrokerId("b2"))
    return Settings(me=brokers[0], brokers=brokers, links=(("b1", "b2"),), **more)  # type: ignore[arg-type]


def test_brokers_with_other_lists_are_not_linked_nor_is_a_release_that_knows_none() -> None:
    without, one = described(settings()), described(settings(publishes={"b1": ("a",)}))
    other = described(settings(publishes={"b1": ("b",)}))

    assert without["brokers"] != one["brokers"], "which is all that the release before compares"
    for mine, theirs in ((without, one), (one, other)):
        assert {name for name in mine if mine[name] != theirs[name]} == {"brokers", "brokers.NAME.publishes"}


def test_the_list_of_a_broker_that_joined_later_is_its_own() -> None:
    edge = settings(publishes={"e": ("a",)})

    assert described(edge) == described(settings())


def test_of_a_broker_that_comes_back_the_earlier_list_counts_as_well() -> None:
    before = Member(name=BrokerId("e"), life=1, at=(), publishes=("a",))

    assert published_ever(None, None) is None
    assert published_ever(None, ["b"]) == ("b",)
    assert published_ever(before, ["b"]) == ("a", "b")
    assert published_ever(before, None) is None
    with pytest.raises(ValueError, match="Choose another name"):
        published_ever(Member(name=BrokerId("e"), life=1, at=()), ["b"])


# --- over sockets ---------------------------------------------------------------------------------------------


def declared(text: str, lists: dict[str, list[str]]) -> str:
    """The network with lists of what its brokers publish."""
    for name, topics in lists.items():
        text = text.replace(f"[brokers.{name}]\n", f"[brokers.{name}]\npublishes = {json.dumps(topics)}\n")
    return text


@pytest.mark.live
def test_brokers_over_sockets_refuse_route_and_hand_over_as_declared(tmp_path: Path) -> None:
    async def scenario() -> None:
        lists = {"b1": ["site/b1/#"], "b2": ["site/b2/#"]}
        site = with_edge(tmp_path, declared(local_network(3, scheme="standard"), lists), ["b1", "b2"])
        await site.start("b1", "b2", "b3")
        car = PlainClient("car")
        await car.connect(site.port("b2"))
        await car.subscribe("site/b1/#", 1)
        await car.subscribe("site/b4/#", 1)
        assert set(asked_at(machine_of(site.servers["b2"]))) == {"site/b1/#", "site/b4/#"}
        assert asked_at(machine_of(site.servers["b2"]))["site/b4/#"] == 1, "of b3, which declares nothing"

        writer = PlainClient("writer", clean=True)
        await writer.connect(site.port("b1"))
        writer.publish("site/b2/door", b"refused", 1)
        writer.publish("site/b1/door", b"1", 1)
        await eventually(lambda: [payload for _, payload, *_ in car.received] == [b"1"])

        said = urllib.parse.urlencode({"at": "b1,b2", "publishes": '["site/b4/#"]'})
        await asyncio.to_thread(act, site.servers["b3"], f"/api/join/b4?{said}")
        await site.start("b4")
        edge = site.servers["b4"]
        await eventually(lambda: not machine_of(edge).admission.is_stranger)
        here = PlainClient("here", clean=True)
        await here.connect(site.port("b4"))
        here.publish("site/b1/door", b"refused", 1)
        here.publish("site/b4/door", b"2", 1)
        await eventually(lambda: [payload for _, payload, *_ in car.received] == [b"1", b"2"])
        await car.connect(site.port("b4"))
        assert car.session_present
        writer.publish("site/b1/door", b"3", 1)
        await eventually(lambda: [payload for _, payload, *_ in car.received] == [b"1", b"2", b"3"])

        # Its file says nothing of a list: the network does, also after a restart.
        await site.stop("b4", "b1")
        await site.start("b1", "b4")
        assert not machine_of(site.servers["b4"]).access.takes("site/b1/door")
        assert machine_of(site.servers["b4"]).access.takes("site/b4/door")
        topology = machine_of(site.servers["b1"]).broker.router.topology  # type: ignore[attr-defined]
        assert topology.publishes[BrokerId("b4")] == (Filter("site/b4/#"),)

        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(act, site.servers["b3"], "/api/join/b5?at=b1&publishes=site")
        assert "no list of topic filters" in json.load(refused.value)["error"]
        for client in (car, writer, here):
            client.drop()
        await site.stop()

    asyncio.run(scenario())


@pytest.mark.live
def test_an_operator_lets_a_broker_join_with_a_list(tmp_path: Path) -> None:
    async def scenario() -> None:
        site = Site(write_network(tmp_path, declared(local_network(2), {"b1": ["site/b1/#"]})))
        await site.start("b1", "b2")
        path = tmp_path / "network.toml"

        async def join(broker: str, *topics: str) -> Result:
            words = [word for topic in topics for word in ("--publishes", topic)]
            command = ["join", str(path), "--broker", broker, "--at", "b1", *words]
            return await asyncio.to_thread(CliRunner().invoke, cli, command)

        before = path.read_text()
        refused = await join("b3", "site/#/b3")
        assert refused.exit_code == 2 and "--publishes: " in refused.output, refused.output
        assert path.read_text() == before
        joined = await join("b3", "site/b3/#", "alarms/+")
        assert joined.exit_code == 0, joined.output
        assert load_network(path).brokers["b3"].publishes == ["site/b3/#", "alarms/+"]
        again = await join("b3", "other")
        assert again.exit_code == 2 and "leave --publishes out" in again.output, again.output
        topologies = [machine_of(server).broker.router.topology for server in site.servers.values()]  # type: ignore[attr-defined]
        told = (Filter("alarms/+"), Filter("site/b3/#"))
        await eventually(lambda: all(one.publishes.get(BrokerId("b3")) == told for one in topologies))
        url = f"http://127.0.0.1:{site.servers['b2'].options.metrics_port}/api/network"
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=10) as answer:
            shown = {place["broker"]: place["publishes"] for place in json.load(answer)["places"]}
        assert shown == {"b1": ["site/b1/#"], "b2": None, "b3": ["alarms/+", "site/b3/#"]}
        await site.stop()

    asyncio.run(scenario())


def test_a_list_is_not_changed_by_a_reload(tmp_path: Path) -> None:
    text = local_network(2, scheme="standard")
    before, after, same = (
        write_network(tmp_path, declared(text, {"b1": topics})).server_options("b2")
        for topics in (["site/b1/#"], ["site/b1/#", "news"], ["site/b1/#"])
    )
    reloaded(before, same, before.settings)
    with pytest.raises(ConfigError, match=r"brokers\.b1\.publishes: cannot be changed .*`roamq leave`"):
        reloaded(before, after, before.settings)


@pytest.mark.live
def test_a_folder_is_of_a_network_with_the_same_lists(tmp_path: Path) -> None:
    async def scenario() -> None:
        text = local_network(2, scheme="standard")
        site = Site(write_network(tmp_path, declared(text, {"b1": ["site/b1/#"]})))
        await site.start("b1")
        await site.stop()
        site.network = write_network(tmp_path, text)
        with pytest.raises(
            ConfigError, match=r"brokers\.b1\.publishes: is no list, but .* with \[.*\]; set it back"
        ):
            await site.start("b1")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("line", "overlay", "why"),
    [
        ('publishes = ["a/#/b"]', "interest", "'#' must be the whole last level"),
        ('publishes = ["$SYS/#"]', "interest", "belong to the server"),
        ("publishes = 3", "interest", "brokers.b1.publishes"),
        ('publishes = ["a"]', "flooding", "network.overlay is 'flooding'"),
    ],
)
def test_a_list_that_cannot_be_is_named(tmp_path: Path, line: str, overlay: str, why: str) -> None:
    text = local_network(2, overlay=overlay).replace("[brokers.b1]\n", f"[brokers.b1]\n{line}\n")
    (tmp_path / "network.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_network(tmp_path / "network.toml")
    assert "brokers.b1.publishes" in str(refused.value) and why in str(refused.value)
