"""Events that expire: the share delivered in time when expired events are dropped.

[TIME] section 6 leaves time-to-live to future work. Two cases have exact answers. Where late events are
still delivered, `IntermittentQueue.in_time` reads a fixed time-to-live off the response time. Where they
are dropped, which relieves the queue and keeps even an overloaded one finite, this module takes exponential
lifetimes: then the queue is a Markov chain in which each of n events leaves at the rate of expiry. Fixed
lifetimes with dropping are for the simulation.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from roamq.models.intermittent import IntermittentQueue, left_null_vector

NEGLIGIBLE: Final = 1e-12
"""Probability of more events than are followed."""

LEVELS_MAX: Final = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Expiring:
    """A centre in steady state whose events expire."""

    delivered_share: float
    """Of all events, those served before they expired."""
    mean_present: float

    @property
    def expired_share(self) -> float:
        return 1 - self.delivered_share


def with_lifetime(queue: IntermittentQueue, mean_lifetime_s: float) -> Expiring:
    """Exponential lifetimes; an event that expires is dropped, in service or waiting."""
    if not mean_lifetime_s > 0:
        raise ValueError(f"mean_lifetime_s: {mean_lifetime_s} is not positive")
    expiry = 1 / mean_lifetime_s
    identity = np.eye(queue.phases)
    up = queue.rate * identity
    # When the head expires, the next event starts its service afresh.
    restart = np.kron(
        np.eye(queue.phases // queue.service.phases),
        np.outer(np.ones(queue.service.phases), queue.service.start),
    )

    def down(level: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return queue.completions + expiry * (restart + (level - 1) * identity)

    levels = _levels(queue, mean_lifetime_s)
    climbs = []
    climb = up @ np.linalg.inv(-(queue.busy - expiry * levels * identity))
    climbs.append(climb)
    for level in range(levels - 1, 0, -1):
        local = queue.busy - up - expiry * level * identity
        climb = up @ np.linalg.inv(-(local + climb @ down(level + 1)))
        climbs.append(climb)
    probability = left_null_vector(queue.idle - up + climb @ down(1), normal=np.ones(queue.phases))
    total, present, served = float(probability.sum()), 0.0, 0.0
    for level, climb in enumerate(reversed(climbs), start=1):
        probability = probability @ climb
        mass = float(probability.sum())
        total += mass
        present += level * mass
        served += float((probability @ queue.completions).sum())
    return Expiring(delivered_share=served / total / queue.rate, mean_present=present / total)


def _levels(queue: IntermittentQueue, mean_lifetime_s: float) -> int:
    """Enough levels to lose nothing.

    Without any service the number present would be Poisson; without expiry it would be that of the queue itself.
    """
    offered = queue.rate * mean_lifetime_s
    levels = math.ceil(offered + 12 * math.sqrt(offered) + 30)
    if queue.utilisation < 1:
        enough = 64
        while enough < levels and queue.present_above(enough) > NEGLIGIBLE:
            enough *= 2
        levels = min(levels, enough)
    if levels > LEVELS_MAX:
        raise ValueError(
            f"mean_lifetime_s: up to {levels:,} events live at a time, and {LEVELS_MAX:,} can be followed"
        )
    return levels
