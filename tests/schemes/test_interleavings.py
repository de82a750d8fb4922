"""Exhaustive exploration in a bounded form; `python -m tests.schemes.interleavings` explores further."""

from dataclasses import replace
from typing import Any

import pytest

from roamq.overlay.advertised import Advertised
from roamq.overlay.paths import UniquePaths
from roamq.schemes.parts import late
from roamq.schemes.parts.late import LateParts
from roamq.schemes.parts.preforwarding import Preforwarding
from roamq.schemes.parts.virtual_consumers import VirtualConsumer, VirtualConsumers
from tests.schemes.interleavings.explore import Finding, explore, play
from tests.schemes.interleavings.plans import Plan, border_plans, plans
from tests.schemes.interleavings.world import World
from tests.support.few import few

BOUND = 1200


@pytest.mark.parametrize("plan", few(plans("standard", moves=2), 4), ids=str)
def test_standard_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"
    assert result.complete


@pytest.mark.parametrize("plan", few(plans("proactive", moves=1), 2), ids=str)
def test_proactive_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


@pytest.mark.parametrize("plan", few(plans("standard", moves=1, overlay="interest"), 2), ids=str)
def test_standard_by_interest_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=4 * BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


@pytest.mark.parametrize("plan", few(plans("proactive", moves=1, overlay="interest")), ids=str)
def test_proactive_by_interest_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


ADVERTISED = [
    plan
    for scheme in ("standard", "proactive", "prefetching")
    for late_after_s in (None, 0.0)
    for plan in few(
        replace(one, advertised=True, late_after_s=late_after_s)
        for one in plans(scheme, moves=1, overlay="interest")
    )
]


@pytest.mark.parametrize("plan", ADVERTISED, ids=str)
def test_brokers_that_say_what_is_published_there_in_every_order(plan: Plan) -> None:
    """Markers go only where the path of the one broker parts at which the event is published."""
    result = explore(plan.world, max_states=2 * BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


def test_the_explorer_finds_that_the_wrong_origin_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Advertised, "sending", lambda self, wanted: frozenset("a"))
    plan = Plan("standard", ("go a", "vanish", "go b"), "c", overlay="interest", advertised=True)

    result = explore(plan.world)

    assert result.finding is not None
    assert result.finding.what.startswith("loss")


LATE = [
    plan
    for scheme in ("standard", "proactive", "prefetching")
    for overlay in ("interest", "flooding")
    for plan in few(replace(one, late_after_s=0.0) for one in plans(scheme, moves=1, overlay=overlay))
]


@pytest.mark.parametrize("plan", LATE, ids=str)
def test_what_comes_late_follows_in_every_order(plan: Plan) -> None:
    """No context waits for a fence: as if brokers were down, each until any later moment."""
    result = explore(plan.world, max_states=2 * BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


FALLS = [
    plan
    for scheme in ("standard", "proactive", "prefetching")
    for overlay in ("interest", "flooding")
    for plan in few(
        replace(one, late_after_s=0.0, falls=1)
        for one in plans(scheme, moves=1, overlay=overlay)
        if one.links == "triangle" and one.itinerary[-1] == "go b"
    )
]


@pytest.mark.parametrize("plan", FALLS, ids=str)
def test_what_comes_late_follows_though_a_broker_falls_at_any_moment(plan: Plan) -> None:
    """In a mesh, as direct paths are: the broker falls with what it has, and comes back with it at any later moment."""
    result = explore(plan.world, max_states=BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


@pytest.mark.parametrize(
    ("owner", "name", "instead", "found"),
    [
        (late, "hold_back", lambda context, origins: None, "loss"),
        (LateParts, "owe", lambda self, context, *rest: self.contexts.close(context, mobile=True), "loss"),
    ],
    ids=["nothing is held back", "nothing is owed"],
)
def test_the_explorer_finds_that_what_comes_late_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any, found: str
) -> None:
    monkeypatch.setattr(owner, name, instead)
    plan = Plan("standard", ("go a", "vanish", "go b"), "cc", overlay="interest", late_after_s=0.0)

    result = explore(plan.world)

    assert result.finding is not None
    assert result.finding.what.startswith(found), result.finding


def test_the_explorer_finds_a_handoff_that_sends_no_markers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(UniquePaths, "partings", lambda self, new, old, origins: ())
    plan = Plan("standard", ("go a", "vanish", "go b"), "c", overlay="interest")

    result = explore(plan.world)

    assert result.finding is not None
    assert result.finding.what.startswith("loss")


def test_the_explorer_finds_a_scheme_that_repeats() -> None:
    """Seen to fail: durable subscriptions deliver again what was read elsewhere."""
    plan = Plan("durable", ("go a", "vanish", "go b", "vanish", "go a"), "c")

    result = explore(plan.world)

    assert result.finding is not None
    assert result.finding.what.startswith(("duplicate", "loss", "left behind"))
    assert isinstance(result.finding, Finding)


def test_a_way_can_be_played_again() -> None:
    def make() -> World:
        return World("standard", ("go a", "vanish", "go b"), "c")

    way = ["plan", "say", "link c a", "read", "plan", "notice a", "plan"]
    one, other = play(make, way), play(make, way)

    assert one.fingerprint() == other.fingerprint()
    assert one.at == "b"
    assert len(one.read) == 1


def test_states_that_differ_only_in_the_clock_are_one() -> None:
    def make() -> World:
        return World("standard", ("go a", "vanish", "go b"), "cb")

    steps = ["plan", "say", "say"]
    one = play(make, [*steps, "link c a", "link b a"])
    late = make()
    late.time = 1000
    for step in [*steps, "link c a", "link b a"]:
        late.step(step)

    assert one.fingerprint() == late.fingerprint()


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(
            Plan("proactive", ("go a", "vanish", "go b"), "c", (("a", "b"),)), marks=pytest.mark.slow
        ),
        Plan("proactive", ("go a", "vanish", "go a", "leave"), "c", (("a", "b"),)),
        pytest.param(
            Plan("standard", ("go a", "vanish", "go b", "vanish", "go a"), "ca"), marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_one_order_of_steps_that_commute_finds_every_state(plan: Plan) -> None:
    reduced, whole = explore(plan.world), explore(plan.world, every_order=True)

    assert (reduced.states, reduced.ends) == (whole.states, whole.ends)
    assert reduced.steps < whole.steps


@pytest.mark.parametrize("plan", few(plans("standard", moves=2, sends_heads=True), 2), ids=str)
def test_standard_with_heads_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=2 * BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"
    assert result.complete


@pytest.mark.parametrize(
    "plan", few(plans("standard", moves=1, overlay="interest", sends_heads=True), 2), ids=str
)
def test_standard_by_interest_with_heads_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=4 * BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


BORDERS = [*few(border_plans(), 1), *few(border_plans(late_after_s=0.0), 1), *few(border_plans(falls=1), 0)]


@pytest.mark.parametrize("plan", BORDERS, ids=str)
def test_virtual_consumers_that_are_told_what_was_read_in_every_order(plan: Plan) -> None:
    result = explore(plan.world, max_states=BOUND)

    assert result.finding is None, f"{plan}: {result.finding}"


def border_plan(*itinerary: str, shows_epoch: bool = True) -> Plan:
    return Plan("prehandoff", itinerary, "c", shows_epoch=shows_epoch, tells_last_read=True)


@pytest.mark.parametrize(
    ("owner", "name", "instead", "plan", "found"),
    [
        (
            VirtualConsumer,
            "was_told",
            lambda self, ticket: self.settled,
            border_plan("go a", "near b", "vanish", "go a", "vanish", "go b", shows_epoch=False),
            "duplicate",
        ),
        (
            VirtualConsumers,
            "has_passed",
            lambda self, message: True,
            border_plan("go a", "near b", "vanish", "go b"),
            "loss",
        ),
        (
            VirtualConsumers,
            "take_read",
            lambda self, context, message: None,
            border_plan("go a", "near b", "vanish", "go b"),
            "duplicate",
        ),
        (
            Preforwarding,
            "_outran",
            lambda self, message: None,
            border_plan("go a", "near b", "vanish", "try c", "go b"),
            ("serving", "left behind"),
        ),
    ],
    ids=["who shows nothing is believed", "no fence", "nothing is forgotten", "nobody lets go"],
)
def test_the_explorer_finds_that_a_word_is_taken_wrongly(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any, plan: Plan, found: Any
) -> None:
    monkeypatch.setattr(owner, name, instead)

    result = explore(plan.world)

    assert result.finding is not None
    assert result.finding.what.startswith(found), result.finding
