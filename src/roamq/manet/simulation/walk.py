"""Random walks on a grid: a simulation of the model by which the paper estimates the spreading delay.

[DRIP] section V-C: "All nodes perform independent random walks on a √N x √N grid". Two brokers can talk when they are
within the range 2√(N/(πk)) of each other. m carriers look for l destinations, and the delay is the time until a carrier
has found the last destination. `models.region_delay` has Eq. 1 and 2, which approximate this delay. As in the paper's
reference [9], the grid has no border (it is a torus), and every node starts at a random cell.
"""

from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from roamq.core.errors import ConfigError

_STEPS = np.array([(1, 0), (-1, 0), (0, 1), (0, -1)], dtype=np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkModel:
    """The model's parameters, named as in the paper."""

    n: int
    """How many cells the grid has; its side is the square root."""
    k: int
    l: int = 1  # noqa: E741 - the paper's name
    m: int = 1
    reach: float | None = None
    """The distance within which two nodes meet; None: the paper's 2√(N/(πk))."""

    def __post_init__(self) -> None:
        if self.side**2 != self.n:
            raise ConfigError(f"n must be the square of a whole number, got {self.n}")
        if min(self.k, self.l, self.m) < 1:
            raise ConfigError(f"k, l and m must be at least 1, got {self}")

    @property
    def side(self) -> int:
        return isqrt(self.n)

    @property
    def alpha(self) -> float:
        """The paper's α: the range in cells, measured along the grid as in reference [9]."""
        return self.reach if self.reach is not None else 2.0 * (self.n / (np.pi * self.k)) ** 0.5


def delays(model: WalkModel, trials: int, random: np.random.Generator) -> NDArray[np.float64]:
    """The delay in steps in each of `trials` independent runs of the model. One array holds all runs."""
    carriers = random.integers(0, model.side, size=(trials, model.m, 2), dtype=np.int32)
    destinations = random.integers(0, model.side, size=(trials, model.l, 2), dtype=np.int32)
    found = np.zeros((trials, model.l), dtype=bool)
    result = np.zeros(trials)
    active = np.arange(trials)
    time = 0
    while active.size:
        found |= _in_reach(model, carriers, destinations)
        done = found.all(axis=1)
        if done.any():
            result[active[done]] = time
            going = ~done
            active, found = active[going], found[going]
            carriers, destinations = carriers[going], destinations[going]
        carriers = _step(model, carriers, random)
        destinations = _step(model, destinations, random)
        time += 1
    return result


def _in_reach(
    model: WalkModel, carriers: NDArray[np.int32], destinations: NDArray[np.int32]
) -> NDArray[np.bool_]:
    """Which destinations are within the range of a carrier."""
    gap = np.abs(carriers[:, :, None, :] - destinations[:, None, :, :])
    around = np.minimum(gap, model.side - gap).sum(axis=3)
    close: NDArray[np.bool_] = (around <= model.alpha).any(axis=1)
    return close


def _step(model: WalkModel, walkers: NDArray[np.int32], random: np.random.Generator) -> NDArray[np.int32]:
    moved: NDArray[np.int32] = (walkers + _STEPS[random.integers(0, 4, size=walkers.shape[:2])]) % model.side
    return moved
