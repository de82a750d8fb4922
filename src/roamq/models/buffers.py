"""Finite buffers: what share of events is lost, and how large a buffer must be for a given loss.

[TIME] assumes "sufficient queue capacity so that no events are dropped"; this says how much that is.
Solved from the full buffer downwards: given level n, level n + 1 has pi_n U with a U that depends only on the
distance from the top. One sweep therefore gives the loss for every capacity in turn.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roamq.models.intermittent import IntermittentQueue, left_null_vector

Floats = NDArray[np.float64]

_SCALE_MAX: Final = 1e100

CAPACITY_MAX: Final = 2_000_000
"""The search ends at this size: a queue that needs more is saturated, not short of memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FiniteCentre:
    """A centre with a finite buffer, in steady state.

    The number of events present, and so the share that is lost, is the same whether a full buffer turns the newest
    event away or drops the oldest that waits; who is lost differs, and with it the response time of the others.
    """

    loss: float
    """Share of events that are lost: they find the buffer full, or are dropped to make room."""
    mean_present: float
    delivered_rate: float
    """Events per second that are served."""

    @property
    def response_s(self) -> float:
        """Mean response time of delivered events if a full buffer turns the newest away (Little's law)."""
        return self.mean_present / self.delivered_rate


def finite(queue: IntermittentQueue, capacity: int) -> FiniteCentre:
    """The centre with room for `capacity` events, the one in service included."""
    if capacity < 1:
        raise ValueError(f"capacity: {capacity} is less than 1")
    for size, share, present in _losses(queue):
        if size == capacity:
            return FiniteCentre(loss=share, mean_present=present, delivered_rate=queue.rate * (1 - share))
    raise AssertionError("the sweep does not end")


def loss(queue: IntermittentQueue, capacity: int) -> float:
    """Share of events that find `capacity` events present (the one in service included) and are lost."""
    return finite(queue, capacity).loss


def capacity_for_loss(queue: IntermittentQueue, target: float) -> int:
    """The smallest capacity at which no more than `target` of the events are lost."""
    if not 0 < target < 1:
        raise ValueError(f"target: a share between 0 and 1 is needed, got {target}")
    floor = max(0.0, 1 - 1 / queue.utilisation)
    if target <= floor:
        raise ValueError(
            f"target: at utilisation {queue.utilisation:.3g} at least {floor:.3g} is lost whatever the buffer"
        )
    for size, share, _ in _losses(queue):
        if share <= target:
            return size
        if size >= CAPACITY_MAX:
            break
    raise ValueError(f"target: a loss of {target:g} needs more than {CAPACITY_MAX} events of buffer")


def _losses(queue: IntermittentQueue) -> Iterator[tuple[int, float, float]]:
    """(capacity, loss, events present) for capacity 1, 2, 3 and so on.

    `mass`, `top` and `present` hold, per phase of the current bottom level, the probability of it and everything
    above it, of the full buffer, and the events above the bottom, all relative to the bottom level, whose own weight is
    `unit`. Under overload they grow with every level: all are scaled down together, which leaves their ratios as they
    are.
    """
    ones = np.ones(queue.phases)
    up = queue.rate * np.eye(queue.phases)
    mass, top, present, unit = ones, ones, np.zeros(queue.phases), 1.0
    climb = up @ np.linalg.inv(-queue.busy)
    empty: Floats | None = None
    is_settled = False
    for size in itertools.count(1):
        if not is_settled:
            balance = queue.idle - up + climb @ queue.completions
            empty = left_null_vector(balance, normal=ones)
        assert empty is not None
        mass, top, present = unit * ones + climb @ mass, climb @ top, climb @ (present + mass)
        largest = float(mass.max())
        if largest > _SCALE_MAX:
            mass, top, present, unit = mass / largest, top / largest, present / largest, unit / largest
        total = float(empty @ mass)
        yield size, float(empty @ top) / total, float(empty @ present) / total
        if not is_settled:
            # Once the matrix no longer changes with the distance, only the two vectors go on growing.
            following = up @ np.linalg.inv(-(queue.busy - up + climb @ queue.completions))
            is_settled = bool(np.abs(following - climb).max() < 1e-14 * np.abs(climb).max())
            climb = following
