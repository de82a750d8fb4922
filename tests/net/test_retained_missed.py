"""Retained messages that had no room on their way to a broker that was down: it has them when it is back."""

import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Publish
from roamq.net.links import outboxes
from roamq.net.machine import Machine
from roamq.net.ops.settings import Quotas
from tests.net.severed import SeveredFleet
from tests.net.test_growth import Visitor

DEAD = "b3"


def retained(machine: Machine) -> dict[str, bytes]:
    return {event.topic: event.payload for event in machine.retained.events()}


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize("remembered", [10_000, 5])
def test_what_had_no_room_in_the_outbox_is_told_when_there_is_room_again(
    overlay: str, ring: bool, remembered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a ring, brokers behind the dead one have missed it as well."""
    monkeypatch.setattr(outboxes, "MISSED_MAX", remembered)
    quotas = Quotas(outbox_bytes_max=2_000)
    fleet = SeveredFleet(1, "standard", 5 if ring else 3, ring=ring, quotas=quotas, overlay=overlay)
    publisher = Visitor(fleet, "publisher", "u")
    publisher.enter("b2", expiry=0)
    for number in range(5):
        publisher.say(Publish(f"old/{number}", b"old", retain=True))
    fleet.sever(DEAD)
    for number in range(30):
        publisher.say(Publish(f"new/{number}", b"x" * 100, retain=True))
    for number in range(3):
        publisher.say(Publish(f"old/{number}", b"", retain=True))
        publisher.say(Publish(f"new/{number}", b"later", retain=True))
    here = fleet.machines[BrokerId("b2")]
    dropped = [record for record in fleet.records if record.detail == "outbox_full"]
    assert len(dropped) >= 20
    assert retained(here) != retained(fleet.machines[BrokerId(DEAD)])
    assert all(len(said.missed) <= remembered for said in here.outboxes.said.values())

    fleet.mend()
    fleet.settle()

    wanted = retained(here)
    assert len(wanted) == 32
    for name, machine in fleet.machines.items():
        assert retained(machine) == wanted, name
        assert not any(said.missed for said in machine.outboxes.said.values())
