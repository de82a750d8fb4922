"""Which brokers are linked, and which of these links have a connection of their own.

`network.links` says which brokers can call each other. With *direct* paths each broker of the core is linked with each
other one, and brokers in between carry the links that have no connection of their own: they pass bytes on and keep
nothing. So no broker stands in the middle of a path, and events between two brokers go around any third one that is
down. With paths along the links, the brokers in between take events in, store them and send them on.
"""

from collections.abc import Collection
from itertools import combinations
from typing import Final, Literal

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.net.links.protocol import CARRIERS_MAX
from roamq.overlay.topology import Topology

Pair = tuple[str, str]
Paths = Literal["direct", "links"]

CARRIED_LINKS_MAX: Final = 128
"""Links without a connection of their own that a network may have: one broker may have to carry all of them."""
DIRECT_BROKERS_MAX: Final = 16
"""Size of the largest core of which a joining broker is linked with all brokers."""


def without_connection(brokers: Collection[str], connections: Collection[Pair]) -> list[Pair]:
    """Returns the pairs of brokers that cannot call each other."""
    connected = {frozenset(pair) for pair in connections}
    return [pair for pair in combinations(brokers, 2) if frozenset(pair) not in connected]


def why_not_direct(brokers: Collection[str], connections: Collection[Pair]) -> str:
    """Says why brokers could not carry the missing links between all of these brokers; empty if they could."""
    missing = without_connection(brokers, connections)
    if len(missing) > CARRIED_LINKS_MAX:
        return f"{len(missing)} links would have to be carried by others, and {CARRIED_LINKS_MAX} may be"
    topology = Topology(brokers, connections)
    for a, b in missing:
        between = topology.distance(BrokerId(a), BrokerId(b)) - 1
        if between > CARRIERS_MAX:
            return f"{between} brokers lie between {a!r} and {b!r}, and at most {CARRIERS_MAX} carry a link"
    return ""


def paths_of(
    wanted: Paths | None,
    overlay: str,
    brokers: Collection[str],
    connections: Collection[Pair],
    *,
    detours: bool,
) -> Paths:
    """Decides how paths lead: as configured, or direct if that leads around a broker and is possible, or along the
    links."""
    if wanted is not None:
        return wanted
    is_tree = len({frozenset(pair) for pair in connections}) == len(brokers) - 1
    can = detours and overlay != "hierarchy" and not is_tree and not why_not_direct(brokers, connections)
    return "direct" if can else "links"


def fault_in(
    paths: Paths, brokers: Collection[str], connections: Collection[Pair], *, detours: bool
) -> tuple[str, str] | None:
    """Returns a field of the configuration and what is wrong with it, if the wanted paths are not possible."""
    missing = without_connection(brokers, connections) if paths == "direct" else []
    if why_not := why_not_direct(brokers, connections) if missing else "":
        return "network.paths", f'{why_not}; say `paths = "links"`, or add links'
    if missing and not detours:
        a, b = missing[0]
        reason = f"with direct paths others carry the link of {a!r} with {b!r}"
        return "network.detours", f'{reason}; say `paths = "links"`, or let brokers carry links'
    return None


def linked(paths: Paths, brokers: Collection[str], connections: Collection[Pair]) -> tuple[Pair, ...]:
    """Returns the links along which events are routed."""
    if paths == "links":
        return tuple(connections)
    return (*connections, *without_connection(brokers, connections))


def linked_when_joining(
    paths: Paths, core: Collection[str], connections: Collection[Pair], calls: Collection[str]
) -> tuple[str, ...]:
    """Returns the brokers that a joining one is linked with, if it can call `calls`. If it calls two or more, it is
    linked with the whole core, so that it can do without any one broker: others carry the links with brokers that it
    cannot call. If one of the core is too far away for such a link, it is linked with `calls` alone."""
    is_direct = paths == "direct" and len(set(calls)) > 1 and len(core) <= DIRECT_BROKERS_MAX
    if not is_direct or not set(core).issuperset(calls):
        return tuple(calls)
    here = [pair for pair in connections if set(core).issuperset(pair)]
    try:
        topology = Topology(core, here)
    except ConfigError:  # brokers that have left separate the others
        return tuple(calls)
    carriers = [min(topology.distance(BrokerId(c), BrokerId(b)) for c in calls) for b in core]
    return tuple(core) if max(carriers) <= CARRIERS_MAX else tuple(calls)
