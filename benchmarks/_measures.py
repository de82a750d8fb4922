"""What `benchmarks.before` measures, in the one tree that this process imports.

`python -m benchmarks._measures` reads names of measurements from standard input, one a line, and answers each with a
line of JSON: a list of `Figure`. A broker process that a measurement needs runs until the input ends.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks._machines import (
    PINGREQ,
    Client,
    Machines,
    puback_packet,
    publish_packet,
    published_ids,
    subscribe_packet,
)

LOADS = tuple(f"{shape} QoS {qos}" for shape in ("1->1", "10->1", "1->100") for qos in (0, 1))
SCHEMES = ("standard", "proactive")
SECONDS = 1.0
"""Of one load."""
PINGS_S = 0.2
"""Processor time after which there were enough PINGREQs."""
STORED = 10
"""Events that wait for a client in each handoff between machines."""


TRIES: Final = 4
"""Starts of brokers, until a measurement counts as failed."""


class Figure(NamedTuple):
    """One measured number."""

    what: str
    clock: str
    """`processor` or `wall`."""
    value: float
    unit: str
    more_is_better: bool = False


class Measure(NamedTuple):
    """A measurement: the kind it belongs to, how many turns each tree has at it in a round, and how it is made."""

    kind: str
    turns: int
    make: Callable[[], list[Figure]]


class Measures:
    """All measurements by name. `close` ends the broker process."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._broker: Any = None
        self.by_name = {
            f"throughput {load}": Measure("throughput", 2, partial(self.throughput, load)) for load in LOADS
        }
        for scheme in SCHEMES:
            self.by_name[f"simulator {scheme}"] = Measure("simulator", 4, partial(simulator, scheme))
            for overlay in ("flooding", None):
                make = partial(handoff_cost, scheme, overlay)
                self.by_name[f"handoff cost {scheme} {overlay}"] = Measure("handoff", 4, make)
            self.by_name[f"handoff live {scheme}"] = Measure("handoff", 1, partial(handoff_live, scheme))
        for count in (0, 1000, 4000):
            self.by_name[f"waiting {count}"] = Measure("waiting", 2, partial(waiting, count))

    def close(self) -> None:
        self._stack.close()

    def throughput(self, load: str) -> list[Figure]:
        """One live broker under one load, as `roamq bench throughput` measures it."""
        from roamq.net.bench import brokers
        from roamq.net.bench.load import Load
        from roamq.net.bench.throughput import SHAPES, measure

        if self._broker is None:
            folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="roamq-before-"))
            self._broker = self._stack.enter_context(brokers.running(brokers.ROAMQ, Path(folder)))
        shape_name, _, qos = load.partition(" QoS ")
        shape = next(shape for shape in SHAPES if str(shape) == shape_name)
        found = measure(
            self._broker,
            Load(
                port=self._broker.port,
                publishers=shape.publishers,
                subscribers=shape.subscribers,
                qos=int(qos),
                window=shape.window,
                warm_up_s=SECONDS / 4,
                seconds=SECONDS,
            ),
        )
        what = f"throughput {load}"
        return [
            Figure(what, "processor", found.cpu_us, "us/delivery"),
            Figure(what, "wall", found.rate, "deliveries/s", more_is_better=True),
        ]


def simulator(scheme: str) -> list[Figure]:
    """The hierarchy of [DIS], with fewer clients and for a shorter time than in `benchmarks.hierarchy`."""
    from roamq.sim.scenario import load_scenario, run

    changes = {"clients": "300", "duration_s": "2400.0", "warmup_s": "0.0"}
    scenario = load_scenario("random", overrides=changes, scheme=scheme)
    began = time.process_time()
    run(scenario, seed=1)
    return [Figure(f"simulator {scheme}", "processor", time.process_time() - began, "s")]


def handoff_live(scheme: str) -> list[Figure]:
    """The median wait of clients that moved until their first stored message, as `roamq bench roaming` has it."""
    from roamq.fieldtest.run import run_job
    from roamq.sim.scenario import load_scenario

    changes = {
        "clients": "30",
        "duration_s": "13.0",
        "warmup_s": "0.0",
        "drain_s": "30.0",
        "mobility.connect_s": "3.0",
        "mobility.disconnect_s": "0.6",
        "mobility.handoff_s": "0.15",
        "workload.rate": "10.0",
        "workload.begin_s": "3.0",
    }
    scenario = load_scenario("testbed", overrides=changes, scheme=scheme)
    waits = [
        record.duration_s * 1e3
        for record in _tried(partial(run_job, json.loads(scenario.to_json()), 1))
        if record.kind == "handoff" and record.detail != "live" and record.broker != record.peer
        if record.duration_s is not None
    ]
    return [Figure(f"handoff {scheme}, live", "wall", statistics.median(waits), "ms")]


def _tried(act: Callable[[], Any]) -> Any:
    """What `act` gives. Brokers choose their ports before they listen, and another program may take one meanwhile."""
    from roamq.core.errors import RoamqError

    for left in reversed(range(TRIES)):
        try:
            return act()
        except (OSError, RoamqError) as error:
            if not left:
                raise
            print(f"brokers did not start, and are started again: {error}", file=sys.stderr, flush=True)
    raise AssertionError("unreachable")


def handoff_cost(scheme: str, overlay: str | None, count: int = 300) -> list[Figure]:
    """One client moves to and fro between two machines without sockets; events are published while it is away.

    With `flooding` both trees do the same. Without an overlay each has the one that it prefers, which may be another.
    """
    machines = Machines(("b1", "b2"), scheme, overlay=overlay)
    publisher = machines.connect("b1", "publisher", clean=True)
    here, there = "b1", "b2"
    client = machines.connect(here, "mover", clean=True)
    machines.settle()
    client.send(subscribe_packet("news/#"))
    machines.settle()
    for number in range(count + 20):
        if number == 20:  # as many moves to warm up
            began = time.process_time()
        machines.now += 1.0
        client.lose()
        for packet_id in range(1, STORED + 1):
            publisher.send(publish_packet("news/1", packet_id, b"x" * 64))
        machines.settle()
        client = machines.connect(there, "mover", previous=here)
        here, there = there, here
        if (got := _acknowledge_all(machines, client)) != STORED:
            raise SystemExit(f"handoff {scheme}: the client got {got} of {STORED} events after move {number}")
    each = (time.process_time() - began) / count
    what = f"handoff {scheme}, {overlay or 'default'}"
    return [Figure(what, "processor", each * 1e6, "us/handoff")]


def _acknowledge_all(machines: Machines, client: Client) -> int:
    """How many events the client gets."""
    count = 0
    while packet_ids := published_ids(machines.settle().get((client.broker, client.number), b"")):
        count += len(packet_ids)
        client.send(b"".join(map(puback_packet, packet_ids)))
    return count


def waiting(count: int) -> list[Figure]:
    """What a client's PINGREQ costs while `count` others wait for sessions that a silent broker should send."""
    machines = Machines(("b1", "b2"), "standard", silent=("b2",))
    stranger = machines.connect("b1", "stranger", clean=True)
    machines.settle()
    began = time.process_time()
    for number in range(count):
        machines.connect("b1", f"waits-{number}", previous="b2")
    connecting = time.process_time() - began
    if any(machines.settle().values()):
        raise SystemExit("waiting: the broker let in a client whose session it does not have")
    figures = [Figure(f"PINGREQ, {count:,} wait", "processor", _ping_us(stranger), "us/input")]
    if count:
        what = f"CONNECT, {count:,} come to wait"
        figures.append(Figure(what, "processor", connecting / count * 1e6, "us/client"))
    return figures


def _ping_us(client: Client) -> float:
    count, began = 0, time.process_time()
    while (took := time.process_time() - began) < PINGS_S:
        for _ in range(20):
            client.send(PINGREQ)
        count += 20
    return took / count * 1e6


def main() -> None:
    measures = Measures()
    try:
        for line in sys.stdin:
            figures = measures.by_name[line.strip()].make()
            print(json.dumps([figure._asdict() for figure in figures]), flush=True)
    finally:
        measures.close()


if __name__ == "__main__":
    main()
