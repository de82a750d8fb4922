"""What once went wrong when each connection lands at another broker, live: every overlay, with four schemes.

One network runs for all tests of an overlay and a scheme. Its links have a delay, so that news is always on its way.
"""

from collections.abc import Iterator
from itertools import product

import pytest

from roamq.net.clients.mqtt.codec import (
    Disconnect,
    Packet,
    Properties,
    Puback,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
)
from tests.net.turns import TurnedLine, Turns, come_to_rest
from tests.support.waiting import WAIT_S

pytestmark = [pytest.mark.live]

DELAY_S = 0.02
SCHEMES = ("proactive", "standard", "home-broker", "prefetching")
WORLDS = list(product(("flooding", "hierarchy", "interest"), SCHEMES))


class Scene:
    """The network, and the connections of one test."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns = turns
        self.name = name
        self.lines: list[TurnedLine] = []

    def topic(self, *levels: str) -> str:
        return "/".join((self.name, *levels))

    def connect(self, client: str, **how: object) -> TurnedLine:
        """At the next broker."""
        line = self.turns.connect(f"{self.name}-{client}", **how)
        self.lines.append(line)
        return line

    def rest(self) -> None:
        come_to_rest(self.turns, self.lines)

    def subscribe(self, line: TurnedLine, topic_filter: str, qos: int = 1) -> None:
        line.subscribe(topic_filter, qos)
        self.rest()


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(world, marks=pytest.mark.xdist_group("-".join(world)), id="-".join(world))
        for world in WORLDS
    ],
)
def turns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    overlay, scheme = request.param
    with Turns(tmp_path_factory.mktemp("overlays"), 3, scheme, DELAY_S, overlay=overlay) as found:
        yield found


@pytest.fixture
def scene(turns: Turns, request: pytest.FixtureRequest) -> Iterator[Scene]:
    found = Scene(turns, request.function.__name__)
    yield found
    for line in found.lines:
        line.drop()
    assert not turns.failures


def reason_of(line: TurnedLine) -> ReasonCode | None:
    return next((p.reason for p in line.packets if isinstance(p, Disconnect)), None)


def test_clean_start_at_a_neighbour_ends_the_session_and_harms_nobody(scene: Scene) -> None:
    bystanders = [scene.connect(f"bystander-{number}") for number in range(3)]
    for bystander in bystanders:
        bystander.subscribe(scene.topic("t"))
    for _ in range(2):  # so that the brokers are neighbors in the graph of moves
        scene.connect("mover")
    publisher = scene.connect("p")
    scene.rest()
    for step in range(3):
        line = scene.connect("y", clean=True)
        assert not line.is_present
        publisher.publish(scene.topic("t"), f"{step}")
        scene.rest()
        assert line.payloads == [], "the old subscription is gone"
        scene.subscribe(line, scene.topic("t"))
        line.drop()
        publisher.publish(scene.topic("t"), f"{step} stored")
        scene.rest()
    again = scene.connect("y")
    scene.rest()
    assert again.is_present and again.payloads == ["2 stored"]
    everything = [f"{step}{what}" for step in range(3) for what in ("", " stored")]
    assert [bystander.payloads for bystander in bystanders] == [everything] * 3


@pytest.mark.parametrize("version", [Version.V5, Version.V311])
def test_a_clean_takeover_ends_the_old_connection_alone(scene: Scene, version: Version) -> None:
    lines: list[TurnedLine] = []
    for _ in range(4):
        lines.append(scene.connect(f"c{int(version)}", clean=True, expiry=0, version=version))
        scene.rest()
    assert [line.is_closed for line in lines] == [True, True, True, False]
    if version is Version.V5:
        assert [reason_of(line) for line in lines[:-1]] == [ReasonCode.SESSION_TAKEN_OVER] * 3
    scene.subscribe(lines[-1], scene.topic("t"))
    scene.connect("p").publish(scene.topic("t"), "x")
    scene.rest()
    assert lines[-1].payloads == ["x"]


def test_disconnect_and_connect_elsewhere_at_once(scene: Scene) -> None:
    for _ in range(9):
        line = scene.connect("c", clean=True, expiry=0)
        line.disconnect()
    last = scene.connect("c", clean=True, expiry=0)
    scene.rest()
    assert last.is_open


def test_a_member_that_moves_leaves_no_ghost(scene: Scene) -> None:
    """Its share comes, also what was assigned while news of it was on its way."""
    publisher = scene.connect("p")
    lines = [scene.connect("m")]
    scene.subscribe(lines[0], f"$share/g/{scene.topic('t')}")
    for step in range(3):
        lines[-1].drop()
        for number in range(4):
            publisher.publish(scene.topic("t"), f"{step} {number}")
        lines.append(scene.connect("m"))
        for number in range(4, 8):
            publisher.publish(scene.topic("t"), f"{step} {number}")
    scene.rest()
    publisher.wait(lambda: publisher.has(Puback) == 24, "every PUBACK")
    came = {payload for line in lines for payload in line.payloads}
    assert came == {f"{step} {number}" for step in range(3) for number in range(8)}
    once = [p.payload for line in lines for p in line.publishes if not p.dup]
    assert len(once) == len(set(once)), (
        "what was sent to a connection that was lost has DUP when it comes again"
    )


def test_members_take_turns_and_get_wills(scene: Scene) -> None:
    members = [scene.connect(f"m{number}") for number in range(2)]
    for member in members:
        scene.subscribe(member, f"$share/g/{scene.topic('+')}")
    publisher = scene.connect("p")
    for number in range(20):
        publisher.publish(scene.topic(str(number % 2)), str(number))
    scene.rest()
    assert [len(member.payloads) for member in members] == [10, 10]
    assert len({payload for member in members for payload in member.payloads}) == 20
    scene.connect("dying", will=Will(topic=scene.topic("will"), payload=b"will", qos=1)).drop()
    scene.rest()
    assert [payload for member in members for payload in member.payloads].count("will") == 1


@pytest.mark.parametrize("away", [True, False])
def test_a_delayed_will_is_sent_when_clean_start_ends_its_session(scene: Scene, away: bool) -> None:
    watcher = scene.connect("w")
    scene.subscribe(watcher, scene.topic(str(away)))
    properties = Properties(will_delay_interval=1000)
    old = scene.connect(
        f"c{away}", will=Will(topic=scene.topic(str(away)), payload=b"gone", qos=1, properties=properties)
    )
    scene.rest()
    if away:
        old.drop()
        scene.rest()
    scene.connect(f"c{away}", clean=True)
    watcher.wait(lambda: watcher.payloads, "the will")
    scene.rest()
    assert watcher.payloads == ["gone"]


def test_a_session_begun_within_a_links_delay_is_found(scene: Scene) -> None:
    first = scene.connect("c")
    second = scene.connect("c")
    assert second.is_present
    scene.rest()
    assert first.is_closed and reason_of(first) is ReasonCode.SESSION_TAKEN_OVER
    scene.subscribe(second, scene.topic("t"))
    scene.connect("p").publish(scene.topic("t"), "x")
    scene.rest()
    assert second.payloads == ["x"]


def test_a_retained_message_on_its_way_comes_once(scene: Scene) -> None:
    """Whether it counts as published before SUBSCRIBE or after is the network's choice; the flag says which."""
    publisher, reader = scene.connect("p"), scene.connect("r")
    publisher.publish(scene.topic("t"), "x", retain=True)
    reader.subscribe(scene.topic("t"))
    scene.rest()
    assert reader.payloads == ["x"]
    late = scene.connect("late")
    scene.subscribe(late, scene.topic("t"))
    assert [(p.payload, p.retain) for p in late.publishes] == [(b"x", True)]


# --- one broker ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 4])
def test_who_does_not_take_even_connack_is_not_let_in(scene: Scene, size: int) -> None:
    """[MQTT-3.2.0-1], [MQTT-3.1.2-24]."""
    line = scene.connect("c", properties=Properties(maximum_packet_size=size), wait=None)
    while line.look(WAIT_S):
        pass
    assert line.is_closed and line.packets == []


def test_a_failed_pubrec_of_an_unknown_id_gets_no_pubrel(scene: Scene) -> None:
    line = scene.connect("c")
    line.send(Pubrec(77, ReasonCode.UNSPECIFIED_ERROR))
    scene.rest()
    assert not [p for p in line.packets if isinstance(p, Pubrel)]
    assert line.is_open


@pytest.mark.parametrize(
    "data",
    [
        "100c00044d515454040600000000",  # a will flag and no will
        "100e00064d514973647003020000000000",  # another protocol's name
        "100d00054d51545458040200000000016a",  # nobody's name
    ],
)
def test_a_malformed_3_1_1_connect_gets_no_answer(turns: Turns, data: str) -> None:
    line = TurnedLine(turns.port, Version.V311)
    line.send_raw(bytes.fromhex(data))
    while line.look(WAIT_S):
        pass
    assert line.is_closed and line.packets == []


def test_a_copy_for_each_group_and_one_for_the_rest(scene: Scene) -> None:
    line = scene.connect("m")
    for identifier, topic_filter in enumerate((scene.topic("t"), f"$share/g/{scene.topic('t')}"), 1):
        request = SubscriptionRequest(topic_filter, 3 - identifier)
        line.send(Subscribe(identifier, (request,), Properties(subscription_identifiers=(identifier,))))
    scene.rest()
    scene.connect("p").publish(scene.topic("t"), "x", 2)
    scene.rest()
    assert sorted(told(line)) == [(1, 2, b"x"), (2, 1, b"x")]
    line.drop()
    scene.connect("p").publish(scene.topic("t"), "y", 2)
    scene.rest()
    line = scene.connect("m")
    scene.rest()
    assert sorted(told(line)) == [(1, 2, b"y"), (2, 1, b"y")]


def told(line: TurnedLine) -> list[tuple[int, int, bytes]]:
    """Identifier, QoS and payload of what came."""
    packets: list[Packet] = line.packets
    return [
        (p.properties.subscription_identifiers[0], p.qos, p.payload)
        for p in packets
        if isinstance(p, Publish)
    ]
