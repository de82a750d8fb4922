"""Nothing is lost, repeated, reordered or left behind where events are routed by interest.

Rough rides on random graphs, with crashes and cuts; events are owed from the confirmation of a subscription on. More of
them with `ROAMQ_RIDES=1000 pytest tests/sim/test_interest_rides.py`, that many for each of the variants below.
"""

import os
from collections.abc import Iterable
from typing import Any

import pytest

from roamq.config import Source
from roamq.core.covering import CoverIndex
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.overlay.advertised import Advertised
from roamq.overlay.interest import ByInterest
from roamq.overlay.paths import UniquePaths
from roamq.schemes.parts import late
from roamq.sim.scenario import Simulation, checked
from tests.support.rough_rides import findings, ride
from tests.support.street_rides import ride as street_ride

RIDES = int(os.environ.get("ROAMQ_RIDES", "25"))
LATE_RIDES = RIDES * 2 // 5

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("standard", {}),
    ("proactive", {}),
    ("prehandoff", {}),
    ("logging", {}),
    ("logging", {"log_size": 5}),
    ("prefetching", {}),
    ("prefetching", {"prediction": "wrong"}),
    ("prefetching", {"prediction": "learned", "targets": 3}),
    ("prefetching", {"prediction": "wrong", "targets": 2}),
    ("home-broker", {}),
    ("standard+on-device", {}),
    ("logging+on-device", {}),
    ("prefetching+on-device", {"prediction": "wrong", "targets": 2}),
]


@pytest.mark.slow
@pytest.mark.parametrize(("scheme", "options"), VARIANTS)
def test_no_ride_loses_or_repeats_anything(scheme: str, options: dict[str, Any]) -> None:
    for number in range(RIDES):
        result = ride(scheme, number, overlay="interest", **options)
        assert result.checkers.expected_count > 0, f"ride {number} expects nothing and shows nothing"
        assert findings(result) == {}, f"replay: ride({scheme!r}, {number}, overlay='interest', **{options})"


@pytest.mark.slow
@pytest.mark.parametrize("late_after_s", [None, 0.0])
@pytest.mark.parametrize(("scheme", "options"), VARIANTS)
def test_no_ride_loses_or_repeats_anything_where_brokers_say_what_is_published_there(
    scheme: str, options: dict[str, Any], late_after_s: float | None
) -> None:
    """Markers go only to the partings of origins that publish what the client wants."""
    for number in range(LATE_RIDES):
        given = {"overlay": "interest", "advertised": True, "late_after_s": late_after_s, **options}
        result = ride(scheme, number, **given)
        assert result.checkers.expected_count > 0, f"ride {number} expects nothing and shows nothing"
        assert findings(result) == {}, f"replay: ride({scheme!r}, {number}, **{given})"


@pytest.mark.slow
@pytest.mark.parametrize("late_after_s", [0.0, 0.2])
@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize(
    ("scheme", "options"), [one for one in VARIANTS if one[0] != "home-broker"], ids=lambda one: str(one)
)
def test_no_ride_loses_or_repeats_what_comes_late(
    scheme: str, options: dict[str, Any], overlay: str, late_after_s: float
) -> None:
    for number in range(LATE_RIDES):
        result = ride(scheme, number, overlay=overlay, late_after_s=late_after_s, **options)
        assert result.checkers.expected_count > 0, f"ride {number} expects nothing and shows nothing"
        assert findings(result) == {}, (
            f"replay: ride({scheme!r}, {number}, {overlay=}, {late_after_s=}, **{options})"
        )


@pytest.mark.slow
@pytest.mark.parametrize("late_after_s", [0.0, 0.2])
@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_no_street_ride_loses_or_repeats_what_comes_late(overlay: str, late_after_s: float) -> None:
    """Virtual consumers that cannot be filled in time, and clients that replace them."""
    reordered = (
        23  # by interest and at once: what was subscribed to at the new broker alone came behind later events
    )
    for number in (*range(LATE_RIDES), reordered):
        found = findings(street_ride(number, overlay=overlay, late_after_s=late_after_s))
        assert found == {}, f"replay: street_ride({number}, {overlay=}, {late_after_s=})"


@pytest.mark.slow
def test_no_street_ride_of_the_prehandoff_loses_or_repeats_anything() -> None:
    """With a map there are virtual consumers, which are filled and replaced."""
    for number in range(RIDES):
        assert findings(street_ride(number, overlay="interest")) == {}, (
            f"replay: ride({number}, overlay='interest')"
        )


# Each mechanism that routing by interest rests on, taken out: some ride notices.


def _never_fenced(self: ByInterest, fence: object) -> bool:
    return True


def _nothing_surfaces(self: CoverIndex, filter: Filter, nodes: int | None) -> list[Filter]:
    """What a filter covered is forgotten with it."""
    return []


def _no_partings(self: UniquePaths, new: BrokerId, old: BrokerId, origins: object) -> tuple[BrokerId, ...]:
    """Only the path between the two brokers counts, as on a tree."""
    return ()


MUTATIONS: list[tuple[type, str, Any]] = [
    (ByInterest, "passed", _never_fenced),
    (CoverIndex, "covered_by_at_most", _nothing_surfaces),
    (UniquePaths, "partings", _no_partings),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name", "instead"), MUTATIONS)
def test_rides_notice_a_missing_mechanism(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, instead: Any
) -> None:
    monkeypatch.setattr(owner, name, instead)

    assert any(findings(ride("standard", number, overlay="interest")) for number in range(300))


def _first_sender(self: Advertised, wanted: Iterable[Filter] | None) -> frozenset[BrokerId]:
    """A fence waits for what the first subscription asks for, and not for the others."""
    return self.named(self.senders(next(iter(wanted or ()))))


def _nobody_sends(self: Advertised, wanted: Filter) -> int:
    """Nobody is asked for anything."""
    return 0


@pytest.mark.slow
@pytest.mark.parametrize(("name", "instead"), [("sending", _first_sender), ("senders", _nobody_sends)])
def test_rides_notice_that_an_origin_is_left_out(
    monkeypatch: pytest.MonkeyPatch, name: str, instead: Any
) -> None:
    monkeypatch.setattr(Advertised, name, instead)

    assert any(
        findings(ride("standard", number, overlay="interest", advertised=True)) for number in range(300)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hold_back", "late_origins"])
def test_rides_notice_that_what_comes_late_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Nothing is held back, or what is owed is forgotten when the client moves on."""
    instead: dict[str, Any] = {
        "hold_back": lambda context, origins: None,
        "late_origins": lambda context: frozenset(),
    }
    monkeypatch.setattr(late, name, instead[name])

    assert any(
        findings(ride("standard", number, overlay="interest", late_after_s=0.0)) for number in range(100)
    )


# --- single cases -------------------------------------------------------------------------------------------


def ring(size: int = 5, **more: Any) -> Simulation:
    brokers = [f"b{i}" for i in range(size)]
    scenario = {
        "clients": 0,
        "duration_s": 20.0,
        "network": {
            "overlay": "interest",
            "brokers": brokers,
            "links": [[brokers[i], brokers[(i + 1) % size]] for i in range(size)],
        },
        **more,
    }
    return Simulation(checked(scenario, Source("ring")), 1)


def test_an_event_published_after_the_confirmation_reaches_the_subscriber() -> None:
    simulation = ring()
    engine, hosts = simulation.engine, simulation.network.hosts
    here, far = hosts[BrokerId("b0")].broker, hosts[BrokerId("b2")].broker
    client, filter = ClientId("c"), Filter.parse("t")
    here.on_connect(client, None)
    here.on_subscribe(client, filter)
    confirmation = here.router.confirm()
    far.on_publish(None, "t")  # too early: nobody has promised anything
    while not here.router.passed(confirmation):
        engine.run(until=engine.now + 0.001)
    confirmed_after = engine.now
    owed = far.on_publish(None, "t")
    engine.run(until=engine.now + 1.0)

    assert confirmed_after == pytest.approx(4 * simulation.scenario.link.delay_s, abs=0.002), (
        "the diameter, twice"
    )
    assert owed.id in [held.event.id for held in here.contexts[client].stored]


def test_after_a_lost_store_in_the_middle_events_find_their_way_again() -> None:
    fault = {"at_s": 5.0, "kind": "crash", "target": "b1", "duration_s": 1.0, "keep_store": False}
    simulation = ring(faults=[fault])
    hosts = simulation.network.hosts
    here, far = hosts[BrokerId("b0")].broker, hosts[BrokerId("b2")].broker
    client = ClientId("c")
    here.on_connect(client, None)
    here.on_subscribe(client, Filter.parse("t"))
    simulation.engine.at(10.0, far.on_publish, None, "t")
    simulation.run()

    assert simulation.topology.unique_paths.path(BrokerId("b0"), BrokerId("b2"))[1] == "b1"
    assert [held.event.id.origin for held in here.contexts[client].stored] == ["b2"]
