"""Delay of DRIP's multi-copy-multi-destination delivery, and the number of brokers for a requested delay.

Paper: [DRIP] section V-C, Eq. 1 and 2.
Departs: the mean that Eq. 2 prints has a sign slip. Integrating the second-order series gives (5l - l^2)/(4
m lambda), not (l^2 + 3l)/(4 m lambda); the series itself is only good for small l, and exactly the mean is
H_l/(m lambda) with the harmonic number H_l. All three are offered (docs/drip.md, choice 0061).
"""

import math
from dataclasses import dataclass
from typing import Literal

Formula = Literal["exact", "paper", "second-order"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDelay:
    """k mobile brokers on a grid of `grid_cells` cells (the paper's N): m copies look for l destinations."""

    grid_cells: float
    brokers: int
    copies: int
    destinations: int

    def __post_init__(self) -> None:
        for field in ("grid_cells", "brokers", "copies", "destinations"):
            if not getattr(self, field) >= 1:
                raise ValueError(f"{field}: {getattr(self, field)} is less than 1")
        if self.copies + self.destinations >= self.brokers:
            raise ValueError(
                f"brokers: {self.copies} copies and {self.destinations} destinations "
                f"need more than {self.copies + self.destinations} brokers (m + l < k)"
            )
        if self.meeting_s() <= 0:
            raise ValueError(
                f"grid_cells: the mean meeting time is not positive for {self.grid_cells:g} cells "
                f"and {self.brokers} brokers; the grid is too small for the model"
            )

    @property
    def reach(self) -> float:
        """alpha: how far apart two brokers may be for their regions to meet."""
        return 2 * math.sqrt(self.grid_cells / (math.pi * self.brokers))

    def meeting_s(self) -> float:
        """1/lambda: mean time until the regions of two given brokers meet, in the grid's unit of time."""
        n, alpha = self.grid_cells, self.reach
        # alpha / (2^alpha - 1), which vanishes for large alpha
        near = alpha / math.expm1(alpha * math.log(2)) if alpha < 500 else 0.0
        return 0.5 * n * (0.34 * math.log(n) - 2 + near)

    def within(self, t_s: float) -> float:
        """Eq. 1: P(all destinations have the event by `t_s`)."""
        detected = -math.expm1(-self.copies * t_s / self.meeting_s())
        return detected**self.destinations

    def quantile_s(self, share: float) -> float:
        """The time by which all destinations are reached with this probability: Eq. 1 inverted."""
        if not 0 <= share < 1:
            raise ValueError(f"share: {share} is not in [0, 1)")
        return -math.log1p(-(share ** (1 / self.destinations))) * self.meeting_s() / self.copies

    def mean_s(self, formula: Formula = "exact") -> float:
        """Eq. 2, exactly, as printed, or as the second-order series integrates."""
        unit = self.meeting_s() / self.copies
        length = self.destinations
        match formula:
            case "exact":
                return unit * sum(1 / i for i in range(1, length + 1))
            case "paper":
                return unit * (length**2 + 3 * length) / 4
            case "second-order":
                return unit * (5 * length - length**2) / 4


def brokers_for_delay(
    target_s: float,
    *,
    grid_cells: float,
    copies: int,
    destinations: int,
    formula: Formula = "exact",
    brokers_max: int = 1_000_000,
) -> int:
    """The largest number of brokers whose mean delay is within `target_s`: the delay grows with it."""

    def delay_s(brokers: int) -> float:
        model = RegionDelay(grid_cells=grid_cells, brokers=brokers, copies=copies, destinations=destinations)
        return model.mean_s(formula)

    least = copies + destinations + 1
    if delay_s(least) > target_s:
        raise ValueError(
            f"target_s: even the fewest brokers ({least}) have a mean delay of {delay_s(least):.4g}; "
            "use more copies or fewer destinations"
        )
    if delay_s(brokers_max) <= target_s:
        return brokers_max
    low, high = least, brokers_max
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if delay_s(middle) <= target_s else (low, middle)
    return low
