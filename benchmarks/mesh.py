"""What it costs clients of one broker that the broker has neighbours: processor time of all brokers for each delivery.

    python -m benchmarks mesh [--brokers 1 3 6] [--seconds 2] [--rounds 3]

Publishers and subscribers are all at the first broker of a full mesh, under the three loads of `roamq bench
throughput`, at QoS 0 and 1. Networks of so many broker processes take turns in one run, with routing by interest and
with flooding. Under routing by interest nobody else wants these messages, so they stay where they are; flooding sends
each to every broker. `x one broker` is the processor time of all brokers together, against that of a broker without
neighbours. What a network costs while nothing happens is in it: on a busy machine, where few messages come, it shows.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Final

from roamq.net.bench.brokers import BenchBroker
from roamq.net.bench.throughput import Result, compare
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network

OVERLAYS: Final = ("interest", "flooding")


def network(brokers: int, overlay: str) -> BenchBroker:
    """So many brokers without a journal; the load comes to the first."""

    def start(folder: Path) -> tuple[list[str], int]:
        path = folder / "network.toml"
        path.write_text(local_network(brokers, overlay=overlay, durability="memory"))
        listener = load_network(path).brokers["b1"].listeners[0]
        return [sys.executable, "-m", "roamq", "up", str(path), "--log-level", "ERROR"], listener.port

    return BenchBroker(name_of(brokers, overlay), start)


def name_of(brokers: int, overlay: str) -> str:
    return "1, alone" if brokers == 1 else f"{brokers}, {overlay}"


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mesh", description=__doc__)
    parser.add_argument("--brokers", type=int, nargs="+", default=[1, 3, 6], help="sizes of the mesh")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    meshes = [one for one in product(options.brokers, OVERLAYS) if one[0] > 1]
    results = compare(
        [network(1, OVERLAYS[0]), *(network(*mesh) for mesh in meshes)],
        seconds=options.seconds,
        rounds=options.rounds,
        on_note=print,
    )
    print("| load | QoS | brokers | deliveries | processor time of each | x one broker |")
    print("| --- | ---: | --- | ---: | ---: | ---: |")
    return {f"{one.shape}/QoS {one.qos}/{one.broker}": _shown(one, results) for one in results}


def _shown(one: Result, results: Sequence[Result]) -> dict[str, float]:
    alone = next(r for r in results if r.broker == name_of(1, "") and r[1:3] == one[1:3])
    times = one.cpu_us / alone.cpu_us
    print(
        f"| {one.shape} | {one.qos} | {one.broker} | {one.rate:,.0f}/s | {one.cpu_us:.1f} us | {times:.2f} |",
        flush=True,
    )
    return {"rate": one.rate, "us": one.cpu_us, "times": times}
