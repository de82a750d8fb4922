"""Messages per second of several brokers under the same load, in turns, in one run.

Other work on the machine hits all brokers alike when they take turns in short rounds, so ratios mean something where
rates do not. Processor time per delivery is measured beside the rate: it hardly depends on what else runs.
"""

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roamq.core.errors import RoamqError
from roamq.net.bench.brokers import BenchBroker, Running, UnavailableError, running
from roamq.net.bench.load import Load, LoadResult

LOAD_S_MAX: Final = 60.0


class Shape(NamedTuple):
    """How many publish to how many."""

    publishers: int
    subscribers: int
    window: int

    def __str__(self) -> str:
        return f"{self.publishers}->{self.subscribers}"


SHAPES: Final = (Shape(1, 1, 1000), Shape(10, 1, 1000), Shape(1, 100, 100))
"""The window of the last is smaller because every message is on its way a hundred times."""


class Round(NamedTuple):
    """One broker under one load, once."""

    rate: float
    """Deliveries per second."""
    cpu_us: float
    """The broker's processor time for each."""
    load_busy: float
    """What part of a core the load generator used."""


class Result(NamedTuple):
    """One broker under one load: medians over the rounds."""

    broker: str
    shape: Shape
    qos: int
    rate: float
    cpu_us: float
    load_busy: float


def measure(broker: Running, load: Load) -> Round:
    """Run the load generator, as a process of its own, against the broker."""
    before = broker.cpu_s()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "roamq.net.bench.load"],
            input=msgspec.json.encode(load),
            capture_output=True,
            timeout=load.warm_up_s + load.seconds + LOAD_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RoamqError("the load generator does not end") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise RoamqError(f"the load generator failed: {said[-1]}")
    measured = msgspec.json.decode(done.stdout, type=LoadResult)
    # The processor's time is for all that was delivered: the warm-up, and what settled afterwards, too.
    used = broker.cpu_s() - before
    return Round(
        measured.rate, used / max(1, measured.delivered_in_all) * 1e6, measured.load_cpu_s / measured.seconds
    )


def compare(
    candidates: Sequence[BenchBroker],
    *,
    shapes: Sequence[Shape] = SHAPES,
    qualities: Sequence[int] = (0, 1),
    seconds: float = 2.0,
    rounds: int = 3,
    on_note: Callable[[str], None] = lambda text: None,
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Measure every broker under every load. One that is not available, or fails, is noted and left out."""
    results = []
    with tempfile.TemporaryDirectory(prefix="roamq-bench-") as scratch, ExitStack() as stack:
        up: dict[str, Running] = {}
        for candidate in candidates:
            try:
                folder = Path(scratch) / candidate.name.replace(" ", "-")
                up[candidate.name] = stack.enter_context(running(candidate, folder))
            except UnavailableError as error:
                on_note(f"left out: {error}")
        for shape in shapes:
            for qos in qualities:
                for result in _turns(up, shape, qos, seconds, rounds, on_note):
                    results.append(result)
                    on_result(result)
    return results


def _turns(
    up: dict[str, Running],
    shape: Shape,
    qos: int,
    seconds: float,
    rounds: int,
    on_note: Callable[[str], None],
) -> list[Result]:
    found: dict[str, list[Round]] = {name: [] for name in up}
    for _ in range(rounds):
        for name, broker in up.items():
            load = Load(
                port=broker.port,
                publishers=shape.publishers,
                subscribers=shape.subscribers,
                qos=qos,
                window=shape.window,
                warm_up_s=seconds / 4,
                seconds=seconds,
            )
            try:
                found[name].append(measure(broker, load))
            except RoamqError as error:
                on_note(f"{name} at {shape} QoS {qos}: {error}")
    return [
        Result(name, shape, qos, *(statistics.median(column) for column in zip(*rounds_of, strict=True)))
        for name, rounds_of in found.items()
        if rounds_of
    ]


def ratio(results: Sequence[Result], broker: str, to: str, shape: Shape, qos: int) -> float | None:
    """How many times the rate of `to` the rate of `broker` is; None if one of them is missing."""
    rates = {result.broker: result.rate for result in results if result[1:3] == (shape, qos)}
    return rates[broker] / rates[to] if broker in rates and to in rates else None
