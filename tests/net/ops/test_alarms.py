"""What an operator is told about brokers that are down."""

from collections.abc import ValuesView
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest

from roamq.broker.contexts import Contexts
from roamq.core.context import Context, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.net.machine import Machine
from roamq.net.ops.alarms import LASTS_S, Alarms
from roamq.net.ops.settings import Quotas, Settings
from roamq.overlay.topology import Topology

CORE = tuple(map(BrokerId, ("b1", "b2", "b3")))
MESH = tuple(combinations(CORE, 2))


def told(machine: Machine, down: list[str]) -> list[str]:
    """The texts of the alarms that a broker raises while links have been down for long."""
    live = SimpleNamespace(machine=machine)
    shell: Any = SimpleNamespace(live=live, counts={"dropped": 0, "fault": 0, "login_refused": 0})
    activity: Any = SimpleNamespace(
        forecast=SimpleNamespace(warning=lambda: None), happened=lambda *_, **__: None
    )
    alarms = Alarms(shell, activity, lambda: {"status": "ok", "links_down": down})
    for now in (0.0, LASTS_S):
        alarms.tick(now)
    return [alarm.text for alarm in alarms.raised()]


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_a_broker_that_joined_says_who_is_behind_the_one_that_is_down(overlay: str) -> None:
    """Between two brokers that joined later stands one of the core; with direct paths nobody else is behind anybody."""
    made = Settings(me=BrokerId("e1"), brokers=CORE, links=MESH, at=CORE, overlay=overlay)
    machine = Machine(made, 1000.0)
    first = Machine(Settings(me=CORE[0], brokers=CORE, links=MESH, overlay=overlay), 1000.0)
    machine.membership.learn(first.membership.joining("e2", CORE))
    between = machine.broker.router.next_hop(BrokerId("e2"))
    other = next(name for name in CORE if name != between)

    (text,) = told(machine, [between])
    assert text.endswith("; what is for e2 goes through it, and waits as well")
    (text,) = told(machine, [other])
    assert "goes through it" not in text


def test_where_paths_lead_along_links_all_behind_are_named() -> None:
    row = (("b1", "b2"), ("b2", "b3"))
    assert Topology(CORE, row).next_hop(CORE[0], CORE[2]) == "b2"
    machine = Machine(Settings(me=CORE[0], brokers=CORE, links=row), 1000.0)

    (text,) = told(machine, ["b2"])

    assert "; what is for b3 goes through it, and waits as well" in text


@pytest.mark.parametrize(("sessions", "is_told"), [(7, False), (8, True)])
def test_sessions_are_counted_when_they_may_be_too_many(
    sessions: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle clients cost nothing: while there is room, nobody looks at them."""
    quotas = Quotas(sessions_max=10)
    machine = Machine(Settings(me=CORE[0], brokers=CORE[:1], links=(), quotas=quotas), 1000.0)
    contexts = machine.broker.contexts
    for number in range(sessions):
        contexts.open(ClientId(f"c{number}"), contexts.new_epoch(), Mode.ACTIVE)
    looks = 0

    def values() -> ValuesView[Context]:
        nonlocal looks
        looks += 1
        return Contexts.values(contexts)

    monkeypatch.setattr(contexts, "values", values)

    texts = told(machine, [])

    assert texts == (["quotas.sessions_max: 8 of 10 are used"] if is_told else [])
    assert bool(looks) is is_told
