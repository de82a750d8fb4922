"""Routing by interest against flooding: the same simulated clients, moves and events on each, for 3 to 64 brokers.

At every broker somebody publishes about that site. A client wants one site, a quarter of them, or all; it moves between
neighbours, in the network's links. All run in one process with one seed, and the checkers watch all. Events are
flooded; routed by interest; or routed by interest where each broker declares that it publishes about its site alone.

`events` are link crossings of events for each publication, `routing` those of subscriptions and markers for each move,
`move` those of all control messages for each move, `first` the time from a reconnect to the first message, `filters`
what a broker keeps about the interests of its neighbours (mean and largest). `held` is at how many brokers a filter of
a client is known, because somebody there wants it or asked for it, itself or covered; last, `move` for each of them.
"""

import argparse
import random
from collections import Counter
from statistics import fmean
from typing import Any, NamedTuple

from roamq.config import Source
from roamq.core.filters import Filter
from roamq.overlay.interest import ByInterest
from roamq.sim.scenario import Simulation, checked

SIZES = (3, 6, 12, 24, 64)
ADVERTISED = "interest, advertised"
"""Each broker declares that only its own site is published there."""
ROUTING = ("mobile_subscribe", "mobile_unsubscribe", "marker")
CONTROL = (*ROUTING, "control", "closing", "context")


class Cost(NamedTuple):
    """What one run cost."""

    events: float
    """Link crossings of events, for each publication."""
    routing: float
    """Link crossings of subscriptions and markers, for each move."""
    move: float
    """Link crossings of all control messages, for each move."""
    kilobytes: float
    """Over all links together, for each second."""
    first_s: float
    """From a reconnect to the first message."""
    filters: float
    """What a broker knows of its neighbours' interests, on average."""
    filters_max: int
    held: float
    """At how many brokers a filter of a client is known, on average; at none under flooding."""


def graph(size: int) -> tuple[list[str], list[list[str]]]:
    """A random connected graph with half as many links again as a tree."""
    rng = random.Random(f"{size}/graph")
    brokers = [f"b{i:02}" for i in range(size)]
    links = {(rng.randrange(max(0, i - 6), i), i) for i in range(1, size)}
    while len(links) < min(size - 1 + size // 2, size * (size - 1) // 2):
        one, other = sorted(rng.sample(range(size), 2))
        links.add((one, other))
    return brokers, [[brokers[one], brokers[other]] for one, other in sorted(links)]


def cost(
    overlay: str, size: int, wanted: int, scheme: str, duration_s: float, *, advertised: bool = False
) -> Cost:
    brokers, links = graph(size)
    scenario: dict[str, Any] = {
        "name": f"{overlay}, {size} brokers",
        "scheme": {"name": scheme},
        "clients": 2 * size,
        "duration_s": duration_s,
        "network": {
            "overlay": overlay,
            "brokers": brokers,
            "links": links,
            "advertisements": advertised,
        },
        "mobility": {
            "model": "three-state",
            "pattern": "NBR",
            "connect_s": 20.0,
            "disconnect_s": 4.0,
            "handoff_s": 1.0,
        },
        "workload": {"model": "sites", "wanted": wanted},
        "records": {"level": "moves"},
    }
    simulation = Simulation(checked(scenario, Source("interest")), 1)
    published = 0
    hops: Counter[str] = Counter()
    total_bytes = 0
    result = simulation.run()
    assert result.violations == [], result.violations
    for record in result.records:
        if record.kind == "traffic" and record.detail not in ("delivery", "stored_delivery"):
            hops[record.detail or ""] += record.hops or 0
            total_bytes += record.bytes or 0
    published = sum(host.broker.sequence for host in simulation.network.hosts.values())
    moves = sum(r.kind == "connected" and r.peer not in (None, r.broker) for r in result.records)
    waits = [r.duration_s for r in result.records if r.kind == "handoff" and r.duration_s is not None]
    kept = [filters_at(host.broker.router) for host in simulation.network.hosts.values()]
    return Cost(
        hops["event"] / published,
        sum(hops[kind] for kind in ROUTING) / moves,
        sum(hops[kind] for kind in CONTROL) / moves,
        total_bytes / 1000 / duration_s,
        fmean(waits),
        fmean(kept),
        max(kept),
        held(simulation),
    )


def held(simulation: Simulation) -> float:
    """At how many brokers each filter is held that a client wants somewhere, on average over clients and filters."""
    hosts = simulation.network.hosts.values()
    routers = [host.broker.router for host in hosts if isinstance(host.broker.router, ByInterest)]
    wanted = [one for host in hosts for context in host.broker.contexts.values() for one in context.filters]
    counts = {filter: sum(_holds(router, filter) for router in routers) for filter in set(wanted)}
    return fmean(counts[filter] for filter in wanted)


def _holds(router: ByInterest, wanted: Filter) -> bool:
    tables = (router._here, *router._asked.values())
    return any(wanted in table or any(other.covers(wanted) for other in table) for table in tables)


def filters_at(router: object) -> int:
    """How many filters a router keeps of its neighbours, and of what it asked them for."""
    return router.filters_kept if isinstance(router, ByInterest) else 0


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks interest", description=__doc__)
    parser.add_argument("--scheme", default="standard")
    parser.add_argument("--duration-s", type=float, default=300.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of brokers")
    options = parser.parse_args(argv)
    results: dict[str, object] = {}
    print(f"scheme {options.scheme}, {options.duration_s:.0f} simulated seconds, 2 clients at each broker\n")
    print(
        "| brokers | wants | overlay | events | kB/s | routing | move | first | filters | held | move/held |"
    )
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for size in options.sizes:
        for name, wanted in (("one site", 1), ("a quarter", max(1, size // 4)), ("all", 0)):
            for label in ("flooding", "interest", ADVERTISED):
                found = cost(
                    label.partition(",")[0],
                    size,
                    wanted,
                    options.scheme,
                    options.duration_s,
                    advertised=label == ADVERTISED,
                )
                print(
                    f"| {size} | {name} | {label} | {found.events:.2f} | {found.kilobytes:.1f} "
                    f"| {found.routing:.1f} | {found.move:.1f} | {1000 * found.first_s:.0f} ms "
                    f"| {found.filters:.0f} ({found.filters_max}) | {found.held:.1f} "
                    f"| {f'{found.move / found.held:.2f}' if found.held else '-'} |",
                    flush=True,
                )
                results[f"{size}/{name}/{label}"] = found._asdict()
    return results
