"""A client comes to a broker that has to ask the others for it, does not wait, and goes elsewhere."""

import pytest

from roamq.core.events import BrokerId
from tests.net.at_once import SCHEMES, SlowFleet
from tests.net.fleet import FleetClient

OVERLAYS = ("interest", "flooding")


def impatient(scheme: str, overlay: str, *slow: tuple[str, str]) -> tuple[SlowFleet, FleetClient]:
    """The client was at b2, of which b1 has not heard. It comes to b1, which asks the others, and goes back to b2
    before they have answered; b1 has not noticed that. `slow`: what comes from b1 later, too."""
    fleet = SlowFleet(1, scheme, ring=False, overlay=overlay)
    fleet.settle()
    fleet.set_slow(("b2", "b1"), ("b3", "b1"))
    client = fleet.client("c")
    client.may_be_refused = True
    client.connect("b2")
    fleet.run(lambda: client.device.is_open)
    client.subscribe("t/#", 2)
    fleet.settle()
    fleet.set_slow(("b2", "b1"), ("b3", "b1"), *slow)
    client.connect("b1")
    fleet.run(lambda: fleet.machines[BrokerId("b1")].serves("c"))
    fleet.now += 0.1
    client.connect("b2")
    fleet.losses.clear()
    fleet.run(lambda: client.device.is_open)
    return fleet, client


def check_it_stays(fleet: SlowFleet, client: FleetClient) -> None:
    fleet.slow.clear()
    fleet.settle()
    client.publish("t/x", b"one", 2)
    fleet.settle()
    assert client.device.refused is None and client.device.closed_because is None
    assert client.payloads() == [b"one"]
    assert not fleet.machines[BrokerId("b1")].serves("c")


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_later_connection_stays_though_the_earlier_one_is_let_in_after_it(
    scheme: str, overlay: str
) -> None:
    fleet, client = impatient(scheme, overlay)

    fleet.wait(1.0)

    assert fleet.machines[BrokerId("b1")].serves("c")
    check_it_stays(fleet, client)


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_earlier_one_is_not_let_in_if_others_know_of_the_later_one(scheme: str, overlay: str) -> None:
    fleet, client = impatient(scheme, overlay, ("b1", "b3"))

    fleet.run(lambda: not fleet.links[BrokerId("b2"), BrokerId("b3")])
    fleet.set_slow(("b2", "b1"))
    fleet.wait(1.0)

    assert not fleet.machines[BrokerId("b1")].serves("c")
    check_it_stays(fleet, client)
