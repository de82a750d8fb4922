"""A mobile network in the simulator: transmissions per second of ours, and how the cost grows with the nodes.

The same density at every size, a tenth of the nodes brokers. Two parts grow in their own way and are measured
apart: finding the neighbors of all nodes, which the spatial index makes N log N (a table of all pairs beside it,
in the same run), and the protocol, in which every broker learns every subscription ([DRIP] section V-B2), so that
its cost per node is not level by design.
"""

import argparse
import math
import time

import numpy as np
from scipy.spatial.distance import cdist

from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.experiment import Setting, build
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.waypoint import RandomWaypoint, Walk

NODES = (200, 500, 1000, 2000, 5000)
SETTLED_S = 30.0
EXPONENT_MAX = 1.3
"""The bar: ten times the nodes may take the index at most ten to this power as long."""


def setting(nodes: int, seconds: float) -> Setting:
    return Setting(
        nodes=nodes,
        parameters=Parameters(k=nodes // 10, l=5, m=3),
        walk=Walk(side_m=1000.0 * (nodes / 200) ** 0.5),
        warm_up_s=SETTLED_S,
        publishing_s=seconds,
        drain_s=0.0,
    )


def neighbors(nodes: int, steps: int = 10) -> tuple[float, float]:
    """Seconds per step to find all neighbors: with the index, and by the distances of all pairs."""
    one = setting(nodes, 1.0)
    mobility = RandomWaypoint(nodes, one.walk, np.random.default_rng(1))
    field = Field(mobility, range_m=one.range_m, delay_s_per_m=one.delay_s_per_m)
    began = time.perf_counter()
    for step in range(1, steps + 1):
        field.step(0.5 * step)
        for node in range(nodes):  # more than a run asks for: its nodes speak about once in two steps
            field.neighbors(node)
    indexed = (time.perf_counter() - began) / steps
    began = time.perf_counter()
    near = cdist(field.positions, field.positions) <= one.range_m
    found = int(near.sum()) - nodes
    all_pairs = time.perf_counter() - began
    assert found == sum(len(field.neighbors(node)) for node in range(nodes)), "both find the same"
    return indexed, all_pairs


def protocol(nodes: int, seconds: float) -> tuple[int, float]:
    """Transmissions in the time measured, after the network has settled, and how long they took us."""
    network = build(setting(nodes, seconds), 1)
    network.run(SETTLED_S)
    network.radio.sent.clear()
    marked = len(network.records)
    began = time.perf_counter()
    network.run(SETTLED_S + seconds)
    took = time.perf_counter() - began
    counted = sum(record.count or 0 for record in network.records[marked:] if record.kind == "traffic")
    return counted + sum(count for count, _ in network.radio.sent.values()), took


def exponent(sizes: list[int], costs: list[float]) -> float:
    """The power of N that the cost grows with, by least squares on logarithms."""
    slope, _ = np.polyfit(np.log(sizes), np.log(costs), 1)
    return float(slope)


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="benchmarks manet")
    parser.add_argument("--nodes", type=int, nargs="+", default=NODES)
    parser.add_argument("--seconds", type=float, default=20.0, help="virtual seconds measured at each size")
    options = parser.parse_args(argv)
    sizes = list(options.nodes)
    index_s, pairs_s, protocol_s, rates = [], [], [], []
    print(
        f"{'nodes':>6} {'index ms':>9} {'all pairs ms':>13} {'transmissions/s':>16} {'us per node-second':>19}"
    )
    for nodes in sizes:
        indexed, all_pairs = neighbors(nodes)
        sent, took = protocol(nodes, options.seconds)
        per_node = took / (nodes * options.seconds)
        index_s.append(indexed)
        pairs_s.append(all_pairs)
        protocol_s.append(took)
        rates.append(sent / took)
        print(
            f"{nodes:6d} {indexed * 1e3:9.2f} {all_pairs * 1e3:13.2f} {sent / took:16,.0f} {per_node * 1e6:19.1f}"
        )
    result: dict[str, object] = {
        "nodes": sizes,
        "transmissions_per_s": rates,
        "index_step_s": index_s,
        "all_pairs_step_s": pairs_s,
        "protocol_s": protocol_s,
    }
    if len(sizes) > 1:
        grown = exponent(sizes, index_s)
        result |= {"index_exponent": grown, "protocol_exponent": exponent(sizes, protocol_s)}
        verdict = "met" if grown <= EXPONENT_MAX else "missed"
        print(
            f"index: N^{grown:.2f} (at most N^{EXPONENT_MAX}: {verdict}); protocol: N^{exponent(sizes, protocol_s):.2f}"
        )
        assert not math.isnan(grown)
    return result


if __name__ == "__main__":
    main([])
