"""The table of mobility schemes: a name, and what it stands for.

Schemes that come with RoamQ are listed here; packages of others bring theirs by an entry point of the group
`roamq.schemes`, whose name is the scheme's and whose value is its class (docs/own-scheme.md).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from roamq.core.errors import ConfigError
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
        """What holds with these options, sufficient buffers and without lost stores."""
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


def scheme_names() -> list[str]:
    return sorted(_table())


def scheme_named(name: str) -> SchemeEntry:
    table = _table()
    if name not in table:
        raise ConfigError(f"scheme: unknown scheme {name!r}; choose one of {', '.join(sorted(table))}")
    return table[name]
