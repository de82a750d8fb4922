"""Rides past brokers that are dead in the middle, where paths are direct (`dead.py`): all goes around, in order."""

from itertools import combinations

import pytest

from roamq.core.events import BrokerId
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
def test_what_two_brokers_that_joined_have_for_each_other_waits_for_the_one_between_and_nothing_else_does(
    overlay: str,
) -> None:
    names = ("b1", "b2", "b3", "b4")
    fleet = CarriedFleet(
        1, "standard", tuple(combinations(names, 2)), overlay=overlay, handoff_timeout_s=1000.0
    )
    fleet.settle()
    fleet.join("e1", "b1", "b2")
    fleet.settle()
    fleet.join("e2", "b3", "b4")
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
