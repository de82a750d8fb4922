"""What an operator is refused when brokers are to come or go, and why."""

from types import SimpleNamespace
from typing import Any

import pytest

from roamq.core.events import BrokerId
from roamq.net.machine import Machine
from roamq.net.ops.draining import Draining
from roamq.net.ops.growing import Growing
from roamq.net.ops.settings import Settings

CORE = tuple(map(BrokerId, ("b1", "b2", "b3")))
MESH = (("b1", "b2"), ("b2", "b3"), ("b1", "b3"))


def growing(overlay: str, *, up: tuple[str, ...], apart: tuple[str, str] | None = None) -> Growing:
    """Of b1, whose links with these brokers are up, and which keeps two of them together."""
    machine = Machine(
        Settings(me=CORE[0], brokers=CORE, links=MESH, overlay=overlay, scheme="standard"), 1000.0
    )
    detours = SimpleNamespace(apart_without_me=lambda: apart)
    shell: Any = SimpleNamespace(
        live=SimpleNamespace(machine=machine),
        neighbours=SimpleNamespace(up=dict.fromkeys(up), detours=detours),
        feed=lambda *_: None,
    )
    return Growing(shell, Draining(machine), lambda: None)


def test_who_others_reach_each_other_through_does_not_leave() -> None:
    with pytest.raises(ValueError, match="'b2' and 'b3' reach each other through 'b1' alone"):
        growing("interest", up=("b2", "b3"), apart=("b2", "b3")).begin_leaving(dict)
