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
    event away or drops the oldest that waits; who is lost differs, and with it the response time of the others
    (`response_s_drop_oldest`).
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


def response_s_drop_oldest(queue: IntermittentQueue, capacity: int) -> float:
    """Mean response time of delivered events if an event that finds the buffer full takes the place of the oldest that
    waits; the one in service stays.

    Followed for one event: `ahead` events are before it, `behind` after it. A service, and a drop at the head of those
    that wait, bring it forward; it is dropped itself if it is that head. `ahead` never grows, nor does `behind` shrink,
    so (ahead, behind) is solved along the diagonals, where `ahead` - `behind` is the same.
    """
    present = _present(queue, capacity)
    up = queue.rate * np.eye(queue.phases)
    return followed_drop_oldest(present, up, queue.busy - up, queue.completions)


def followed_drop_oldest(found: Floats, up: Floats, local: Floats, down: Floats) -> float:
    """The same for any arrival process: `found` has what an arriving event finds, by number and phase, to any scale;
    `up`, `local` and `down` are the rates between phases with an arrival, with neither, and with a service's end.
    """
    capacity, phases = found.shape[0] - 1, found.shape[1]
    ones = np.ones(phases)
    leave = np.linalg.inv(-local)
    arrival, service = (leave @ up).T, (leave @ down).T
    # Of the event in service: it is delivered for certain, after this time.
    last = np.stack([ones, np.linalg.solve(-(local + up), ones)])
    # (chance to be delivered, that chance times the time until then) by `ahead` and phase, of two diagonals.
    before, previous = np.zeros((2, capacity, phases)), np.zeros((2, capacity, phases))
    delivered, seconds = float(found[0] @ last[0]), float(found[0] @ last[1])
    for diagonal in range(1 - capacity, capacity):
        here = np.zeros_like(previous)
        first, end = max(1, diagonal), (capacity - 1 + diagonal) // 2
        if diagonal <= 0:
            here[:, 0] = last
        if end >= first:
            after_arrival = previous[:, first : end + 1].copy()
            if (capacity - 1 + diagonal) % 2 == 0:  # the last one of the diagonal meets a full buffer
                after_arrival[:, -1] = before[:, end - 1] if end >= 2 else 0.0
            here[:, first : end + 1] = after_arrival @ arrival + previous[:, first - 1 : end] @ service
            here[1, first : end + 1] += here[0, first : end + 1] @ leave.T
        if diagonal >= 1:
            entering = found[diagonal] + (found[capacity] if diagonal == capacity - 1 else 0.0)
            delivered += float(entering @ here[0, diagonal])
            seconds += float(entering @ here[1, diagonal])
        before, previous = previous, here
    return seconds / delivered


def _present(queue: IntermittentQueue, capacity: int) -> Floats:
    """The probabilities of 0, 1 to `capacity` events at the centre, by phase."""
    up = queue.rate * np.eye(queue.phases)
    climbs = [up @ np.linalg.inv(-queue.busy)]
    for _ in range(capacity - 1):
        climbs.append(up @ np.linalg.inv(-(queue.busy - up + climbs[-1] @ queue.completions)))
    levels: Floats = np.zeros((capacity + 1, queue.phases))
    levels[0] = left_null_vector(
        queue.idle - up + climbs[-1] @ queue.completions, normal=np.ones(queue.phases)
    )
    for level, climb in enumerate(reversed(climbs), start=1):
        levels[level] = levels[level - 1] @ climb
        if levels[level].max() > _SCALE_MAX:
            levels /= levels[level].max()
    return levels / float(levels.sum())


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
