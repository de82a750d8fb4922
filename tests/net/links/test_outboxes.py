"""Who has forgotten what, however often brokers restart and links break in between."""

import pytest

from roamq.core.events import BrokerId
from roamq.net.links.outboxes import Memory, Outboxes
from roamq.net.topics.directory import Adopt
from tests.net.kills import Ride

PEER = BrokerId("b2")
SAME, THEY, WE = Memory.SAME, Memory.THEY_FORGOT, Memory.WE_FORGOT


def outboxes() -> Outboxes:
    """Three frames were sent, and all of them acknowledged."""
    made = Outboxes([PEER], 1000, 10_000)
    made.acknowledge(PEER, 0)  # a neighbour that never heard of this broker
    for _ in range(3):
        send(made)
    assert made.acknowledge(PEER, 1003) is SAME
    return made


def send(boxes: Outboxes) -> None:
    boxes.add(PEER, Adopt(client="c", home=PEER))  # type: ignore[arg-type]


def test_a_neighbour_that_heard_nothing_between_two_restarts_has_forgotten_nothing() -> None:
    boxes = outboxes()
    boxes.skip_to(2000)
    boxes.skip_to(3000)
    assert boxes.acknowledge(PEER, 1003) is SAME
    send(boxes)
    assert boxes.acknowledge(PEER, 1003) is SAME, "the link broke before the frame arrived"
    boxes.skip_to(4000)
    send(boxes)
    assert boxes.acknowledge(PEER, 1003) is SAME
    assert boxes.acknowledge(PEER, 3001) is SAME
    assert boxes.acknowledge(PEER, 4001) is SAME
    assert not boxes.frames[PEER] and not boxes.bytes[PEER]


def test_a_neighbour_with_less_than_it_had_lost_its_store_and_is_told_once() -> None:
    boxes = outboxes()
    boxes.skip_to(2000)
    send(boxes)

    assert [boxes.acknowledge(PEER, number) for number in (1001, 1001, 2001, 0)] == [THEY, SAME, SAME, THEY]


@pytest.mark.parametrize("has", [1500, 2500])
def test_a_neighbour_with_a_number_that_was_left_out_knows_more_than_the_store(has: int) -> None:
    boxes = outboxes()
    boxes.skip_to(2000)
    boxes.skip_to(3000)
    send(boxes)

    assert [boxes.acknowledge(PEER, number) for number in (has, has, 3001)] == [WE, SAME, SAME]


@pytest.mark.parametrize(("seed", "scheme"), [(100038, "home-broker"), (100071, "proactive")])
def test_brokers_that_restart_twice_in_a_moment_lose_nothing(seed: int, scheme: str) -> None:
    """Neighbours took each other for brokers without a store, and dropped subscriptions that nobody told again."""
    ride = Ride(seed, scheme)
    ride.run()

    assert ride.kills > 5
    assert ride.fault() is None


def test_a_number_that_a_frame_ahead_of_others_takes_is_not_of_a_life_that_the_store_does_not_remember() -> (
    None
):
    boxes = outboxes()
    boxes.skip_to(2000)
    send(boxes)
    assert boxes.acknowledge(PEER, 0) is THEY
    boxes.put_first(PEER, Adopt(client="c", home=PEER))  # type: ignore[arg-type]
    boxes.put_first(PEER, Adopt(client="c", home=PEER))  # type: ignore[arg-type]
    assert [number for number, _ in boxes.frames[PEER]] == [1999, 2000, 2001]
    assert [boxes.acknowledge(PEER, number) for number in (1999, 2000, 2001)] == [SAME, SAME, SAME]
