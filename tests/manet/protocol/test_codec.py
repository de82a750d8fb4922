"""The bytes of messages: nothing is lost on the way, and bytes that are no message are refused by name."""

from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.manet.protocol.codec import decode, encode, size_of
from roamq.manet.protocol.messages import (
    Alive,
    Beacon,
    Body,
    BridgeStatus,
    BrokerCandidate,
    Candidates,
    EventCopies,
    EventPublication,
    Greeting,
    Interest,
    Introduction,
    IntroductionReply,
    Message,
    NeighborHello,
    Notification,
    Packet,
    Quit,
    Receipt,
    Register,
    Reply,
    Role,
)
from tests.manet.recording import WANTED, event

COUNTS = st.integers(0, 2**63)
NUMBERS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=8)
EVENT_IDS = st.builds(EventId, TEXTS.map(BrokerId), COUNTS)
EVENTS = st.builds(
    Event,
    id=EVENT_IDS,
    topic=TEXTS,
    attributes=st.dictionaries(
        TEXTS, TEXTS | NUMBERS | st.integers(-(2**63), 2**63) | st.booleans(), max_size=3
    ),
    payload=st.binary(max_size=40),
    published_at=NUMBERS,
    expires_at=st.none() | NUMBERS,
    publisher=st.none() | TEXTS.map(ClientId),
    qos=st.integers(0, 2),
    retain=st.booleans(),
)
FILTERS = st.sampled_from(
    [
        WANTED,
        Filter.parse("#"),
        Filter.parse("stocks/+/IBM", "price < 1600 AND brand = 'it''s'"),
        Filter.parse("x", "a = 1 AND a = 2"),  # nothing matches it
    ]
)
IDS = st.lists(COUNTS, max_size=4).map(tuple)
PATHS = st.lists(COUNTS, min_size=1, max_size=4).map(tuple)
INTERESTS = st.builds(Interest, COUNTS, COUNTS, st.lists(FILTERS, max_size=3).map(tuple), IDS, NUMBERS)
CANDIDATES = st.builds(BrokerCandidate, NUMBERS, COUNTS)
ROLES = st.sampled_from(Role)


def tuples_of(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(parts, max_size=4).map(tuple)


GREETINGS = st.builds(
    Greeting,
    COUNTS,
    COUNTS,
    tuples_of(INTERESTS),
    tuples_of(st.builds(Alive, CANDIDATES, NUMBERS)),
    tuples_of(st.tuples(EVENT_IDS, ROLES)),
)
REPLIES = st.builds(Reply, COUNTS, COUNTS, tuples_of(EVENT_IDS))
CHANCES = st.dictionaries(COUNTS, st.floats(0.0, 1.0), max_size=5)
BODIES: dict[type[Body], st.SearchStrategy[Body]] = {
    Register: st.builds(Register, INTERESTS, st.frozensets(EVENT_IDS, max_size=4)),
    Quit: st.builds(Quit, COUNTS, COUNTS),
    EventPublication: st.builds(EventPublication, EVENTS),
    BridgeStatus: st.builds(BridgeStatus, COUNTS, COUNTS, NUMBERS),
    Greeting: GREETINGS,
    Reply: REPLIES,
    EventCopies: st.builds(
        EventCopies, COUNTS, tuples_of(st.tuples(EVENTS, ROLES, st.frozensets(COUNTS, max_size=3)))
    ),
    Receipt: st.builds(Receipt, COUNTS),
    Introduction: st.builds(Introduction, GREETINGS, CHANCES),
    IntroductionReply: st.builds(IntroductionReply, REPLIES, CHANCES),
}

MESSAGES: dict[type[Message], st.SearchStrategy[Message]] = {
    NeighborHello: st.builds(NeighborHello, st.none() | COUNTS, st.dictionaries(COUNTS, NUMBERS, max_size=5)),
    Candidates: st.builds(Candidates, tuples_of(CANDIDATES)),
    Beacon: st.builds(Beacon, COUNTS, TEXTS, COUNTS, NUMBERS),
    Notification: st.builds(Notification, COUNTS, COUNTS, tuples_of(EVENTS)),
    Packet: st.builds(Packet, COUNTS, st.one_of(*BODIES.values()), PATHS, IDS, NUMBERS),
}
ANY_MESSAGE = st.one_of(*MESSAGES.values())


def plain(value: Any) -> Any:
    """The value with its events as tuples: two events are equal only if they are one object."""
    if isinstance(value, Event):
        named = ("id", "topic", "payload", "published_at", "expires_at", "publisher", "qos", "retain")
        return (dict(value.attributes), *(getattr(value, name) for name in named))
    if is_dataclass(value) and not isinstance(value, Filter):
        return (type(value), *(plain(getattr(value, field.name)) for field in fields(value) if field.compare))
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    return value


def test_every_message_has_a_strategy() -> None:
    assert set(MESSAGES) == set(get_args(Message))
    assert set(BODIES) == set(get_args(Body))


@pytest.mark.parametrize("kind", MESSAGES, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_a_message_comes_back_as_it_was(kind: type[Message], data: st.DataObject) -> None:
    message = data.draw(MESSAGES[kind])

    assert plain(decode(encode(message))) == plain(message)


@pytest.mark.parametrize("kind", BODIES, ids=lambda kind: kind.__name__)
@settings(deadline=None)
@given(data=st.data())
def test_a_body_comes_back_as_it_was_after_two_hops(kind: type[Body], data: st.DataObject) -> None:
    first = Packet(1, data.draw(BODIES[kind]), (0,), (), 10.0)

    second = decode(encode(first))
    assert isinstance(second, Packet)
    third = decode(encode(second))

    assert isinstance(third, Packet)
    assert plain(third.body) == plain(first.body)


@settings(deadline=None)
@given(message=ANY_MESSAGE)
def test_the_size_is_the_number_of_bytes(message: Message) -> None:
    assert size_of(message) == len(encode(message))


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_bytes_are_a_message_or_are_refused(data: bytes) -> None:
    read_or_refused(data)


@settings(deadline=None)
@given(message=ANY_MESSAGE, data=st.data())
def test_damaged_bytes_are_a_message_or_are_refused(message: Message, data: st.DataObject) -> None:
    damaged = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))

    read_or_refused(bytes(damaged))
    read_or_refused(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


def read_or_refused(data: bytes) -> None:
    try:
        message = decode(data)
    except RemoteProtocolError:
        return
    assert isinstance(message, Message)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no bytes"),
        (b"\xc8\x90", "first byte is 200"),
        (b"\x03\x90", "not a Beacon: Expected `array` of length 4, got 0"),
        (b"\x03\x94\x01\xa31.1\x01\xa1x", "not a Beacon: Expected `float`"),
        (encode(Beacon(1, "1.1", 1, 0.5)) + b"\x00", "not a Beacon: .*trailing"),
        (encode(Quit(1, 1)), "a Quit travels inside a packet"),
        (encode(Packet(1, Quit(1, 1), (), (), 1.0)), "not a Packet: Expected `array` of length >= 1"),
        (
            encode(Packet(1, Quit(1, 1), (0,), (), 1.0, encode(Beacon(1, "1.1", 1, 0.5)))),
            "a packet cannot hold a Beacon",
        ),
        (
            encode(Packet(1, IntroductionReply(Reply(1, 1, ()), {2: 1.5}), (0,), (), 1.0)),
            "not a IntroductionReply: Expected `float` <= 1",
        ),
        (
            encode(
                Packet(1, Register(Interest(1, 1, (WANTED,), (), 0.0), frozenset()), (0,), (), 1.0)
            ).replace(b"BETWEEN", b"BETWIXT"),
            "not a Register: .*position",
        ),
    ],
    ids=[
        "empty",
        "type",
        "arity",
        "float",
        "trailing",
        "bare body",
        "no path",
        "nested",
        "chance",
        "selector",
    ],
)
def test_bytes_that_are_no_message_are_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        decode(data)


def test_the_form_is_the_one_that_other_nodes_read() -> None:
    """A change of these bytes divides a network into nodes that do not understand each other."""
    assert (
        encode(Beacon(7, "7.1", 2, 0.5)).hex(" ", 1) == "03 94 07 a3 37 2e 31 02 cb 3f e0 00 00 00 00 00 00"
    )
    assert encode(NeighborHello(None, {})) == b"\x01\x92\xc0\x80"


def test_an_interest_and_a_body_are_encoded_once() -> None:
    interest = Interest(1, 1, (WANTED,), (2, 3), 0.0)
    packet = Packet(2, Register(interest, frozenset({event(15).id})), (1,), (), 10.0)

    encode(packet)

    assert interest.encoded is not None
    assert packet.encoded_body is not None
    assert bytes(interest.encoded) in packet.encoded_body
