"""Two brokers join a network in the same moment, and a client moves to one of them.

The publisher is at the other one, `f`. Its first events go past the broker that stands between the two, before that one
has heard of `e`; and b3, where the client was, has not heard of `f` when it lets the client go (docs/decisions/0211 and
0264).
"""

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.overlay.flooding import Flooding
from roamq.overlay.interest import ByInterest
from tests.net.at_once import OVERLAYS, SCHEMES, Ride, SlowFleet
from tests.net.fleet import FleetClient
from tests.support.few import few

BETWEEN = {"flooding": "b2", "interest": "b1"}
"""Overlay -> the broker between e and f. The other one is on the path between e and b3."""
OTHER = {"flooding": "b1", "interest": "b2"}


def moving(scheme: str, overlay: str) -> tuple[SlowFleet, FleetClient, FleetClient]:
    """f has published one event, and the client moves from b3 to e."""
    fleet = SlowFleet(1, scheme, ring=False, overlay=overlay)
    fleet.settle()
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    mover.connect("b3")
    mover.subscribe("t/#", 2)
    fleet.settle()
    between, other = BETWEEN[overlay], OTHER[overlay]
    fleet.set_slow((other, between), ("b3", between), (between, other), (between, "b3"))
    fleet.join("e", "b1", "b2", asked=BrokerId(other))
    fleet.join("f", between)
    fleet.run(lambda: {"e", "f"} <= set(fleet.serving))
    publisher.connect("f")
    publish(fleet, publisher, b"1")
    assert not knows(fleet, between, "e"), "it went past"
    mover.connect("e")
    return fleet, mover, publisher


def apart(scheme: str, overlay: str) -> tuple[SlowFleet, FleetClient, FleetClient]:
    """The client has moved from b3 to e, and has its session but for what is behind b2; f has published one event."""
    fleet, mover, publisher = moving(scheme, overlay)
    fleet.run(lambda: mover.device.is_open and awaits_more(fleet, "e"))
    assert not knows(fleet, "b3", "f") and not knows(fleet, "e", "f")
    assert not knows(fleet, BETWEEN[overlay], "e")
    return fleet, mover, publisher


def publish(fleet: SlowFleet, publisher: FleetClient, payload: bytes) -> None:
    """f publishes, and the broker between the two has passed it on."""
    f = fleet.machines[BrokerId("f")].broker
    between = fleet.machines[f.router.next_hop(BrokerId("b3"))].broker
    before = f.sequence
    publisher.publish("t/x", payload, 2)
    assert isinstance(between.router, Flooding | ByInterest)
    seen = between.router.frontier
    fleet.run(lambda: f.sequence > before and seen.get(BrokerId("f"), 0) == f.sequence)


def awaits_more(fleet: SlowFleet, at: str) -> bool:
    """Whether the session is there, but for events that come late."""
    context = fleet.machines[BrokerId(at)].broker.contexts.get(ClientId("mover"))
    return context is not None and context.late is not None


def knows(fleet: SlowFleet, here: str, broker: str) -> bool:
    return BrokerId(broker) in fleet.machines[BrokerId(here)].membership.members


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_first_event_of_a_broker_comes_that_the_old_broker_had_not_heard_of(
    scheme: str, overlay: str
) -> None:
    fleet, mover, publisher = apart(scheme, overlay)

    fleet.slow.clear()
    publisher.publish("t/x", b"2", 2)
    fleet.settle()

    assert mover.payloads() == [b"1", b"2"]
    assert all(mover.present[1:])


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_later_event_that_comes_straight_waits_for_it(scheme: str, overlay: str) -> None:
    fleet, mover, publisher = apart(scheme, overlay)

    fleet.set_slow((BETWEEN[overlay], "b3"))
    fleet.run(lambda: knows(fleet, "e", "f"))
    publish(fleet, publisher, b"2")
    fleet.run(lambda: not fleet.links[BrokerId(BETWEEN[overlay]), BrokerId("e")])
    fleet.wait(5.0)
    assert mover.payloads() == []
    fleet.slow.clear()
    fleet.settle()

    assert mover.payloads() == [b"1", b"2"]


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("to", ["b1", "b2", "f"])
def test_a_client_that_moves_on_gets_it_there(scheme: str, overlay: str, to: str) -> None:
    fleet, mover, publisher = apart(scheme, overlay)

    fleet.set_slow((BETWEEN[overlay], "b3"))
    fleet.run(lambda: knows(fleet, "e", "f") and knows(fleet, OTHER[overlay], "f"))
    mover.connect(to)
    publisher.publish("t/x", b"2", 2)
    fleet.run(lambda: mover.device.is_open)
    fleet.slow.clear()
    fleet.settle()

    assert mover.payloads() == [b"1", b"2"]
    assert all(mover.present[1:])


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_later_event_waits_if_the_new_broker_hears_of_both_before_the_session_comes(
    scheme: str, overlay: str
) -> None:
    """The broker between the two has told e by then what e has to know; word of that, and of f, comes to b3 later."""
    fleet, mover, publisher = moving(scheme, overlay)
    b3 = fleet.machines[BrokerId("b3")].broker.scheme
    fleet.run(lambda: bool(b3.handover._before_fence))  # type: ignore[attr-defined]

    fleet.set_slow(("b1", "b3"), ("b2", "b3"), ("b3", OTHER[overlay]))
    fleet.run(lambda: knows(fleet, "e", "f"))
    publish(fleet, publisher, b"2")
    fleet.run(lambda: not fleet.links[BrokerId(BETWEEN[overlay]), BrokerId("e")])
    fleet.set_slow(("b1", "b3"), ("b2", "b3"))
    fleet.run(lambda: mover.device.is_open and awaits_more(fleet, "e"))
    assert not knows(fleet, "b3", "f")
    fleet.wait(5.0)
    assert mover.payloads() == []
    fleet.slow.clear()
    fleet.settle()

    assert mover.payloads() == [b"1", b"2"]


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_nobody_else_is_held_up(scheme: str, overlay: str) -> None:
    """What comes of brokers that the old one knew goes on, though a neighbour of e has said nothing yet."""
    fleet, mover, _ = apart(scheme, overlay)

    settled = fleet.client("settled")
    settled.connect(OTHER[overlay])
    settled.publish("t/x", b"straight", 2)
    fleet.run(lambda: mover.payloads() == [b"straight"])


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few(range(3)))
def test_nothing_is_lost_while_brokers_join_at_once(seed: int, scheme: str, overlay: str) -> None:
    Ride(seed, scheme, overlay=overlay).check()


def test_a_ride_that_lost_the_first_messages_of_a_newcomer() -> None:
    Ride(15, "proactive", overlay="flooding").check()
