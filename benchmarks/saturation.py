"""A live broker whose load grows until it is full: what it said it could bear, beside what it bore.

    python -m benchmarks.saturation [--seconds=60] [--only "1 -> 1, QoS 0"] [--step-s=0.001]

The broker is a process of its own, as `roamq serve` starts it, except that it looks at itself every two seconds and not
every minute. The load is open: it grows whether the broker keeps up or not, and is sent in steps of `--step-s`: the
longer, the larger the batches that reach the broker. Every message of a publisher goes to
one subscriber (or to ten), so that a message in is one out (or ten). `bearable` is what the broker said when it first
worked for 25 and 50% of the time; `bore` is the rate at which it reached 90%, or the largest there was once it could
not keep up. All rates count messages in and out. The load generator wants a core as well: use an idle machine with two.
`generator` is the share of the time that it worked itself in that window: near 100% it is what was measured.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from rich.console import Console
from rich.table import Table

from roamq.net.bench.brokers import BenchBroker, running
from roamq.net.bench.load import Generator, Load
from roamq.net.ops.configuration import load_network
from roamq.net.ops.forecast import FULL
from roamq.net.ops.local import local_network

WINDOW_S: Final = 2.0
STEP_S: Final = 0.01
UNREAD_MAX: Final = 1 << 20
UNANSWERED_MAX: Final = 16_000
"""Fewer than there are packet ids in the load generator."""
NEARLY_FULL: Final = 0.7
MARKS: Final = (0.25, 0.5)
SERVE: Final = (
    "import sys; from roamq.net.ops import forecast; forecast.WINDOW_S = {window}; "
    "from roamq.cli.main import main; sys.argv = ['roamq', *sys.argv[1:]]; main()"
)
_METRIC: Final = re.compile(r'^roamq_(messages_per_second|utilisation)\{kind="(\w+)"\} (\S+)$', re.MULTILINE)


class Shape(NamedTuple):
    publishers: int
    subscribers: int
    qos: int
    records: bool
    messages_max: float
    """Published per second at the end: more than the broker can bear."""

    def __str__(self) -> str:
        more = ", records" if self.records else ""
        return f"{self.publishers} -> {self.subscribers}, QoS {self.qos}{more}"


SHAPES: Final = (
    Shape(1, 1, 0, False, 300_000),
    Shape(1, 1, 1, False, 150_000),
    Shape(20, 1, 0, True, 300_000),
    Shape(1, 10, 0, False, 120_000),
)


class OpenLoop(Generator):
    """Publishers that do not wait for what they sent to arrive."""

    def _on_received(self, count: int) -> None:
        self.received += count


class Seen(NamedTuple):
    """One window of the broker, by its own metrics."""

    rate: float
    bearable: float | None
    utilisation: float
    predicted: float | None
    generator: float = 0.0
    """Share of the time that the load generator worked."""


@dataclass
class Growth:
    """What was seen of a broker while its load grew."""

    seen: list[Seen] = field(default_factory=list)

    @property
    def bore(self) -> Seen:
        """The window with the rate that the broker bore."""
        full = [window for window in self.seen if window.utilisation >= FULL]
        return full[0] if full else max(self.seen, key=lambda window: window.rate)

    def at(self, utilisation: float) -> Seen | None:
        """The first window at which the broker worked for so much of the time, and said what it can bear."""
        told = (window for window in self.seen if window.bearable is not None)
        return next((window for window in told if window.utilisation >= utilisation), None)


def grow(shape: Shape, seconds: float, step_s: float = STEP_S) -> Growth:
    """Start a broker, and let its load grow from nothing to more than it bears."""
    ports: list[int] = []

    def start(folder: Path) -> tuple[list[str], int]:
        path = folder / "network.toml"
        records = folder / "records" if shape.records else None
        path.write_text(local_network(1, durability="memory", records=records))
        broker = load_network(path).brokers["b1"]
        assert broker.metrics_port is not None
        ports.append(broker.metrics_port)
        command = [sys.executable, "-c", SERVE.format(window=WINDOW_S), "serve", str(path), "--broker", "b1"]
        return [*command, "--log-level", "WARNING"], broker.listeners[0].port

    with (
        tempfile.TemporaryDirectory() as folder,
        running(BenchBroker("roamq", start), Path(folder) / "broker") as broker,
    ):
        load = Load(
            port=broker.port,
            publishers=shape.publishers,
            subscribers=shape.subscribers,
            qos=shape.qos,
        )
        try:
            return asyncio.run(_driven(load, shape.messages_max, seconds, step_s, ports[0]))
        except ConnectionError as failure:
            said = (Path(folder) / "broker" / "log").read_text(errors="replace").strip().splitlines()
            raise SystemExit("\n".join([f"{shape}: {failure}; the broker said:", *said[-30:]])) from None


async def _driven(
    load: Load, messages_max: float, seconds: float, step_s: float, metrics_port: int
) -> Growth:
    generator = OpenLoop(load)
    await generator.connect()
    growth, loop, sent, turn = Growth(), asyncio.get_running_loop(), 0, 0
    looking: asyncio.Future[Seen | None] | None = None
    began = looked = seen_at = time.perf_counter()
    worked_s = time.process_time()
    while (now := time.perf_counter() - began) < seconds:
        due = int(messages_max * now * now / seconds / 2)
        publisher = generator.publishers[turn % load.publishers]
        turn += 1
        unread = publisher.transport.get_write_buffer_size()
        unanswered = publisher.sent - publisher.acknowledged if load.qos else 0
        if (
            unread < UNREAD_MAX and unanswered + due - sent < UNANSWERED_MAX
        ):  # else the broker does not keep up
            publisher.send(due - sent)
        sent = due
        if time.perf_counter() - looked >= WINDOW_S / 2 and looking is None:
            looked, looking = time.perf_counter(), loop.run_in_executor(None, _look, metrics_port)
        if looking is not None and looking.done():
            window, looking = looking.result(), None
            if window is not None and (not growth.seen or window[:-1] != growth.seen[-1][:-1]):
                now_s, cpu_s = time.perf_counter(), time.process_time()
                growth.seen.append(window._replace(generator=(cpu_s - worked_s) / (now_s - seen_at)))
                seen_at, worked_s = now_s, cpu_s
        if len(growth.seen) > 3 and all(window.utilisation > FULL for window in growth.seen[-3:]):
            break
        if generator.failure is not None:
            if growth.seen and growth.seen[-1].utilisation > NEARLY_FULL:
                break  # what it cannot store it refuses, and MQTT 3.1.1 has no other word for that than to close
            raise ConnectionError(f"{generator.failure} at {growth.seen[-1:]}")
        await asyncio.sleep(step_s)
    if looking is not None:
        await looking
    return growth


def _look(port: int) -> Seen | None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        found = {(name, kind): float(value) for name, kind, value in _METRIC.findall(answer.read().decode())}
    if ("utilisation", "observed") not in found:
        return None
    return Seen(
        found["messages_per_second", "observed"],
        found.get(("messages_per_second", "bearable")),
        found["utilisation", "observed"],
        found.get(("utilisation", "predicted")),
    )


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--step-s", type=float, default=STEP_S)
    parser.add_argument("--only", metavar="SHAPE", choices=[str(shape) for shape in SHAPES])
    parser.add_argument("--every", action="store_true", help="list every window")
    asked = parser.parse_args(argv)
    table = Table(title="Messages per second, in and out")
    marks = [f"bearable, said at {mark:.0%}" for mark in MARKS]
    for column in ("load", "bore", "generator", *marks, "us per message"):
        table.add_column(column, justify="right")
    console = Console(width=140)
    for shape in SHAPES:
        if asked.only not in (None, str(shape)):
            continue
        growth = grow(shape, asked.seconds, asked.step_s)
        if not growth.seen:
            raise SystemExit(f"{shape}: the broker told nothing in {asked.seconds:g} s")
        if asked.every:
            for window in growth.seen:
                console.print(f"{shape}: {window}")
        said = [growth.at(mark) for mark in MARKS]
        busiest = max(growth.seen, key=lambda window: window.rate)
        table.add_row(
            str(shape),
            f"{growth.bore.rate:,.0f}",
            f"{growth.bore.generator:.0%}",
            *("-" if one is None or one.bearable is None else f"{one.bearable:,.0f}" for one in said),
            f"{1e6 * busiest.utilisation / busiest.rate:.1f}",
        )
    console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
