"""Brokers whose clocks differ: who connected last is no matter of wall time."""

import pytest

from roamq.core.events import BrokerId
from tests.net.fleet import Fleet

SCHEMES = ["standard", "proactive", "prefetching", "logging", "home-broker", "prehandoff"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("skew_s", [60.0, -60.0, 3600.0])
@pytest.mark.parametrize("shows_ticket", [False, True])
def test_a_client_that_comes_from_a_broker_whose_clock_is_off_is_served(
    scheme: str, skew_s: float, shows_ticket: bool
) -> None:
    fleet = Fleet(1, scheme)
    fleet.skew_s[BrokerId("b1")] = skew_s
    mover, publisher = fleet.client("mover", shows_ticket=shows_ticket), fleet.client("publisher")
    publisher.connect("b3")
    mover.connect("b1")
    mover.subscribe("t", 2)
    fleet.settle()

    sent = []
    for number, broker in enumerate(["b2", "b3", "b1", "b2", "b1", "b3"]):
        mover.vanish()
        fleet.settle()
        sent.append(b"%d" % number)
        publisher.publish("t", sent[-1], 2)
        fleet.settle()
        mover.connect(broker)
        fleet.settle()

    assert mover.present == [False] + [True] * 6
    assert mover.payloads() == sent
    assert mover.device.closed_because is None


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_the_newest_connection_wins_though_the_other_brokers_clock_is_ahead(scheme: str) -> None:
    fleet = Fleet(2, scheme)
    fleet.skew_s[BrokerId("b1")] = 60.0
    first, second = fleet.client("same"), fleet.client("same")
    first.connect("b1")
    fleet.settle()

    second.connect("b2")
    fleet.settle()

    assert first.device.closed_because is not None
    assert second.device.closed_because is None
    assert fleet.machines[BrokerId("b2")].serves("same")


@pytest.mark.parametrize("skew_s", [60.0, -60.0, 3600.0])
@pytest.mark.parametrize("last", [b"new", b""])
def test_the_last_retained_message_stays_whatever_clocks_say(skew_s: float, last: bytes) -> None:
    """A broker whose clock is ahead does not have the last word on a topic until the others have caught up."""
    fleet = Fleet(1, "standard")
    fleet.skew_s[BrokerId("b1")] = skew_s
    first, second = fleet.client("first"), fleet.client("second")
    first.connect("b1")
    second.connect("b2")
    fleet.settle()
    for client, payload in (
        (first, b"old"),
        (second, b"middle"),
        (first, b""),
        (second, b"old"),
        (first, b"x"),
    ):
        client.publish("t", payload, 1, retain=True)
        fleet.settle()
    second.publish("t", last, 1, retain=True)
    fleet.settle()

    for name in ("b1", "b2", "b3"):
        reader = fleet.client(f"reader at {name}")
        reader.connect(name)
        reader.subscribe("t", 1)
        fleet.settle()
        assert reader.payloads() == ([last] if last else []), name
