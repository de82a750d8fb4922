"""Rides past brokers that are dead in the middle, where paths are direct (`dead.py`): all goes around, in order."""

from itertools import combinations

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.overlay.markers import Markers
from tests.net.carried import CarriedFleet
from tests.net.dead import OVERLAYS, SCHEMES, Ride
from tests.support.few import few

FOUND = [
    (
        4,
        "logging",
        "interest",
        False,
    ),  # a broker had joined meanwhile: what came from all brokers waited for the dead
    (
        9,
        "standard",
        "flooding",
        False,
    ),  # one that joined was linked with brokers that nobody could carry it to
    (10, "prefetching", "interest", True),  # of two claims to a context that was pushed one was forgotten
    (101, "prefetching", "interest", False),
    (305, "standard", "flooding", True),  # a broker had joined that one which was dead had not heard of
    (305, "proactive", "flooding", True),
]


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few(range(6)))
def test_what_others_have_for_each_other_goes_around_the_dead(seed: int, scheme: str, overlay: str) -> None:
    Ride(seed, scheme, overlay=overlay).check()


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few(range(1, 7)))
def test_nothing_is_lost_doubled_or_reordered_whoever_dies_with_whatever_it_has(
    seed: int, scheme: str, overlay: str
) -> None:
    Ride(seed, scheme, overlay=overlay, rough=True).check()


@pytest.mark.parametrize(("seed", "scheme", "overlay", "rough"), FOUND)
def test_rides_that_went_wrong_once(seed: int, scheme: str, overlay: str, rough: bool) -> None:
    Ride(seed, scheme, overlay=overlay, rough=rough).check()


def test_a_ride_notices_if_all_origins_wait_for_a_dead_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen to fail: a broker that thinks that anything may be late holds up what could go around."""
    everything = frozenset({BrokerId(f"b{number}") for number in range(1, 13)})
    monkeypatch.setattr(
        Markers, "late", lambda self, fence: frozenset() if self.passed(fence) else everything
    )

    with pytest.raises(AssertionError, match="does not go around"):
        for seed in range(6):
            Ride(seed, "standard", overlay="interest").check()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_two_brokers_that_joined_at_once_have_for_each_other_waits_for_the_one_between_and_nothing_else_does(
    overlay: str,
) -> None:
    """Who was admitted first was not known where the other one was: they have no link with each other."""
    names = ("b1", "b2", "b3", "b4")
    fleet = CarriedFleet(
        1, "standard", tuple(combinations(names, 2)), overlay=overlay, handoff_timeout_s=1000.0
    )
    fleet.settle()
    fleet.join("e1", "b1", "b2", asked=BrokerId("b1"))
    fleet.join("e2", "b3", "b4", asked=BrokerId("b3"))
    fleet.settle()
    reader, near, far = fleet.client("reader"), fleet.client("near"), fleet.client("far")
    for client, at in ((reader, "e1"), (far, "e2"), (near, "b1")):
        client.connect(at)
    reader.subscribe("t/#", 2)
    fleet.settle()
    between = fleet.machines[BrokerId("e1")].broker.router.next_hop(BrokerId("e2"))
    assert between in names
    publishes_at = next(name for name in names if name != between)
    near.connect(publishes_at)
    fleet.settle()

    fleet.kill(between)
    far.publish("t/x", b"far", 2)
    near.publish("t/x", b"near", 2)
    fleet.settle()
    assert reader.payloads() == [b"near"]
    fleet.start(between)
    fleet.settle()

    assert reader.payloads() == [b"near", b"far"]


class SlowFleet(CarriedFleet):
    """Frames from b2 to b3 take as long as the test likes."""

    is_slow = False

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        return super().is_open(source, target) and not (self.is_slow and (source, target) == ("b2", "b3"))


@pytest.mark.parametrize("was_down", [False, True])
@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_who_has_not_heard_where_the_client_is_does_not_wait_for_the_dead_broker_that_it_was_at(
    scheme: str, overlay: str, was_down: bool
) -> None:
    """The client goes from b1 to b2, b1 dies, and b3, which has just come back or has only not heard of it, asks b1."""
    names = ("b1", "b2", "b3", "b4")
    fleet = SlowFleet(1, scheme, tuple(combinations(names, 2)), overlay=overlay, handoff_timeout_s=1000.0)
    fleet.settle()
    client, writer = fleet.client("mover"), fleet.client("writer")
    client.connect("b1")
    client.subscribe("t/#", 2)
    writer.connect("b4")
    fleet.settle()
    if was_down:
        fleet.kill("b3")
    fleet.is_slow = True
    client.connect("b2")
    writer.publish("t/x", b"one", 2)
    fleet.settle()
    fleet.kill("b1")
    if was_down:
        fleet.start("b3")
    client.connect("b3")
    fleet.settle()
    assert fleet.machines[BrokerId("b3")].directory.last_epoch(ClientId("mover")).broker in ("b1", "b3")  # type: ignore[union-attr]
    fleet.is_slow = False
    writer.publish("t/x", b"two", 2)
    fleet.settle()

    assert client.device.is_open and all(client.present[1:])
    assert client.payloads() == [b"one", b"two"]
    fleet.start("b1")
    fleet.settle()
    writer.publish("t/x", b"three", 2)
    fleet.settle()
    assert client.payloads() == [b"one", b"two", b"three"]
    held = [
        name
        for name, machine in fleet.machines.items()
        for context in machine.held()
        if context.client == "mover" and not machine.broker.scheme.may_keep(context)
    ]
    assert held == ["b3"]


@pytest.mark.parametrize("dies_early", [False, True])
@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", ["standard", "proactive", "logging"])
def test_what_a_dead_broker_owed_is_waited_for_until_it_is_forgotten_and_that_is_recorded(
    scheme: str, overlay: str, dies_early: bool
) -> None:
    """b3 is down while the client goes from b1 to b2. Then b1 dies, when it owes what b3 had or before it has gone."""
    names = ("b1", "b2", "b3", "b4")
    fleet = CarriedFleet(1, scheme, tuple(combinations(names, 2)), overlay=overlay, handoff_timeout_s=1000.0)
    fleet.settle()
    client, writer, other = (fleet.client(name) for name in ("mover", "writer", "other"))
    client.connect("b1")
    client.subscribe("t/#", 2)
    writer.connect("b3")
    other.connect("b4")
    fleet.settle()
    writer.publish("t/x", b"zero", 2)
    fleet.settle()
    fleet.cut_connection(frozenset((BrokerId("b1"), BrokerId("b3"))))
    fleet.kill("b3")
    if overlay == "flooding":  # b2 has seen what b1 has not
        fleet.machines[BrokerId("b2")].broker.router.frontier[BrokerId("b3")] += 1  # type: ignore[attr-defined]
    client.connect("b2")
    if dies_early:
        while not any(
            one.answered
            for one in fleet.machines[BrokerId("b2")].broker.scheme.handover.whereabouts.arriving.values()  # type: ignore[attr-defined]
        ):
            assert fleet.step()
    else:
        fleet.settle()
        assert fleet.machines[BrokerId("b2")].broker.scheme.parts.awaited() == {"b1": 1}
    fleet.kill("b1")
    fleet.start("b3")
    fleet.settle()
    writer.connect("b3")
    for publisher, payload in ((writer, b"one"), (other, b"two")):
        publisher.publish("t/x", payload, 2)
    fleet.settle()
    assert b"one" not in client.payloads()
    assert dies_early or b"two" in client.payloads(), "it waits for b3's alone"

    fleet.forget("b1", BrokerId("b4"))
    fleet.settle()
    assert client.device.is_open and all(client.present[1:])
    assert sorted(client.payloads()) == [b"one", b"two", b"zero"]
    missed = [(one.client, one.origin, one.peer) for one in fleet.records if one.kind == "missed"]
    assert missed == [("mover", None if dies_early else "b3", "b1")]
