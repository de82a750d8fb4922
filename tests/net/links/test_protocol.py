"""The link's protocol without sockets: two sessions that are fed each other's bytes."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.links import protocol
from roamq.net.links.protocol import (
    CARRIERS_MAX,
    EDGES_SINCE,
    HANDSHAKE_BYTES_MAX,
    NONCE_BYTES,
    Acked,
    Asked,
    CallBack,
    Carried,
    Frames,
    Identity,
    Linked,
    LinkedWith,
    LinkInput,
    LinkMessageKind,
    LinkPhase,
    LinkSession,
    Meets,
    Up,
)

A, B = BrokerId("a"), BrokerId("b")
SECRET = b"sixteen bytes or more"


def session(
    me: str,
    *,
    calls: str | None = None,
    secret: bytes | None = SECRET,
    received: int = 0,
    sent: int = 0,
    network: str = "net",
    vouched_for: str | None = None,
    nonce: bytes | None = None,
    through: tuple[BrokerId, ...] = (),
    asks: bool = False,
    oldest: int | None = None,
) -> LinkSession:
    peer = "b" if me == "a" else "a"
    return LinkSession(
        Identity(network=network, me=BrokerId(me), secret=secret),
        nonce=nonce or me.encode() * NONCE_BYTES,
        count=lambda name: (received, sent) if name == peer else None,
        now=0.0,
        calls=BrokerId(calls) if calls else None,
        vouched_for=vouched_for,
        through=through,
        asks=asks,
        oldest=oldest,
    )


def converse(caller: LinkSession, called: LinkSession) -> tuple[list[LinkInput], list[LinkInput]]:
    """Carry bytes until nobody has anything to say: what each heard."""
    heard: tuple[list[LinkInput], list[LinkInput]] = ([], [])
    while caller.output or called.output:
        heard[1].extend(called.receive(caller.take_output(), 1.0))
        heard[0].extend(caller.receive(called.take_output(), 1.0))
    return heard


def test_both_sides_come_up_and_learn_how_far_the_other_has_received() -> None:
    caller, called = session("a", calls="b", received=7, sent=20), session("b", received=12, sent=9)

    assert converse(caller, called) == ([Up(B, 12)], [Up(A, 7)])
    assert caller.phase is called.phase is LinkPhase.UP


def test_frames_and_acknowledgements_arrive_in_order_however_the_bytes_are_cut() -> None:
    caller, called = session("a", calls="b"), session("b")
    converse(caller, called)
    frames = [(number, bytes([number]) * number) for number in range(1, 50)]
    caller.send(frames)
    caller.acknowledge(33)
    data = caller.take_output()

    heard = [said for cut in range(0, len(data), 7) for said in called.receive(data[cut : cut + 7], 2.0)]

    assert [frame for said in heard if isinstance(said, Frames) for frame in said.frames] == frames
    assert heard[-1] == Acked(33)


def test_large_batches_are_cut_into_messages_that_a_receiver_can_handle_one_by_one() -> None:
    caller, called = session("a", calls="b"), session("b")
    converse(caller, called)
    caller.send((number, bytes(25_000)) for number in range(1, 11))

    heard = called.receive(caller.take_output(), 2.0)

    sizes = [len(said.frames) for said in heard if isinstance(said, Frames)]
    assert sum(sizes) == 10
    assert max(sizes) == 3


@pytest.mark.parametrize(
    ("caller", "called", "why"),
    [
        (session("a", calls="b", secret=b"another secret, as long"), session("b"), "secret"),
        (session("a", calls="b", network="elsewhere"), session("b"), "network"),
        (
            session("a", calls="b", secret=None),
            session("b", vouched_for="c", secret=None),
            "certificate of 'c'",
        ),
        (session("a", calls="b"), session("b", received=5), "counts its frames"),
        (session("c", calls="a"), session("b"), "no neighbour"),
    ],
)
def test_who_does_not_belong_is_refused(caller: LinkSession, called: LinkSession, why: str) -> None:
    with pytest.raises(RemoteProtocolError, match=why):
        converse(caller, called)
    assert called.phase is not LinkPhase.UP


def test_nobody_is_believed_before_the_proof() -> None:
    """Frames of a stranger are not even looked at."""
    stranger, called = session("a", calls="b"), session("b")
    stranger.phase = LinkPhase.UP
    stranger.send([(1, b"forged")])

    with pytest.raises(RemoteProtocolError, match="while proving"):
        called.receive(stranger.take_output(), 1.0)


def test_a_proof_sent_back_to_its_maker_proves_nothing() -> None:
    """Reflection: whoever lacks the secret could let us answer our own challenge."""
    called = session("b")
    mirror = session("a", calls="b", nonce=b"b" * NONCE_BYTES)

    with pytest.raises(RemoteProtocolError, match="nonce"):
        called.receive(mirror.take_output(), 1.0)


def test_the_proof_of_one_connection_is_worthless_for_the_next() -> None:
    caller, called = session("a", calls="b"), session("b")
    hello = caller.take_output()
    called.receive(hello, 1.0)
    caller.receive(called.take_output(), 1.0)
    proof = caller.take_output()
    again = session("b", nonce=b"x" * NONCE_BYTES)
    again.receive(hello, 1.0)

    with pytest.raises(RemoteProtocolError, match="secret"):
        again.receive(proof, 1.0)


def test_a_stranger_cannot_make_us_hold_much() -> None:
    with pytest.raises(RemoteProtocolError, match="allowed"):
        session("b").receive((HANDSHAKE_BYTES_MAX + 1).to_bytes(4, "big") + b"\x01", 1.0)


@given(st.lists(st.binary(max_size=80)))
def test_any_bytes_at_all_raise_nothing_but_the_peers_error(pieces: list[bytes]) -> None:
    called = session("b")
    try:
        for piece in pieces:
            called.receive(piece, 1.0)
    except RemoteProtocolError:
        pass
    assert called.phase is not LinkPhase.UP


def test_a_peer_that_says_nothing_for_long_is_silent() -> None:
    caller, called = session("a", calls="b"), session("b")
    converse(caller, called)

    assert not called.is_silent(15.0)
    assert called.is_silent(17.0)
    caller.ping()
    called.receive(caller.take_output(), 17.0)
    assert not called.is_silent(17.0)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6))
def test_a_link_that_breaks_anywhere_resumes_without_loss_or_repetition(breaks: list[int]) -> None:
    """Sender keeps what is not acknowledged; receiver ignores what it has: the rule of the machine, restated."""
    outbox = [(number, b"%d" % number) for number in range(1, 31)]
    received: list[int] = []
    for cut in [*breaks, 10_000]:
        last = received[-1] if received else 0
        caller, called = session("a", calls="b", sent=30), session("b", received=last)
        up = next(said for said in converse(caller, called)[0] if isinstance(said, Up))
        outbox = [frame for frame in outbox if frame[0] > up.received]
        caller.send(outbox)
        for said in called.receive(caller.take_output()[: cut * 9], 1.0):
            assert isinstance(said, Frames)
            received += [number for number, _ in said.frames if not received or number > received[-1]]

    assert received == list(range(1, 31))
    assert all(b == a + 1 for a, b in pairwise(received))


def test_a_stranger_gets_nothing_that_was_made_with_the_secret() -> None:
    """Whoever calls proves itself first: an HMAC of names and nonces would let a stranger guess the secret at home."""
    stranger, called = session("a", calls="b", secret=b"a guess of sixteen"), session("b")

    called.receive(stranger.take_output(), 1.0)
    answer = called.take_output()

    assert answer[4] == LinkMessageKind.HELLO
    assert len(answer) == 5 + int.from_bytes(answer[:4], "big"), "and nothing after it"
    stranger.receive(answer, 1.0)
    with pytest.raises(RemoteProtocolError, match="does not know the network's secret"):
        called.receive(stranger.take_output(), 1.0)
    assert called.take_output() == b""


def test_both_ends_know_who_carries_the_link() -> None:
    caller, called = session("a", calls="b", through=(BrokerId("c"),)), session("b")

    assert converse(caller, called) == ([Up(B, 0)], [Up(A, 0)])
    assert caller.through == called.through == (BrokerId("c"),)


def test_brokers_tell_each_other_who_is_linked_with_whom() -> None:
    caller, called = session("a", calls="b"), session("b")
    converse(caller, called)
    entries = [LinkedWith(A, 7, (B, BrokerId("c")))]
    caller.tell_linked(entries)

    assert converse(caller, called) == ([], [Linked(entries)])


def test_a_caller_that_has_proved_itself_asks_and_is_answered() -> None:
    caller, called = session("a", calls="b", asks=True), session("b")
    assert converse(caller, called) == ([Up(B, 0)], [Up(A, 0)])
    assert called.asks
    path = (BrokerId("c"), BrokerId("d"))
    caller.ask(path)
    assert converse(caller, called) == ([], [Asked(path)])
    called.answer("no room")

    assert converse(caller, called) == ([Carried("no room")], [])


def asking_without_proof(kind: LinkMessageKind) -> bytes:
    body = b"\x91\xa1c"  # ["c"]
    return len(body).to_bytes(4, "big") + bytes([kind]) + body


def test_a_stranger_that_asks_gets_no_answer() -> None:
    caller, called = session("a", calls="b", asks=True), session("b")
    called.receive(caller.take_output(), 1.0)
    called.take_output()

    with pytest.raises(RemoteProtocolError, match="while proving"):
        called.receive(asking_without_proof(LinkMessageKind.ASK), 1.0)
    assert not called.output


def test_a_call_for_a_link_cannot_be_turned_into_one_that_asks() -> None:
    """Nor the other way round: the proof says which of the two it is for."""
    caller, called = session("a", calls="b"), session("b")
    forged = session("a", calls="b", asks=True)
    called.receive(forged.take_output(), 1.0)
    caller.take_output()
    caller.receive(called.take_output(), 1.0)

    with pytest.raises(RemoteProtocolError, match="secret"):
        called.receive(caller.take_output(), 1.0)


def test_only_one_that_asks_may_ask_and_it_may_send_no_frames() -> None:
    caller, called = session("a", calls="b"), session("b")
    converse(caller, called)
    with pytest.raises(RemoteProtocolError, match="kind 7"):
        called.receive(asking_without_proof(LinkMessageKind.ASK), 1.0)

    caller, called = session("a", calls="b", asks=True), session("b")
    converse(caller, called)
    caller.send([(1, b"frame")])
    with pytest.raises(RemoteProtocolError, match="kind 3"):
        called.receive(caller.take_output(), 1.0)


@pytest.mark.parametrize("path", ["", "cc", "cdefgh"[: CARRIERS_MAX + 1]])
def test_a_path_is_neither_empty_nor_long_and_has_nobody_twice(path: str) -> None:
    caller, called = session("a", calls="b", asks=True), session("b")
    converse(caller, called)
    caller.ask([BrokerId(name) for name in path])

    with pytest.raises(RemoteProtocolError, match="detour"):
        called.receive(caller.take_output(), 1.0)


def test_a_broker_of_the_release_before_hears_nothing_of_detours_and_refuses_who_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking, calling = session("a", calls="b", asks=True), session("a", calls="b")
    monkeypatch.setattr(protocol, "NEWEST", 4)
    older = session("b")
    converse(calling, older)
    calling.tell_linked([LinkedWith(A, 1, (B,))])
    assert (calling.version, calling.output) == (4, [])

    with pytest.raises(RemoteProtocolError, match="speaks versions 5 to 6 of links, this broker 3 to 4"):
        converse(asking, session("b"))


def test_a_broker_that_calls_back_says_the_token_that_it_was_sent() -> None:
    edge, carrier = session("a", calls="b"), session("b")
    converse(edge, carrier)
    carrier.call_back(b"token")
    assert edge.receive(carrier.take_output(), 1.0) == [CallBack(b"token")]

    edge, carrier = session("a", calls="b", asks=True), session("b")
    converse(edge, carrier)
    edge.meet(b"token")
    assert carrier.receive(edge.take_output(), 1.0) == [Meets(b"token")]


def test_nobody_meets_on_a_link_or_says_something_else_than_a_token() -> None:
    edge, carrier = session("a", calls="b"), session("b")
    converse(edge, carrier)
    with pytest.raises(RemoteProtocolError, match="kind 10"):
        carrier.receive(asking_without_proof(LinkMessageKind.MEET), 1.0)

    edge, carrier = session("a", calls="b", asks=True), session("b")
    converse(edge, carrier)
    with pytest.raises(RemoteProtocolError, match="not a message of a link"):
        carrier.receive(asking_without_proof(LinkMessageKind.MEET), 1.0)


def test_where_brokers_that_joined_are_linked_the_release_before_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would take other paths."""
    newer = session("a", calls="b", oldest=EDGES_SINCE)
    monkeypatch.setattr(protocol, "NEWEST", EDGES_SINCE - 1)
    with pytest.raises(RemoteProtocolError, match="'a' speaks versions 6 to 6 of links, this broker 3 to 5"):
        converse(newer, session("b"))
