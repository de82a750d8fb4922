"""Mobility models: at which broker each client is, and when.

A model is a parameter group with a method `steps`, which yields the steps of one client in order of time from the
client's own random stream. New models register under a name and are chosen by `mobility.model`.
"""

import csv
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, ClassVar, NamedTuple, TypeVar

from msgspec import Meta

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.region import Region
from roamq.sim.options import Options, Seconds, doc


class Step(NamedTuple):
    """At `time_s` the client connects at `broker`, or vanishes (None). `cell`: the client's, if a model knows it."""

    time_s: float
    broker: BrokerId | None
    cell: str | None = None


class World(NamedTuple):
    """What a mobility model may know of the network."""

    brokers: tuple[BrokerId, ...]
    leaves: tuple[BrokerId, ...]
    """The brokers that serve clients: all of them, or the leaves of a hierarchy."""
    neighbours: Mapping[BrokerId, Sequence[BrokerId]]
    areas: Mapping[str, tuple[float, float]]
    duration_s: float
    region: Region | None = None
    """Cells, areas and streets, where the scenario has a map."""


class Mobility(Options, frozen=True):
    """Base of all mobility models."""

    model: ClassVar[str]

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        """The steps of client number `client`, in order of time."""
        raise NotImplementedError


MODELS: dict[str, type[Mobility]] = {}


_M = TypeVar("_M", bound=type[Mobility])


def mobility_model(name: str) -> Callable[[_M], _M]:
    """Class decorator: make a model selectable as `mobility.model = name`."""

    def decorate(model: _M) -> _M:
        model.model = name
        MODELS[name] = model
        return model

    return decorate


@mobility_model("stationary")
class Stationary(Mobility, frozen=True):
    """Everybody connects once, at a random broker, and stays."""

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        yield Step(rng.random(), rng.choice(world.leaves))


@mobility_model("three-state")
class ThreeState(Mobility, frozen=True):
    """[PRO] section 5.1.2: connected (S0), disconnected (S1) and handoff (S2), exponential stays.

    From S0 to S1 or S2 with equal probability; from S1 back to S0 at the same broker or to S2, alike; from S2 to
    S0 at another broker. RND chooses it among all brokers ("uniformly [...] over the set of all six brokers"),
    NBR among the neighbors of the last one.
    """

    pattern: Annotated[str, Meta(pattern="^(RND|NBR)$"), doc("RND: any broker next; NBR: a neighbor")] = "RND"
    connect_s: Annotated[Seconds, doc("mean stay in S0, T_beta")] = 60.0
    disconnect_s: Annotated[Seconds, doc("mean stay in S1, T_delta")] = 12.0
    handoff_s: Annotated[Seconds, doc("mean stay in S2, T_alpha")] = 3.0
    elsewhere: Annotated[
        bool, doc("RND: the next broker is never the last one; false: it may be ([PRO] says both)")
    ] = False
    paths: Annotated[
        list[tuple[str, str]], doc("NBR: pairs of brokers clients move between; empty: the network's links")
    ] = []

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        targets = self._targets(world)
        here = rng.choice(world.leaves)
        time = rng.random()  # clients do not all connect in the same instant
        while True:
            yield Step(time, here)
            time += rng.expovariate(1 / self.connect_s)
            yield Step(time, None)
            if rng.random() < 0.5:  # S1: the signal broke down
                time += rng.expovariate(1 / self.disconnect_s)
                if rng.random() < 0.5:
                    continue  # back to S0, at the same broker
            time += rng.expovariate(1 / self.handoff_s)  # S2: out of reach of the last broker
            here = rng.choice(targets[here])

    def _targets(self, world: World) -> Mapping[BrokerId, Sequence[BrokerId]]:
        """Broker -> the brokers to which a client may hand off from there."""
        if self.pattern == "NBR":
            return self._neighbours(world)
        if self.elsewhere:
            return {broker: [b for b in world.leaves if b != broker] for broker in world.leaves}
        return dict.fromkeys(world.leaves, world.leaves)

    def _neighbours(self, world: World) -> Mapping[BrokerId, Sequence[BrokerId]]:
        if not self.paths:
            return world.neighbours
        neighbours: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in world.leaves}
        for a, b in self.paths:
            for end in (a, b):
                if end not in neighbours:
                    raise ConfigError(
                        f"mobility.paths names {end!r}, which is not a broker that serves clients"
                    )
            neighbours[BrokerId(a)].append(BrokerId(b))
            neighbours[BrokerId(b)].append(BrokerId(a))
        return neighbours


@mobility_model("uniform")
class Uniform(Mobility, frozen=True):
    """On and off for uniform times, and then at a random other broker, or the same one."""

    connect_s: Annotated[tuple[float, float], doc("shortest and longest stay")] = (10.0, 30.0)
    disconnect_s: Annotated[tuple[float, float], doc("shortest and longest absence")] = (0.0, 5.0)
    stay: Annotated[float, Meta(ge=0, le=1), doc("probability to come back to the same broker")] = 0.2

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        here = rng.choice(world.leaves)
        time = rng.random()
        while True:
            yield Step(time, here)
            time += rng.uniform(*self.connect_s)
            yield Step(time, None)
            time += rng.uniform(*self.disconnect_s)
            if rng.random() >= self.stay:
                here = rng.choice(world.leaves)


@mobility_model("trace")
class Trace(Mobility, frozen=True):
    """Replay of recorded rows (client, time_s, site, connected) from a CSV file with that header."""

    path: Annotated[str, doc("the CSV file")]

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        return iter(self._by_client(world)[client])

    def clients(self, world: World) -> int:
        """Returns how many clients the trace has: the scenario's `clients` must not be more."""
        return len(self._by_client(world))

    def _by_client(self, world: World) -> list[list[Step]]:
        cached = _TRACES.get(self.path)
        if cached is None:
            cached = _TRACES[self.path] = _read_trace(Path(self.path), set(world.brokers))
        return cached


_TRACES: dict[str, list[list[Step]]] = {}


def _read_trace(path: Path, brokers: set[BrokerId]) -> list[list[Step]]:
    by_client: dict[str, list[Step]] = {}
    try:
        with path.open(newline="") as file:
            reader = csv.DictReader(file)
            missing = {"client", "time_s", "site", "connected"} - set(reader.fieldnames or ())
            if missing:
                raise ConfigError(f"{path}, line 1: column {sorted(missing)[0]!r} is missing from the header")
            for row in reader:
                by_client.setdefault(row["client"], []).append(
                    _trace_step(row, brokers, path, reader.line_num)
                )
    except OSError as error:
        raise ConfigError(f"mobility.path: cannot read {path}: {error.strerror}") from error
    for steps in by_client.values():
        steps.sort(key=lambda step: step.time_s)
    return [by_client[client] for client in sorted(by_client)]


def _trace_step(row: dict[str, str], brokers: set[BrokerId], path: Path, line: int) -> Step:
    try:
        time_s = float(row["time_s"])
    except ValueError as error:
        raise ConfigError(
            f"{path}, line {line}: time_s is {row['time_s']!r}, not a number of seconds"
        ) from error
    if row["connected"].strip().lower() not in ("0", "1", "true", "false"):
        raise ConfigError(f"{path}, line {line}: connected is {row['connected']!r}; write true or false")
    if row["connected"].strip().lower() in ("0", "false"):
        return Step(time_s, None)
    if row["site"] not in brokers:
        raise ConfigError(f"{path}, line {line}: site {row['site']!r} is not a broker of the network")
    return Step(time_s, BrokerId(row["site"]))
