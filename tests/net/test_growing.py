"""Rides through a network whose brokers come and go (`growing.py`): all comes, once and in order."""

import pytest

from tests.net.growing import SCHEMES, Ride
from tests.support.few import few


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few(range(4)))
def test_nothing_is_lost_while_brokers_join_and_leave(seed: int, scheme: str, overlay: str) -> None:
    Ride(seed, scheme, faults=False, overlay=overlay).check()


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few([0, 1, 2, 7, 8, 1026]))
def test_nothing_is_lost_while_links_are_cut_and_brokers_fall_or_begin_anew_as_well(
    seed: int, scheme: str, overlay: str
) -> None:
    Ride(seed, scheme, faults=True, overlay=overlay).check()
