"""Links, the last hop, service times and faults."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pytest

from roamq.config import Source
from roamq.core.events import BrokerId
from roamq.core.messages import Message, Routed
from roamq.sim.engine import Engine
from roamq.sim.link import Link
from roamq.sim.network import Network, SimHost
from roamq.sim.options import Fault, LastHopOptions, LinkOptions
from roamq.sim.recorder import Recorder
from roamq.sim.scenario import Scenario, Simulation, checked, enforced, run
from tests.support.events import event
from tests.support.few import few

SIX = {
    "brokers": ["b1", "b2", "b3", "b4", "b5", "b6"],
    "links": [["b1", "b2"], ["b2", "b3"], ["b3", "b4"], ["b4", "b5"], ["b5", "b6"], ["b1", "b6"]],
}


def restless(**more: Any) -> Scenario:
    """Clients that hardly stay anywhere: most transfers are overtaken by the next move."""
    data: dict[str, Any] = {
        "name": "restless",
        "clients": 8,
        "duration_s": 60.0,
        "drain_s": 60.0,
        "network": SIX,
        "link": {"delay_s": 0.05},
        "mobility": {"model": "three-state", "connect_s": 1.0, "disconnect_s": 0.1, "handoff_s": 0.05},
        "workload": {"model": "groups", "rate": 10.0, "share": 0.4, "publishers_count": 2},
    }
    for key, value in more.items():
        data[key] = {**data.get(key, {}), **value} if isinstance(value, Mapping) else value
    return checked(data, Source("test"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Names(Message):
    """A message of any length."""

    carries: ClassVar[str] = "names"
    names: tuple[BrokerId, ...]


class Sink:
    """Stands for a host and its broker at the far end of a link."""

    def __init__(self) -> None:
        self.alive = True
        self.broker = self
        self.got: list[tuple[float, int]] = []
        self.engine: Engine | None = None

    def on_message(self, sender: BrokerId, message: Any) -> None:
        assert self.engine is not None
        self.got.append((self.engine.now, message.id.sequence))

    receive = on_message


def a_link(**options: Any) -> tuple[Engine, Link, Sink]:
    engine, sink = Engine(), Sink()
    sink.engine = engine
    network = Network(
        engine,
        Recorder(),
        last_hop=LastHopOptions(),
        service=None,
        last_hop_rng=random.Random(0),
        hops=lambda one, other: 1,
    )
    target: SimHost = sink  # type: ignore[assignment]
    return engine, Link(network, BrokerId("a"), target, LinkOptions(**options), random.Random(7)), sink


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"jitter_s": 0.5},
        {"loss": 0.4},
        {"loss": 0.3, "duplication": 0.3, "jitter_s": 0.2, "bandwidth_bps": 1e5},
    ],
)
def test_a_link_delivers_everything_once_and_in_order(options: dict[str, float]) -> None:
    engine, link, sink = a_link(**options)
    for sequence in range(200):
        engine.at(sequence * 0.01, link.send, event(sequence))
    engine.run()

    assert [sequence for _, sequence in sink.got] == list(range(200))


def test_bandwidth_makes_messages_wait_for_each_other() -> None:
    engine, link, sink = a_link(delay_s=0.0, bandwidth_bps=8 * 1041)  # 1041 bytes a second
    for sequence in range(3):
        link.send(event(sequence, payload=bytes(1000)))  # 1000 payload + 1 topic + 40 header
    engine.run()

    assert [time for time, _ in sink.got] == pytest.approx([1.0, 2.0, 3.0])


def over_two_links(**link: Any) -> Scenario:
    """Two leaves and a root between them; clients leave one leaf, and much waits for them when they come to another."""
    return checked(
        {
            "name": "over two links",
            "clients": 4,
            "duration_s": 600.0,
            "drain_s": 600.0,
            "network": {"overlay": "hierarchy", "height": 2, "degree": 2},
            "link": {"delay_s": 0.0, "bandwidth_bps": 8000.0, **link},
            "mobility": {"model": "three-state", "connect_s": 60.0, "disconnect_s": 60.0, "handoff_s": 60.0},
            "workload": {"model": "groups", "rate": 1.0, "share": 0.5, "payload_bytes": 200},
        },
        Source("test"),
    )


@pytest.mark.parametrize(("frame_bytes", "arrives_at"), [(0, 4.0), (500, 2.5)])
def test_brokers_on_the_way_of_a_long_message_pass_on_its_frames_as_they_come(
    frame_bytes: int, arrives_at: float
) -> None:
    simulation = Simulation(over_two_links(frame_bytes=frame_bytes), seed=1)
    root, left, right = (BrokerId(name) for name in simulation.topology.brokers)
    got: list[tuple[float, object]] = []
    there = simulation.network.hosts[right]
    there.receive = lambda sender, message: got.append((simulation.engine.now, message))  # type: ignore[method-assign]
    long = Names(
        names=(BrokerId("x" * 1920),)
    )  # with its header and that of its way 2000 bytes, which is two seconds

    simulation.network.hosts[left].unicast(right, root, long)
    simulation.engine.run(until=1000.0)
    simulation.recorder.finish(simulation.engine.now)

    ((arrived_at, message),) = got
    assert arrived_at == pytest.approx(arrives_at)
    assert message == Routed(to=right, sender=left, message=long)
    assert [(r.count, r.hops) for r in simulation.recorder.records if r.kind == "traffic"] == [(1, 2)]


@pytest.mark.parametrize("scheme", ["standard", "logging", "prefetching"])
@pytest.mark.parametrize("seed", few(range(4)))
def test_transfers_in_frames_lose_and_repeat_nothing(scheme: str, seed: int) -> None:
    fault = Fault(at_s=200.0, kind="cut", target="b0.0-b1.1", duration_s=20.0)
    moving = over_two_links(frame_bytes=300)
    scenario = msgspec.structs.replace(moving, scheme={"name": scheme}, faults=[fault])

    result = run(scenario, seed=seed)

    assert result.violations == []
    long = [r for r in result.records if r.kind == "transferred" and (r.count or 0) > 10]
    assert long or scheme != "standard", "transfers of several frames are what is tested"


def test_what_a_cut_link_holds_follows_in_order_when_it_is_mended() -> None:
    engine, link, sink = a_link(delay_s=0.1)
    link.send(event(1))
    link.cut = True
    link.send(event(2))
    engine.run()
    assert sink.got == []

    link.cut = False
    link.resume()
    link.send(event(3))
    engine.run()

    assert [sequence for _, sequence in sink.got] == [1, 2, 3]


def test_lost_transmissions_are_counted_as_retransmissions() -> None:
    engine, link, _ = a_link(loss=0.5)
    for sequence in range(100):
        link.send(event(sequence))
    engine.run()
    link.recorder.finish(engine.now)

    counted = {r.detail: r.count for r in link.recorder.records}
    assert counted["event"] == 100
    assert 60 < (counted["retransmission"] or 0) < 150


FAULTS = [
    {"at_s": 10.0, "kind": "crash", "target": "b2", "duration_s": 5.0},
    {"at_s": 12.0, "kind": "cut", "target": "b4-b5", "duration_s": 8.0},
    {"at_s": 30.0, "kind": "crash", "target": "b6", "duration_s": 2.0},
]


@pytest.mark.parametrize("seed", few(range(12), 2))
def test_nothing_is_lost_or_repeated_by_clients_that_outrun_their_contexts(seed: int) -> None:
    result = run(restless(), seed=seed)

    assert result.violations == []
    assert result.summary()["delivered"] > 500


@pytest.mark.parametrize("seed", few(range(12), 2))
def test_nothing_is_lost_or_repeated_when_brokers_fall_and_links_break(seed: int) -> None:
    scenario = restless(faults=FAULTS, link={"loss": 0.05, "jitter_s": 0.05}, last_hop={"detect_s": 0.3})

    result = run(scenario, seed=seed)

    assert result.violations == []


def test_a_broker_that_loses_its_store_loses_messages_and_the_checkers_say_so() -> None:
    forgetful = [{**FAULTS[0], "keep_store": False}]

    lost = [run(restless(faults=forgetful), seed=seed).lost() for seed in range(4)]

    assert any(lost)


@pytest.mark.parametrize("overlay", ["flooding", "interest"])
def test_clients_go_on_through_a_broker_that_lost_its_store(overlay: str) -> None:
    """The sessions that it had are lost; the others go on, and those that come there later move on from there."""
    forgetful = [{**FAULTS[0], "keep_store": False}]

    result = run(restless(faults=forgetful, network={"overlay": overlay}), seed=1)

    later = [r for r in result.records if r.kind == "delivered" and r.time_s > 20]
    end_s = max(record.time_s for record in result.records if record.kind == "published")
    last_s = {record.client: record.time_s for record in later}
    assert len(last_s) >= 4
    assert min(last_s.values()) > end_s - 5
    assert {record.broker for record in later} == {f"b{number}" for number in range(1, 7)}


@pytest.mark.parametrize("seed", few(range(4)))
def test_a_lossy_last_hop_with_acknowledgements_repeats_until_the_client_has_it(seed: int) -> None:
    """What was not acknowledged is sent again at the next connection, so a move heals the loss."""
    result = run(restless(last_hop={"loss": 0.2, "retransmit": True}), seed=seed)

    assert result.lost() == []
    assert result.duplicated() == []


def test_service_times_delay_and_a_full_queue_drops() -> None:
    slow = restless(service={"operation_s": 0.001, "delivery_s": 0.002})
    choked = restless(service={"event_s": 0.2, "queue_bytes": 2000})

    relaxed, stuffed = run(slow, seed=1), run(choked, seed=1)

    assert relaxed.violations == []
    assert {r.detail for r in relaxed.records if r.kind == "processing"} >= {"event", "control"}
    assert any(r.kind == "dropped" and r.detail == "input_full" for r in stuffed.records)


def test_a_bounded_buffer_drops_what_does_not_fit_and_records_it() -> None:
    scenario = restless(
        scheme={"name": "standard", "buffer_bytes": 2000},
        mobility={"disconnect_s": 5.0, "handoff_s": 5.0},
        workload={"payload_bytes": 500},
    )

    result = run(scenario, seed=3)
    dropped = [r for r in result.records if r.kind == "dropped" and r.detail == "queue_full"]

    assert dropped
    assert result.lost()
    assert result.duplicated() == []


def test_a_last_hop_that_loses_for_good_promises_neither_completeness_nor_order() -> None:
    """What was lost is sent again at the next connection, after later events that came: it is late, not wrong."""
    scenario = restless(last_hop={"loss": 0.2})

    result = run(scenario, seed=1)

    assert enforced(scenario) & {"loss", "order"} == frozenset()
    assert "order" in enforced(restless(last_hop={"loss": 0.2, "retransmit": True}))
    assert result.violations == []


def test_a_full_input_queue_may_refuse_a_transfer_so_that_a_context_is_never_settled() -> None:
    assert "leak" not in enforced(restless(service={"event_s": 0.01, "queue_bytes": 10_000}))
    assert "leak" in enforced(restless(service={"event_s": 0.01}))
