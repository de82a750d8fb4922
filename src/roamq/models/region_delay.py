"""Delay of DRIP's multi-copy-multi-destination delivery, and the number of brokers for a requested delay.

Paper: [DRIP] section V-C, Eq. 1 and 2.
Departs: the mean that Eq. 2 prints has a sign slip. Integrating the second-order series gives (5l - l^2)/(4
m lambda), not (l^2 + 3l)/(4 m lambda); the series itself is only good for small l, and exactly the mean is
H_l/(m lambda) with the harmonic number H_l. All three are offered (docs/drip.md, choice 0061).
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

Formula = Literal["exact", "paper", "second-order"]


class Meeting(NamedTuple):
    """How long it takes until the regions of two brokers meet, as runs showed it: as a power of their number."""

    seconds: float
    brokers: int
    """With so many brokers."""
    power: float = 0.0

    def at(self, brokers: int) -> float:
        return float(self.seconds * (brokers / self.brokers) ** self.power)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDelay:
    """k mobile brokers on a grid of `grid_cells` cells (the paper's N): m copies look for l destinations.

    With a `meeting` that was measured, the grid is not needed, and times are in seconds.
    """

    grid_cells: float | None = None
    brokers: int
    copies: int
    destinations: int
    meeting: Meeting | None = None

    def __post_init__(self) -> None:
        if self.grid_cells is None and self.meeting is None:
            raise ValueError("grid_cells: is needed where no meeting time is given")
        for field in ("grid_cells", "brokers", "copies", "destinations"):
            value = getattr(self, field)
            if value is not None and not value >= 1:
                raise ValueError(f"{field}: {getattr(self, field)} is less than 1")
        if self.copies + self.destinations >= self.brokers:
            raise ValueError(
                f"brokers: {self.copies} copies and {self.destinations} destinations "
                f"need more than {self.copies + self.destinations} brokers (m + l < k)"
            )
        if self.meeting_s() <= 0:
            raise ValueError(
                f"grid_cells: the mean meeting time is not positive for {self.grid_cells or 0:g} cells "
                f"and {self.brokers} brokers; the grid is too small for the model"
            )

    @property
    def reach(self) -> float:
        """alpha: how far apart two brokers may be for their regions to meet."""
        assert self.grid_cells is not None, "a measured meeting time has no reach"
        return 2 * math.sqrt(self.grid_cells / (math.pi * self.brokers))

    def meeting_s(self) -> float:
        """1/lambda: mean time until the regions of two given brokers meet, measured or in the grid's unit of time."""
        if self.meeting is not None:
            return self.meeting.at(self.brokers)
        assert self.grid_cells is not None
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
    grid_cells: float | None = None,
    copies: int,
    destinations: int,
    formula: Formula = "exact",
    brokers_max: int = 1_000_000,
    meeting: Meeting | None = None,
) -> int:
    """The largest number of brokers whose mean delay is within `target_s`: the delay grows with it."""
    if meeting is not None and meeting.power <= 0:
        raise ValueError("meeting_power: is needed, and above 0, to say how many brokers a delay allows")

    def delay_s(brokers: int) -> float:
        model = RegionDelay(
            grid_cells=grid_cells,
            brokers=brokers,
            copies=copies,
            destinations=destinations,
            meeting=meeting,
        )
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
