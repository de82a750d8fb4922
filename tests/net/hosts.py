"""Six hosts, 200 clients that roam, lossy and slow links, partitions, a host that comes and goes.

`python -m tests.net.hosts` makes the hosts itself, as network namespaces (`tests/support/namespaces.py`; only root
can), and prints what arrived. Every client must get every message of its topic, once and in order for each publisher.
Last, it measures how long the first waiting message takes after a move, in round trips between two hosts.
"""

import argparse
import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.clients.mqtt.codec import Packet, Publish
from tests.net.live import PlainClient, python_path
from tests.support.namespaces import Hosts, why_there_can_be_none
from tests.support.waiting import WAIT_S, eventually, wait_until

CORE = tuple(f"b{number}" for number in range(1, 7))
EDGE = "b7"
DEVICES = "devices"
"""The host that all clients are on: it reaches every broker, whoever is cut off from whom."""
TOPICS = 10
MQTT_PORT, METRICS_PORT, LINK_PORT = 1883, 9001, 7001
CONFIG = """
[network]
name = "hosts"
scheme = "{scheme}"
overlay = "interest"
keys = "keys"
handoff_timeout_s = 120.0      # nobody gives a session up that a partition keeps away
[operation]
token = "0123456789abcdef0123456789abcdef"
[access]
anonymous = "always"
[storage]
folder = "data"
"""
BROKER = """
[brokers.{name}]
host = "{host}"
{where}
metrics_port = {metrics}
listeners = [{{ port = {mqtt}, host = "0.0.0.0" }}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run is made of."""

    clients: int = 200
    duration_s: float = 60.0
    rate: float = 5.0
    """Messages a second of each of the six publishers."""
    stay_s: float = 6.0
    """How long a client stays at a broker, on average."""
    delay_s: float = 0.005
    """One way, between any two hosts."""
    loss: float = 0.005
    scheme: str = "standard"
    seed: int = 1
    measured_moves: int = 20
    measured_delay_s: float = 0.05
    """One way, while moves are measured: long enough that the processor does not count."""


@dataclass(slots=True)
class Outcome:
    """What a run has shown."""

    published: int = 0
    owed: int = 0
    lost: int = 0
    doubled: Counter[int] = field(default_factory=Counter)
    """QoS -> deliveries that came again; at QoS 1 those without DUP."""
    again: int = 0
    """Deliveries at QoS 1 that came again with DUP: the acknowledgement was lost with a connection."""
    out_of_order: int = 0
    moves: int = 0
    sessions_lost: int = 0
    first_waiting_s: list[float] = field(default_factory=list)
    trip_s: float = 0.0
    """A round trip between two hosts, when that was measured."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled.total() or self.out_of_order or self.sessions_lost)

    def lines(self) -> Iterator[str]:
        yield f"{self.published:,} messages, {self.owed:,} deliveries owed, {self.moves:,} moves"
        doubled = f"doubled at QoS 1 {self.doubled[1]}, at QoS 2 {self.doubled[2]}"
        yield f"lost {self.lost}, {doubled}, out of order {self.out_of_order}"
        yield f"repeated with DUP at QoS 1, as the standard has it: {self.again}; sessions lost: {self.sessions_lost}"
        if self.first_waiting_s:
            found = sorted(self.first_waiting_s)
            for name, value in (("median", median(found)), ("slowest", found[-1])):
                # TCP takes one round trip, CONNECT and the message one more: the rest is the way of the context.
                trips = value / self.trip_s - 2
                yield (
                    f"first waiting message after a move, {name}: {1000 * value:.1f} ms, of which the handoff "
                    f"{trips:.1f} round trips of {1000 * self.trip_s:g} ms"
                )


class Roamer(PlainClient):
    """A client that notes when messages came."""

    def __init__(self, name: str, topic: int) -> None:
        super().__init__(name)
        self.topic = topic
        self.arrived: list[float] = []

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self.arrived.append(time.perf_counter())
        super()._take(packet)


class Site:
    """The brokers as processes, each on its host."""

    def __init__(self, hosts: Hosts, folder: Path, scheme: str) -> None:
        self.hosts = hosts
        self.path = folder / "network.toml"
        links = dict.fromkeys(CORE, f"link_port = {LINK_PORT}")
        tables = [
            BROKER.format(
                name=name, host=hosts.address(name), where=where, metrics=METRICS_PORT, mqtt=MQTT_PORT
            )
            for name, where in {**links, EDGE: 'at = ["b1", "b2"]'}.items()
        ]
        self.path.write_text(CONFIG.format(scheme=scheme) + "".join(tables))
        made = CliRunner().invoke(cli, ["keys", str(self.path), "--out", str(folder / "keys")])
        assert made.exit_code == 0, made.output
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def roamq(self, name: str, *arguments: str) -> "subprocess.Popen[bytes]":
        """A command on a host."""
        words = [sys.executable, "-m", "roamq.cli.main", *arguments]
        return self.hosts.popen(name, words, env={**os.environ, "PYTHONPATH": python_path()})

    def start(self, *names: str) -> None:
        for name in names:
            arguments = ("serve", str(self.path), "--broker", name, "--log-level", "ERROR")
            self.processes[name] = self.roamq(name, *arguments)

    def command(self, name: str, *arguments: str) -> None:
        """Run a command on a host to its end."""
        process = self.roamq(name, *arguments)
        assert process.wait() == 0, f"roamq {' '.join(arguments)} failed"

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(WAIT_S)
            process.kill()
            process.wait()


class Ride:
    """Clients roam and publish while the network is disturbed; run on the host of the clients."""

    def __init__(self, plan: Plan, site: Site) -> None:
        self.plan, self.site, self.hosts = plan, site, site.hosts
        self.random = random.Random(plan.seed)
        self.outcome = Outcome(trip_s=2 * plan.measured_delay_s)
        self.roamers = [Roamer(f"roamer {n}", n % TOPICS) for n in range(plan.clients)]
        self.publishers = {name: PlainClient(f"publisher {name}") for name in CORE}
        self.sent: dict[int, list[bytes]] = {topic: [] for topic in range(TOPICS)}
        self.serving = list(CORE)
        self.is_over = False

    async def run(self) -> Outcome:
        for name, publisher in self.publishers.items():
            await self.enter(publisher, name)
        await asyncio.gather(*map(self.begin, self.roamers))
        working = [asyncio.create_task(self.publish(name)) for name in CORE]
        working += [asyncio.create_task(self.roam(roamer)) for roamer in self.roamers]
        await self.disturb()
        self.is_over = True
        await asyncio.gather(*working)
        await self.gather_all()
        self.judge()
        await self.measure()
        for client in (*self.roamers, *self.publishers.values()):
            client.drop()
        return self.outcome

    async def enter(self, client: PlainClient, name: str) -> bool:
        """Connect; False if the broker sends the client elsewhere."""
        try:
            await client.connect(MQTT_PORT, host=self.hosts.address(name))
        except (OSError, AssertionError):
            client.drop()
            return False
        return client.is_open

    async def begin(self, roamer: Roamer) -> None:
        while not await self.enter(roamer, self.random.choice(self.serving)):
            await asyncio.sleep(0.1)
        await roamer.subscribe(f"t/{roamer.topic}", qos_of(roamer.topic))

    async def publish(self, name: str) -> None:
        publisher, rate = self.publishers[name], self.plan.rate
        while not self.is_over:
            topic = self.random.randrange(TOPICS)
            payload = f"{name} {self.outcome.published}".encode()
            self.outcome.published += 1
            self.sent[topic].append(payload)
            publisher.publish(f"t/{topic}", payload, qos_of(topic))
            await asyncio.sleep(self.random.expovariate(rate))
        await eventually(lambda: not publisher.unacknowledged, f"acknowledgements of {name}")

    async def roam(self, roamer: Roamer) -> None:
        """Stay, go, with or without a word, be away for a moment, and come back somewhere else."""
        stays = self.random.expovariate
        await asyncio.sleep(stays(1 / self.plan.stay_s))
        while not self.is_over:
            if self.random.random() < 0.5 and not roamer.closed:
                await roamer.disconnect()
            else:
                roamer.drop()
            await asyncio.sleep(stays(1 / 0.3))
            await self.come_back(roamer)
            await asyncio.sleep(stays(1 / self.plan.stay_s))

    async def come_back(self, roamer: Roamer) -> None:
        while not await self.enter(roamer, self.random.choice(self.serving)):
            await asyncio.sleep(0.1)
        self.outcome.moves += 1
        self.outcome.sessions_lost += not roamer.session_present

    async def disturb(self) -> None:
        """What happens to the network, in the order of time."""
        lasts = self.plan.duration_s
        steps: list[tuple[float, Callable[[], Awaitable[None]]]] = [
            (0.10, self.add_host),
            (0.25, lambda: self.part(CORE[:3], CORE[3:])),
            (0.45, self.heal),
            (0.55, lambda: self.part(CORE[4:5], (*CORE[:4], *CORE[5:], EDGE))),
            (0.65, self.heal),
            (0.75, self.remove_host),
            (1.00, self.heal),
        ]
        began = time.monotonic()
        for at, step in steps:
            await asyncio.sleep(max(0.0, began + at * lasts - time.monotonic()))
            await step()

    async def part(self, *sides: tuple[str, ...]) -> None:
        self.hosts.part(*sides)

    async def heal(self) -> None:
        self.hosts.heal()

    async def add_host(self) -> None:
        command = ("join", str(self.site.path), "--broker", EDGE)
        await asyncio.to_thread(self.site.command, "b1", *command)
        self.site.start(EDGE)
        probe = PlainClient("probe", clean=True, expiry=0)
        while not await self.enter(probe, EDGE):
            await asyncio.sleep(0.1)
        await probe.disconnect()
        self.serving.append(EDGE)

    async def remove_host(self) -> None:
        self.serving.remove(EDGE)
        command = ("leave", str(self.site.path), "--broker", EDGE)
        await asyncio.to_thread(self.site.command, EDGE, *command)

    async def gather_all(self) -> None:
        """Everybody is somewhere, and has had time to get what is owed."""
        for roamer in self.roamers:
            if roamer.closed:
                await self.come_back(roamer)
        with contextlib.suppress(AssertionError):  # what has not come is lost, and `judge` counts it
            await eventually(lambda: all(map(self.has_all, self.roamers)), "what is owed")
        await asyncio.gather(*(roamer.ping() for roamer in self.roamers if not roamer.closed))

    def has_all(self, roamer: Roamer) -> bool:
        return len({payload for _, payload, *_ in roamer.received}) >= len(self.sent[roamer.topic])

    def judge(self) -> None:
        outcome = self.outcome
        for roamer in self.roamers:
            owed = self.sent[roamer.topic]
            outcome.owed += len(owed)
            first: dict[bytes, None] = {}
            for _, payload, qos, dup in roamer.received:
                if payload not in first:
                    first[payload] = None
                elif qos == 1 and dup:
                    outcome.again += 1
                else:
                    outcome.doubled[qos] += 1
            outcome.lost += len(set(owed) - first.keys())
            for name in CORE:
                mine = [payload for payload in first if payload.startswith(f"{name} ".encode())]
                wanted = [payload for payload in owed if payload.startswith(f"{name} ".encode())]
                outcome.out_of_order += mine != [payload for payload in wanted if payload in first]

    async def measure(self) -> None:
        """Moves of one client, one at a time, each with one message waiting."""
        roamer, publisher = self.roamers[0], self.publishers["b1"]
        topic = roamer.topic
        self.hosts.shape(delay_s=self.plan.measured_delay_s, loss=0.0)
        for number in range(self.plan.measured_moves):
            await roamer.disconnect()
            publisher.publish(f"t/{topic}", b"waiting", qos_of(topic))
            await eventually(lambda: not publisher.unacknowledged)
            await asyncio.sleep(
                5 * self.plan.measured_delay_s
            )  # the message has reached the broker that stores it
            came, began = len(roamer.arrived), time.perf_counter()
            assert await self.enter(roamer, CORE[number % len(CORE)])
            await eventually(lambda came=came: len(roamer.arrived) > came, "the waiting message")
            self.outcome.first_waiting_s.append(roamer.arrived[came] - began)


def qos_of(topic: int) -> int:
    return 1 + topic % 2


def ride(plan: Plan) -> Outcome:
    """Make the hosts, start the brokers, and let the clients roam."""
    names = (*CORE, EDGE, DEVICES)
    with (
        tempfile.TemporaryDirectory() as folder,
        Hosts(names, delay_s=plan.delay_s, loss=plan.loss, seed=plan.seed) as hosts,
    ):
        site = Site(hosts, Path(folder), plan.scheme)
        try:
            site.start(*CORE)
            for name in CORE:
                wait_until(lambda name=name: hosts.on(name, lambda: links_up(site, name)), f"links of {name}")
            return hosts.on(DEVICES, lambda: asyncio.run(Ride(plan, site).run()))
        finally:
            site.stop()


def links_up(site: Site, name: str) -> bool:
    assert site.processes[name].poll() is None, f"{name} ended"
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{METRICS_PORT}/health", timeout=5) as answer:
            return not json.load(answer).get("links_down", ["?"])
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    defaults = Plan()
    parser.add_argument("--clients", type=int, default=defaults.clients)
    parser.add_argument("--duration-s", type=float, default=defaults.duration_s)
    parser.add_argument("--rate", type=float, default=defaults.rate)
    parser.add_argument("--delay-ms", type=float, default=1000 * defaults.delay_s)
    parser.add_argument("--loss", type=float, default=defaults.loss)
    parser.add_argument("--scheme", default=defaults.scheme)
    parser.add_argument("--seed", type=int, default=defaults.seed)
    options = parser.parse_args()
    if why := why_there_can_be_none():
        raise SystemExit(f"cannot make hosts: {why}")
    plan = Plan(
        clients=options.clients,
        duration_s=options.duration_s,
        rate=options.rate,
        delay_s=options.delay_ms / 1000,
        loss=options.loss,
        scheme=options.scheme,
        seed=options.seed,
    )
    outcome = ride(plan)
    for line in outcome.lines():
        print(line)  # noqa: T201 - a command
    raise SystemExit(0 if outcome.is_clean else 1)


if __name__ == "__main__":
    main()
