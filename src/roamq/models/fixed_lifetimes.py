"""Events that live for a fixed time and are dropped where they are when it ends: the share delivered in time.

At one centre all events live equally long and leave in their order, so it is always the oldest that expires: the event
at the head. Its age is all there is to follow. It grows with time; when the event is delivered, or has reached its
lifetime and is dropped, the age falls by the time between two arrivals, to that of the next event, or the centre is
empty. Age and phase are a fluid queue (Asmussen 1995) between 0 and the lifetime, solved here exactly by doubling: what
a slab of ages lets through, and what it sends back, follow from its two halves. Only probabilities are added and
multiplied, so nothing cancels, and an overloaded centre has an answer too.

Along a path the lifetime is that of the whole way. A centre then gets events of several ages, each with the rest of its
lifetime. Here every age is solved as if all events had it, arriving as a Poisson process of the rate that is still
alive: exact at the first centre, an approximation behind it (`python -m benchmarks.limits` tells its error).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from roamq.models.intermittent import IntermittentQueue, left_null_vector

Floats = NDArray[np.float64]

CELLS: Final = 6
"""Ages at delivery are told apart in 2**6 equal cells of the lifetime ..."""

FINER: Final = 24
"""... whose first is halved so many times again: most events are delivered at once."""

AGES: Final = 16
"""The events that reach a centre have so many ages, each equally likely."""

NOTHING: Final = 1e-9
"""A share that is taken as none: centres behind it would hardly ever see an event."""

SHORTEST: Final = 1e-6
"""In units of the fastest rate: a shorter lifetime is taken as this one, which delivers no larger share."""


@dataclass(frozen=True, slots=True)
class _Slab:
    """Ages from one to another, entered upwards at the bottom or downwards at the top. One for every lifetime."""

    height_s: Floats
    through_up: Floats
    back_down: Floats
    """Entered at the bottom, left at the bottom."""
    through_down: Floats
    back_up: Floats
    """Entered at the top, left at the top."""
    delivered_up: Floats
    """Expected deliveries until the slab is left, ..."""
    delivered_down: Floats
    ages_up: Floats
    """... the sum of the ages of the delivered, above the bottom, ..."""
    ages_down: Floats
    seconds_up: Floats
    """... and the expected time."""
    seconds_down: Floats

    def doubled(self) -> "_Slab":
        """Two such slabs, one upon the other."""
        visits_up, visits_down = self.visits()
        above = self.through_up @ visits_up
        below = self.through_down @ visits_down

        def expected(
            up: Floats, down: Floats, more: tuple[Floats, Floats] | None = None
        ) -> tuple[Floats, Floats]:
            """Of the lower slab, and of the upper one, where it is more by so much."""
            upper_up, upper_down = (up, down) if more is None else (up + more[0], down + more[1])
            return (
                up + above @ (upper_up + self.back_down @ down),
                upper_down + below @ (down + self.back_up @ upper_up),
            )

        higher = self.height_s * self.delivered_up, self.height_s * self.delivered_down
        return _Slab(
            2 * self.height_s,
            above @ self.through_up,
            self.back_down + above @ self.back_down @ self.through_down,
            below @ self.through_down,
            self.back_up + below @ self.back_up @ self.through_up,
            *expected(self.delivered_up, self.delivered_down),
            *expected(self.ages_up, self.ages_down, higher),
            *expected(self.seconds_up, self.seconds_down),
        )

    def visits(self) -> tuple[Floats, Floats]:
        """How often the border between two such slabs is passed upwards, and downwards, after one such passage."""
        one = np.eye(self.through_up.shape[-1])
        up = np.linalg.inv(one - self.back_down @ self.back_up)
        down = np.linalg.inv(one - self.back_up @ self.back_down)
        return np.asarray(up, dtype=np.float64), np.asarray(down, dtype=np.float64)

    def between(self, up: Floats, down: Floats) -> tuple[Floats, Floats]:
        """Passages upwards and downwards of the border in the middle of two such slabs, whose lower one is entered by
        `up` and whose upper one by `down`."""
        middle_up = (up @ self.through_up + down @ self.through_down @ self.back_up) @ self.visits()[0]
        return middle_up, down @ self.through_down + middle_up @ self.back_down


@dataclass(frozen=True, slots=True)
class Survivors:
    """What a centre delivers of events with each of several lifetimes."""

    share: Floats
    """By lifetime: the share that is delivered before it ends."""
    ages_s: Floats
    """By lifetime and cell: the time that delivered events took."""
    weights: Floats
    """By lifetime and cell: the share of all events that took so long; sums to `share`."""


def with_fixed_lifetimes(queue: IntermittentQueue, lifetimes_s: Floats) -> Survivors:
    """The centre with events that are dropped, in service or waiting, when they are so old; for each lifetime anew."""
    lifetimes = np.asarray(lifetimes_s, dtype=np.float64)
    if not lifetimes.size or not (lifetimes > 0).all() or not np.isfinite(lifetimes).all():
        raise ValueError("lifetimes_s: positive numbers are needed")
    rate, one = queue.rate, np.eye(queue.phases)
    slabs = _slabs(queue, lifetimes)
    whole = slabs[-1]
    # The head expires: the next event begins its service.
    restart = np.kron(
        np.eye(queue.phases // queue.service.phases),
        np.outer(np.ones(queue.service.phases), queue.service.start),
    )
    from_top = restart @ np.linalg.inv(one - whole.back_up @ restart)
    to_bottom = whole.back_down + whole.through_up @ from_top @ whole.through_down
    # Empty until the next arrival, while connectivity goes on.
    after_empty = rate * np.linalg.inv(rate * one - queue.idle)
    chain = after_empty @ to_bottom - one
    # By lifetime: how often an age of 0 is left, by phase, and the greatest age.
    bottom = np.stack([left_null_vector(part, normal=np.ones(queue.phases)) for part in chain]) @ after_empty
    up = bottom[:, None, :]
    down = up @ whole.through_up @ from_top
    seconds = bottom.sum(axis=1) / rate + _expected(up, down, whole.seconds_up, whole.seconds_down)[:, 0]
    per_arrival = 1 / (seconds * rate)
    share = per_arrival * _expected(up, down, whole.delivered_up, whole.delivered_down)[:, 0]
    ages, weights = _by_age(slabs, up, down)
    return Survivors(np.minimum(share, 1.0), ages, weights * per_arrival[:, None])


def _slabs(queue: IntermittentQueue, lifetimes: Floats) -> list[_Slab]:
    """From a slab in which hardly anything happens, by doubling, to the whole lifetime."""
    size, rate = queue.phases, queue.rate
    one, zero = np.eye(size), np.zeros((size, size))
    # Upwards with time; downwards, at the same speed but in no time, through the gap between two arrivals.
    flow = np.block([[queue.busy, -queue.completions], [rate * one, rate * one]])
    fastest = float(np.abs(flow).sum(axis=1).max())
    # Within less than this hardly anything is served, and the matrices have no inverse to the digits that there are.
    lifetimes = np.maximum(lifetimes, SHORTEST / fastest)
    doublings = max(CELLS, math.ceil(math.log2(max(1.0, fastest * float(lifetimes.max())))) + 1)
    thin = (lifetimes / 2**doublings)[:, None, None]
    # The integral of the exponential comes with it, from a matrix with a second block.
    both = linalg.expm(np.block([[flow, np.eye(2 * size)], [np.zeros((2 * size, 4 * size))]]) * thin)
    # The lower left block is zero, so the scale of the identity above is that of time.
    moved, lasting = both[:, : 2 * size, : 2 * size], both[:, : 2 * size, 2 * size :]
    up_up, up_down = moved[:, :size, :size], moved[:, :size, size:]
    down_up, down_down = moved[:, size:, :size], moved[:, size:, size:]
    through_down = np.linalg.inv(down_down)
    back_down, back_up = -up_down @ through_down, through_down @ down_up
    from_bottom = np.concatenate([np.broadcast_to(one, back_down.shape), back_down], axis=2)
    from_top = np.concatenate([np.broadcast_to(zero, back_down.shape), through_down], axis=2)
    while_up = lasting[:, :, :size]
    served, ones = queue.completions.sum(axis=1)[:, None], np.ones((size, 1))
    delivered = from_bottom @ while_up @ served, from_top @ while_up @ served
    slabs = [
        _Slab(
            thin,
            up_up + back_down @ down_up,
            back_down,
            through_down,
            back_up,
            *delivered,
            thin / 2 * delivered[0],
            thin / 2 * delivered[1],
            from_bottom @ while_up @ ones,
            from_top @ while_up @ ones,
        )
    ]
    for _ in range(doublings):
        slabs.append(slabs[-1].doubled())
    return slabs


def _expected(up: Floats, down: Floats, of_up: Floats, of_down: Floats) -> Floats:
    """By lifetime and slab: what happens in a slab that is entered so often."""
    return np.asarray((up @ of_up + down @ of_down)[..., 0], dtype=np.float64)


def _by_age(slabs: Sequence[_Slab], up: Floats, down: Floats) -> tuple[Floats, Floats]:
    """By lifetime and cell: the mean age at delivery in the cell, and the deliveries."""
    ages, weights = list[Floats](), list[Floats]()
    whole = len(slabs) - 1
    last = max(0, whole - CELLS - FINER)
    for level in range(whole - 1, last - 1, -1):
        half = slabs[level]
        middle_up, middle_down = half.between(up, down)
        up = np.stack([up, middle_up], axis=2).reshape(up.shape[0], -1, up.shape[-1])
        down = np.stack([middle_down, down], axis=2).reshape(down.shape[0], -1, down.shape[-1])
        if whole - level < CELLS:
            continue
        # From here on the lowest slab alone is halved; the others are told.
        first = 0 if level == last else 1
        here = _expected(up, down, half.delivered_up, half.delivered_down)
        above = _expected(up, down, half.ages_up, half.ages_down)
        above = np.divide(above, here, out=np.zeros_like(above), where=here > 1e-200)
        ages.append((np.arange(up.shape[1]) * half.height_s[:, 0] + above)[:, first:])
        weights.append(here[:, first:])
        up, down = up[:, :1], down[:, :1]
    return np.concatenate(ages, axis=1), np.concatenate(weights, axis=1)


@dataclass(frozen=True, slots=True)
class Flow:
    """The events of one publisher at one centre of its path."""

    queue: IntermittentQueue
    """With all events that the centre serves."""
    other_rate: float = 0.0
    """Of these, events per second of other flows; they are taken to live as long as its own."""


def delivered_in_time(path: Sequence[Flow], lifetime_s: float) -> float:
    """The share of events that pass all centres within their lifetime; those that do not are dropped on the way."""
    ages, alive = np.zeros(1), 1.0
    for flow in path:
        own = flow.queue.rate - flow.other_rate
        queue = replace(flow.queue, rate=own * alive + flow.other_rate)
        survivors = with_fixed_lifetimes(queue, lifetime_s - ages)
        passed = float(survivors.share.mean())
        if alive * passed < NOTHING:
            return 0.0
        ages = _equally_likely((ages[:, None] + survivors.ages_s).ravel(), survivors.weights.ravel())
        ages = np.minimum(ages, lifetime_s * (1 - 1e-9))
        alive *= passed
    return alive


def _equally_likely(values: Floats, weights: Floats) -> Floats:
    """The means of as many equally likely groups, from the least values to the largest."""
    order = np.argsort(values, kind="stable")
    share = np.concatenate([[0.0], np.cumsum(weights[order])])
    total = np.concatenate([[0.0], np.cumsum(weights[order] * values[order])])
    at = np.interp(np.linspace(0, share[-1], AGES + 1), share, total)
    return np.asarray(np.diff(at) * AGES / share[-1], dtype=np.float64)
