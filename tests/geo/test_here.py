"""Location-dependent subscriptions ([PRE] section 5)."""

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.geo.here import is_location_dependent, qualified
from tests.support.events import event

B1, B2 = BrokerId("b1"), BrokerId("b2")
JAMS = Filter.parse("traffic/#", "location = 'HERE' AND delay_min > 5")


def test_here_is_the_area_the_broker_serves() -> None:
    there = qualified(JAMS, B2)
    assert there == Filter.parse("traffic/#", "location = 'b2' AND delay_min > 5")
    assert there.matches(event(topic="traffic/jam", location="b2", delay_min=9))
    assert not there.matches(event(topic="traffic/jam", location="b1", delay_min=9))


def test_here_may_stand_among_other_places() -> None:
    both = Filter.parse("traffic/#", "location IN ('HERE', 'b7')")
    assert qualified(both, B1) == Filter.parse("traffic/#", "location IN ('b1', 'b7')")


def test_other_filters_mean_the_same_everywhere() -> None:
    for plain in (
        Filter.parse("a/#"),
        Filter.parse("a", "place = 'HERE'"),
        Filter.parse("a", "location <> 'HERE'"),
    ):
        assert not is_location_dependent(plain)
        assert qualified(plain, B1) is plain
