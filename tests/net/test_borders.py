"""Clients cross borders while brokers fall, with real MQTT bytes: the first rides of `python -m tests.net.borders`."""

from collections import Counter

import pytest

from roamq.schemes.parts.virtual_consumers import VirtualConsumer
from tests.net.borders import Ride, count_served_at_once
from tests.support.few import few

BATCH = 10


@pytest.mark.parametrize("first", few(range(0, 6 * BATCH, BATCH)))
def test_nothing_is_lost_repeated_reordered_or_left_behind(first: int) -> None:
    for seed in range(first, first + BATCH):
        ride = Ride(seed)
        ride.run()
        fault = ride.fault()
        assert fault is None, f"{fault}\nreplay: python -m tests.net.borders --rides 1 --first {seed}"


def test_the_rides_meet_both_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the test: clients are served at once, and asked about."""
    count: Counter[str] = Counter()
    monkeypatch.setattr(VirtualConsumer, "was_told", VirtualConsumer.was_told)  # so that it is put back
    count_served_at_once(count)
    for seed in range(BATCH):
        Ride(seed).run()
    assert min(count["at once"], count["asked"]) > 10, count


def test_the_rides_find_that_a_word_on_an_earlier_connection_is_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(VirtualConsumer, "was_told", lambda self, ticket: self.settled)
    found = []
    for seed in range(
        1600, 5000, 4
    ):  # those in which the client shows nothing; one in some two hundred finds it
        ride = Ride(seed, kill=0.0)
        ride.run()
        found.append(ride.fault())
        if found[-1] is not None:
            return
    pytest.fail(f"nothing found in {len(found)} rides")
