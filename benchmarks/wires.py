"""How many wires events and control messages cross with direct paths, and along the links, counted in the simulator.

    python -m benchmarks wires [--sizes 3 6 9 12 15]

The clients, moves and events of `benchmarks interest`, with the overlay `interest` and the scheme `standard`, on the
same random graph of wires. With paths along the links a message crosses one wire for each link. With direct paths each
broker is linked with each, and a message crosses as many wires as there are hops between the two: brokers in between
carry it.

`events`: wires that events cross for each publication; `move`: that control messages cross for each move; `bytes`: of
all on all wires, for each publication; `busiest`: on the busiest wire. Last, the bytes against those along the links.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from benchmarks import interest
from roamq.config import Source
from roamq.core.events import BrokerId, Event
from roamq.core.messages import HEADER_BYTES, Message
from roamq.overlay.topology import Topology
from roamq.sim.scenario import Simulation, checked

SIZES = (3, 6, 9, 12, 15)
PATHS = ("links", "direct")


class Crossed(NamedTuple):
    """What crossed the wires in one run."""

    events: float
    move: float
    bytes: float
    busiest: float


def crossed(size: int, wanted: int, paths: str, duration_s: float) -> Crossed:
    brokers, wires = interest.graph(size)
    mesh = [list(pair) for pair in combinations(brokers, 2)]
    scenario: dict[str, Any] = {
        "name": f"{paths}, {size} brokers",
        "scheme": {"name": "standard"},
        "clients": 2 * size,
        "duration_s": duration_s,
        "network": {
            "overlay": "interest",
            "brokers": brokers,
            "links": wires if paths == "links" else mesh,
        },
        "link": {"jitter_s": 1e-6},  # so that every message goes over a link that can be counted
        "mobility": {"model": "three-state", "pattern": "RND", "connect_s": 20.0, "disconnect_s": 4.0},
        "workload": {"model": "sites", "wanted": wanted},
        "records": {"level": "moves"},
    }
    simulation = Simulation(checked(scenario, Source("wires")), 1)
    ways = Topology(brokers, [(one, other) for one, other in wires])
    hops: Counter[str] = Counter()
    carried: Counter[frozenset[BrokerId]] = Counter()
    for host in simulation.network.hosts.values():
        for to, link in host.links.items():
            way = [frozenset(pair) for pair in pairwise(ways.path(host.me, to))]
            link.send = _counted(link.send, way, hops, carried)  # type: ignore[method-assign, assignment]
    result = simulation.run()
    assert result.violations == [], result.violations
    published = sum(host.broker.sequence for host in simulation.network.hosts.values())
    moves = sum(r.kind == "connected" and r.peer not in (None, r.broker) for r in result.records)
    return Crossed(
        hops["events"] / published,
        hops["control"] / moves,
        sum(carried.values()) / published,
        max(carried.values()) / published,
    )


def _counted(
    send: Callable[[Message | Event], None],
    way: list[frozenset[BrokerId]],
    hops: Counter[str],
    carried: Counter[frozenset[BrokerId]],
) -> Callable[[Message | Event], None]:
    def count(message: Message | Event) -> None:
        hops["events" if isinstance(message, Event) else "control"] += len(way)
        for wire in way:
            carried[wire] += HEADER_BYTES + message.size_bytes
        send(message)

    return count


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks wires", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of brokers")
    parser.add_argument("--duration-s", type=float, default=120.0)
    options = parser.parse_args(argv)
    results: dict[str, object] = {}
    print("| brokers | wires | wants | paths | events | move | bytes | busiest | bytes of links |")
    print("| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    for size in options.sizes:
        for name, wanted in (("one site", 1), ("a quarter", max(1, size // 4)), ("all", 0)):
            base = 0.0
            for paths in PATHS:
                found = crossed(size, wanted, paths, options.duration_s)
                base = base or found.bytes
                print(
                    f"| {size} | {len(interest.graph(size)[1])} | {name} | {paths} | {found.events:.2f} "
                    f"| {found.move:.1f} | {found.bytes:,.0f} | {found.busiest:,.0f} | {found.bytes / base:.2f} |",
                    flush=True,
                )
                results[f"{size}/{name}/{paths}"] = found._asdict()
    return results
