"""What neighbours cost a broker whose clients do not need them: processor time of all brokers for each delivery.

    python -m benchmarks mesh [--brokers 1 3 6] [--seconds 2] [--rounds 3]

All publishers and subscribers are at the first broker of a full mesh, under the three loads of `roamq bench
throughput`, at QoS 0 and 1. One run measures networks of each size in turns, with routing by interest and with
flooding. Under routing by interest no other broker wants these messages, so they stay at the first; flooding sends
each message to every broker. `x one broker` is the processor time of all brokers together, divided by that of a broker
without neighbours. It includes what a network costs while nothing happens: on a busy machine, where few messages are
delivered, that is a large part.
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
    """A network of so many brokers without a journal. The load comes to the first broker."""

    def start(folder: Path) -> tuple[list[str], int]:
        path = folder / "network.toml"
        path.write_text(local_network(brokers, overlay=overlay, durability="memory"))
        listener = load_network(path).brokers["b1"].listeners[0]
        return [sys.executable, "-m", "roamq", "up", str(path), "--log-level", "ERROR"], listener.port

    return BenchBroker(name_of(brokers, overlay), start)


def name_of(brokers: int, overlay: str) -> str:
    """What a network is called in the results."""
    return "1, alone" if brokers == 1 else f"{brokers}, {overlay}"


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks mesh", description=__doc__)
    parser.add_argument(
        "--brokers", type=int, nargs="+", default=[1, 3, 6], help="how many brokers a mesh has"
    )
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
    """Print a row of the table, and return its numbers."""
    alone = next(r for r in results if r.broker == name_of(1, "") and r[1:3] == one[1:3])
    times = one.cpu_us / alone.cpu_us
    print(
        f"| {one.shape} | {one.qos} | {one.broker} | {one.rate:,.0f}/s | {one.cpu_us:.1f} us | {times:.2f} |",
        flush=True,
    )
    return {"rate": one.rate, "us": one.cpu_us, "times": times}
