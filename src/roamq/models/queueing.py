"""Queueing centres in closed form: M/M/1 and the ON/OFF centre.

Paper: [TIME] section 3.1 (Eq. 1, Theorems 1 and 2) and 3.2 (Eq. 15, 16). Theorem 2 belongs to a long line of results on
servers that break down and are repaired: White and Christie (1958) for interruptions that take precedence, Gaver (1962)
for the completion time of an interrupted service, Avi-Itzhak and Naor (1963) for the mean queue under five rules of
breakdown. With repairs instead of disconnections, their mean for exponential periods is Theorem 2.
A centre may be saturated: then it has a utilisation but no response time, and asking for one raises
`SaturationError`, which says which centre it is and what rate it could bear.
"""

import math
from dataclasses import dataclass

from roamq.models.intermittent import IntermittentQueue
from roamq.models.phase_type import MatrixExponential, exponential


class SaturationError(ValueError):
    """A centre is offered more work than it can do; there is no steady state."""

    def __init__(self, centre: str, *, utilisation: float, rate: float, rate_max: float) -> None:
        super().__init__(
            f"{centre} is saturated: utilisation {utilisation:.3g} at {rate:.4g} events/s, "
            f"it can bear less than {rate_max:.4g} events/s"
        )
        self.centre = centre
        self.utilisation = utilisation
        self.rate_max = rate_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Centre:
    """A first-come-first-served centre with Poisson arrivals and exponential service.

    With a disconnected period it is the paper's ON/OFF centre, which serves only while its peer is connected;
    with `t_off_s = 0` it is M/M/1.
    """

    name: str
    rate: float
    """Events per second of the flow under study (lambda_ps)."""
    demand_s: float
    """Mean service time of one event (D)."""
    other_rate: float = 0.0
    """Events per second of all other flows (lambda_oth)."""
    t_on_s: float = math.inf
    t_off_s: float = 0.0

    def __post_init__(self) -> None:
        for field in ("rate", "other_rate", "t_off_s"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{self.name}: {field} must not be negative, is {getattr(self, field)}")
        for field in ("demand_s", "t_on_s"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{self.name}: {field} must be positive, is {getattr(self, field)}")

    @property
    def is_on_off(self) -> bool:
        return self.t_off_s > 0 and math.isfinite(self.t_on_s)

    @property
    def off_rate(self) -> float:
        """Theorem 1: the rate of the virtual off events, one a cycle."""
        return 1 / (self.t_on_s + self.t_off_s) if self.is_on_off else 0.0

    @property
    def stretch(self) -> float:
        """How much longer service takes on average because the peer is not always connected."""
        return (self.t_on_s + self.t_off_s) / self.t_on_s if self.is_on_off else 1.0

    @property
    def utilisation(self) -> float:
        return (self.rate + self.other_rate) * self.demand_s * self.stretch

    @property
    def rate_max(self) -> float:
        """The total rate at which the centre saturates."""
        return 1 / (self.demand_s * self.stretch)

    @property
    def is_saturated(self) -> bool:
        return self.utilisation >= 1

    def response_s(self) -> float:
        """Mean response time: Theorem 2 (Eq. 5), which without disconnections is Eq. 1."""
        self._require_steady_state()
        return (self._residual_off_s + self.demand_s * self.stretch) / (1 - self.utilisation)

    def effective_demand_s(self) -> float:
        """Eq. 15: the demand under which the flow alone would respond as it does among all flows.

        For M/M/1 it reduces to Eq. 16; for the ON/OFF centre Theorem 2 is solved for the demand.
        """
        response_s = self.response_s()
        stretched = (response_s - self._residual_off_s) / (1 + self.rate * response_s)
        return stretched / self.stretch

    def response_distribution(self) -> MatrixExponential:
        """Of the response time, exact: exponential for M/M/1, matrix-exponential for the ON/OFF centre."""
        self._require_steady_state()
        if not self.is_on_off:
            return exponential(self.response_s())
        return self.exact().response_distribution()

    def exact(self) -> IntermittentQueue:
        """The same centre for the matrix-geometric method."""
        return IntermittentQueue(
            rate=self.rate + self.other_rate,
            service=exponential(self.demand_s),
            on=exponential(self.t_on_s) if self.is_on_off else None,
            off=exponential(self.t_off_s) if self.is_on_off else None,
        )

    @property
    def _residual_off_s(self) -> float:
        """What an arrival waits on average for the peer to reconnect, disconnected or not."""
        return self.t_off_s**2 / (self.t_on_s + self.t_off_s) if self.is_on_off else 0.0

    def _require_steady_state(self) -> None:
        if self.is_saturated:
            raise SaturationError(
                self.name,
                utilisation=self.utilisation,
                rate=self.rate + self.other_rate,
                rate_max=self.rate_max,
            )
