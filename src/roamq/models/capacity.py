"""Capacity: how many brokers, and what buffer, for so many clients and these targets.

Joins the other models. The broker is an M/M/1 centre whose service grows with the clients it serves; the
client is an ON/OFF centre of its own; clients spread over brokers binomially ([PRO] section 6), so brokers
are sized for the busy moment and not for the mean.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, reduce

from scipy import stats

from roamq.models.buffers import capacity_for_loss
from roamq.models.phase_type import MatrixExponential, exponential
from roamq.models.queueing import Centre


@dataclass(frozen=True, kw_only=True)
class Demand:
    """What is asked of the network."""

    clients: int
    event_rate: float
    """Events per second published in the whole network."""
    match_share: float
    """Share of all events that one client wants."""
    t_on_s: float
    t_off_s: float
    demand_in_s: float
    """Broker's time per event that reaches it."""
    demand_copy_s: float
    """Broker's time per client that wants the event."""
    demand_client_s: float
    """To transmit one event to a connected client."""
    response_target_s: float
    response_share: float = 0.95
    """The share of events that must meet the target."""
    loss_target: float = 1e-3
    """Share of events that may find a client's buffer full."""
    utilisation_max: float = 0.7
    busy_share: float = 0.99
    """Brokers are sized for the number of clients not exceeded for this share of the time."""
    copies: float = 1.0
    """Brokers that hold a client's context: 1, or 1 + neighbors for pro-active caching."""
    event_bytes: int = 512
    degree: int = 4
    """Links per broker of the tree they form; it decides how many brokers an event passes."""

    def __post_init__(self) -> None:
        for field in ("clients", "event_rate", "t_on_s", "demand_client_s", "response_target_s"):
            if not getattr(self, field) > 0:
                raise ValueError(f"{field}: must be positive, is {getattr(self, field)}")
        for field in ("t_off_s", "demand_in_s", "demand_copy_s"):
            if not getattr(self, field) >= 0:
                raise ValueError(f"{field}: must not be negative, is {getattr(self, field)}")
        for field in ("match_share", "response_share", "loss_target", "utilisation_max", "busy_share"):
            if not 0 < getattr(self, field) < 1:
                raise ValueError(f"{field}: must lie between 0 and 1, is {getattr(self, field)}")
        if self.demand_in_s + self.demand_copy_s <= 0:
            raise ValueError("demand_in_s, demand_copy_s: at least one must be positive")
        if self.degree < 2:
            raise ValueError(f"degree: must be at least 2, is {self.degree}")

    @cached_property
    def client(self) -> Centre:
        """The ON/OFF centre of one client."""
        return Centre(
            name="client",
            rate=self.event_rate * self.match_share,
            demand_s=self.demand_client_s,
            t_on_s=self.t_on_s,
            t_off_s=self.t_off_s,
        )

    @cached_property
    def client_distribution(self) -> MatrixExponential:
        return self.client.response_distribution()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A number of brokers and what it gives."""

    brokers: int
    clients_per_broker: float
    clients_per_broker_busy: int
    broker_utilisation: float
    path_brokers: int
    """Brokers that the longest path passes."""
    response_s: float | None
    """None if the brokers are saturated."""
    response_s_at_share: float | None
    client_buffer_events: int
    broker_buffer_bytes: int
    """For the contexts of all clients that are disconnected, at the client's buffer size."""
    meets: bool
    binding: str
    """What decides: `utilisation`, `response`, or `nothing` where a single broker suffices."""


def plan_capacity(demand: Demand) -> Plan:
    """The fewest brokers that meet the targets; a `ValueError` says which target no number of brokers meets."""
    buffer_events = _client_buffer(demand)
    client_s = demand.client_distribution.quantile(demand.response_share)
    if client_s > demand.response_target_s:
        raise ValueError(
            f"response_target_s: the client's own connectivity already takes {client_s:.4g} s at "
            f"{demand.response_share:.0%}, whatever the brokers; allow more than that, or connect clients longer"
        )
    best: Plan | None = None
    failed = 0
    binding = "nothing"
    for brokers in _candidates(demand.clients):
        plan = evaluate(demand, brokers, buffer_events)
        if plan.meets:
            best = plan
            break
        failed, binding = brokers, plan.binding
    if best is None:
        raise ValueError(
            f"{'utilisation_max' if binding == 'utilisation' else 'response_target_s'}: not met even with one "
            f"broker per client; each broker sees {demand.event_rate * demand.demand_in_s:.3g} s of work a second "
            "from events alone"
        )
    while best.brokers - failed > 1:
        middle = evaluate(demand, (best.brokers + failed) // 2, buffer_events)
        if middle.meets:
            best = middle
        else:
            failed, binding = middle.brokers, middle.binding
    return replace(best, binding=binding)


def evaluate(demand: Demand, brokers: int, buffer_events: int | None = None) -> Plan:
    """What this many brokers give."""
    buffer_events = _client_buffer(demand) if buffer_events is None else buffer_events
    share_here = 1 / brokers
    busy = int(stats.binom.ppf(demand.busy_share, demand.clients, share_here))
    reach = 1 - (1 - demand.match_share) ** max(busy, 1)
    rate_in = demand.event_rate * reach
    copies_rate = demand.event_rate * demand.match_share * busy
    utilisation = rate_in * demand.demand_in_s + copies_rate * demand.demand_copy_s
    path = _longest_path(brokers, demand.degree)
    mean_s, at_share_s = None, None
    if utilisation < 1:
        broker_s = utilisation / rate_in / (1 - utilisation)
        passed = reduce(MatrixExponential.then, [exponential(broker_s)] * path, demand.client_distribution)
        mean_s, at_share_s = passed.mean(), passed.quantile(demand.response_share)
    is_slow = at_share_s is None or at_share_s > demand.response_target_s
    is_loaded = utilisation > demand.utilisation_max
    away = demand.t_off_s / (demand.t_on_s + demand.t_off_s)
    contexts = busy * demand.copies * away
    return Plan(
        brokers=brokers,
        clients_per_broker=demand.clients / brokers,
        clients_per_broker_busy=busy,
        broker_utilisation=utilisation,
        path_brokers=path,
        response_s=mean_s,
        response_s_at_share=at_share_s,
        client_buffer_events=buffer_events,
        broker_buffer_bytes=math.ceil(contexts * buffer_events * demand.event_bytes),
        meets=not (is_slow or is_loaded),
        binding="utilisation" if is_loaded else "response" if is_slow else "nothing",
    )


def _client_buffer(demand: Demand) -> int:
    """Beyond what is in service; raises `SaturationError` where the client cannot keep up at all."""
    demand.client.response_s()
    return capacity_for_loss(demand.client.exact(), demand.loss_target)


def _candidates(clients: int) -> list[int]:
    """All small numbers, then steps of a tenth: the gap is searched afterwards."""
    numbers = list(range(1, min(clients, 64) + 1))
    while numbers[-1] < clients:
        numbers.append(min(clients, math.ceil(numbers[-1] * 1.1)))
    return numbers


def _longest_path(brokers: int, degree: int) -> int:
    """Brokers on the way up a balanced tree and down again."""
    levels, reached = 1, 1
    while reached < brokers:
        reached += (degree - 1) ** levels if degree > 2 else 1
        levels += 1
    return 2 * levels - 1
