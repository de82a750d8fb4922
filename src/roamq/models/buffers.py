"""Finite buffers: what share of events is lost, and how large a buffer must be for a given loss.

[TIME] assumes "sufficient queue capacity so that no events are dropped"; this says how much that is.
Solved from the full buffer downwards: given level n, level n + 1 has pi_n U with a U that depends only on the
distance from the top. One sweep therefore gives the loss for every capacity in turn.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np

from roamq.models.intermittent import IntermittentQueue, left_null_vector

CAPACITY_MAX: Final = 2_000_000
"""A search beyond this is given up: such a queue is at its limit, not short of memory."""


def loss(queue: IntermittentQueue, capacity: int) -> float:
    """Share of events that find `capacity` events present (the one in service included) and are lost."""
    if capacity < 1:
        raise ValueError(f"capacity: {capacity} is less than 1")
    for size, share in _losses(queue):
        if size == capacity:
            return share
    raise AssertionError("the sweep does not end")


def capacity_for_loss(queue: IntermittentQueue, target: float) -> int:
    """The smallest capacity at which no more than `target` of the events are lost."""
    if not 0 < target < 1:
        raise ValueError(f"target: a share between 0 and 1 is needed, got {target}")
    floor = max(0.0, 1 - 1 / queue.utilisation)
    if target <= floor:
        raise ValueError(
            f"target: at utilisation {queue.utilisation:.3g} at least {floor:.3g} is lost whatever the buffer"
        )
    for size, share in _losses(queue):
        if share <= target:
            return size
        if size >= CAPACITY_MAX:
            break
    raise ValueError(f"target: a loss of {target:g} needs more than {CAPACITY_MAX} events of buffer")


def _losses(queue: IntermittentQueue) -> Iterator[tuple[int, float]]:
    """(capacity, loss) for capacity 1, 2, 3 and so on.

    `mass` and `top` hold, per phase of the current bottom level, the probability of everything above it and
    of the full buffer, both relative to the bottom level.
    """
    ones = np.ones(queue.phases)
    up = queue.rate * np.eye(queue.phases)
    mass, top = ones, ones
    climb = up @ np.linalg.inv(-queue.busy)
    size = 1
    while True:
        balance = queue.idle - up + climb @ queue.completions
        empty = left_null_vector(balance, normal=ones)
        mass, top = ones + climb @ mass, climb @ top
        yield size, float(empty @ top / (empty @ mass))
        size += 1
        following = up @ np.linalg.inv(-(queue.busy - up + climb @ queue.completions))
        if np.abs(following - climb).max() < 1e-14 * np.abs(climb).max():
            break
        climb = following
    # The matrix no longer changes with the distance: only the two vectors go on growing.
    while True:
        mass, top = ones + climb @ mass, climb @ top
        yield size, float(empty @ top / (empty @ mass))
        size += 1
