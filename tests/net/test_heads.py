"""A client that moves is let in, and gets what waits for it, one round trip after it asked (decision 0145)."""

import pytest

from roamq.core.events import BrokerId, ClientId
from tests.net.fleet import Fleet, FleetClient

OLD, NEW = BrokerId("b1"), BrokerId("b2")


def moved(qos: int, *, clean: bool = False, overlay: str = "flooding") -> tuple[Fleet, FleetClient]:
    """A client with three waiting messages has come to another broker, which asks the old one; nobody has answered."""
    fleet = Fleet(1, "standard", 2, overlay=overlay, handoff_timeout_s=1000.0)
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect(OLD)
    mover.connect(OLD)
    mover.subscribe("t/#", qos)
    fleet.settle()
    mover.vanish()
    for number in range(3):
        publisher.publish("t/x", str(number).encode(), qos)
    fleet.settle()
    mover.connect(NEW, clean=clean)
    exchange(fleet, mover)
    return fleet, mover


def exchange(fleet: Fleet, mover: FleetClient) -> None:
    """What the client and its broker have said to each other arrives; the links stand still."""
    while mover.up or mover.down:
        if mover.up:
            fleet._to_broker(mover)
        else:
            fleet._to_client(mover)
        fleet.take_outputs()


def carry(fleet: Fleet, source: BrokerId, target: BrokerId) -> None:
    """All that is on a link arrives."""
    for _ in range(len(fleet.links[source, target])):
        fleet._frame(source, target)
    fleet.take_outputs()


@pytest.mark.parametrize("overlay", ["flooding", "interest"])
@pytest.mark.parametrize("qos", [1, 2])
def test_one_round_trip_brings_connack_and_what_waits(qos: int, overlay: str) -> None:
    fleet, mover = moved(qos, overlay=overlay)
    assert mover.present == [False]

    carry(fleet, NEW, OLD)
    carry(fleet, OLD, NEW)
    exchange(fleet, mover)

    assert mover.present == [False, True]
    assert mover.payloads() == [b"0", b"1", b"2"]
    context = fleet.machines[NEW].broker.contexts[ClientId("mover")]
    assert context.local_queue is not None, "the old broker has not been released"
    fleet.settle()
    assert context.local_queue is None
    assert mover.payloads() == [b"0", b"1", b"2"]


def test_a_session_that_is_to_end_is_brought_whole_first() -> None:
    fleet, mover = moved(1, clean=True)

    carry(fleet, NEW, OLD)
    carry(fleet, OLD, NEW)
    exchange(fleet, mover)
    assert mover.present == [False]
    fleet.settle()

    assert mover.present == [False, False]
    assert mover.payloads() == []
