"""Two halves of a session become one."""

from roamq.core.events import BrokerId, ClientId, EventId
from roamq.net.clients.mqtt.state import InFlight, SessionState, Subscription, dump, load


def session(**fields: object) -> SessionState:
    return SessionState(client_id=ClientId("c"), **fields)  # type: ignore[arg-type]


def an_id(sequence: int) -> EventId:
    return EventId(BrokerId("b"), sequence)


def test_subscriptions_join_and_the_newer_one_of_a_filter_stands() -> None:
    earlier = session(subscriptions={"a": Subscription("a", 2), "b": Subscription("b", 1)})
    new = session(subscriptions={"a": Subscription("a", 0)}, is_provisional=True)

    new.join(earlier)

    assert {name: s.qos for name, s in new.subscriptions.items()} == {"a": 0, "b": 1}
    assert not new.is_provisional


def test_exchanges_under_way_and_packet_ids_go_on() -> None:
    earlier = session(outbound={7: InFlight(an_id(1), 2)}, last_packet_id=7)
    new = session(outbound={900: InFlight(an_id(9), 2)}, last_packet_id=900, is_provisional=True)

    new.join(earlier)

    assert list(new.outbound) == [7, 900]
    assert new.last_packet_id == 900


def test_two_that_were_begun_anew_still_wait_for_the_first() -> None:
    one, other = session(is_provisional=True), session(is_provisional=True)

    one.join(other)

    assert one.is_provisional


def test_what_the_client_had_ahead_of_its_time_is_asked_for_once_and_travels() -> None:
    state = session()
    state.note_sent_early(an_id(5))
    travelled = load(dump(state))

    assert [travelled.take_sent_early(an_id(n)) for n in (4, 5, 5)] == [False, True, False]
    assert travelled.sent_early == {}
