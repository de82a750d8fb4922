"""More checks of `test_conformance`: what clients do without waiting for the answer, and what ends in between."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from roamq.net.clients.mqtt.codec import Disconnect, Properties, Publish, ReasonCode, Version, Will
from tests.net.test_conformance import Suite, kinds, wanted
from tests.net.turns import Turns

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("conformance")]

CHECKS: Final[list[Callable[[Suite], None]]] = []


def check(function: Callable[[Suite], None]) -> Callable[[Suite], None]:
    CHECKS.append(function)
    return function


@pytest.fixture(scope="module", params=[(1, 0.0), (3, 0.0), (3, 0.04)], ids=["one", "three", "three-40ms"])
def turns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    brokers, delay = request.param
    folder = tmp_path_factory.mktemp("exchanges")
    with Turns(folder, brokers, "proactive", delay, overlay="flooding") as found:
        yield found


@check
def what_a_client_published_and_did_not_read_comes_at_its_next_connection(suite: Suite) -> None:
    """[MQTT-4.4.0-1]: it publishes to itself, leaves without reading, and is back at once."""
    for version in (Version.V311, Version.V5):
        name = f"c{int(version)}"
        line = suite.connect(name, version=version)
        suite.subscribe(line, wanted(suite.topic(name, "#")))
        line.answers = False
        for qos in (1, 2):
            line.publish(suite.topic(name, str(qos)), str(qos), qos)
        line.disconnect()
        again = suite.connect(name, version=version)
        again.wait(lambda again=again: len(set(again.payloads)) == 2, "both")  # type: ignore[misc]
        assert again.is_present
        suite.rest()
        assert again.payloads == ["1", "2"]


@check
def who_sends_more_than_the_server_takes_is_cut(suite: Suite) -> None:
    """[MQTT-3.3.4-7] binds the client; section 4.13: 0x93"""
    line = suite.connect("c", answers=False)
    assert line.connack is not None
    taken = line.connack.properties.receive_maximum or 0xFFFF
    if taken > 2000:
        return  # nobody is told a limit
    for number in range(taken + 2):
        line.send(Publish(suite.topic("t"), b"x", 2, packet_id=number + 1))
    line.wait(lambda: kinds(line, Disconnect) or line.is_closed, "the end")
    (said,) = kinds(line, Disconnect)
    assert isinstance(said, Disconnect) and said.reason is ReasonCode.RECEIVE_MAXIMUM_EXCEEDED


@check
def a_will_comes_when_the_socket_is_gone_and_not_after_disconnect(suite: Suite) -> None:
    """[MQTT-3.1.2-8], [MQTT-3.14.4-3]: also as a retained message, [MQTT-3.1.2-15]"""
    watcher = suite.connect("w")
    suite.subscribe(watcher, wanted(suite.topic("will", "+")))
    for version in (Version.V311, Version.V5):
        for number, leaves in enumerate(("drop", "disconnect")):
            topic = suite.topic("will", f"{int(version)}{number}")
            will = Will(topic=topic, payload=leaves.encode(), qos=2, retain=True)
            line = suite.connect(f"c{int(version)}{number}", clean=True, version=version, will=will)
            getattr(line, leaves)()
    watcher.wait(lambda: len(watcher.payloads) >= 2, "the wills")
    suite.rest()
    assert watcher.payloads == ["drop", "drop"]
    late = suite.connect("late")
    suite.subscribe(late, wanted(suite.topic("will", "+")))
    assert [(p.payload, p.retain) for p in late.publishes] == [(b"drop", True)] * 2
    for publish in late.publishes:
        suite.publish(late, publish.topic, "", 1, retain=True)


@check
def a_session_goes_on_while_it_lasts_and_disconnect_may_prolong_it(suite: Suite) -> None:
    """[MQTT-4.1.0-1], [MQTT-3.1.2-5], section 3.14.2.2.2"""
    line = suite.connect("c", clean=True, expiry=1)
    suite.subscribe(line, wanted(suite.topic("t")))
    line.send(Disconnect(properties=Properties(session_expiry_interval=1000)))
    line.drop()
    suite.rest()
    suite.publish(suite.connect("w"), suite.topic("t"), "kept", 2)
    watch = suite.connect("watch")
    watch.look(2.0)  # longer than it was to last at first
    again = suite.connect("c", expiry=1000)
    suite.rest()
    assert again.is_present
    assert again.payloads == ["kept"]
    moved = suite.connect("c", expiry=0)
    assert moved.is_present
    moved.disconnect()
    suite.rest()
    assert not suite.connect("c").is_present


@check
def a_members_turn_comes_while_another_is_away(suite: Suite) -> None:
    """Section 4.8.2: what is published while one of two is away is lost to nobody."""
    shared = f"$share/{suite.name}/{suite.topic('t')}"
    members = [suite.connect(f"m{number}") for number in range(2)]
    for member in members:
        suite.subscribe(member, wanted(shared))
    members[0].disconnect()
    suite.rest()
    writer = suite.connect("w")
    for number in range(8):
        suite.publish(writer, suite.topic("t"), str(number), 1 + number % 2)
    back = suite.connect("m0")
    suite.rest()
    got = members[1].payloads + back.payloads
    assert sorted(got) == [str(number) for number in range(8)]


@check
def a_burst_comes_whole_and_in_order_however_often_its_reader_moves(suite: Suite) -> None:
    """[MQTT-4.6.0-6], [MQTT-4.3.3-13]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("t")))
    writer = suite.connect("w")
    got: list[str] = []
    for number in range(60):
        writer.publish(suite.topic("t"), str(number), 2)
        writer.look(0)
        if number % 15 == 14:
            got += reader.payloads
            reader = suite.connect("r")
    suite.rest()
    reader.wait(lambda: "59" in reader.payloads, "the last")
    got = [payload for line in suite.lines if line is not writer for payload in line.payloads]
    assert list(dict.fromkeys(got)) == [str(number) for number in range(60)]


@pytest.mark.parametrize("name", [function.__name__ for function in CHECKS])
def test_one_broker_and_three_in_turn_conform_alike(turns: Turns, name: str) -> None:
    suite = Suite(turns, name)
    try:
        next(function for function in CHECKS if function.__name__ == name)(suite)
        assert not turns.failures
    finally:
        suite.close()
