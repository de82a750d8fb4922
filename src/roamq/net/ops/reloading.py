"""Finds what a broker changes when it reads its file again, and refuses by name what cannot be changed."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from roamq.build import check_change
from roamq.core.errors import ConfigError
from roamq.net.bounds import choices
from roamq.net.ops.addresses import is_open_to_anonymous
from roamq.net.ops.options import Listener, NeighbourOptions, ServerOptions
from roamq.net.ops.settings import Settings


class Reloaded(NamedTuple):
    """The changes that a broker makes when it reads its file again."""

    settings: Settings | None
    """Settings with the new schemes, options, classes of clients or positions; None if none of these has changed."""
    schemes_changed: bool
    positions_changed: bool
    gone: list[str]
    """Users who are gone, or have another password."""
    listeners: tuple[Listener, ...]
    """The listeners that the broker has, each now open or closed to clients without a name."""
    withdrawn: list[str]
    """Credentials that let no client in any more."""
    wires: NeighbourOptions | None
    """Options with the neighbours that can be called now; None if these have not changed."""

    @property
    def closed(self) -> list[str]:
        """Names of listeners that are closed to clients without a name."""
        return [listener.name for listener in self.listeners if not listener.anonymous]

    def told(self, after: ServerOptions) -> dict[str, Any]:
        """Returns what an operator is told of the changes."""
        return {
            "users": len(after.users),
            "rules": len(after.settings.access.rules),
            "scheme": after.settings.scheme,
            "classes": len(after.settings.classes),
            "schemes_changed": self.schemes_changed,
            "positions_changed": self.positions_changed,
            "links_changed": self.wires is not None,
        }


Position = tuple[float, float]


def reloaded(
    before: ServerOptions,
    after: ServerOptions,
    in_force: Settings,
    joined: Mapping[str, Position | None] | None = None,
) -> Reloaded:
    """Finds the changes. Raises `ConfigError` if something has changed that cannot; then the broker changes nothing.

    `joined`: broker that joined later -> the position that it had when it joined."""
    _check_publishes(before.settings, after.settings)
    _check_joined(joined or {}, after.settings)
    users = {*before.users, *after.users}
    settings = _other_settings(in_force, after.settings)
    return Reloaded(
        settings=settings,
        schemes_changed=settings is not None and _schemes(settings) != _schemes(in_force),
        positions_changed=settings is not None and settings.positions != in_force.positions,
        gone=sorted(user for user in users if before.users.get(user) != after.users.get(user)),
        listeners=_opened(before.listeners, after.anonymous),
        withdrawn=sorted(_credentials(before) - _credentials(after)),
        wires=_other_wires(before, after),
    )


def _check_publishes(before: Settings, after: Settings) -> None:
    """Refuses changes of `publishes`: brokers ask for events by it, so all must know it before an event comes."""
    for name in sorted({*before.publishes, *after.publishes}):
        if before.publishes.get(name) != after.publishes.get(name):
            raise ConfigError(
                f"brokers.{name}.publishes: cannot be changed while the broker is in the network; set it back, or let "
                "the broker leave (`roamq leave`) and one of another name join with the new list"
            )


def _check_joined(joined: Mapping[str, Position | None], after: Settings) -> None:
    """Refuses another position for a broker that joined later: it has told its position to all others, once."""
    for name, position in joined.items():
        read = after.positions.get(name)
        if read is not None and read != position:
            where = "without one" if position is None else f"with {list(position)}"
            raise ConfigError(
                f"brokers.{name}.position: the broker joined {where}, and keeps it while it is in the network; set it "
                "back, or let the broker leave (`roamq leave`) and join again with the new one"
            )


def _opened(listeners: tuple[Listener, ...], to: str) -> tuple[Listener, ...]:
    """Returns the running listeners, open or closed by `to`: the file may list others, or in another order."""
    return tuple(
        msgspec.structs.replace(listener, anonymous=is_open_to_anonymous(listener.host, to))
        for listener in listeners
    )


def _other_wires(before: ServerOptions, after: ServerOptions) -> NeighbourOptions | None:
    """Returns changed neighbours to call; None: no change. Refuses a change of the links that events are routed
    along."""
    was, now = before.links, after.links
    routed, wanted = ({frozenset(link) for link in one.settings.links} for one in (before, after))
    if set(before.settings.brokers) != set(after.settings.brokers):
        raise ConfigError(
            "brokers: those of the first configuration are others now; `roamq join` and `roamq leave` change the "
            "brokers of a running network"
        )
    if routed != wanted:
        brokers = len(before.settings.brokers)
        was_direct = len(routed) == brokers * (brokers - 1) // 2
        raise ConfigError(
            'network.links: paths are direct, and with these links they would not be; say `paths = "direct"`, or '
            "leave a way around each broker"
            if was_direct
            else "network.links: events are routed from link to link, and ways that events are on cannot be changed: "
            'drain the brokers, and start all of them with empty folders; with `paths = "direct"` links can be '
            "added and removed while brokers run"
        )
    is_same = was.peers == now.peers and set(was.carried) == set(now.carried)
    return None if is_same else now


def _other_settings(now: Settings, read: Settings) -> Settings | None:
    wanted = msgspec.structs.replace(
        now,
        scheme=read.scheme,
        scheme_options=read.scheme_options,
        classes=read.classes,
        access=read.access,
        positions=read.positions,
    )
    if _schemes(now) != _schemes(wanted):
        check_change(choices(now), choices(wanted), "network.scheme", of_options=True)
        return wanted
    return wanted if now.positions != wanted.positions else None


def _schemes(settings: Settings) -> tuple[object, ...]:
    return settings.scheme, settings.scheme_options, settings.classes


def _credentials(options: ServerOptions) -> set[str]:
    return set() if options.tokens is None else options.tokens.credentials()
