"""The table of mobility schemes: a name, and the scheme that it stands for.

RoamQ's own schemes are listed here; other packages bring theirs by an entry point of the group `roamq.schemes`, whose
name is the scheme's and whose value is its class (docs/own-scheme.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.messages import Message
from roamq.schemes.base import Scheme, SchemeOptions
from roamq.schemes.durable import Durable
from roamq.schemes.home_broker import HomeBroker
from roamq.schemes.logging import Logging
from roamq.schemes.on_device import MODIFIED, SUFFIX
from roamq.schemes.prefetching import Prefetching
from roamq.schemes.prehandoff import PreHandoff
from roamq.schemes.proactive import ProActive
from roamq.schemes.reactive import Reactive
from roamq.schemes.standard import Standard

GROUP = "roamq.schemes"
"""The group of entry points by which other packages bring schemes."""


@dataclass(frozen=True, slots=True)
class SchemeEntry:
    """A scheme that can be chosen by name."""

    name: str
    scheme: type[Scheme]
    carries_subscriptions: bool

    @property
    def options_type(self) -> type[SchemeOptions]:
        return self.scheme.options_type

    def guaranteed(self, options: SchemeOptions) -> frozenset[str]:
        """The guarantees that hold with these options, sufficient buffers and without lost stores."""
        return self.scheme.guaranteed(options)


_OURS: tuple[type[Scheme], ...] = (
    Durable,
    HomeBroker,
    Logging,
    PreHandoff,
    Prefetching,
    ProActive,
    Reactive,
    Standard,
)


@cache
def _table() -> Mapping[str, SchemeEntry]:
    entries = [SchemeEntry(scheme.name, scheme, scheme.carries_subscriptions) for scheme in _OURS]
    entries += [SchemeEntry(scheme.name + SUFFIX, scheme, True) for scheme in MODIFIED]
    table = {entry.name: entry for entry in entries}
    for point in entry_points(group=GROUP):
        if point.name in table:
            raise ConfigError(
                f"scheme: {_origin(point)} brings a scheme {point.name!r}, which RoamQ has already; rename it"
            )
        scheme = _load(point)
        table[point.name] = SchemeEntry(point.name, scheme, scheme.carries_subscriptions)
    return table


def _load(point: EntryPoint) -> type[Scheme]:
    try:
        scheme = point.load()
    except Exception as error:
        raise ConfigError(
            f"scheme: {_origin(point)} brings the scheme {point.name!r}, but {point.value} cannot be loaded: "
            f"{error}; repair or uninstall it"
        ) from error
    if not (isinstance(scheme, type) and issubclass(scheme, Scheme)):
        raise ConfigError(
            f"scheme: {_origin(point)} brings the scheme {point.name!r}, but {point.value} is not a class "
            "derived from roamq.schemes.base.Scheme"
        )
    return scheme


def _origin(point: EntryPoint) -> str:
    return f"the package {point.dist.name}" if point.dist is not None else "another package"


def speaker_of(message_type: type[Message]) -> str | None:
    """The name of the scheme that alone has this type of message; None: no scheme, or the hand-over."""
    return _speakers().get(message_type)


@cache
def _speakers() -> Mapping[type[Message], str]:
    return {
        kind: entry.name
        for entry in _table().values()
        if entry.name == entry.scheme.name
        for kind in entry.scheme.messages
    }


def check_beside_others(field: str, name: str, options: SchemeOptions) -> None:
    """Refuse a scheme that cannot stand beside others, or whose contexts cannot go to another scheme without loss."""
    entry = scheme_named(name)
    if not entry.scheme.stands_beside_others or entry.name != entry.scheme.name:
        able = ", ".join(
            n for n, e in _table().items() if e.scheme.stands_beside_others and n == e.scheme.name
        )
        raise ConfigError(f"{field}: {name!r} {_alone(entry)}; those that can are {able}")
    missing = Scheme.guarantees - entry.guaranteed(options)
    if missing:
        raise ConfigError(
            f"{field}: {name!r} with these options does not guarantee that nothing is lost, doubled or out of "
            "order, so contexts cannot be taken to it or from it"
        )


def _alone(entry: SchemeEntry) -> str:
    if entry.name != entry.scheme.name:
        return (
            "asks of all clients that they bring their subscriptions along, so it cannot stand beside others"
        )
    reasons = {
        "home-broker": "keeps a context at home while its client is elsewhere, so no broker can take it to another "
        "scheme by itself",
        "durable": "leaves contexts at every broker that a client has visited, so there is not one to take along",
        "reactive": "loses and doubles messages by design",
    }
    reason = reasons.get(entry.name, "does not say that it stands beside others (`stands_beside_others`)")
    return f"{reason}: it has to be the only scheme of a network from the beginning"


def scheme_names() -> list[str]:
    return sorted(_table())


def scheme_named(name: str) -> SchemeEntry:
    table = _table()
    if name not in table:
        raise ConfigError(f"scheme: unknown scheme {name!r}{choose_from(name, sorted(table))}")
    return table[name]
