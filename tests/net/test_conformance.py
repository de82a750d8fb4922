"""What conformance suites check, against one broker and against three of which each connection gets the next.

Each check is written from the standard; a comment names the rules. The number of checks that hold must be the same.
"""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from roamq.net.clients.mqtt.codec import (
    Connack,
    Disconnect,
    Packet,
    Properties,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    ReasonCode,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
    Will,
)
from tests.net.turns import TurnedLine, Turns, come_to_rest

pytestmark = [pytest.mark.live, pytest.mark.xdist_group("conformance")]

CHECKS: Final[list[Callable[["Suite"], None]]] = []


class Suite:
    """A broker, or several, under test, and the connections of one check."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns = turns
        self.name = name
        self.lines: list[TurnedLine] = []

    def topic(self, *levels: str) -> str:
        return "/".join((self.name, *levels))

    def connect(self, client: str, **how: object) -> TurnedLine:
        line = self.turns.connect(f"{self.name}-{client}" if client else "", **how)
        self.lines.append(line)
        return line

    def rest(self) -> None:
        come_to_rest(self.turns, self.lines)

    def subscribe(self, line: TurnedLine, *requests: SubscriptionRequest, **properties: object) -> Suback:
        packet_id = next(line.packet_ids)
        line.send(Subscribe(packet_id, requests, Properties(**properties)))  # type: ignore[arg-type]
        self.rest()
        answer = next(p for p in line.packets if isinstance(p, Suback) and p.packet_id == packet_id)
        assert isinstance(answer, Suback)
        return answer

    def publish(self, line: TurnedLine, topic: str, payload: str, qos: int = 1, **more: object) -> None:
        packet_id = next(line.packet_ids) if qos else 0
        retain = bool(more.pop("retain", False))
        properties = Properties(**more)  # type: ignore[arg-type]
        line.send(Publish(topic, payload.encode(), qos, retain, packet_id=packet_id, properties=properties))
        self.rest()

    def close(self) -> None:
        for line in self.lines:
            line.drop()


def check(function: Callable[[Suite], None]) -> Callable[[Suite], None]:
    CHECKS.append(function)
    return function


def wanted(topic_filter: str, qos: int = 2, **options: object) -> SubscriptionRequest:
    return SubscriptionRequest(topic_filter, qos, **options)  # type: ignore[arg-type]


def kinds(line: TurnedLine, kind: type[Packet]) -> list[Packet]:
    return [packet for packet in line.packets if isinstance(packet, kind)]


@pytest.fixture(scope="module", params=[(1, 0.0), (3, 0.0), (3, 0.04)], ids=["one", "three", "three-40ms"])
def turns(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    brokers, delay = request.param
    with Turns(tmp_path_factory.mktemp("conformance"), brokers, "proactive", delay) as found:
        yield found


# --- 3.1.1 and 5 alike -------------------------------------------------------------------------------------------


@check
def offline_messages_are_queued(suite: Suite) -> None:
    """[MQTT-4.1.0-1], [MQTT-3.1.2-5]"""
    for version in (Version.V311, Version.V5):
        topic = suite.topic(str(int(version)))
        reader = suite.connect(f"r{int(version)}", version=version)
        suite.subscribe(reader, wanted(suite.topic("+")))
        reader.disconnect()
        writer = suite.connect("w")
        for qos in range(3):
            suite.publish(writer, topic, str(qos), qos)
        again = suite.connect(f"r{int(version)}", version=version)
        suite.rest()
        assert again.is_present
        assert again.payloads in (["1", "2"], ["0", "1", "2"])
        again.disconnect()


@check
def overlapping_subscriptions_bring_each_message_at_the_highest_qos(suite: Suite) -> None:
    """[MQTT-3.3.4-2]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("#"), 2), wanted(suite.topic("+"), 1))
    suite.publish(reader, suite.topic("a"), "x", 2)
    assert max(publish.qos for publish in reader.publishes) == 2
    assert len(reader.publishes) in (1, 2)


@check
def a_silent_client_is_cut_and_its_will_is_sent(suite: Suite) -> None:
    """[MQTT-3.1.2-22], [MQTT-3.1.2-8]"""
    watcher = suite.connect("w")
    suite.subscribe(watcher, wanted(suite.topic("will")))
    silent = TurnedLine.open(
        suite.turns.port,
        f"{suite.name}-s",
        keep_alive=1,
        will=Will(topic=suite.topic("will"), payload=b"gone", qos=2),
    )
    silent.wait(lambda: silent.is_closed or any(isinstance(p, Disconnect) for p in silent.packets), "the cut")
    watcher.wait(lambda: watcher.payloads, "the will")
    assert watcher.payloads == ["gone"]
    silent.drop()


@check
def what_was_not_acknowledged_is_sent_again(suite: Suite) -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1]"""
    reader = suite.connect("r", answers=False)
    suite.subscribe(reader, wanted(suite.topic("+")))
    writer = suite.connect("w")
    for qos in (1, 2):
        suite.publish(writer, suite.topic(str(qos)), str(qos), qos)
    first = {p.payload: p.packet_id for p in reader.publishes}
    reader.drop()
    again = suite.connect("r")
    suite.rest()
    assert {p.payload: p.packet_id for p in again.publishes} == first
    assert all(p.dup for p in again.publishes)
    last = suite.connect("r")
    suite.rest()
    assert last.publishes == []


@check
def an_empty_client_id_needs_a_clean_session_in_3_1_1(suite: Suite) -> None:
    """[MQTT-3.1.3-8] of 3.1.1"""
    assert suite.connect("", clean=True, version=Version.V311).is_open
    refused = suite.connect("", clean=False, version=Version.V311)
    assert refused.connack is not None
    assert refused.connack.reason.failed


@check
def wildcards_do_not_match_dollar_topics(suite: Suite) -> None:
    """[MQTT-4.7.2-1]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted("+/#"), wanted(suite.topic("#")))
    suite.publish(reader, f"${suite.topic('a')}", "hidden", 0)
    suite.publish(reader, suite.topic("a"), "shown", 0)
    assert set(reader.payloads) == {"shown"}
    assert all(not p.topic.startswith("$") for p in reader.publishes)


@check
def unsubscribe_ends_a_subscription_alone(suite: Suite) -> None:
    """[MQTT-3.10.4-2], [MQTT-3.10.4-4], [MQTT-3.10.4-5], [MQTT-3.10.4-6]"""
    reader = suite.connect("r")
    suite.subscribe(reader, *(wanted(suite.topic(level)) for level in "abc"))
    reader.send(Unsubscribe(700, (suite.topic("a"), suite.topic("none"))))
    suite.rest()
    (answer,) = kinds(reader, Unsuback)
    assert isinstance(answer, Unsuback)
    assert answer.packet_id == 700
    assert answer.reasons == (ReasonCode.SUCCESS, ReasonCode.NO_SUBSCRIPTION_EXISTED)
    for level in "abc":
        suite.publish(reader, suite.topic(level), level)
    assert sorted(reader.payloads) == ["b", "c"]


@check
def subscriptions_that_are_not_allowed_by_the_protocol_close_the_connection(suite: Suite) -> None:
    """[MQTT-4.7.1-1], [MQTT-3.8.3-4], [MQTT-4.8.2-1], [MQTT-4.8.2-2]"""
    for number, request in enumerate(
        [wanted("a#"), wanted("$share/g/t", no_local=True), wanted("$share//t"), wanted("$share/g+/t")]
    ):
        line = suite.connect(f"c{number}")
        line.send(Subscribe(1, (request,)))
        suite.rest()
        answers = kinds(line, Suback)
        is_refused = any(r.failed for a in answers if isinstance(a, Suback) for r in a.reasons)
        assert line.is_closed or is_refused, request


@check
def retained_messages_come_to_new_subscriptions(suite: Suite) -> None:
    """[MQTT-3.3.1-5], [MQTT-3.3.1-6], [MQTT-3.3.1-9]"""
    writer = suite.connect("w")
    for qos in range(3):
        suite.publish(writer, suite.topic("kept", str(qos)), str(qos), qos, retain=True)
    suite.publish(writer, suite.topic("kept", "1"), "", 1, retain=True)
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("kept", "#")))
    assert {(p.payload, p.qos, p.retain) for p in reader.publishes} == {(b"0", 0, True), (b"2", 2, True)}
    suite.publish(writer, suite.topic("kept", "0"), "", 0, retain=True)
    suite.publish(writer, suite.topic("kept", "2"), "", 0, retain=True)
    late = suite.connect("late")
    suite.subscribe(late, wanted(suite.topic("kept", "#")))
    assert late.publishes == []


@check
def a_takeover_cuts_the_old_connection(suite: Suite) -> None:
    """[MQTT-3.1.4-3]"""
    lines = [suite.connect("c", clean=number % 2 == 0) for number in range(4)]
    suite.rest()
    assert [line.is_closed for line in lines] == [True, True, True, False]
    for old in lines[:-1]:
        (said,) = kinds(old, Disconnect)
        assert isinstance(said, Disconnect) and said.reason is ReasonCode.SESSION_TAKEN_OVER


# --- 5 alone -----------------------------------------------------------------------------------------------------


@check
def retain_handling(suite: Suite) -> None:
    """[MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]"""
    writer = suite.connect("w")
    suite.publish(writer, suite.topic("t"), "kept", 1, retain=True)
    reader = suite.connect("r")
    for handling, came in ((1, 1), (1, 1), (0, 2), (2, 2), (0, 3)):
        suite.subscribe(reader, wanted(suite.topic("t"), retain_handling=handling))
        assert len(reader.publishes) == came, handling
    suite.publish(writer, suite.topic("t"), "", 1, retain=True)


@check
def retain_as_published(suite: Suite) -> None:
    """[MQTT-3.3.1-12], [MQTT-3.3.1-13]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("a"), retain_as_published=True), wanted(suite.topic("b")))
    for level in "ab":
        suite.publish(reader, suite.topic(level), level, 1, retain=True)
    assert {(p.payload, p.retain) for p in reader.publishes} == {(b"a", True), (b"b", False)}
    for level in "ab":
        suite.publish(reader, suite.topic(level), "", 1, retain=True)


@check
def no_local(suite: Suite) -> None:
    """[MQTT-3.8.3-3]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("t"), no_local=True))
    suite.publish(reader, suite.topic("t"), "own")
    suite.publish(suite.connect("w"), suite.topic("t"), "other")
    moved = suite.connect("r")
    suite.rest()
    suite.publish(moved, suite.topic("t"), "own again")
    assert reader.payloads + moved.payloads == ["other"]


@check
def subscription_identifiers(suite: Suite) -> None:
    """[MQTT-3.3.4-3], [MQTT-3.3.4-4], [MQTT-3.3.4-5]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("+")), subscription_identifiers=(2,))
    suite.subscribe(reader, wanted(suite.topic("#")), subscription_identifiers=(456789,))
    moved = suite.connect("r")
    suite.publish(suite.connect("w"), suite.topic("t"), "x")
    found = sorted(id_ for p in moved.publishes for id_ in p.properties.subscription_identifiers)
    assert found == [2, 456789]


@check
def topic_aliases(suite: Suite) -> None:
    """[MQTT-3.3.2-7], [MQTT-3.3.2-8], [MQTT-3.3.2-9], [MQTT-3.3.2-12]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("t")))
    writer = suite.connect("w")
    assert writer.connack is not None
    if writer.connack.properties.topic_alias_maximum:
        suite.publish(writer, suite.topic("t"), "named", topic_alias=1)
        suite.publish(writer, "", "alias", topic_alias=1)
        assert reader.payloads == ["named", "alias"]
        again = suite.connect("w")
        suite.publish(again, "", "of another connection", topic_alias=1)
        again.look(0.1)
        assert again.is_closed
    taker = suite.connect("t", properties=Properties(topic_alias_maximum=1))
    suite.subscribe(taker, wanted(suite.topic("+")))
    sender = suite.connect("s")
    for level in "xxy":
        suite.publish(sender, suite.topic(level), level)
    aliases = [p.properties.topic_alias for p in taker.publishes]
    assert all(alias in (None, 0, 1) for alias in aliases)


@check
def session_expiry(suite: Suite) -> None:
    """[MQTT-4.1.0-2], section 3.14.2.2.2"""
    first = suite.connect("c", expiry=0)
    suite.subscribe(first, wanted(suite.topic("t")))
    first.disconnect()
    suite.rest()
    second = suite.connect("c", expiry=1000)
    assert not second.is_present
    second.send(Disconnect(properties=Properties(session_expiry_interval=0)))
    second.drop()
    suite.rest()
    third = suite.connect("c", expiry=1)
    assert not third.is_present
    suite.subscribe(third, wanted(suite.topic("t")))
    third.drop()
    gone = suite.connect("watch", clean=True)
    gone.wait(lambda: suite.connect("probe", clean=True).is_open and wait_a_while(gone, 2.0), "the expiry")
    fourth = suite.connect("c")
    assert not fourth.is_present
    forbidden = suite.connect("f", expiry=0)
    forbidden.send(Disconnect(properties=Properties(session_expiry_interval=5)))
    forbidden.wait(lambda: kinds(forbidden, Disconnect), "an objection")
    (said,) = kinds(forbidden, Disconnect)
    assert isinstance(said, Disconnect) and said.reason is ReasonCode.PROTOCOL_ERROR


def wait_a_while(line: TurnedLine, seconds: float) -> bool:
    """Nothing can be observed while a session is about to expire: only time shows that it has."""
    line.look(seconds)
    return True


@check
def will_delay(suite: Suite) -> None:
    """[MQTT-3.1.3-9], [MQTT-3.1.2-8]"""
    watcher = suite.connect("w")
    suite.subscribe(watcher, wanted(suite.topic("will")))

    def will(payload: str, delay: int) -> Will:
        properties = Properties(will_delay_interval=delay)
        return Will(topic=suite.topic("will"), payload=payload.encode(), qos=1, properties=properties)

    suite.connect("a", will=will("taken up", 1000)).drop()
    suite.rest()
    suite.connect("a", will=will("taken back", 1000)).disconnect()
    suite.connect("b", expiry=1, will=will("with the session", 1000)).drop()
    suite.connect("c", will=will("after its delay", 1)).drop()
    suite.connect("d", will=will("at once", 0)).drop()
    watcher.wait(lambda: len(watcher.payloads) >= 3, "the wills")
    assert watcher.payloads[0] == "at once"
    assert sorted(watcher.payloads[1:]) == ["after its delay", "with the session"]


@check
def disconnect_with_will(suite: Suite) -> None:
    """[MQTT-3.14.4-3], section 3.14.2.1: 0x04"""
    watcher = suite.connect("w")
    suite.subscribe(watcher, wanted(suite.topic("will")))
    line = suite.connect("c", will=Will(topic=suite.topic("will"), payload=b"wanted", qos=1))
    line.send(Disconnect(ReasonCode.DISCONNECT_WITH_WILL))
    line.drop()
    watcher.wait(lambda: watcher.payloads, "the will")
    assert watcher.payloads == ["wanted"]


@check
def properties_pass_unchanged_and_in_order(suite: Suite) -> None:
    """[MQTT-3.3.2-4], [MQTT-3.3.2-15], [MQTT-3.3.2-16], [MQTT-3.3.2-17], [MQTT-3.3.2-18], [MQTT-3.3.2-20]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("t")))
    reader.drop()
    pairs = (("b", "2"), ("a", "1"), ("b", "2"), ("a", "0"))
    suite.publish(
        suite.connect("w"),
        suite.topic("t"),
        "x",
        2,
        user_properties=pairs,
        payload_format_indicator=1,
        content_type="text/plain",
        response_topic=suite.topic("answer"),
        correlation_data=b"\x00\x01",
    )
    moved = suite.connect("r")
    suite.rest()
    (got,) = moved.publishes
    found = got.properties
    assert found.user_properties == pairs
    assert (found.payload_format_indicator, found.content_type) == (1, "text/plain")
    assert (found.response_topic, found.correlation_data) == (suite.topic("answer"), b"\x00\x01")


@check
def requests_are_answered(suite: Suite) -> None:
    """Section 4.10"""
    asking, answering = suite.connect("asking"), suite.connect("answering")
    suite.subscribe(answering, wanted(suite.topic("request")))
    suite.subscribe(asking, wanted(suite.topic("answer")))
    suite.publish(
        asking, suite.topic("request"), "?", response_topic=suite.topic("answer"), correlation_data=b"7"
    )
    (request,) = answering.publishes
    properties = request.properties
    assert properties.response_topic is not None
    suite.publish(answering, properties.response_topic, "!", correlation_data=properties.correlation_data)
    (answer,) = asking.publishes
    assert (answer.payload, answer.properties.correlation_data) == (b"!", b"7")


@check
def message_expiry(suite: Suite) -> None:
    """[MQTT-3.3.2-5], [MQTT-3.3.2-6]"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("+")))
    reader.drop()
    writer = suite.connect("w")
    suite.publish(writer, suite.topic("short"), "short", message_expiry_interval=1)
    suite.publish(writer, suite.topic("long"), "long", message_expiry_interval=100)
    wait_a_while(writer, 2.0)
    again = suite.connect("r")
    suite.rest()
    (got,) = again.publishes
    assert got.payload == b"long"
    assert got.properties.message_expiry_interval is not None
    assert 0 < got.properties.message_expiry_interval < 100


@check
def maximum_packet_size(suite: Suite) -> None:
    """[MQTT-3.1.2-24], [MQTT-3.1.2-25]"""
    reader = suite.connect("r", properties=Properties(maximum_packet_size=200))
    suite.subscribe(reader, wanted(suite.topic("t")))
    writer = suite.connect("w")
    for size in (50, 500, 60):
        suite.publish(writer, suite.topic("t"), "x" * size)
    assert [len(p.payload) for p in reader.publishes] == [50, 60]


@check
def flow_control(suite: Suite) -> None:
    """[MQTT-3.3.4-9], [MQTT-4.9.0-2]"""
    reader = suite.connect("r", answers=False, properties=Properties(receive_maximum=3))
    suite.subscribe(reader, wanted(suite.topic("t")))
    writer = suite.connect("w")
    for number in range(6):
        suite.publish(writer, suite.topic("t"), str(number), 1 + number % 2)
    assert reader.payloads == ["0", "1", "2"]
    reader.send(Puback(reader.publishes[0].packet_id))
    suite.rest()
    assert reader.payloads == ["0", "1", "2", "3"]
    moved = suite.connect("r", properties=Properties(receive_maximum=2))
    suite.rest()
    assert moved.payloads == ["1", "2", "3", "4", "5"]


@check
def shared_subscriptions(suite: Suite) -> None:
    """[MQTT-4.8.2-4], section 4.8.2: each message to one member, and members have other subscriptions"""
    members = [suite.connect(f"m{number}") for number in range(2)]
    for member in members:
        suite.subscribe(
            member, wanted(f"$share/{suite.name}/{suite.topic('shared')}"), wanted(suite.topic("own"))
        )
    writer = suite.connect("w")
    for number in range(6):
        suite.publish(writer, suite.topic("shared"), f"shared {number}", number % 3)
    suite.publish(writer, suite.topic("own"), "own")
    got = [payload for member in members for payload in member.payloads]
    assert sorted(got) == ["own", "own", *(f"shared {number}" for number in range(6))]
    assert all(len(member.payloads) > 1 for member in members), "members take turns"


@check
def an_assigned_client_id_is_told_and_its_own(suite: Suite) -> None:
    """[MQTT-3.1.3-6], [MQTT-3.1.3-7], [MQTT-3.2.2-16]"""
    lines = [suite.connect("", clean=True) for _ in range(4)]
    ids = [line.connack.properties.assigned_client_identifier for line in lines if line.connack]
    assert all(ids)
    assert len(set(ids)) == 4
    assert all(line.is_open for line in lines)


@check
def subscribe_answers_each_filter(suite: Suite) -> None:
    """[MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.9.3-1]"""
    line = suite.connect("c")
    answer = suite.subscribe(line, *(wanted(suite.topic(str(qos)), qos) for qos in (2, 0, 1)))
    assert answer.reasons == (ReasonCode(2), ReasonCode(0), ReasonCode(1))


@check
def exactly_once_from_the_publisher(suite: Suite) -> None:
    """[MQTT-4.3.3-10], [MQTT-4.3.3-12]: PUBLISH and PUBREL repeated at other connections count once"""
    reader = suite.connect("r")
    suite.subscribe(reader, wanted(suite.topic("t")))
    publish = Publish(suite.topic("t"), b"once", 2, packet_id=9)
    first = suite.connect("w", answers=False)
    first.send(publish)
    suite.rest()
    assert kinds(first, Pubrec) == [Pubrec(9)]
    second = suite.connect("w", answers=False)
    second.send(Publish(suite.topic("t"), b"once", 2, dup=True, packet_id=9))
    suite.rest()
    assert kinds(second, Pubrec) == [Pubrec(9)]
    second.send(Pubrel(9))
    suite.rest()
    third = suite.connect("w", answers=False)
    third.send(Pubrel(9))
    suite.rest()
    (answer,) = kinds(third, Pubcomp)
    assert isinstance(answer, Pubcomp) and answer.reason is ReasonCode.PACKET_IDENTIFIER_NOT_FOUND
    assert reader.payloads == ["once"]
    third.send(publish)
    suite.rest()
    assert reader.payloads == ["once", "once"], "a new message with the same packet id"


@check
def a_second_connect_and_a_wrong_protocol_are_not_served(suite: Suite) -> None:
    """[MQTT-3.1.0-2], [MQTT-3.1.2-1], [MQTT-3.1.2-2]"""
    line = suite.connect("c")
    line.send_raw(bytes.fromhex("101000044d5154540502000000000003616263"))
    suite.rest()
    line.look(0.1)
    assert line.is_closed
    for wrong in ("100d00064d514973647003020000000000", "100c00044d5154540902000000000000"):
        other = TurnedLine(suite.turns.port, Version.V5)
        other.send_raw(bytes.fromhex(wrong))
        other.wait(lambda other=other: other.is_closed or other.packets, "the end")  # type: ignore[misc]
        assert all(p.reason.failed for p in other.packets if isinstance(p, Connack))
        other.drop()


@pytest.mark.parametrize("name", [function.__name__ for function in CHECKS])
def test_one_broker_and_three_in_turn_conform_alike(turns: Turns, name: str) -> None:
    suite = Suite(turns, name)
    try:
        next(function for function in CHECKS if function.__name__ == name)(suite)
        assert not turns.failures
    finally:
        suite.close()
