"""Scenarios: a network, clients that move, a workload, a scheme; `run` simulates one with a seed.

The same scenario and seed give the same records, byte for byte, in any process: every purpose draws from a random
stream of its own, named by the seed and the purpose.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from roamq.broker.broker import INCARNATION_BITS, Broker
from roamq.build import OVERLAYS, build_broker
from roamq.config import Source, apply_overrides, bind, parse_toml, read_toml, suggestion
from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.records import Record
from roamq.overlay.topology import Topology, hierarchy
from roamq.schemes.base import SchemeOptions
from roamq.schemes.table import scheme_named, scheme_names
from roamq.sim import city as _city  # noqa: F401  (registers its models)
from roamq.sim import city_news as _city_news  # noqa: F401  (registers its model)
from roamq.sim import mobility, workload
from roamq.sim import pro_workload as _pro_workload  # noqa: F401  (registers its model)
from roamq.sim import sites as _sites  # noqa: F401  (registers its model)
from roamq.sim.checkers import Checkers, Delivery
from roamq.sim.clients import SimClient, SimPublisher
from roamq.sim.engine import Engine, seldom_collected
from roamq.sim.network import Network, SimHost
from roamq.sim.options import (
    Fault,
    LastHopOptions,
    LinkOptions,
    NetworkOptions,
    Options,
    RecordOptions,
    SchemeChange,
    SchemeOfClass,
    Seconds,
    ServiceOptions,
    TomlTable,
    doc,
)
from roamq.sim.oracle import PlannedMoves
from roamq.sim.polygons import check_polygons, read_polygons
from roamq.sim.recorder import LEVELS, Recorder
from roamq.sim.schemes import NetworkSchemes, check_schemes
from roamq.sim.streets import MapOptions, region_of


class Scenario(Options, frozen=True):
    """Everything that decides a run, but the seed."""

    name: Annotated[str, doc("what the scenario is called in results")] = "scenario"
    description: Annotated[str, doc("one line for people")] = ""
    scheme: Annotated[TomlTable, doc("the mobility scheme by name, and its options")] = msgspec.field(
        default_factory=lambda: {"name": "standard"}
    )
    clients: Annotated[int, Meta(ge=0), doc("number of subscribers")] = 20
    duration_s: Annotated[Seconds, doc("how long publishers publish and clients move")] = 300.0
    warmup_s: Annotated[Seconds, doc("metrics leave out what was published before this")] = 0.0
    drain_s: Annotated[Seconds, doc("how long the run goes on after that, for what is on its way")] = 120.0
    network: NetworkOptions = NetworkOptions()
    map: Annotated[
        MapOptions | None, doc("cells and streets around the brokers, where clients have places")
    ] = None
    link: LinkOptions = LinkOptions()
    last_hop: LastHopOptions = LastHopOptions()
    service: ServiceOptions | None = None
    mobility: Annotated[TomlTable, doc("the mobility model by name, and its parameters")] = msgspec.field(
        default_factory=lambda: {"model": "three-state"}
    )
    workload: Annotated[TomlTable, doc("the workload by name, and its parameters")] = msgspec.field(
        default_factory=lambda: {"model": "groups"}
    )
    visited: Annotated[bool, doc("every client has been at every broker before the run begins")] = False
    records: RecordOptions = RecordOptions()
    faults: Annotated[list[Fault], doc("what goes wrong, and when")] = []
    classes: Annotated[list[SchemeOfClass], doc("clients that have a scheme of their own")] = []
    scheme_changes: Annotated[list[SchemeChange], doc("other schemes while the network runs")] = []

    @property
    def scheme_name(self) -> str:
        return str(self.scheme["name"])

    def to_json(self) -> str:
        return msgspec.json.encode(self, order="deterministic").decode()

    @classmethod
    def from_json(cls, text: str | bytes) -> "Scenario":
        return checked(msgspec.json.decode(text), Source("scenario"))


@dataclass(slots=True)
class RunResult:
    """The results of one run."""

    scenario: Scenario
    seed: int
    records: list[Record]
    checkers: Checkers
    actions: int
    violations: list[str]

    def lost(self) -> list[Delivery]:
        return self.checkers.lost()

    def duplicated(self) -> list[Delivery]:
        return self.checkers.duplicated

    def reordered(self) -> list[Delivery]:
        return self.checkers.reordered

    def replay(self) -> str:
        """Returns the command that repeats this run."""
        return f"roamq simulate {self.scenario.name} --scheme {self.scenario.scheme_name} --seed {self.seed}"

    def summary(self) -> dict[str, int]:
        """Returns the checkers' counts; every other figure is a query over the records."""
        return {
            "expected": self.checkers.expected_count,
            "delivered": self.checkers.delivered_count,
            "lost": len(self.lost()),
            "duplicated": len(self.duplicated()),
            "reordered": len(self.reordered()),
        }


# --- reading -------------------------------------------------------------------------------------------------


def presets() -> dict[str, str]:
    """Returns the scenarios that come with RoamQ: name -> TOML text."""
    folder = resources.files("roamq.sim") / "scenarios"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name)
    return {f.name.removesuffix(".toml"): f.read_text() for f in files}


def load_scenario(
    name_or_path: str, *, overrides: Mapping[str, str] | None = None, scheme: str | None = None
) -> Scenario:
    """A preset by name or a TOML file, with `--set` overrides and the scheme chosen on the command line."""
    texts = presets()
    if name_or_path in texts:
        data, source = parse_toml(texts[name_or_path], name_or_path)
    elif name_or_path.endswith(".toml") or Path(name_or_path).exists():
        data, source = read_toml(Path(name_or_path))
    else:
        raise ConfigError(
            f"unknown scenario {name_or_path!r}{suggestion(name_or_path, texts)} (or name a .toml file)"
        )
    data.setdefault("name", Path(name_or_path).stem)
    apply_overrides(data, overrides or {})
    read_polygons(data, Path() if name_or_path in texts else Path(name_or_path).parent, source)
    if scheme is not None:
        options = data.get("scheme", {})
        keep = options if options.get("name") == scheme else {}
        overridden = {
            k.removeprefix("scheme."): v for k, v in (overrides or {}).items() if k.startswith("scheme.")
        }
        data["scheme"] = {**keep, "name": scheme, **{k: options[k] for k in overridden if k in options}}
    return checked(data, source)


def checked(data: Any, source: Source) -> Scenario:
    """Reads a scenario; every field, those of its models and scheme included, must be known and of its type."""
    scenario = bind(Scenario, data, "", source)
    if scenario.scheme.get("name") not in scheme_names():
        name = scenario.scheme.get("name")
        known = choose_from(name, scheme_names())
        raise ConfigError(f"{source.place('scheme.name')}: scheme: unknown scheme {name!r}{known}")
    for field, value, allowed in (
        ("records.level", scenario.records.level, LEVELS),
        ("network.overlay", scenario.network.overlay, OVERLAYS),
    ):
        if value not in allowed:
            hint = choose_from(value, allowed)
            raise ConfigError(f"{source.place(field)}: {field}: {value!r} is no choice{hint}")
    scheme_options(scenario)
    mobility_of(scenario, source)
    workload_of(scenario, source)
    topology = topology_of(scenario)
    check_schemes(scenario, topology.brokers)
    check_polygons(scenario.network.polygons, topology.brokers, source)
    for number, fault in enumerate(scenario.faults):
        ends = fault.target.split("-") if fault.kind == "cut" else [fault.target]
        if fault.kind not in ("crash", "cut") or any(end not in topology.brokers for end in ends):
            raise ConfigError(
                f"{source.place('faults')}: faults[{number}]: {fault.kind!r} of {fault.target!r} is neither the "
                "'crash' of a broker nor the 'cut' of a link between two ('b1-b2')"
            )
    return scenario


def scheme_options(scenario: Scenario) -> SchemeOptions:
    options = {k: v for k, v in scenario.scheme.items() if k != "name"}
    return scheme_named(scenario.scheme_name).options_type.parse(options)


def mobility_of(scenario: Scenario, source: Source | None = None) -> mobility.Mobility:
    model: mobility.Mobility = _model(
        scenario.mobility, mobility.MODELS, "mobility", source or Source(scenario.name)
    )
    return model


def workload_of(scenario: Scenario, source: Source | None = None) -> workload.Workload:
    model: workload.Workload = _model(
        scenario.workload, workload.MODELS, "workload", source or Source(scenario.name)
    )
    return model


def _model(table: TomlTable, models: Mapping[str, type[Any]], field: str, source: Source) -> Any:
    name = str(table.get("model"))
    if name not in models:
        place = source.place(f"{field}.model")
        raise ConfigError(f"{place}: {field}.model: unknown model {name!r}{choose_from(name, models)}")
    return bind(models[name], {k: v for k, v in table.items() if k != "model"}, field, source)


# --- running -------------------------------------------------------------------------------------------------


def topology_of(scenario: Scenario) -> Topology:
    options = scenario.network
    if options.brokers:
        return Topology(options.brokers, options.links)
    return _full_tree(options.height, options.degree)


@cache
def _full_tree(height: int, degree: int) -> Topology:
    return Topology(*hierarchy(height, degree))


def world_of(scenario: Scenario, topology: Topology) -> mobility.World:
    """Returns what mobility models and workloads may know of the network."""
    leaves = topology.brokers
    if scenario.network.overlay == "hierarchy":
        leaves = tuple(b for b in topology.brokers if len(topology.neighbours[b]) == 1) or topology.brokers
    return mobility.World(
        topology.brokers,
        leaves,
        topology.neighbours,
        scenario.network.areas,
        scenario.duration_s,
        region_of(scenario.network.areas, scenario.map, scenario.network.polygons)
        if scenario.map is not None
        else None,
    )


class Simulation:
    """One run in the making. `run` below is the way to use it; tests drive it step by step."""

    def __init__(self, scenario: Scenario, seed: int) -> None:
        self.scenario = scenario
        self.seed = seed
        self.engine = Engine()
        self.recorder = Recorder(scenario.records.level, scenario.records.bin_s)
        self.topology = topology_of(scenario)
        self.schemes = NetworkSchemes(scenario, self.topology.brokers)
        self.network = Network(
            self.engine,
            self.recorder,
            client_class=self.schemes.client_class,
            last_hop=scenario.last_hop,
            service=scenario.service,
            last_hop_rng=self.stream("last hop"),
            hops=cache(self.topology.distance),
        )
        self.checkers = Checkers(self.network)
        self._by_id: dict[ClientId, SimClient] = {}
        world = world_of(scenario, self.topology)
        self.region = world.region
        self.oracle = PlannedMoves(self._by_id, world.leaves, self.topology.brokers)
        self.network.express = (
            scenario.link.is_plain
            and scenario.service is None
            and not scenario.faults
            and scenario.network.overlay != "interest"  # there a message may not overtake events on its way
        )
        self.network.build(
            self.topology.brokers, self.topology.links, scenario.link, self._make_broker, self.stream
        )
        self.schemes.plan(self.network)
        self.clients = self._make_clients()
        self.publishers = self._make_publishers()

    def stream(self, purpose: str) -> random.Random:
        """Returns the stream of random numbers for one purpose alone."""
        return random.Random(f"{self.seed}/{purpose}")

    def _make_broker(self, host: SimHost, incarnation: int) -> Broker:
        network = self.scenario.network
        (scheme, options), classes = self.schemes.at(host.me)
        return build_broker(
            host.me,
            host,
            self.topology,
            scheme=scheme,
            options=options,
            classes=classes,
            overlay=network.overlay,
            covering=network.covering,
            advertisements=network.advertisements,
            oracle=self.oracle,
            region=self.region,
            first_number=incarnation << INCARNATION_BITS,
            late_after_s=network.late_after_s,
        )

    def _make_clients(self) -> list[SimClient]:
        world = world_of(self.scenario, self.topology)
        model, load = mobility_of(self.scenario), workload_of(self.scenario)
        count = self.scenario.clients
        if isinstance(model, mobility.Trace):
            count = min(count, model.clients(world)) if count else model.clients(world)
        clients = []
        for number in range(count):
            client = SimClient(
                ClientId(f"c{number}"),
                load.subscriptions(number, world, self.stream(f"subscriptions/{number}")),
                iter(model.steps(number, world, self.stream(f"moves/{number}"))),
                self.network,
                self.checkers,
                carries_subscriptions=scheme_named(self.scenario.scheme_name).carries_subscriptions,
            )
            clients.append(client)
            self._by_id[client.id] = client
        return clients

    def _make_publishers(self) -> list[SimPublisher]:
        world = world_of(self.scenario, self.topology)
        made = []
        publishers = workload_of(self.scenario).publishers(world, self.stream)
        if self.scenario.network.overlay == "interest" and self.scenario.network.advertisements:
            for broker in self.topology.brokers:
                self.topology.declare(broker, workload.advertised_at(broker, publishers))
        for number, publisher in enumerate(publishers):
            for advertisement in publisher.advertisements:
                self.network.hosts[publisher.broker].broker.on_advertise(advertisement)
            made.append(
                SimPublisher(
                    ClientId(f"p{number}"),
                    publisher.broker,
                    publisher.publications,
                    self.network,
                    self.checkers,
                    until_s=self.scenario.duration_s,
                )
            )
        return made

    def run(self) -> RunResult:
        scenario = self.scenario
        for client in self.clients:
            for filter in client.filters:
                self.checkers.subscribed(client.id, filter)
            if scenario.visited:
                client.visit_all()
            client.start()
        for publisher in self.publishers:
            publisher.start()
        for fault in scenario.faults:
            self.engine.at(fault.at_s, self._begin, fault)
            self.engine.at(fault.at_s + fault.duration_s, self._end, fault)
        if scenario.records.buffer_s:
            self.engine.at(scenario.records.buffer_s, self._record_buffers)
        actions = self.engine.run(until=scenario.duration_s)
        for client in self.clients:
            client.stop_moving()
        end = scenario.duration_s + scenario.drain_s
        actions += self.engine.run(until=end)
        processing = [r for host in self.network.hosts.values() for r in host.processing_records(end)]
        self.recorder.finish(self.engine.now, processing)
        return self._result(actions)

    def _begin(self, fault: Fault) -> None:
        if fault.kind == "crash":
            self.network.hosts[BrokerId(fault.target)].crash(keep_store=fault.keep_store)
        else:
            a, _, b = fault.target.partition("-")
            self.network.cut(BrokerId(a), BrokerId(b))

    def _end(self, fault: Fault) -> None:
        if fault.kind == "crash":
            self.network.hosts[BrokerId(fault.target)].restart()
        else:
            a, _, b = fault.target.partition("-")
            self.network.mend(BrokerId(a), BrokerId(b))

    def _record_buffers(self) -> None:
        now = self.engine.now
        for broker, host in self.network.hosts.items():
            held = host.broker.scheme.held()
            copies = sum(len(context.stored) for context in held)
            buffer = host.broker.contexts.buffer
            self.recorder.record(
                Record("buffer", now, broker, count=len(buffer), hops=copies, bytes=buffer.bytes)
            )
        if now + self.scenario.records.buffer_s <= self.scenario.duration_s:
            self.engine.after(self.scenario.records.buffer_s, self._record_buffers)

    def _result(self, actions: int) -> RunResult:
        result = RunResult(self.scenario, self.seed, self.recorder.records, self.checkers, actions, [])
        findings: dict[str, Iterable[object]] = {
            "loss": self.checkers.lost(),
            "duplication": self.checkers.duplicated,
            "order": self.checkers.reordered,
            "leak": self.checkers.leaks(),
        }
        for name in sorted(enforced(self.scenario)):
            found = list(findings[name])
            if found:
                text = f"{name}: {len(found)} found, the first is {found[0]}; replay: {result.replay()}"
                result.violations.append(text)
                result.records.append(Record("violation", self.engine.now, detail=text, count=len(found)))
        return result


def enforced(scenario: Scenario) -> frozenset[str]:
    """Returns the invariants that must hold: the scheme's guarantees, less those that the scenario takes away."""
    guarantees = set(scheme_named(scenario.scheme_name).guaranteed(scheme_options(scenario)))
    options = scheme_options(scenario)
    bounded = options.buffer_bytes is not None or options.queue_bytes is not None
    overloaded = scenario.service is not None and scenario.service.queue_bytes is not None
    forgetful = any(fault.kind == "crash" and not fault.keep_store for fault in scenario.faults)
    lossy = scenario.last_hop.loss > 0 and not scenario.last_hop.retransmit
    expiring = scenario.workload.get("lifetime_s") is not None
    if (
        bounded
        or overloaded
        or forgetful
        or expiring
        or lossy
        or not scenario.last_hop.redelivers
        or scheme_options(scenario).timeout_s is not None
    ):
        guarantees.discard("loss")
    if forgetful:
        guarantees -= {"duplication", "leak"}
    if overloaded:
        guarantees.discard("leak")  # a full input queue may refuse a transfer, and nobody sends it again
    if lossy:
        # The last hop lost an event and brought later ones: the broker, which sends the lost one again at the next
        # connection, cannot put it in front of them.
        guarantees.discard("order")
    if scenario.last_hop.duplication > 0:
        guarantees -= {"duplication"}
    return frozenset(guarantees)


def run(scenario: Scenario, *, seed: int) -> RunResult:
    """Simulate `scenario` once. Same scenario, same seed: same records."""
    with seldom_collected():
        return Simulation(scenario, seed).run()


def run_job(payload: Mapping[str, Any], seed: int) -> list[Record]:
    """Runs a scenario, given as plain data, with a seed: the campaign's runner."""
    return run(checked(dict(payload), Source("campaign")), seed=seed).records
