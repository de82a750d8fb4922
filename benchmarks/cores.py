"""What more processes of one broker carry: processor time for each delivery, and the rate of all.

    python -m benchmarks cores [--processes 1 2] [--seconds 2] [--rounds 3]

Twenty publishers, and twenty subscribers that get all of it, at QoS 0 and 1: `roamq serve --processes N`, and beside it
Mosquitto and NATS where they are installed. All take turns in one run. Processor time counts all processes of a broker.
A load generator needs a core as well, so on a small machine the rate does not show what the processes could carry: `on
full cores` is what they would, had each of them a core to itself, by the processor time that a delivery took. That is a
bound, not a measurement.
"""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from roamq.net.bench.brokers import MOSQUITTO, NATS, BenchBroker
from roamq.net.bench.throughput import Result, Shape, compare
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network

SHAPE: Final = Shape(20, 20, 2000)
SINGLE: Final = {"mosquitto": 1}
"""Brokers that use so many cores, however many there are."""


def roamq(processes: int) -> BenchBroker:
    """Our broker with so many processes, without a journal."""

    def start(folder: Path) -> tuple[list[str], int]:
        path = folder / "network.toml"
        path.write_text(local_network(1, durability="memory", processes=processes))
        listener = load_network(path).brokers["b1"].listeners[0]
        command = [sys.executable, "-m", "roamq", "serve", str(path), "--broker", "b1"]
        return [*command, "--log-level", "WARNING"], listener.port

    return BenchBroker(name_of(processes), start)


def name_of(processes: int) -> str:
    return f"roamq x{processes}"


def printed(cores_of: dict[str, int]) -> Callable[[Result], None]:
    def show(result: Result) -> None:
        cores = cores_of.get(result.broker)
        could = "" if cores is None else f"{cores * 1e6 / result.cpu_us:9,.0f}/s on full cores"
        print(
            f"QoS {result.qos}  {result.broker:<16} {result.rate:9,.0f}/s  {result.cpu_us:6.1f} us/delivery  {could}  "
            f"(load generator: {result.load_busy:.0%} of a core)",
            flush=True,
        )

    return show


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks cores", description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(argv)
    cores = len(os.sched_getaffinity(0))
    most = max(options.processes)
    print(f"{SHAPE.publishers} publishers, {SHAPE.subscribers} subscribers, {cores} cores")
    if cores < most + 1:
        print(
            f"too small a machine for the rates: {most} processes and the load generator want {most + 1} cores; "
            "go by the processor time"
        )
    cores_of = {**{name_of(number): number for number in options.processes}, **SINGLE}
    results = compare(
        [*map(roamq, options.processes), MOSQUITTO, NATS],
        shapes=(SHAPE,),
        seconds=options.seconds,
        rounds=options.rounds,
        on_note=print,
        on_result=printed(cores_of),
    )
    return {f"{one.broker}/QoS {one.qos}": one._asdict() for one in results} | gains(
        results, options.processes
    )


def gains(results: list[Result], processes: list[int]) -> dict[str, object]:
    """What several processes carry of what one carries, by rate and by processor time."""
    found: dict[str, object] = {}
    by_name = {(one.broker, one.qos): one for one in results}
    for number in processes:
        for qos in (0, 1):
            one, several = by_name.get((name_of(1), qos)), by_name.get((name_of(number), qos))
            if number > 1 and one is not None and several is not None:
                by_time = number * one.cpu_us / several.cpu_us
                found[f"gain/{number}/QoS {qos}"] = {"rate": several.rate / one.rate, "full cores": by_time}
                print(
                    f"QoS {qos}: {number} processes carry {several.rate / one.rate:.2f} times one here, and "
                    f"{by_time:.2f} times one on {number} full cores"
                )
    return found
