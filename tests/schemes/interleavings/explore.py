"""Exhaustive exploration: every order of steps, each state once.

Depth first. States that look alike (`World.fingerprint`) are visited once. Steps that touch different brokers lead to
the same state in either order, so one order is enough: a step that was tried at a state *sleeps* in what follows its
siblings until something touches what it touches (Godefroid's sleep sets). All states are reached, by fewer ways.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.schemes.interleavings.world import Kept, World

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
    steps: int = 0
    ends: int = 0
    complete: bool = True
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Branch:
    """A step that is still to be taken."""

    before: Kept | None
    """Where it is taken: cheaper than walking the way to it again. None where there is no other step."""
    way: tuple[str, ...]
    """With the step as its last."""
    asleep: frozenset[str]
    """Steps that need not be taken after it: what they lead to is reached in another order."""


def explore(
    make: Callable[[], World], *, max_states: int = 1_000_000, every_order: bool = False
) -> Exploration:
    """Visit every state that `make()` can reach, up to `max_states`, and stop at the first finding.

    `every_order`: take steps that commute in both orders as well, which finds the same states.
    """
    asleep_at: dict[int, frozenset[str]] = {}
    """Every state seen, with the steps that were not taken there."""
    result = Exploration()
    pending: list[Branch] = []
    world = make()
    way: tuple[str, ...] = ()
    asleep: frozenset[str] = frozenset()
    while True:
        mark, choices = world.fingerprint(), world.choices()
        before = asleep_at.get(mark)
        if before is None:
            result.states += 1
            result.ends += not choices
            broken = world.broken_now() or (world.broken_at_rest() if not choices else None)
            if broken is not None:
                result.finding = Finding(broken, way)
                return result
            if result.states >= max_states:
                result.complete = False
                return result
            due = [choice for choice in choices if choice not in asleep]
        else:
            # Reached again by another way: what slept then and is awake now is left to do.
            due = [choice for choice in choices if choice in before and choice not in asleep]
            asleep &= before
        asleep_at[mark] = asleep
        assert len(way) < MAX_STEPS, f"no end in sight: {way[-20:]}"
        branches = fork(world, way, due, asleep, every_order=every_order)
        pending.extend(reversed(branches))
        if not pending:
            return result
        branch = pending.pop()
        if not (branches and branch is branches[0]):  # otherwise the world at hand is the one
            assert branch.before is not None
            world.restore(branch.before)
        way, asleep = branch.way, branch.asleep
        world.step(way[-1])
        result.steps += 1


def fork(
    world: World, way: tuple[str, ...], due: list[str], asleep: frozenset[str], *, every_order: bool
) -> list[Branch]:
    """The steps to take from here. After one sleep those tried before it that touch nothing it touches."""
    kept = world.keep() if len(due) > 1 else None
    touched = {choice: world.touched(choice) for choice in (*due, *asleep)}
    branches = []
    for place, choice in enumerate(due):
        tried = [] if every_order else [*asleep, *due[:place]]
        calm = frozenset(other for other in tried if not touched[other] & touched[choice])
        branches.append(Branch(kept, (*way, choice), calm))
    return branches


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
