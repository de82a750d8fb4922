"""Ten networks by the models, beside two simulators that are not ours: Ciw, and SimPy where events are copied.

    python -m benchmarks.solvers [--events N] [--json]

Ciw has no server that follows connectivity, so a disconnection is a customer with preemptive priority, as [TIME] itself
defines it. An event that goes to several brokers is copied; for such networks SimPy serves every centre of its own, on
routes that are found here, not by the model.
"""

import argparse
import json
import math
import random
import sys
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ciw
import numpy as np
import simpy
from rich.console import Console
from rich.table import Table

from roamq.models.buffers import loss
from roamq.models.bursts import solve_path
from roamq.models.network import PublishingPeer, PubSubNetwork, SubscribingPeer
from roamq.models.priorities import EventClass, mean_responses_s
from roamq.models.queueing import Centre

RUNS: Final = 5

Steps = Generator[Any, Any, None]


@dataclass(frozen=True, slots=True)
class Compared:
    """One network: the model's answer and an independent one."""

    name: str
    measure: str
    solver: str
    model: float
    independent: float
    half_width: float
    """Half of its 95% interval, over independent runs."""
    approximate: bool
    """The model is an approximation here: independence between centres, or bursts."""

    @property
    def error(self) -> float:
        return self.model / self.independent - 1


# Rows of centres, by Ciw


def centre(
    demand_s: float, *, away_s: float = 0.0, on_s: float = math.inf, other_rate: float = 0.0
) -> Centre:
    return Centre(
        name=f"centre of {demand_s:g} s",
        rate=1.0,
        demand_s=demand_s,
        other_rate=other_rate,
        t_on_s=on_s,
        t_off_s=away_s,
    )


def ciw_row(centres: Sequence[Centre], *, events: int, seed: int) -> float:
    """The mean response time of events through the centres, one after the other."""
    size = len(centres)
    away = [i for i, part in enumerate(centres) if part.is_on_off]
    nodes = size + len(away)  # each peer has a node of its own where it spends its connected time
    never: list[Any] = [None] * nodes
    arrivals: dict[str, list[Any]] = {"Event": [ciw.dists.Exponential(centres[0].rate), *never[1:]]}
    services: dict[str, list[Any]] = {"Event": [ciw.dists.Exponential(1 / c.demand_s) for c in centres]}
    services["Event"] += [ciw.dists.Deterministic(0.0)] * len(away)
    routes = {"Event": _matrix(nodes, {(i, i + 1): 1.0 for i in range(size - 1)})}
    for i, part in enumerate(centres):
        if part.other_rate:
            arrivals[f"Other {i}"] = [*never[:i], ciw.dists.Exponential(part.other_rate), *never[i + 1 :]]
            services[f"Other {i}"] = services["Event"]
            routes[f"Other {i}"] = _matrix(nodes, {})
    for number, i in enumerate(away):
        place = size + number
        arrivals[f"Off {i}"] = [*never[:place], ciw.dists.Sequential([0.0, math.inf]), *never[place + 1 :]]
        services[f"Off {i}"] = [
            ciw.dists.Exponential(1 / centres[i].t_off_s)
            if node == i
            else ciw.dists.Exponential(1 / centres[i].t_on_s)
            for node in range(nodes)
        ]
        routes[f"Off {i}"] = _matrix(nodes, {(place, i): 1.0, (i, place): 1.0})
    classes = {name: 0 if name.startswith("Off") else 1 for name in arrivals}
    network = ciw.create_network(
        arrival_distributions=arrivals,
        service_distributions=services,
        routing=routes,
        number_of_servers=[1] * size + [math.inf] * len(away),
        priority_classes=(classes, ["resume"] * size + [False] * len(away)) if away else None,
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(events / centres[0].rate)
    begins: dict[int, float] = {}
    ends: dict[int, float] = {}
    for record in simulation.get_all_records(only=["service"]):
        if record.customer_class == "Event" and record.node <= size:
            if record.node == 1:
                begins[record.id_number] = record.arrival_date
            if record.node == size:
                ends[record.id_number] = record.exit_date
    warm = 0.1 * events / centres[0].rate
    done = [ends[i] - begins[i] for i in ends if i in begins and begins[i] >= warm]
    return float(np.mean(done))


def _matrix(size: int, moves: Mapping[tuple[int, int], float]) -> list[list[float]]:
    return [[moves.get((row, column), 0.0) for column in range(size)] for row in range(size)]


def ciw_alarms(alarm_rate: float, rate: float, demand_s: float, *, events: int, seed: int) -> float:
    """The mean response time of events that alarms interrupt, at one centre."""
    network = ciw.create_network(
        arrival_distributions={
            "Alarm": [ciw.dists.Exponential(alarm_rate)],
            "Event": [ciw.dists.Exponential(rate)],
        },
        service_distributions={name: [ciw.dists.Exponential(1 / demand_s)] for name in ("Alarm", "Event")},
        routing={name: [[0.0]] for name in ("Alarm", "Event")},
        number_of_servers=[1],
        priority_classes=({"Alarm": 0, "Event": 1}, ["resume"]),
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(events / rate)
    records = simulation.get_all_records(only=["service"])
    return float(np.mean([r.exit_date - r.arrival_date for r in records if r.customer_class == "Event"]))


def ciw_loss(rate: float, demand_s: float, room: int, *, events: int, seed: int) -> float:
    """The share of events that find a buffer of `room`, the one in service included, full."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate)],
        service_distributions=[ciw.dists.Exponential(1 / demand_s)],
        routing=[[0.0]],
        number_of_servers=[1],
        queue_capacities=[room - 1],
    )
    ciw.seed(seed)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_time(events / rate)
    records = simulation.get_all_records()
    lost = sum(1 for record in records if record.record_type == "rejection")
    return lost / len(records)


# Networks whose brokers copy events, by SimPy


def simpy_pair(network: PubSubNetwork, publisher: str, subscriber: str, *, events: int, seed: int) -> float:
    """The mean response time from one publisher to one subscriber, with all other flows at work."""
    rng, env = random.Random(seed), simpy.Environment()
    peers = {p.name: p for p in network.publishers}
    servers: dict[str, simpy.PreemptiveResource] = {}
    demands: dict[str, float] = {}
    total = sum(sum(p.rates.values()) for p in network.publishers)
    until_s = events / total
    delays: list[float] = []

    def server(name: str, demand_s: float, peer: PublishingPeer | SubscribingPeer | None = None) -> str:
        if name not in servers:
            servers[name], demands[name] = simpy.PreemptiveResource(env, capacity=1), demand_s
            if peer is not None and peer.t_off_s > 0:
                env.process(connectivity(servers[name], peer.t_on_s, peer.t_off_s))
        return name

    def connectivity(resource: simpy.PreemptiveResource, on_s: float, off_s: float) -> Steps:
        while True:
            yield env.timeout(rng.expovariate(1 / on_s))
            with resource.request(priority=0, preempt=True) as request:
                yield request
                yield env.timeout(rng.expovariate(1 / off_s))

    def served(name: str) -> Steps:
        left_s, priority = rng.expovariate(1 / demands[name]), 2
        while left_s > 0:
            with servers[name].request(priority=priority, preempt=False) as request:
                yield request
                began = env.now
                try:
                    yield env.timeout(left_s)
                    left_s = 0.0
                except simpy.Interrupt:
                    left_s -= env.now - began
                    priority = 1  # it goes on before those that wait

    def at_broker(here: str, tree: Mapping[str, list[str]], origin: str, topic: str, born: float) -> Steps:
        yield from served(server(f"{here} in", network.demand_in_s))
        for onward in tree[here]:
            env.process(over_link(here, onward, tree, origin, topic, born))
        for peer in network.subscribers:
            if peer.broker == here and topic in peer.topics:
                env.process(to_subscriber(peer, origin, born))

    def over_link(here: str, onward: str, tree: Mapping[str, list[str]], *event: Any) -> Steps:
        yield from served(server(f"{here} out to {onward}", network.demand_out_s))
        yield from at_broker(onward, tree, *event)

    def to_subscriber(peer: SubscribingPeer, origin: str, born: float) -> Steps:
        yield from served(server(f"to {peer.name}", peer.demand_s, peer))
        yield from served(server(f"device {peer.name}", peer.processing_s))
        if (origin, peer.name) == (publisher, subscriber) and born > 0.1 * until_s:
            delays.append(env.now - born)

    def publish(name: str, topic: str, rate: float) -> Steps:
        tree = spanning_tree(network.links, peers[name].broker)
        while True:
            yield env.timeout(rng.expovariate(rate))
            env.process(one_event(name, tree, topic, env.now))

    def one_event(name: str, tree: Mapping[str, list[str]], topic: str, born: float) -> Steps:
        yield from served(server(f"publisher {name}", peers[name].demand_s, peers[name]))
        yield from at_broker(peers[name].broker, tree, name, topic, born)

    for peer in network.publishers:
        for topic, rate in peer.rates.items():
            env.process(publish(peer.name, topic, rate))
    env.run(until=until_s)
    return float(np.mean(delays))


def spanning_tree(links: Mapping[str, Sequence[str]], root: str) -> dict[str, list[str]]:
    """Broker -> the brokers that it passes an event from `root` on to: shortest paths, the lexically first neighbor."""
    children: dict[str, list[str]] = {broker: [] for broker in links}
    seen, queue = {root}, deque([root])
    while queue:
        here = queue.popleft()
        for neighbor in sorted(links[here]):
            if neighbor not in seen:
                seen.add(neighbor)
                children[here].append(neighbor)
                queue.append(neighbor)
    return children


def network_of(
    edges: Sequence[str], publishers: Sequence[PublishingPeer], subscribers: Sequence[SubscribingPeer]
) -> PubSubNetwork:
    links: dict[str, list[str]] = {}
    for a, b in (edge.split("-") for edge in edges):
        links.setdefault(a, []).append(b)
        links.setdefault(b, []).append(a)
    return PubSubNetwork(
        links=links,
        publishers=publishers,
        subscribers=subscribers,
        demand_in_s=0.05,
        demand_out_s=0.04,
        overlay="flooding",
    )


def publisher(name: str, broker: str, rate: float, *, away_s: float = 0.0) -> PublishingPeer:
    on_s = 4.0 if away_s else math.inf
    return PublishingPeer(
        name=name, broker=broker, rates={"news": rate}, demand_s=0.02, t_on_s=on_s, t_off_s=away_s
    )


def subscriber(name: str, broker: str, *, away_s: float = 0.0) -> SubscribingPeer:
    on_s = 4.0 if away_s else math.inf
    return SubscribingPeer(
        name=name,
        broker=broker,
        topics=["news"],
        demand_s=0.05,
        processing_s=0.02,
        t_on_s=on_s,
        t_off_s=away_s,
    )


TREE: Final = network_of(
    ["a-b", "a-c", "b-d", "b-e"],
    [publisher("p", "d", 3.0), publisher("q", "c", 4.0)],
    [subscriber("s", "c"), subscriber("t", "e")],
)
RING: Final = network_of(
    ["a-b", "c-d", "b-c", "d-a"],
    [publisher("p", "a", 4.0), publisher("q", "c", 5.0)],
    [subscriber("s", "c"), subscriber("t", "d")],
)
TESTBED: Final = network_of(
    ["b1-b2", "b1-b6", "b2-b3", "b2-b6", "b3-b4", "b3-b5", "b3-b6", "b4-b6"],
    [publisher("p", "b1", 3.0), publisher("q", "b5", 5.0)],
    [subscriber("s", "b5", away_s=2.0), subscriber("t", "b4")],
)
RING_WITH_BURSTS: Final = network_of(
    ["a-b", "c-d", "b-c", "d-a"],
    [publisher("p", "a", 4.0, away_s=4.0), publisher("q", "c", 4.0)],
    [subscriber("s", "c"), subscriber("t", "d")],
)


def network_answer(network: PubSubNetwork, publisher: str, subscriber: str) -> float:
    from_peer = next(peer for peer in network.publishers if peer.name == publisher)
    to_peer = next(peer for peer in network.subscribers if peer.name == subscriber)
    return row_answer(network.path(from_peer, to_peer).centres)


def row_answer(centres: Sequence[Centre]) -> float:
    """With bursts, as `roamq plan response-time` answers."""
    return sum(part.law.mean() for part in solve_path(centres) if part.law is not None)


ROWS: Final[Mapping[str, tuple[list[Centre], bool]]] = {
    "M/M/1": ([centre(0.7)], False),
    "ON/OFF centre (Theorem 2)": ([centre(0.3, on_s=4, away_s=4)], False),
    "two centres, other flows": ([centre(0.3, other_rate=1.0), centre(0.1, other_rate=6.0)], False),
    "broker, then a subscriber that is away": ([centre(0.4), centre(0.2, on_s=4, away_s=2)], True),
    "bursts: fast uplink, slow centre": ([centre(0.001, on_s=4, away_s=4), centre(0.4)], True),
    "bursts: slow uplink, busy centre": ([centre(0.3, on_s=4, away_s=4), centre(0.8)], True),
    "bursts: both peers away": (
        [centre(0.01, on_s=4, away_s=4), centre(0.05), centre(0.2, on_s=4, away_s=2)],
        True,
    ),
}
"""Name -> centres, and whether the model is an approximation."""

NETWORKS: Final[Mapping[str, tuple[PubSubNetwork, str, str]]] = {
    "tree of five brokers": (TREE, "p", "s"),
    "ring of four brokers": (RING, "p", "s"),
    "testbed of six brokers, with cycles": (TESTBED, "p", "s"),
    "ring, with a publisher that is away": (RING_WITH_BURSTS, "p", "s"),
}


def compared(name: str, *, events: int, runs: int = RUNS) -> Compared:
    """The model's answer for one network, and the independent one."""
    if name in ROWS:
        centres, approximate = ROWS[name]
        found = _over_runs(lambda seed: ciw_row(centres, events=events, seed=seed), runs)
        return Compared(name, "mean response s", "Ciw", row_answer(centres), *found, approximate)
    if name in NETWORKS:
        network, source, target = NETWORKS[name]
        found = _over_runs(lambda seed: simpy_pair(network, source, target, events=events, seed=seed), runs)
        answer = network_answer(network, source, target)
        return Compared(name, "mean response s", "SimPy", answer, *found, True)
    if name == "alarms before others":
        model = mean_responses_s(
            [EventClass(name="a", rate=0.5, demand_s=0.4), EventClass(name="e", rate=1.0, demand_s=0.4)]
        )[1]
        found = _over_runs(lambda seed: ciw_alarms(0.5, 1.0, 0.4, events=events, seed=seed), runs)
        return Compared(name, "mean response s", "Ciw", model or math.nan, *found, False)
    model_loss = loss(centre(0.8).exact(), 5)
    found = _over_runs(lambda seed: ciw_loss(1.0, 0.8, 5, events=events, seed=seed), runs)
    return Compared(name, "share lost", "Ciw", model_loss, *found, False)


NAMES: Final = (*ROWS, "alarms before others", "buffer of five events", *NETWORKS)


def _over_runs(measure: Callable[[int], float], runs: int) -> tuple[float, float]:
    from scipy.stats import t as student_t

    values = [measure(seed) for seed in range(1, runs + 1)]
    error = float(np.std(values, ddof=1)) / math.sqrt(runs)
    return float(np.mean(values)), float(student_t.ppf(0.975, runs - 1)) * error


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    found = [compared(name, events=asked.events) for name in NAMES]
    if asked.json:
        print(json.dumps([{**{k: getattr(c, k) for k in c.__slots__}, "error": c.error} for c in found]))
        return
    table = Table(title="Models beside solvers that are not ours")
    for column in ("network", "measure", "model", "solver", "its answer", "error"):
        table.add_column(column)
    for c in found:
        table.add_row(
            c.name,
            c.measure,
            f"{c.model:.3g}",
            c.solver,
            f"{c.independent:.3g} ± {c.half_width:.1g}",
            f"{c.error:+.1%}",
        )
    Console(width=130).print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
