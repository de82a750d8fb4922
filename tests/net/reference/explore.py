"""Plays random sequences; one on which network and model disagree is shrunk and told."""

from random import Random
from typing import NamedTuple

from tests.net.network import SCHEMES
from tests.net.reference.actions import Action, draw, shrink
from tests.net.reference.play import DisagreementError, Play, simulated


class Setting(NamedTuple):
    """Where sequences are played."""

    scheme: str
    brokers: int
    overlay: str = "interest"

    def __str__(self) -> str:
        return f"{self.scheme}, {self.brokers} brokers, {self.overlay}"


ONE = Setting("standard", 1)
OVERLAYS = ("flooding", "interest", "hierarchy")
THREE = tuple(Setting(scheme, 3, overlay) for scheme in SCHEMES for overlay in OVERLAYS)


def disagreement(actions: list[Action], setting: Setting, seed: int, *, is_plain: bool = False) -> str | None:
    try:
        network = simulated(setting.scheme, setting.brokers, seed, setting.overlay, is_plain=is_plain)
        Play(network).run(actions)
    except DisagreementError as found:
        return str(found)
    return None


def explore(seed: int, setting: Setting, length: int = 20, *, is_plain: bool = False) -> str | None:
    """Play the sequence of a seed; on a disagreement, what it is and the shrunk sequence.

    `is_plain`: as sequences were drawn before there were windows, aliases and acknowledgements of any order.
    """
    actions = draw(Random(seed), length, more=None if is_plain else Random(f"more {seed}"))

    def said(shorter: list[Action]) -> str | None:
        return disagreement(shorter, setting, seed, is_plain=is_plain)

    if said(actions) is None:
        return None
    actions = shrink(actions, lambda shorter: said(shorter) is not None)
    steps = "\n".join(f"  {action}" for action in actions)
    return f"seed {seed}, {setting}: {said(actions)}\n{steps}"
