"""Brokers of a live network read an edited file one after the other, and are killed and stored in between."""

import os

import pytest

from tests.net.changes import ChangingRide

RIDES = int(os.environ.get("ROAMQ_RIDES", "12"))


@pytest.mark.parametrize("seed", range(RIDES))
def test_all_comes_once_and_in_order_while_schemes_change(seed: int) -> None:
    ride = ChangingRide(seed)
    ride.run()

    assert ride.changes
    assert ride.fault() is None, f"repeat: python -m tests.net.changes --rides 1 --seed {seed}"
