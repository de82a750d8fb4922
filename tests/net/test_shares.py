"""What one input has to tell a neighbour goes in shares: in the same order, and nothing is lost."""

import pytest

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Routed
from roamq.net import host
from roamq.net.clients.mqtt.codec import Publish, Subscribe, SubscriptionRequest
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.links import wire
from roamq.net.links.protocol import Frame
from roamq.net.ops.draining import Draining
from roamq.net.ops.settings import Quotas, Settings
from roamq.net.topics.tables import TablesTold
from tests.net.severed import SeveredFleet
from tests.net.test_growth import Visitor

SHARE = 1_000
FILTERS = 200
ALONE, OTHER = BrokerId("b1"), BrokerId("b2")


def speak(fleet: SeveredFleet) -> None:
    """A client subscribes to much at once, and publishes while that is being told."""
    client = Visitor(fleet, "c", "u")
    client.enter("b1", expiry=100)
    machine = fleet.machines[ALONE]
    wanted = tuple(SubscriptionRequest(f"t/{number}", 1) for number in range(FILTERS))
    fleet.cut = {frozenset((ALONE, OTHER))}
    client.say(Subscribe(1, wanted))
    client.say(Publish("kept", b"x", retain=True))
    client.say(Subscribe(2, (SubscriptionRequest("later", 1),)))
    assert machine.serves("c")


def told(fleet: SeveredFleet) -> list[Frame]:
    return list(fleet.machines[ALONE].outboxes.frames[OTHER])


def test_shares_have_a_bound_and_add_up_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = SeveredFleet(1, "standard", 2)
    speak(at_once)
    assert sum(len(data) for _, data in told(at_once)) > 5 * SHARE
    monkeypatch.setattr(host, "LINK_BURST_BYTES", SHARE)
    sizes: list[int] = []
    tell_on = host.LiveHost.tell_on

    def watched(self: host.LiveHost, to: BrokerId) -> None:
        before = self._outboxes.bytes[to]
        tell_on(self, to)
        sizes.append(self._outboxes.bytes[to] - before)

    monkeypatch.setattr(host.LiveHost, "tell_on", watched)
    in_shares = SeveredFleet(1, "standard", 2)
    speak(in_shares)

    assert [data for _, data in told(in_shares)] == [data for _, data in told(at_once)]
    assert len(sizes) >= 5 and max(sizes) < SHARE + 200
    assert not in_shares.machines[ALONE].outboxes.behind


def test_what_waits_behind_is_part_of_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LINK_BURST_BYTES", SHARE)
    names = (ALONE, OTHER)
    settings = Settings(me=ALONE, brokers=names, links=((ALONE, OTHER),), scheme="standard")
    live = LiveBroker(settings, 1000.0)
    router = live.machine.broker.router
    for number in range(FILTERS):
        router.subscribe(Filter(f"t/{number}"))
    event = Event(id=EventId(ALONE, 1), topic="t/1", payload=b"x", published_at=1000.0)
    live.machine.host.send(OTHER, event)
    live.take()
    boxes = live.machine.outboxes
    waiting = len(boxes.said[OTHER].behind)
    assert waiting > FILTERS // 2 and boxes.said[OTHER].behind_bytes == event.cost_bytes

    again = snapshot.load(snapshot.dump(live))
    for one in (live, again):
        while one.machine.outboxes.behind:
            one.apply((int(InputKind.TIMER), 1000.0, (host.LINK_TIMER, OTHER)))
        assert one.machine.outboxes.said[OTHER].behind_bytes == 0
    assert again.machine.outboxes.frames == boxes.frames
    assert len(boxes.frames[OTHER]) == FILTERS + 1


def test_events_behind_a_long_telling_have_the_bound_of_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LINK_BURST_BYTES", SHARE)
    fleet = SeveredFleet(1, "standard", 2, quotas=Quotas(outbox_bytes_max=20_000))
    machine = fleet.machines[ALONE]
    for number in range(FILTERS):
        machine.broker.router.subscribe(Filter(f"t/{number}"))
    for number in range(100):
        event = Event(id=EventId(ALONE, number + 1), topic="t", payload=bytes(1000), published_at=1000.0)
        machine.host.send(OTHER, event)

    assert machine.outboxes.said[OTHER].behind_bytes <= 20_000
    dropped = [record for record in machine.out.records if record.detail == "outbox_full"]
    assert 80 <= len(dropped) < 100


def test_a_broker_is_not_drained_before_all_that_it_tells_has_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "LINK_BURST_BYTES", SHARE)
    fleet = SeveredFleet(1, "standard", 2)
    fleet.settle()
    machine = fleet.machines[ALONE]
    draining = Draining(machine)
    for number in range(FILTERS):
        machine.broker.router.subscribe(Filter(f"t/{number}"))
    assert machine.outboxes.behind

    assert draining.look() == {"left": 0, "unconfirmed": {OTHER: FILTERS}}
    while machine.outboxes.behind:
        machine.timer((host.LINK_TIMER, OTHER), 1000.0)
    assert draining.look() == {"left": 0, "unconfirmed": {OTHER: FILTERS}}
    machine.link_acked(OTHER, machine.outboxes.sent[OTHER], 1000.0)
    assert draining.look() == {"left": 0, "unconfirmed": {}}


@pytest.mark.parametrize("count", [0, 150, 700])
def test_all_that_is_retained_is_told_whether_it_is_little_or_much(count: int) -> None:
    """To a broker that begins anew; what is stored of it in the middle goes on where it was."""
    settings = Settings(me=ALONE, brokers=(ALONE, OTHER), links=((ALONE, OTHER),), scheme="standard")
    live = LiveBroker(settings, 1000.0)
    for number in range(count):
        event = Event(
            id=EventId(ALONE, number + 1),
            topic=f"{number}/a/b/c/d/e",
            payload=b"x",
            published_at=1000.0,
            retain=True,
            publisher=ClientId("p"),
        )
        live.machine.retained.observe(event)
    live.machine.tables.tell(OTHER)
    live.take()
    assert (OTHER in live.machine.outboxes.behind) == (count > 200)
    live = snapshot.load(snapshot.dump(live))

    for _ in range(60):
        live.apply((int(InputKind.TIMER), 1000.0, (host.LINK_TIMER, OTHER)))
    told = [wire.decode(data) for _, data in live.machine.outboxes.frames[OTHER]]
    parts = [one.message for one in told if isinstance(one, Routed) and isinstance(one.message, TablesTold)]
    topics = [event.topic for part in parts for event in part.retained]
    assert sorted(topics) == sorted(f"{number}/a/b/c/d/e" for number in range(count))
    assert [part.is_all for part in parts] == [False] * (len(parts) - 1) + [True]
    assert not live.machine.outboxes.behind
