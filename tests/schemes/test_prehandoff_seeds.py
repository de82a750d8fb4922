"""Pre-handoff under random journeys, delays and faults: nothing lost, nothing twice, in order, nothing left behind.

These are the first few hundred; `python -m tests.support.street_rides FIRST END` rides as many as one likes.
"""

from collections import Counter

import pytest

from roamq.sim.scenario import Simulation, load_scenario
from tests.support.rough_rides import findings
from tests.support.rough_rides import ride as rough_ride
from tests.support.street_rides import forgetful_ride, ride, told_ride

pytestmark = pytest.mark.slow

BATCH = 60


@pytest.mark.parametrize("first", range(0, 5 * BATCH, BATCH))
def test_street_rides_lose_repeat_reorder_and_leave_behind_nothing(first: int) -> None:
    for number in range(first, first + BATCH):
        assert findings(ride(number)) == {}, f"replay: tests.support.street_rides.ride({number})"


@pytest.mark.parametrize("first", range(0, 3 * BATCH, BATCH))
def test_servers_that_tell_what_was_read_lose_repeat_reorder_and_leave_behind_nothing(first: int) -> None:
    for number in range(first, first + BATCH):
        found = findings(told_ride(number))
        assert found == {}, f"replay: tests.support.street_rides.told_ride({number})"


def test_the_rides_meet_every_case() -> None:
    """A test of the test: virtual consumers are hit, met unready, missed, cancelled and wasted."""
    seen: Counter[str | None] = Counter()
    for number in range(40):
        seen += Counter(r.detail for r in ride(number).records if r.kind == "prehandoff")
    for case in ("requested", "ready", "hit", "unready", "missed", "cancelled", "wasted"):
        assert seen[case] > 20, f"{case}: {seen}"


@pytest.mark.parametrize("number", range(20))
def test_without_a_map_the_handoff_is_the_normal_one(number: int) -> None:
    assert findings(rough_ride("prehandoff", number)) == {}


@pytest.mark.parametrize("first", [0, 30])
def test_brokers_that_forget_leave_no_virtual_consumer_behind(first: int) -> None:
    """Without the lease one ride in nine does."""
    for number in range(first, first + 30):
        assert forgetful_ride(number) == {}, f"replay: tests.support.street_rides.forgetful_ride({number})"


@pytest.mark.parametrize("choose", ["border", "ahead"])
def test_who_stays_switched_on_and_on_the_move_is_never_missed(choose: str) -> None:
    """Speeds differ by a factor of two: with `haste` 2 nobody can be at a border before it is expected there."""
    options = {"scheme.choose": choose, "scheme.haste": "2", "scheme.moving_s": "1e9", "mobility.off": "0"}
    scenario = load_scenario("prehandoff", overrides={**options, "duration_s": "900"})
    seen = Counter(r.detail for r in Simulation(scenario, 1).run().records if r.kind == "prehandoff")
    assert seen["hit"] > 100
    assert seen["missed"] == seen["unready"] == 0
