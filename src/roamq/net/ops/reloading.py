"""What a broker that reads its file again has to change; what cannot be changed is refused by name."""

from typing import Any, NamedTuple

import msgspec

from roamq.build import check_change
from roamq.net.bounds import choices
from roamq.net.ops.options import ServerOptions
from roamq.net.ops.settings import Settings


class Reloaded(NamedTuple):
    """What is to happen."""

    settings: Settings | None
    """With other schemes, options or classes of clients; None if those are as they were."""
    gone: list[str]
    """Users who are gone, or have another password."""
    closed: list[str]
    """Listeners that are closed to clients without a name."""
    withdrawn: list[str]
    """Credentials that let nobody in any more."""

    def told(self, after: ServerOptions) -> dict[str, Any]:
        """What an operator is told of it."""
        return {
            "users": len(after.users),
            "rules": len(after.settings.access.rules),
            "scheme": after.settings.scheme,
            "classes": len(after.settings.classes),
            "schemes_changed": self.settings is not None,
        }


def reloaded(before: ServerOptions, after: ServerOptions, in_force: Settings) -> Reloaded:
    """The differences. Raises `ConfigError` if a scheme cannot be changed; nothing has happened then."""
    users = {*before.users, *after.users}
    return Reloaded(
        settings=_other_schemes(in_force, after.settings),
        gone=sorted(user for user in users if before.users.get(user) != after.users.get(user)),
        closed=[listener.name for listener in after.listeners if not listener.anonymous],
        withdrawn=sorted(_credentials(before) - _credentials(after)),
    )


def _other_schemes(now: Settings, read: Settings) -> Settings | None:
    wanted = msgspec.structs.replace(
        now,
        scheme=read.scheme,
        scheme_options=read.scheme_options,
        classes=read.classes,
        access=read.access,
    )
    if _schemes(now) == _schemes(wanted):
        return None
    check_change(choices(now), choices(wanted), "network.scheme", of_options=True)
    return wanted


def _schemes(settings: Settings) -> tuple[object, ...]:
    return settings.scheme, settings.scheme_options, settings.classes


def _credentials(options: ServerOptions) -> set[str]:
    return set() if options.tokens is None else options.tokens.credentials()
