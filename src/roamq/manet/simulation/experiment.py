"""One run of a mobile ad hoc network: a setting and a seed go in, records come out.

Movements, subscriptions, events and the nodes that detect them depend on the seed alone, and each draws from a random
stream of its own. So two settings with the same seed differ in the protocol and in nothing else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import Event, Seconds
from roamq.core.filters import Filter
from roamq.core.records import Record
from roamq.manet.protocol.epidemic import Epidemic
from roamq.manet.protocol.messages import BrokerCandidate, NodeId
from roamq.manet.protocol.ports import Parameters
from roamq.manet.protocol.predictability import ProphetConstants
from roamq.manet.protocol.prophet import Prophet
from roamq.manet.protocol.spreading import MultiCopyMultiDestination, Spreading
from roamq.manet.simulation.contention import Channel
from roamq.manet.simulation.detecting import Witnesses
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.network import AdHocNetwork
from roamq.manet.simulation.positions import RecordedMovement, read_positions
from roamq.manet.simulation.waypoint import Area, RandomWaypoint, Walk
from roamq.manet.simulation.workload import (
    NumberInterval,
    abilities,
    detections,
    occurrences,
    subscriptions,
)
from roamq.sim.engine import seldom_collected

SCHEMES = ("drip", "sf", "spray-and-wait", "prophet")
SELECTIONS = ("ability", "random")
DETECTS = ("node", "place")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Everything that describes a run, except its seed. The defaults are the paper's ([DRIP] section VI-A)."""

    scheme: str = "drip"
    """How events spread between brokers; the regions are the same."""
    selection: str = "ability"
    """How brokers are chosen: by detecting ability, or at random."""
    detects: str = "node"
    """What ability decides: which node of the network detects an event, or which of those near an event's place."""
    nodes: int = 200
    range_m: float = 120.0
    delay_s_per_m: float = 50e-6
    publishing_s: Seconds = 500.0
    """For how long nodes detect events, after the warm-up."""
    warm_up_s: Seconds = 30.0
    drain_s: Seconds = 60.0
    """For how long the network runs on after that, to deliver the last events."""
    parameters: Parameters = field(default_factory=Parameters)
    walk: Walk = field(default_factory=Walk)
    positions: str | None = None
    """A file of recorded positions (`positions.read_positions`) in place of `walk`; its clients are the nodes."""
    workload: NumberInterval = field(default_factory=NumberInterval)
    prophet: ProphetConstants = field(default_factory=ProphetConstants)
    """The constants of the scheme `prophet`; others do not use them."""
    channel: Channel | None = None
    """The channel that all nodes share; None: a radio without contention."""

    def __post_init__(self) -> None:
        _choose("scheme", self.scheme, SCHEMES)
        _choose("selection", self.selection, SELECTIONS)
        _choose("detects", self.detects, DETECTS)
        if self.nodes <= self.parameters.k:
            raise ConfigError(f"nodes must be more than the {self.parameters.k} brokers, got {self.nodes}")

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Setting":
        """Make a setting from plain values, as a campaign stores them; its parts are mappings of their own."""
        known = {part.name for part in fields(cls)}
        unknown = sorted(set(payload) - known)
        if unknown:
            raise ConfigError(f"unknown setting {unknown[0]!r}; there are {', '.join(sorted(known))}")
        values = dict(payload)
        for name, kind in _PARTS.items():
            if isinstance(values.get(name), Mapping):
                try:
                    values[name] = kind(**_tuples(values[name]))
                except TypeError as mistake:
                    raise ConfigError(f"{name}: {mistake}") from None
        return cls(**values)

    def to_payload(self) -> dict[str, Any]:
        return asdict(self)


def _choose(name: str, given: str, choices: Sequence[str]) -> None:
    if given not in choices:
        raise ConfigError(f"{name}: {given!r} is no choice{choose_from(given, choices)}")


_PARTS: dict[str, type] = {
    "parameters": Parameters,
    "walk": Walk,
    "workload": NumberInterval,
    "prophet": ProphetConstants,
    "channel": Channel,
}


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn lists back into tuples, which JSON does not have."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def build(setting: Setting, seed: int) -> AdHocNetwork:
    """Make a network that is ready to run, with all its events scheduled."""
    moves, ability, wants, happens, chance, choice = (
        np.random.default_rng(stream) for stream in np.random.SeedSequence(seed).spawn(6)
    )
    able = abilities(setting.nodes, setting.workload, ability)
    fitness = able if setting.selection == "ability" else choice.random(setting.nodes).tolist()
    filters = subscriptions(setting.nodes, setting.workload, wants)
    recorded = recorded_movement(setting)
    mobility = recorded or RandomWaypoint(setting.nodes, setting.walk, moves)
    field = Field(mobility, range_m=setting.range_m, delay_s_per_m=setting.delay_s_per_m)
    network = AdHocNetwork(
        [BrokerCandidate(fitness[node], node) for node in range(setting.nodes)],
        filters,
        setting.parameters,
        field,
        spreading_of(setting),
        Random(int(chance.integers(2**63))),
        setting.channel,
        recorded.presence if recorded else (),
    )
    area = recorded.area if recorded else setting.walk.area
    _schedule_events(network, setting, area, able, filters, happens)
    return network


def recorded_movement(setting: Setting) -> RecordedMovement | None:
    """The movement in the setting's file of positions; None if nodes walk at random."""
    if setting.positions is None:
        return None
    recorded = read_positions(Path(setting.positions))
    if len(recorded.clients) != setting.nodes:
        raise ConfigError(
            f"nodes: {setting.positions} has {len(recorded.clients)} clients, and the setting {setting.nodes} nodes"
        )
    return recorded


def _schedule_events(
    network: AdHocNetwork,
    setting: Setting,
    area: Area,
    able: list[float],
    filters: Sequence[tuple[Filter, ...]],
    random: np.random.Generator,
) -> None:
    """Give the engine every event: with the node that detects it, or with the place where it occurs."""

    def publish(node: NodeId, event: Event) -> None:
        interested = sum(
            other != node and any(condition.matches(event) for condition in filters[other])
            for other in range(setting.nodes)
            if other not in network.absent
        )
        network.publish(node, event, interested)

    begin, end = setting.warm_up_s, setting.warm_up_s + setting.publishing_s
    if setting.detects == "node":
        for time, node, event in detections(able, setting.workload, begin, end, random):
            network.engine.at(time, publish, node, event)
    else:
        witnesses = Witnesses(network, able, setting.workload, area, publish)
        for occurrence in occurrences(setting.workload, begin, end, random):
            network.engine.at(occurrence.time_s, witnesses.occur, occurrence)


def spreading_of(setting: Setting) -> Callable[[], Spreading]:
    """Returns a function that makes the spreading of one broker, as the scheme says."""
    m = setting.parameters.m
    of_scheme: dict[str, Callable[[], Spreading]] = {
        "drip": partial(MultiCopyMultiDestination, m),
        "sf": Epidemic,
        "spray-and-wait": partial(MultiCopyMultiDestination, m, per_subscriber=1),
        "prophet": partial(Prophet, setting.prophet),
    }
    return of_scheme[setting.scheme]


def run(setting: Setting, seed: int) -> list[Record]:
    """Run the setting to its end; returns the records in order of time."""
    with seldom_collected():
        network = build(setting, seed)
        network.run(setting.warm_up_s + setting.publishing_s + setting.drain_s)
    return network.records


def run_job(payload: dict[str, Any], seed: int) -> Iterable[Record]:
    """The runner that a campaign calls by name: `payload` is a setting in plain values."""
    return run(Setting.from_payload(payload), seed)
