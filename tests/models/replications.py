"""Independent runs of the queueing simulation, to hold a model against."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from roamq.sim.queueing import Run, Sampler, SimulatedCentre, simulate


@dataclass(frozen=True)
class Estimate:
    """A mean over runs and its standard error."""

    mean: float
    error: float

    def agrees_with(self, value: float, *, precision: float) -> bool:
        """Within four standard errors, which are required to be small: else anything would agree."""
        assert self.error <= precision * abs(self.mean), f"{self} is too vague for a test at {precision:.1%}"
        return abs(self.mean - value) <= 4 * self.error


def replicate(
    centres: Sequence[SimulatedCentre],
    *,
    rate: float,
    runs: int = 12,
    until_s: float = 40_000.0,
    ttl: Sampler | None = None,
) -> list[Run]:
    """Runs that differ in their seed alone."""
    return [
        simulate(centres, seed=seed, rate=rate, until_s=until_s, warmup_s=until_s / 20, ttl=ttl)
        for seed in range(runs)
    ]


def estimate(measure: Callable[[Run], float], runs: Sequence[Run]) -> Estimate:
    values = [measure(run) for run in runs]
    return Estimate(float(np.mean(values)), float(np.std(values, ddof=1)) / math.sqrt(len(runs)))


def gamma(shape: float, mean_s: float) -> Sampler:
    return lambda rng, size: rng.gamma(shape, mean_s / shape, size)


def hyperexponential(share: float, mean_1_s: float, mean_2_s: float) -> Sampler:
    return lambda rng, size: (
        np.where(rng.random(size) < share, mean_1_s, mean_2_s) * rng.standard_exponential(size)
    )
