"""Exhaustive exploration: every order of steps, each state once.

Depth first. States that look alike (`World.fingerprint`) are visited once. A state that is left for a sibling is not
copied: the way to it is walked again, which keeps the brokers free of anything to do with being explored.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.schemes.interleavings.world import World

MAX_STEPS = 400


@dataclass(frozen=True, slots=True)
class Finding:
    """An order of steps after which something does not hold."""

    what: str
    way: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.what}\n  way: {', '.join(self.way)}"


@dataclass(slots=True)
class Exploration:
    """What was seen."""

    states: int = 0
    ends: int = 0
    complete: bool = True
    finding: Finding | None = None


def explore(make: Callable[[], World], *, max_states: int = 1_000_000) -> Exploration:
    """Visit every state that `make()` can reach, up to `max_states`, and stop at the first finding."""
    seen: set[int] = set()
    result = Exploration()
    pending: list[tuple[str, ...]] = [()]
    while pending:
        way = pending.pop()
        world = play(make, way)
        while True:
            mark = world.fingerprint()
            if mark in seen:
                break
            seen.add(mark)
            result.states += 1
            choices = world.choices()
            broken = world.broken_now() or (world.broken_at_rest() if not choices else None)
            if broken is not None:
                result.finding = Finding(broken, way)
                return result
            if not choices:
                result.ends += 1
                break
            if result.states >= max_states:
                result.complete = False
                return result
            assert len(way) < MAX_STEPS, f"no end in sight: {way[-20:]}"
            pending.extend((*way, other) for other in choices[1:])
            way = (*way, choices[0])
            world.step(choices[0])
    return result


def play(make: Callable[[], World], way: tuple[str, ...] | list[str]) -> World:
    """A world after these steps."""
    world = make()
    for choice in way:
        world.step(choice)
    return world


def run_on(world: World, *, first: str = "link") -> World:
    """Let everything that is under way arrive, in a fixed order, and the client read it."""
    while choices := world.choices():
        preferred = [c for c in choices if c.startswith(first)] or choices
        world.step(preferred[0])
    return world


def itineraries(moves: int, brokers: str = "abc") -> Iterator[tuple[str, ...]]:
    """Every way to make `moves` moves after connecting at the first broker, with and without being noticed gone.

    A client that vanishes may come back to where it was; by symmetry the first other broker is the second one.
    """
    steps = [("vanish", f"go {broker}") for broker in brokers]
    for chosen in itertools.product(steps, repeat=moves):
        visited = [brokers[0], *(step[1][-1] for step in chosen)]
        others = [b for b in dict.fromkeys(visited) if b != brokers[0]]
        if others == sorted(others) and (not others or others[0] == brokers[1]):
            yield (f"go {brokers[0]}", *itertools.chain.from_iterable(chosen))
