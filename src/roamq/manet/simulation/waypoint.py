"""How nodes move: a node walks straight to a random point at a random speed, pauses, and repeats.

This is the random waypoint model of [DRIP] section VI-A1. Nodes start uniformly distributed and begin to walk at once,
as the paper says. In this model nodes drift towards the middle of the field over time; we do not correct for it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds

Positions = NDArray[np.float64]
"""One row (x, y) in meters for each node."""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle: its corner with the smallest coordinates, and its extent, in meters."""

    corner_m: tuple[float, float]
    extent_m: tuple[float, float]

    def at(self, across: float, up: float) -> NDArray[np.float64]:
        """The point at these shares of the width and the height."""
        (x, y), (width, height) = self.corner_m, self.extent_m
        return np.array((x + across * width, y + up * height))


class Movement(Protocol):
    """A model of movement: it says where the nodes are. Callers ask for times in ascending order."""

    def positions(self, time: Seconds) -> Positions: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """The field's side, and how fast nodes walk and how long they pause; the defaults are the paper's."""

    side_m: float = 1000.0
    speed_m_s: tuple[float, float] = (10.0, 20.0)
    pause_s: tuple[float, float] = (2.0, 4.0)

    def __post_init__(self) -> None:
        if self.side_m <= 0:
            raise ConfigError(f"side_m must be positive, got {self.side_m}")
        if not 0 < self.speed_m_s[0] <= self.speed_m_s[1]:
            raise ConfigError(f"speed_m_s needs 0 < lowest <= highest, got {self.speed_m_s}")
        if not 0 <= self.pause_s[0] <= self.pause_s[1]:
            raise ConfigError(f"pause_s needs 0 <= shortest <= longest, got {self.pause_s}")

    @property
    def area(self) -> Area:
        return Area((0.0, 0.0), (self.side_m, self.side_m))


class RandomWaypoint:
    """The movement of all nodes. Each node walks a leg from `_origin` to `_target`, or pauses at its end."""

    def __init__(self, nodes: int, walk: Walk, random: np.random.Generator) -> None:
        self._walk = walk
        self._random = random
        self._origin: Positions = random.uniform(0.0, walk.side_m, size=(nodes, 2))
        self._target: Positions = self._origin.copy()
        self._departs = np.zeros(nodes)
        self._arrives = np.zeros(nodes)
        self._leaves = np.zeros(nodes)
        self._new_legs(np.arange(nodes))

    def positions(self, time: Seconds) -> Positions:
        late = np.flatnonzero(self._leaves <= time)
        while late.size:
            self._new_legs(late)
            late = late[self._leaves[late] <= time]
        walked = (time - self._departs) / (self._arrives - self._departs)
        return self._origin + np.clip(walked, 0.0, 1.0)[:, None] * (self._target - self._origin)

    def _new_legs(self, nodes: NDArray[np.intp]) -> None:
        walk, random, count = self._walk, self._random, nodes.size
        self._origin[nodes] = self._target[nodes]
        self._target[nodes] = random.uniform(0.0, walk.side_m, size=(count, 2))
        length = np.linalg.norm(self._target[nodes] - self._origin[nodes], axis=1)
        self._departs[nodes] = self._leaves[nodes]
        self._arrives[nodes] = self._departs[nodes] + length / random.uniform(*walk.speed_m_s, size=count)
        self._leaves[nodes] = self._arrives[nodes] + random.uniform(*walk.pause_s, size=count)


class Standing:
    """Nodes that do not move, for tests and pictures."""

    def __init__(self, positions: Positions) -> None:
        self._positions = positions

    def positions(self, time: Seconds) -> Positions:
        return self._positions
