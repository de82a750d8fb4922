"""The broker of [PRO]'s testbed: control apart from events, acknowledging consumers, pings, one price, speeds."""

import statistics
from collections import Counter
from typing import Any

import pytest

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.messages import Routed
from roamq.schemes.messages.copies import Activate, Forwarded
from roamq.schemes.messages.handover import StoredEvents
from roamq.sim.inputs import Input, InputQueue, takes_its_turn
from roamq.sim.options import LastHopOptions, ServiceOptions, Work
from roamq.sim.scenario import RunResult, load_scenario, run
from tests.support.few import few

A, B = BrokerId("a"), BrokerId("b")
CLIENT = ClientId("c")
EPOCH = Epoch(1.0, A)


def routed(message: Any) -> Routed:
    return Routed(to=B, sender=A, message=message)


def activate() -> Routed:
    return routed(Activate(client=CLIENT, epoch=EPOCH, digest="", position={}))


def forwarded(*events: Event, last: bool = False) -> Routed:
    return routed(Forwarded(client=CLIENT, epoch=EPOCH, events=events, last=last))


def event(number: int) -> Event:
    return Event(id=EventId(A, number), topic="news", attributes={}, payload=b"")


def waiting(kind: str, *args: Any, size: int = 10) -> Input:
    return Input(kind, size, print, args)


def emptied(queue: InputQueue) -> list[str]:
    return [queue.popleft().kind for _ in range(len(queue))]


def test_control_overtakes_events_and_nothing_else_changes_places() -> None:
    queue = InputQueue(control_first=True)
    for one in (
        waiting("event", event(1)),
        waiting("stored_event", A, forwarded(event(2))),
        waiting("closing", A, forwarded(last=True)),
        waiting("control", A, activate()),
        waiting("ack"),
    ):
        queue.append(one)

    assert (queue.events, queue.bytes, len(queue)) == (1, 50, 5)
    assert emptied(queue) == ["control", "ack", "event", "stored_event", "closing"]
    assert (queue.events, queue.bytes) == (0, 0)


def test_without_the_option_all_inputs_stand_in_one_line() -> None:
    queue = InputQueue()
    for one in (waiting("event", event(1)), waiting("control", A, activate()), waiting("event", event(2))):
        queue.append(one)

    assert len(queue) == 3
    assert emptied(queue) == ["event", "control", "event"]


def test_a_full_queue_refuses_events_and_takes_control() -> None:
    queue = InputQueue(limit_bytes=100, control_first=True)
    queue.append(waiting("event", event(1), size=95))

    assert queue.refuses("event", 10)
    assert queue.refuses("stored_event", 10)
    assert not queue.refuses("event", 5)
    assert not queue.refuses("control", 1000)


def test_a_crash_keeps_the_chosen_inputs_in_their_order() -> None:
    queue = InputQueue(control_first=True)
    for kind in ("control", "timer", "control"):
        queue.append(Input(kind, 1, print if kind == "control" else repr, ()))

    queue.keep([print])

    assert (len(queue), queue.bytes) == (2, 2)
    assert emptied(queue) == ["control", "control"]


def test_a_message_between_brokers_has_one_price_whoever_sends_it() -> None:
    one_price = ServiceOptions(message_s=0.004)
    stored = routed(StoredEvents(client=CLIENT, epoch=EPOCH, events=(event(1),), position={}))

    assert one_price.seconds(Work("transfer", 0, 1, 1, 0, 0, 0)) == pytest.approx(0.004)
    assert one_price.seconds(Work("transfer", 0, 1, 0, 1, 0, 0)) == pytest.approx(0.004)
    assert takes_its_turn(one_price, stored, A)
    assert takes_its_turn(one_price, forwarded(event(1)), A)
    assert not takes_its_turn(one_price, stored, B), "only who sends it first pays for sending"
    assert not takes_its_turn(ServiceOptions(transfer_s=0.004), forwarded(event(1)), A)


def test_an_event_is_stored_once_for_all_who_are_away() -> None:
    service = ServiceOptions(store_s=0.003, buffer_s=0.001)

    cost = [service.seconds(Work("event", 0, 0, 0, 0, 0, buffered)) for buffered in (0, 1, 5)]

    assert cost == pytest.approx([0.0, 0.004, 0.008])


def test_a_client_is_missed_at_the_next_ping() -> None:
    pinged = LastHopOptions(ping_s=2.0, detect_s=0.1)

    assert pinged.missed_after_s(0.5) == pytest.approx(1.6)
    assert pinged.missed_after_s(5.5) == pytest.approx(0.6)
    assert LastHopOptions(detect_s=0.1).missed_after_s(5.5) == pytest.approx(0.1)


# --- in a run ------------------------------------------------------------------------------------------------


def small(scheme: str = "proactive", seed: int = 1, **overrides: str) -> RunResult:
    changes = {"clients": "12", "duration_s": "60", "drain_s": "60", "service.queue_bytes": "100000000"}
    changes |= {key.replace("__", "."): value for key, value in overrides.items()}
    return run(load_scenario("pro-testbed", scheme=scheme, overrides=changes), seed=seed)


@pytest.mark.slow
def test_what_was_sent_to_a_client_that_is_gone_is_lost_or_sent_again() -> None:
    again = small(last_hop__redelivers="true")
    lost = small(last_hop__redelivers="false")

    assert again.lost() == []
    assert len(lost.lost()) > 0
    assert lost.duplicated() == []
    assert again.violations == lost.violations == []


@pytest.mark.slow
def test_longer_between_pings_more_is_lost() -> None:
    lost = [
        len(small(last_hop__redelivers="false", last_hop__in_flight="100", last_hop__ping_s=ping_s).lost())
        for ping_s in ("0.2", "4")
    ]

    assert lost[0] * 2 < lost[1]


def test_a_consumer_gets_the_next_message_when_it_has_acknowledged_enough() -> None:
    """Seen at one client: never more than two messages within the time that a message and its answer take."""
    result = small(last_hop__in_flight="2", last_hop__delay_s="0.05", last_hop__bandwidth_bps="0")

    came: dict[str, list[float]] = {}
    for record in result.records:
        if record.kind == "delivered":
            came.setdefault(str(record.client), []).append(record.time_s)
    together = [
        later - earlier for times in came.values() for earlier, later in zip(times, times[2:], strict=False)
    ]
    assert min(together) >= 0.1 - 1e-9
    assert result.lost() or len(came) == 12


def test_a_weak_broker_takes_longer_for_an_event() -> None:
    result = small(service__speed="{ b3 = 0.5 }", service__delivery_s="0", service__store_s="0")

    each = {
        record.broker: (record.duration_s or 0.0) / (record.count or 1)
        for record in result.records
        if record.kind == "processing" and record.detail == "event"
    }
    assert each[BrokerId("b3")] > 1.8 * each[BrokerId("b4")]


@pytest.mark.slow
def test_publishers_wait_while_a_queue_has_so_many_bytes() -> None:
    """Flow control by bytes keeps the input queues that short: an event hardly waits."""
    waits = {
        flow_bytes: statistics.median(
            record.duration_s or 0.0
            for record in small(clients="6", service__flow_bytes=flow_bytes).records
            if record.kind == "delivered" and record.detail == "live"
        )
        for flow_bytes in ("10000", "500000")
    }

    assert 2 * waits["10000"] < waits["500000"]


@pytest.mark.parametrize("elsewhere", few(["true", "false"]))
def test_random_mobility_returns_to_the_last_broker_or_never(elsewhere: str) -> None:
    """[PRO] section 5.1.2: "reconnects to a different broker", and "over the set of all six brokers"."""
    result = small(
        clients="60", mobility__disconnect_s="0.1", mobility__connect_s="2", mobility__elsewhere=elsewhere
    )

    steps = Counter(record.peer == record.broker for record in result.records if record.kind == "connected")
    share = steps[True] / steps.total()  # half of a quarter comes back on its own, from S1
    assert (share < 0.28) == (elsewhere == "true")
