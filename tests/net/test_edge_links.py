"""Brokers that joined later are linked with each other: no broker of the core stands between them."""

import asyncio
from pathlib import Path

import pytest

from roamq.core.events import BrokerId
from tests.net.carried import CarriedFleet
from tests.net.live import PlainClient, machine_of
from tests.net.test_growing_live import act, has_left
from tests.net.test_growing_over_tls import Operators, connect
from tests.net.test_new_lives import payloads
from tests.support.waiting import eventually

MESH = [("b1", "b2"), ("b2", "b3"), ("b1", "b3")]
D, E = BrokerId("d"), BrokerId("e")


def grown(overlay: str, *, e_at: tuple[str, ...] = ("b2", "b3")) -> CarriedFleet:
    """Three brokers, and two that joined one after the other."""
    fleet = CarriedFleet(1, "standard", MESH, overlay=overlay)
    fleet.settle()
    for name, at in ((D, ("b1", "b2")), (E, e_at)):
        fleet.join(name, *at)
        fleet.settle()
    return fleet


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_all_brokers_know_of_the_link_between_two_that_joined(overlay: str) -> None:
    fleet = grown(overlay)

    assert {D, E} in fleet.up
    for name, machine in fleet.machines.items():
        router = machine.broker.router
        assert router.distance(D, E) == 1, name
        assert router.pair_through(BrokerId("b2")) is None, "so b2 may leave"


def test_a_broker_that_can_call_one_of_the_core_alone_is_linked_with_no_other_that_joined() -> None:
    fleet = grown("interest", e_at=("b2",))

    assert fleet.machines[D].membership.members[E].beside == ()
    assert E not in fleet.machines[D].outboxes.frames


def test_two_that_join_in_the_same_moment_have_a_broker_of_the_core_between_them() -> None:
    """Neither was told of the other when it was admitted: its first events would not come there."""
    fleet = CarriedFleet(1, "standard", MESH, overlay="interest")
    fleet.settle()
    fleet.join(D, "b1", "b2", asked=BrokerId("b1"))
    fleet.join(E, "b2", "b3", asked=BrokerId("b3"))
    fleet.settle()

    for machine in fleet.machines.values():
        assert machine.broker.router.distance(D, E) == 2
    assert {D, E} not in fleet.up


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_one_that_leaves_and_comes_back_is_linked_again(overlay: str) -> None:
    fleet = grown(overlay)
    fleet.leave(D)
    fleet.settle()
    assert D not in fleet.machines[E].outboxes.frames

    fleet.join(D, "b1", "b3")
    fleet.settle()

    members = fleet.machines[E].membership.members
    assert members[D].beside == (members[E].mark,)
    assert {D, E} in fleet.up
    assert all(machine.broker.router.distance(D, E) == 1 for machine in fleet.machines.values())


@pytest.mark.live
@pytest.mark.parametrize(("has_keys", "overlay"), [(True, "interest"), (False, "flooding")])
def test_two_that_joined_reach_each_other_around_whichever_broker_is_down(
    tmp_path: Path, has_keys: bool, overlay: str
) -> None:
    async def scenario() -> None:
        operators = Operators(tmp_path, has_keys=has_keys, overlay=overlay)
        site = operators.site
        await site.start("b1", "b2", "b3")
        await operators.join("d", "b1", "b2")
        await operators.start("d")
        told = await operators.join("e", "b2", "b3")
        assert told["beside"] == ["d"]
        await operators.start("e")
        one, other = site.servers["d"], site.servers["e"]
        await eventually(lambda: "e" in one.links.up and "d" in other.links.up, "the link of d with e")
        assert one.links.through["e"] == other.links.through["d"]
        reader, writer = PlainClient("reader"), PlainClient("writer")
        await connect(operators, reader, "e")
        await reader.subscribe("t/#", 1)
        await connect(operators, writer, "d")
        sent: list[bytes] = []

        async def tell() -> None:
            sent.append(b"%d" % len(sent))
            writer.publish("t/x", sent[-1], 1)
            await eventually(lambda: writer.acknowledged == sent, f"the acknowledgement of {sent[-1]!r}")

        await tell()
        for down in ("b1", "b2", "b3"):
            await site.stop(down)
            await tell()
            await eventually(lambda: payloads(reader) == sent, f"what was published while {down} is down")
            for at in ("d", "e"):
                await connect(operators, reader, at)
                assert reader.session_present
                await tell()
                await eventually(lambda at=at: payloads(reader) == sent, f"what was published for {at}")
            await site.start(down)
        del site.servers["e"]
        reader.drop()
        await asyncio.to_thread(act, other, "/api/leave")
        await has_left(other)
        await eventually(lambda: "e" not in machine_of(one).outboxes.frames, "word that e has left")
        await connect(operators, reader, "d")
        assert reader.session_present
        await tell()
        await eventually(lambda: payloads(reader) == sent, "what was published when e had left")
        writer.drop()
        reader.drop()
        await site.stop()

    asyncio.run(scenario())
