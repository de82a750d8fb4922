"""A neighbour that is down for long is cut off: what waits for it has a bound, and it hears what it has missed."""

import os
from collections import Counter
from random import Random
from typing import Any

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Routed
from roamq.net import host
from roamq.net.clients import confirmations
from roamq.net.clients.mqtt.codec import Properties, Subscribe, SubscriptionRequest
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import LiveBroker
from roamq.net.links import outboxes, wire
from roamq.net.links.outboxes import CHOKED
from roamq.net.machine import Machine
from roamq.net.ops.settings import Quotas
from roamq.overlay.interest import ByInterest
from tests.net import test_out_of_reach, test_rides
from tests.net.severed import SeveredFleet
from tests.net.test_growth import BOUNDED, SCHEMES, Visitor, sizes, visit
from tests.support.few import few

BOUND = 30_000
CUT_AT = 1200
RIDES = int(os.environ.get("ROAMQ_RIDES", "3"))
DEAD = BrokerId("b3")
AT_HOME = ("home-broker", "durable")
"""Schemes under which nothing waits for a session to come."""
ELSEWHERE = ("Outboxes.frames", "SaidMessages.kept")
"""Events for a broker that is down have a bound of their own, `outbox_bytes_max`; of what is kept for it the bytes are
looked at."""
BEFORE, ROUNDS = 20, 36
"""By then every broker that is up has cut the dead one off."""


def fleet_of(scheme: str, bound: int = BOUND, **more: object) -> SeveredFleet:
    quotas = Quotas(outbox_messages_bytes_max=bound)
    return SeveredFleet(1, scheme, quotas=quotas, **more)


def wants(machine: Machine, neighbour: str) -> dict[str, int]:
    """What a broker has been asked for by a neighbour."""
    router = machine.broker.router
    assert isinstance(router, ByInterest)
    return {str(filter): origins for filter, origins in router._asked[BrokerId(neighbour)].items()}


def asked(machine: Machine, neighbour: str) -> dict[str, int]:
    """What a broker has asked a neighbour for."""
    router = machine.broker.router
    assert isinstance(router, ByInterest)
    return {str(filter): origins for filter, origins in router._sent[BrokerId(neighbour)].items()}


@pytest.mark.parametrize("scheme", few(SCHEMES, 3))
def test_what_waits_for_a_dead_broker_has_a_bound(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients with ever new names come, do everything, and go, at the brokers that are up."""
    monkeypatch.setattr(confirmations, "LINGERING_MAX", 5)
    fleet, random = fleet_of(scheme), Random(1)
    for number in range(4):
        visit(fleet, number, random)
    fleet.sever(DEAD)
    before: Counter[str] = Counter()
    for number in range(4, ROUNDS):
        if number == BEFORE:
            before = sizes(list(fleet.machines.values()))
        visit(fleet, number, random, ("b1", "b2"))
    after = sizes(list(fleet.machines.values()))

    for name in ("b1", "b2"):
        boxes = fleet.machines[BrokerId(name)].outboxes
        assert boxes.cut_offs[DEAD] == 1
        said = boxes.said[DEAD]
        assert said.cost_bytes + said.kept_bytes <= (CHOKED + 2) * BOUND
    assert [record.peer for record in fleet.records if record.kind == "cut_off"] == [DEAD, DEAD]
    assert sum("is cut off" in notice for notice in fleet.notices) == 2
    grown = {label: after[label] - before[label] for label in after if after[label] > before[label]}
    unbounded = {
        label: more
        for label, more in grown.items()
        if more >= (ROUNDS - BEFORE) // 2 and not label.startswith((*BOUNDED, *ELSEWHERE))
    }
    assert unbounded == {}


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_broker_that_was_cut_off_hears_what_it_has_missed(scheme: str) -> None:
    fleet = fleet_of(scheme)
    stays = Visitor(fleet, "stays", "u")
    stays.enter("b1", expiry=1000)
    stays.say(Subscribe(1, (SubscriptionRequest("kept/#", 1), SubscriptionRequest("$share/g/x", 1))))
    goes = Visitor(fleet, "goes", "u")
    goes.enter("b1", expiry=5)
    goes.say(Subscribe(1, (SubscriptionRequest("old/#", 1), SubscriptionRequest("$share/g/x", 1))))
    moves = Visitor(fleet, "moves", "u")
    moves.enter("b1", expiry=1000)
    fleet.sever(DEAD)
    random = Random(2)
    moves.enter("b2", expiry=1000)
    goes.leave()
    for number in range(12):
        visit(fleet, number, random, ("b1", "b2"))
    late = Visitor(fleet, "late", "u")
    late.enter("b2", expiry=1000)
    late.say(Subscribe(1, (SubscriptionRequest("new/#", 1), SubscriptionRequest("$share/h/y", 1))))
    dead, first = fleet.machines[DEAD], fleet.machines[BrokerId("b1")]
    assert first.outboxes.is_cut_off(DEAD)
    assert dead.directory.get(ClientId("goes")) is not None
    assert dead.directory.get(ClientId("late")) is None

    fleet.mend()
    fleet.settle()

    assert dict(dead.directory.items()) == dict(first.directory.items())
    assert set(map(str, dict(dead.directory.items()))) == {"stays", "moves", "late"}
    assert set(dead.groups.all_places()) == set(first.groups.all_places())
    for name in ("b1", "b2"):
        other = fleet.machines[BrokerId(name)]
        assert not other.outboxes.is_cut_off(DEAD)
        assert wants(dead, name) == asked(other, DEAD)
        assert wants(other, DEAD) == asked(dead, name)
    assert any("is back" in notice for notice in fleet.notices)
    for name in ("b1", "b2"):
        assert not fleet.machines[BrokerId(name)].outboxes.frames[DEAD]


def test_what_is_subscribed_to_comes_first_and_markers_come_last() -> None:
    """A release that was kept, and a marker, say that their sender has subscribed."""
    fleet = fleet_of("standard", 3_000)
    known = Visitor(fleet, "known", "u")
    known.enter(DEAD, expiry=1000)
    fleet.sever(DEAD)
    for number in range(4):
        visit(fleet, number, Random(number), ("b1", "b2"))
    known.enter("b1", expiry=1000)
    late = Visitor(fleet, "late", "u")
    late.enter("b1", expiry=1000)
    late.say(Subscribe(1, (SubscriptionRequest("late/#", 1),)))
    machine = fleet.machines[BrokerId("b1")]
    before = machine.outboxes.sent[DEAD]

    machine.link_acked(DEAD, fleet.machines[DEAD].outboxes.received[BrokerId("b1")], fleet.now)

    while machine.outboxes.behind:
        machine.timer((host.LINK_TIMER, DEAD), fleet.now)
    told = [wire.decode(data) for number, data in machine.outboxes.frames[DEAD] if number > before]
    kinds = [(m.message if isinstance(m, Routed) else m).__class__.__name__ for m in told]
    assert kinds[0] == "RoutingReset"
    order = list(dict.fromkeys(kinds))
    assert [kind for kind in order if kind in ORDER] == ORDER


ORDER = ["SubscribeFrom", "RoutingTold", "ContextRequest", "TablesTold", "Marker"]


def test_what_was_left_out_is_part_of_a_snapshot() -> None:
    fleet = fleet_of("standard")
    fleet.sever(DEAD)
    random = Random(2)
    for number in range(12):
        visit(fleet, number, random, ("b1", "b2"))
    machine = fleet.machines[BrokerId("b1")]
    said = machine.outboxes.said[DEAD]
    assert said.is_cut_off and said.news and said.latest
    live = LiveBroker(machine.settings, fleet.now)
    live.machine = machine

    restored = snapshot.load(snapshot.dump(live)).machine

    assert restored.outboxes.said == machine.outboxes.said
    assert restored.outboxes.cut_offs == machine.outboxes.cut_offs


def test_sessions_of_another_life_are_not_forgotten_by_a_roll() -> None:
    """A broker that begins anew does not know of sessions that it had before: copies of them may be elsewhere."""
    fleet = fleet_of("standard")
    client = Visitor(fleet, "c", "u")
    client.enter("b1", expiry=1000)
    machine = fleet.machines[DEAD]
    known = machine.directory.get(ClientId("c"))
    assert known is not None
    first = fleet.machines[BrokerId("b1")]
    first.directory.forget(ClientId("c"), known.epoch)
    first.tables.since = fleet.now + 1
    first.tables.call_roll(DEAD)
    fleet.settle()
    assert machine.directory.get(ClientId("c")) == known

    first.tables.since = 0.0
    first.tables.call_roll(DEAD)
    fleet.settle()
    assert machine.directory.get(ClientId("c")) is None


def test_a_roll_of_which_a_part_is_missing_ends_nothing() -> None:
    fleet = fleet_of("standard")
    client = Visitor(fleet, "c", "u")
    client.enter("b1", expiry=1000)
    fleet.machines[BrokerId("b1")].tables.call_roll(DEAD)
    fleet.take_outputs()
    assert len(fleet.links[BrokerId("b1"), DEAD]) == 2
    fleet.links.take((BrokerId("b1"), DEAD))
    fleet.now += 1
    fleet.settle()

    assert fleet.machines[DEAD].directory.get(ClientId("c")) is not None


def test_a_client_that_claims_to_come_from_a_broker_that_is_down_is_refused_when_too_many_do() -> None:
    """Each such word makes a message that cannot be told again. Clients whose session is known to be there come in."""
    fleet = fleet_of("standard", 10_000)
    known = Visitor(fleet, "known", "u")
    known.enter(DEAD, expiry=1000)
    fleet.sever(DEAD)
    machine = fleet.machines[BrokerId("b1")]
    previous = Properties(session_expiry_interval=0, user_properties=(("roamq-previous", "b3"),))
    for number in range(60):
        liar = Visitor(fleet, f"liar-{number}", "u")
        liar.enter("b1", expiry=0, properties=previous)
        liar.leave()
    assert machine.outboxes.is_crowded(DEAD)
    refused = [record for record in fleet.records if record.detail == "outbox_messages_bytes_max"]
    assert 0 < len(refused) < 60
    assert machine.outboxes.said[DEAD].kept_bytes < 2 * 10_000

    known.enter("b1", expiry=1000)
    assert machine.serves("known")
    fresh = Visitor(fleet, "fresh", "u")
    fresh.enter("b1", expiry=0)
    assert machine.serves("fresh"), "nobody else is refused"


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("shows", ["previous", "ticket"])
def test_forged_words_of_a_dead_broker_leave_a_bounded_rest_behind(scheme: str, shows: str) -> None:
    """Each client is new, says that it was at a broker that is down, and does not wait for its session."""
    fleet = fleet_of(scheme, 1_000_000)
    fleet.sever(DEAD)
    machine = fleet.machines[BrokerId("b1")]
    machine.quota.left_behind_max = 5
    for number in range(20):
        liar = Visitor(fleet, f"liar-{number}", "mallory")
        said = (("roamq-previous", "b3"),)
        if shows == "ticket":
            liar.enter("b1", expiry=3)
            said = (("roamq-ticket", f"{fleet.now + 5!r}@b3"),)
        liar.enter("b1", properties=Properties(session_expiry_interval=3, user_properties=said))
        liar.leave()
        fleet.now += 5
        fleet.settle()

    refused = [record for record in fleet.records if record.detail == "left_behind_max"]
    if (
        shows == "previous"
    ):  # with a ticket, most schemes find what was left here when all are asked, and go on with it
        assert len(refused) == (0 if scheme in AT_HOME else 15)
    assert machine.broker.scheme.parts.left_behind() <= 5
    honest = Visitor(fleet, "honest", "ann")
    honest.enter("b1", expiry=0)
    assert machine.serves("honest"), "nobody else is refused"
    fleet.mend()
    fleet.now += 100
    fleet.settle()
    honest.leave()
    for one in fleet.machines.values():
        assert one.held() == []
        assert dict(one.directory.items()) == {}


# --- rides of other tests, in a network that cuts neighbours off all the time ---------------------------------------


@pytest.fixture(params=[host.LINK_BURST_BYTES, 150])
def fleets(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[SeveredFleet]:
    """The fleets that rides make: their brokers cut a neighbour off for a handful of messages, and tell it everything
    at once or in parts of a message or two."""
    monkeypatch.setattr(host, "LINK_BURST_BYTES", request.param)
    made: list[SeveredFleet] = []

    def make(*args: Any, **settings: Any) -> SeveredFleet:
        made.append(SeveredFleet(*args, quotas=Quotas(outbox_messages_bytes_max=CUT_AT), **settings))
        return made[-1]

    monkeypatch.setattr(outboxes, "CHOKED", 1000)
    for module in (test_rides, test_out_of_reach):
        monkeypatch.setattr(module, "Fleet", make)
    return made


def cut_offs(fleets: list[SeveredFleet]) -> int:
    return sum(m.outboxes.cut_offs.total() for fleet in fleets for m in fleet.machines.values())


@pytest.mark.parametrize("scheme", test_rides.SCHEMES)
def test_nothing_is_lost_while_brokers_fall_and_are_cut_off(scheme: str, fleets: list[SeveredFleet]) -> None:
    for seed in range(RIDES):
        test_rides.test_nothing_is_lost_while_brokers_fall_and_links_are_cut(scheme, seed)

    assert cut_offs(fleets)


@pytest.mark.parametrize("scheme", test_rides.SCHEMES)
def test_who_is_given_time_gets_all_once_though_brokers_are_cut_off(
    scheme: str, fleets: list[SeveredFleet]
) -> None:
    for seed in range(RIDES):
        is_ring = seed % 2 == 0
        _, mover, sent = test_rides.roam(seed, scheme, 2, faults=True, ring=is_ring, handoff_timeout_s=1000.0)
        assert mover.payloads() == sent, f"seed {seed}"

    assert cut_offs(fleets)


@pytest.mark.parametrize("falls", [False, True])
@pytest.mark.parametrize("links", test_out_of_reach.LINKS)
@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", test_out_of_reach.SCHEMES)
def test_nobody_waits_for_a_broker_that_is_cut_off_and_all_comes_in_order(
    scheme: str, overlay: str, links: str, falls: bool, fleets: list[SeveredFleet]
) -> None:
    """News comes late to a broker that was cut off: there a client may be let in without its session, which follows."""
    found = 0
    for seed in range(RIDES):
        ride = test_out_of_reach.Ride(seed, scheme, overlay, links, falls=falls)
        if all(ride.mover.present[1:]):
            found += 1
            ride.check()
        sent = [payload for payloads in ride.sent.values() for payload in payloads]
        assert set(ride.mover.payloads()) == set(sent), f"seed {seed}"

    assert cut_offs(fleets)
    assert found > RIDES // 2
