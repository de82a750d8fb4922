"""Reads and checks the classes of clients in a network's file. Errors name the class and the field."""

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from roamq.build import Choices, check_choices, choices_of
from roamq.config import Source, bind, suggestion
from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.net.clients.classes import is_within
from roamq.net.ops.settings import ANONYMOUS, ANYBODY, ClientClass
from roamq.schemes.table import scheme_named, scheme_names

FIELD: Final = "network.classes"
OF_THE_BROKER: Final = ("buffer_bytes", "queue_bytes")
"""Options that bound what a broker stores, for all clients together: a class cannot have them."""

Complete = Callable[[str, dict[str, Any]], dict[str, Any]]
"""(scheme, its options as written) -> the options with those that the network adds."""


def read_classes(
    tables: Sequence[Mapping[str, Any]], users: Collection[str] | None, source: Source, complete: Complete
) -> tuple[ClientClass, ...]:
    """Reads the classes of `[[network.classes]]`. `users`: the users that can log in; None if tokens or certificates
    may bring others."""
    known = [field.name for field in msgspec.structs.fields(ClientClass)]
    classes: list[ClientClass] = []
    for number, table in enumerate(tables):
        field = f"{FIELD}[{number}]"
        for key in table:
            if key not in known:
                raise _error(source, f"{field}.{key}", "unknown field" + suggestion(key, known))
        one: ClientClass = bind(ClientClass, dict(table), field, source)
        _check_rule(one, field, classes, users, source)
        classes.append(msgspec.structs.replace(one, options=_options(one, field, source, complete)))
    return tuple(classes)


def check_classes(
    scheme: str, options: Mapping[str, Any], classes: Sequence[ClientClass], source: Source
) -> None:
    """Refuses schemes that one broker cannot have side by side."""
    named = {one.name: (one.scheme, one.options) for one in classes}
    chosen: Choices = choices_of(scheme, options, named)
    try:
        check_choices(chosen, "scheme")
    except ConfigError as error:
        field, _, reason = str(error).partition(": ")
        raise _error(source, f"network.{field}", reason) from error


def _check_rule(
    one: ClientClass, field: str, before: Sequence[ClientClass], users: Collection[str] | None, source: Source
) -> None:
    if not one.name or not one.name.isprintable() or "/" in one.name:
        raise _error(source, f"{field}.name", f"{one.name!r} is no name of a class")
    if one.name in [other.name for other in before]:
        raise _error(source, f"{field}.name", f"{one.name!r} is the name of another class")
    if one.user is None and one.client_id is None and not one.user_property:
        reason = (
            "fits every client; name a `user`, a `client_id` or a `user_property`, or set `network.scheme`"
        )
        raise _error(source, field, f"class {one.name!r} {reason}")
    if one.user == ANYBODY:
        raise _error(source, f"{field}.user", "'*' fits every user: leave it out")
    if users is not None and one.user not in (None, ANONYMOUS, *users):
        reason = f"no client can be of class {one.name!r}: there is no user {one.user!r}"
        raise _error(source, f"{field}.user", reason + suggestion(str(one.user), users))
    for other in before:
        if is_within(one, other):
            reason = f"no client can be of class {one.name!r}: all that it fits are of class {other.name!r} before it"
            raise _error(source, field, reason)


def _options(one: ClientClass, field: str, source: Source, complete: Complete) -> dict[str, Any]:
    if one.scheme not in scheme_names():
        reason = f"unknown scheme {one.scheme!r}" + choose_from(one.scheme, scheme_names())
        raise _error(source, f"{field}.scheme", reason)
    kind = scheme_named(one.scheme).options_type
    for name in one.options:
        if name in OF_THE_BROKER:
            reason = "bounds what the broker stores for all clients: set it under network.options"
            raise _error(source, f"{field}.options.{name}", reason)
        known = [option.name for option in dataclasses.fields(kind) if option.name not in OF_THE_BROKER]
        if name not in known:
            others = [
                other
                for other in scheme_names()
                if name in {option.name for option in dataclasses.fields(scheme_named(other).options_type)}
            ]
            hint = f"it is an option of {', '.join(others)}" if others else "no scheme has it"
            reason = f"{one.scheme!r} has no such option; {hint}{choose_from(name, known)}"
            raise _error(source, f"{field}.options.{name}", reason)
    options = complete(one.scheme, one.options)
    try:
        kind.parse(options)
    except (ConfigError, TypeError) as error:
        raise _error(source, *option_of(error, f"{field}.options")) from error
    return options


def option_of(error: Exception, field: str) -> tuple[str, str]:
    """Returns the option that a scheme finds wrong, by its name in the file, and the reason."""
    option, _, reason = str(error).partition(": ")
    is_named = option.startswith("scheme.") and reason
    return (f"{field}.{option.removeprefix('scheme.')}", reason) if is_named else (field, str(error))


def _error(source: Source, field: str, reason: str) -> ConfigError:
    return ConfigError(f"{source.place(field)}: {field}: {reason}")
