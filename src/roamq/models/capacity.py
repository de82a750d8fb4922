"""Capacity: how many brokers, and what buffer, for so many clients and these targets.

Joins the other models. The brokers form a balanced tree. A broker is an M/M/1 centre: it works on every event that
passes it, wanted there or only passed on, on every copy for a client, and on every copy for a neighbor. The root passes
more than a leaf, so brokers are sized by the busiest. The client is an ON/OFF centre of its own; clients spread over
brokers binomially ([PRO] section 6), so brokers are sized for the busy moment and not for the mean.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from roamq.models.buffers import capacity_for_loss
from roamq.models.network import OVERLAYS
from roamq.models.phase_type import MatrixExponential, exponential
from roamq.models.quantiles import binomial_quantile
from roamq.models.queueing import Centre

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Demand:
    """The load and the targets that a network must meet."""

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
    demand_out_s: float | None = None
    """Broker's time per neighbor that it passes the event to; None: as per client."""
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
    overlay: str = "flooding"
    """One of `roamq.models.network.OVERLAYS`: which brokers an event passes."""

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
        if self.demand_out_s is not None and not self.demand_out_s >= 0:
            raise ValueError(f"demand_out_s: must not be negative, is {self.demand_out_s}")
        if self.degree < 2:
            raise ValueError(f"degree: must be at least 2, is {self.degree}")
        if self.overlay not in OVERLAYS:
            raise ValueError(f"overlay: unknown {self.overlay}; known are {', '.join(OVERLAYS)}")

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
class CapacityPlan:
    """A number of brokers, and the load and response time that it gives."""

    brokers: int
    clients_per_broker: float
    clients_per_broker_busy: int
    broker_utilisation: float
    """Of the busiest broker."""
    transit_share: float
    """The share of the events at the busiest broker that no client there wants."""
    response_s: float | None
    """None if the brokers are saturated."""
    response_s_at_share: float | None
    client_buffer_events: int
    broker_buffer_bytes: int
    """For the contexts of all clients that are disconnected, at the client's buffer size."""
    meets: bool
    binding: str
    """What decides: `utilisation`, `response`, or `nothing` where a single broker suffices."""


def plan_capacity(demand: Demand) -> CapacityPlan:
    """The fewest brokers that meet the targets; a `ValueError` says which target no number of brokers meets."""
    buffer_events = _client_buffer(demand)
    client_s = demand.client_distribution.quantile(demand.response_share)
    if client_s > demand.response_target_s:
        raise ValueError(
            f"response_target_s: the client's own connectivity already takes {client_s:.4g} s at "
            f"{demand.response_share:.0%}, whatever the brokers; allow more than that, or connect clients longer"
        )
    best: CapacityPlan | None = None
    failed = 0
    binding = "nothing"
    for brokers in _candidates(demand.clients):
        plan = evaluate(demand, brokers, buffer_events)
        if plan.meets:
            best = plan
            break
        failed, binding = brokers, plan.binding
    if best is None:
        last = evaluate(demand, demand.clients, buffer_events)
        field = "utilisation_max" if binding == "utilisation" else "response_target_s"
        raise ValueError(
            f"{field}: not met even with one broker per client, where the busiest broker is at "
            f"{last.broker_utilisation:.3g} and {last.transit_share:.0%} of its events are for other brokers; "
            "make brokers faster, or let fewer events pass them"
        )
    while best.brokers - failed > 1:
        middle = evaluate(demand, (best.brokers + failed) // 2, buffer_events)
        if middle.meets:
            best = middle
        else:
            failed, binding = middle.brokers, middle.binding
    return replace(best, binding=binding)


def evaluate(demand: Demand, brokers: int, buffer_events: int | None = None) -> CapacityPlan:
    """What this many brokers give."""
    buffer_events = _client_buffer(demand) if buffer_events is None else buffer_events
    busy = int(binomial_quantile(demand.busy_share, demand.clients, 1 / brokers))
    tree = _balanced_tree(brokers, demand.degree)
    passing, passed_on = _loads(tree, demand)
    out_s = demand.demand_copy_s if demand.demand_out_s is None else demand.demand_out_s
    copies_rate = demand.event_rate * demand.match_share * busy
    work = demand.event_rate * (passing * demand.demand_in_s + passed_on * out_s)
    utilisations = work + copies_rate * demand.demand_copy_s
    busiest = int(np.argmax(utilisations))
    utilisation = float(utilisations[busiest])
    wanted_here = 1 - (1 - demand.match_share) ** (demand.clients / brokers)
    path = _longest_path(tree)
    mean_s, at_share_s = None, None
    if utilisation < 1:
        # One event keeps a broker busy for as long as all its copies take.
        services_s = utilisations / (demand.event_rate * passing)
        brokers_s = [float(services_s[i] / (1 - utilisations[i])) for i in path]
        passed = reduce(
            MatrixExponential.then, [exponential(value) for value in brokers_s], demand.client_distribution
        )
        mean_s, at_share_s = passed.mean(), passed.quantile(demand.response_share)
    is_slow = at_share_s is None or at_share_s > demand.response_target_s
    is_loaded = utilisation > demand.utilisation_max
    away = demand.t_off_s / (demand.t_on_s + demand.t_off_s)
    contexts = busy * demand.copies * away
    return CapacityPlan(
        brokers=brokers,
        clients_per_broker=demand.clients / brokers,
        clients_per_broker_busy=busy,
        broker_utilisation=utilisation,
        transit_share=max(0.0, 1 - wanted_here / float(passing[busiest])),
        response_s=mean_s,
        response_s_at_share=at_share_s,
        client_buffer_events=buffer_events,
        broker_buffer_bytes=math.ceil(contexts * buffer_events * demand.event_bytes),
        meets=not (is_slow or is_loaded),
        binding="utilisation" if is_loaded else "response" if is_slow else "nothing",
    )


def _client_buffer(demand: Demand) -> int:
    """Events that a client's buffer must hold; raises `SaturationError` if the client cannot keep up at all."""
    demand.client.response_s()
    return capacity_for_loss(demand.client.exact(), demand.loss_target)


def _candidates(clients: int) -> list[int]:
    """All small numbers, then steps of a tenth: the gap is searched afterwards."""
    numbers = list(range(1, min(clients, 64) + 1))
    while numbers[-1] < clients:
        numbers.append(min(clients, math.ceil(numbers[-1] * 1.1)))
    return numbers


@dataclass(frozen=True, slots=True)
class _Tree:
    """A balanced tree in the order of its levels; broker 0 is the root."""

    parents: Ints
    """The root's is the root itself."""
    depths: Ints
    sizes: Ints
    """Brokers at and below each."""


@lru_cache(maxsize=256)
def _balanced_tree(brokers: int, degree: int) -> _Tree:
    """Every broker has `degree` links as long as brokers last: the root so many children, all others one less."""
    index = np.arange(brokers)
    parents = np.where(index <= degree, 0, (index - degree - 1) // (degree - 1) + 1)
    levels = [index[:1]]
    while levels[-1][-1] < brokers - 1:
        begin, per_broker = int(levels[-1][-1]) + 1, degree if len(levels) == 1 else degree - 1
        levels.append(index[begin : begin + levels[-1].size * per_broker])
    depths, sizes = np.zeros(brokers, dtype=np.int64), np.ones(brokers, dtype=np.int64)
    for depth, level in enumerate(levels):
        depths[level] = depth
    for level in reversed(levels[1:]):
        np.add.at(sizes, parents[level], sizes[level])
    return _Tree(parents.astype(np.int64), depths, sizes)


def _loads(tree: _Tree, demand: Demand) -> tuple[Floats, Floats]:
    """Per broker and published event: the probability that it passes here, and the neighbors it is passed on to.

    Events enter at all brokers alike, and clients are spread over all brokers alike.
    """
    brokers = tree.sizes.size
    per_broker = demand.clients / brokers

    def wanted_among(number: Ints) -> Floats:
        """P(some client at so many brokers wants an event); flooding does not ask."""
        if demand.overlay == "flooding":
            return (number > 0).astype(np.float64)
        return np.asarray(-np.expm1(number * per_broker * math.log1p(-demand.match_share)), dtype=np.float64)

    below = tree.sizes / brokers
    goes_up = wanted_among(brokers - tree.sizes)
    if demand.overlay == "hierarchy":
        goes_up = np.ones(brokers)
    goes_up[0] = 0.0
    # An event passes here if it enters here, comes up from a child, or comes down because somebody below wants it.
    passing = 1 / brokers + (1 - below) * wanted_among(tree.sizes)
    np.add.at(passing, tree.parents[1:], (below * goes_up)[1:])
    passed_on = below * goes_up
    np.add.at(passed_on, tree.parents[1:], ((1 - below) * wanted_among(tree.sizes))[1:])
    return passing, passed_on


def _longest_path(tree: _Tree) -> list[int]:
    """The brokers from one of the deepest to the one furthest from it, both included."""

    def up(broker: int) -> list[int]:
        way = [broker]
        while way[-1] != 0:
            way.append(int(tree.parents[way[-1]]))
        return way

    first = up(tree.depths.size - 1)
    if len(first) == 1:
        return first
    branch = np.arange(tree.depths.size)
    while (branch > 0).any() and (tree.depths[branch] > 1).any():
        branch = np.where(tree.depths[branch] > 1, tree.parents[branch], branch)
    elsewhere = np.flatnonzero((branch != first[-2]) & (branch > 0))
    if not elsewhere.size:
        return first
    second = up(int(elsewhere[np.argmax(tree.depths[elsewhere])]))
    return first + second[-2::-1]
