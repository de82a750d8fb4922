"""What it costs that a message crosses from one broker, or one process of a broker, to another.

    python -m benchmarks crossing [--rounds 5]

One publisher, twenty subscribers at QoS 0, two brokers without sockets: all subscribers are where the publisher is, or
half of them, or none. Processor time of both brokers for each message; the layouts take turns. Sockets come on top, and
a link needs two writes and reads for many messages (`python -m benchmarks cores` has all of it).
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Final

from benchmarks._machines import Machines, publish_packet_qos_0, subscribe_packet
from roamq.net.server import GC_THRESHOLDS

SUBSCRIBERS: Final = 20
AT_ONCE: Final = 50
"""Messages of one read."""
BATCHES: Final = 100


def layout(here: int) -> Callable[[], float]:
    """Two brokers, so many of the subscribers where the publisher is; gives what measures them."""
    machines = Machines(("b1", "b2"), "standard", overlay="interest")
    for number in range(SUBSCRIBERS):
        subscriber = machines.connect("b1" if number < here else "b2", f"subscriber-{number}", clean=True)
        machines.settle()
        subscriber.send(subscribe_packet("bench/+"))
    publisher = machines.connect("b1", "publisher", clean=True)
    machines.settle()
    packet = publish_packet_qos_0("bench/001", b"x" * 64)
    data = packet * AT_ONCE

    def measure() -> float:
        """Seconds for each message."""
        began = time.process_time()
        for _ in range(BATCHES):
            machines.now += 0.01
            publisher.send(data)
            written = machines.settle()
            if sum(map(len, written.values())) != len(data) * SUBSCRIBERS:
                raise SystemExit("crossing: a message was not delivered")
        return (time.process_time() - began) / (BATCHES * AT_ONCE)

    measure()
    return measure


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks crossing", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(argv)
    gc.set_threshold(*GC_THRESHOLDS)
    layouts = {here: layout(here) for here in (SUBSCRIBERS, SUBSCRIBERS // 2, 0)}
    gc.collect()
    gc.freeze()
    times: dict[int, list[float]] = {here: [] for here in layouts}
    for _ in range(options.rounds):
        for here, measure in layouts.items():
            times[here].append(measure() * 1e6)
    gc.unfreeze()
    found = {here: statistics.median(each) for here, each in times.items()}
    local_us = found[SUBSCRIBERS]
    results: dict[str, object] = {}
    for here, each_us in found.items():
        gain = (
            f"; on two full cores {2 * local_us / each_us:.2f} times one broker"
            if 0 < here < SUBSCRIBERS
            else ""
        )
        print(
            f"{here:2} subscribers here, {SUBSCRIBERS - here:2} at the other broker: {each_us:5.1f} us/message, "
            f"{each_us / SUBSCRIBERS:.2f} us/delivery; it crosses for {each_us - local_us:.1f} us{gain}"
        )
        results[f"{here} here"] = {"us/message": each_us, "crossing us": each_us - local_us}
    return results
