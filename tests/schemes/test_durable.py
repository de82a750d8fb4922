"""Durable subscriptions: what [PRO] section 1 says they do, including what they do badly."""

from roamq.core.context import Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.base import SchemeOptions
from roamq.schemes.durable import Durable
from tests.support.events import event
from tests.support.recording_host import RecordingHost, RecordingRouter, scheme_at

ME, ELSEWHERE, CLIENT = BrokerId("b1"), BrokerId("b2"), ClientId("s")
ALL = Filter.parse("t")


def make(buffer_bytes: int | None = None) -> tuple[Durable, RecordingHost]:
    host = RecordingHost()
    router = RecordingRouter(ME, host)
    return scheme_at(ME, host, router, "durable", SchemeOptions(buffer_bytes=buffer_bytes)), host


def delivered(host: RecordingHost) -> list[int]:
    return [effect[2].sequence for effect in host.take() if effect[0] == "deliver"]


def test_a_visited_broker_goes_on_buffering_for_a_client_that_is_elsewhere() -> None:
    """Section 1: "it will keep buffering messages for that subscriber"."""
    scheme, host = make()
    scheme.on_connect(CLIENT, None, (ALL,))
    scheme.on_disconnect(CLIENT, "vanished")

    for sequence in (1, 2, 3):
        scheme.on_event(event(sequence))

    context = scheme.contexts[CLIENT]
    assert context.mode is Mode.ACTIVE
    assert [held.event.id.sequence for held in context.stored] == [1, 2, 3]
    assert delivered(host) == []


def test_a_client_that_returns_gets_what_it_has_read_elsewhere() -> None:
    """Section 1: "the subscribers may receive duplicated messages when they reconnect"."""
    scheme, host = make()
    scheme.on_connect(CLIENT, None, (ALL,))
    scheme.on_disconnect(CLIENT, "vanished")
    scheme.on_event(event(1))

    scheme.on_connect(CLIENT, ELSEWHERE, (ALL,))

    assert delivered(host) == [1]


def test_a_full_store_gives_up_its_oldest_message_for_everybody() -> None:
    size = event(1, payload=bytes(10)).size_bytes
    scheme, host = make(buffer_bytes=2 * size)
    for client in ("s", "t"):
        scheme.on_connect(ClientId(client), None, (ALL,))
        scheme.on_disconnect(ClientId(client), "vanished")

    for sequence in (1, 2, 3):
        scheme.on_event(event(sequence, payload=bytes(10)))

    for context in scheme.contexts.values():
        assert [held.event.id.sequence for held in context.stored] == [2, 3]
    drops = [(r.sequence, r.detail, r.count) for r in host.records if r.kind == "dropped"]
    assert drops == [(1, "queue_full", 2)]
    assert len(scheme.contexts.buffer) == 2


def test_what_is_on_its_way_to_a_connected_client_is_not_given_up() -> None:
    size = event(1, payload=bytes(10)).size_bytes
    scheme, host = make(buffer_bytes=size)
    scheme.on_connect(CLIENT, None, (ALL,))
    scheme.on_event(event(1, payload=bytes(10)))

    scheme.on_event(event(2, payload=bytes(10)))

    assert delivered(host) == [1]
    assert [held.event.id.sequence for held in scheme.contexts[CLIENT].stored] == [1]
