"""Messages that a reconnection costs, per mobility scheme.

Paper: [DIS] section 4, Eq. 1-5, and section 4.1 for what each optimisation changes in them. Messages are
counted, not hops: section 4.2 names that as the model's limit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SCHEMES: Final = ("standard", "prefetching", "logging", "home-broker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnection:
    """One client that disconnects at one broker and reconnects at another."""

    rates: Sequence[float]
    """Events per second matching each of its subscriptions."""
    disconnected_s: float
    """From leaving the old broker to reconnecting at the new one."""
    transfer_s: float
    """To migrate subscriptions and forward stored events once that has begun."""
    covered_new: float = 0.0
    """Probability that a subscription is covered at the new broker, so that subscribing sends nothing."""
    covered_old: float = 0.0
    """The same for unsubscribing at the old broker."""
    is_atomic: bool = False
    """One more message per subscription makes its migration atomic (section 4, after Eq. 2)."""

    def __post_init__(self) -> None:
        for field in ("disconnected_s", "transfer_s"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field}: must not be negative, is {getattr(self, field)}")
        for field in ("covered_new", "covered_old"):
            _require_share(field, getattr(self, field))
        if any(not rate >= 0 for rate in self.rates):
            raise ValueError("rates: must not be negative")

    @property
    def event_rate(self) -> float:
        return sum(self.rates)


@dataclass(frozen=True, slots=True)
class Cost:
    """Eq. 1: the total is the sum of migrating subscriptions and forwarding events."""

    subscription_messages: float
    event_messages: float

    @property
    def messages(self) -> float:
        return self.subscription_messages + self.event_messages


def transfer_cost(
    reconnection: Reconnection,
    scheme: str,
    *,
    on_device: bool = False,
    logged_share: float = 0.0,
    hit_share: float = 1.0,
    predicted_brokers: int = 1,
    away_s: float = 0.0,
) -> Cost:
    """Unicast messages that one reconnection costs under `scheme`.

    `on_device`: the client carries its subscriptions, which saves a message each (section 3.2.4).
    `logged_share`: logging, the share of missed events that the new broker's log holds (Eq. 5).
    `hit_share`, `predicted_brokers`: prefetching, how often the client appears at one of the predicted
    brokers. `away_s`: home broker, how long the client then stays connected through a broker that is not
    its home.
    """
    _require_share("logged_share", logged_share)
    _require_share("hit_share", hit_share)
    match scheme:
        case "standard":
            return _standard(reconnection, on_device)
        case "prefetching":
            return _prefetching(reconnection, on_device, hit_share, predicted_brokers)
        case "logging":
            whole = _standard(reconnection, on_device)
            return Cost(whole.subscription_messages, whole.event_messages * (1 - logged_share))
        case "home-broker":
            missed_s = reconnection.disconnected_s + away_s
            return Cost(0.0, reconnection.event_rate * missed_s)
        case _:
            raise ValueError(f"scheme: unknown {scheme}; known are {', '.join(SCHEMES)}")


def subscription_messages(reconnection: Reconnection, *, on_device: bool = False) -> float:
    """Eq. 2: per subscription one message from old to new broker, one to subscribe, one to unsubscribe."""
    moved = 0 if on_device else 1
    atomic = 1 if reconnection.is_atomic else 0
    per_subscription = moved + atomic + (1 - reconnection.covered_new) + (1 - reconnection.covered_old)
    return len(reconnection.rates) * per_subscription


def _standard(reconnection: Reconnection, on_device: bool) -> Cost:
    """Eq. 3 with Eq. 4: all events of the disconnection and of the transfer itself are forwarded."""
    missed_s = reconnection.disconnected_s + reconnection.transfer_s
    return Cost(subscription_messages(reconnection, on_device=on_device), reconnection.event_rate * missed_s)


def _prefetching(reconnection: Reconnection, on_device: bool, hit_share: float, predicted: int) -> Cost:
    """Section 4.1: early migration leaves only the events of the transfer, if the prediction was right.

    A miss pays for the vain transfer, and then the standard cost from the mispredicted broker onward.
    """
    if predicted < 1:
        raise ValueError(f"predicted_brokers: {predicted} is less than 1")
    migration = subscription_messages(reconnection, on_device=on_device)
    during_transfer = reconnection.event_rate * reconnection.transfer_s
    again = _standard(reconnection, on_device)
    missed = 1 - hit_share
    return Cost(
        migration * predicted + missed * again.subscription_messages,
        during_transfer * predicted + missed * again.event_messages,
    )


def _require_share(field: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{field}: {value} is not in [0, 1]")
