"""The class of a client: the first class whose rule fits decides, the same at every broker with the same file."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

from roamq.core.events import ClientId
from roamq.net.clients.mqtt.codec import Connect
from roamq.net.ops.settings import ANONYMOUS, ClientClass


def class_of(
    classes: Sequence[ClientClass], client: ClientId, user: str | None, connect: Connect | None
) -> str:
    """The name of the client's class; empty if no rule fits."""
    return next((one.name for one in classes if _fits(one, client, user, connect)), "")


def _fits(one: ClientClass, client: ClientId, user: str | None, connect: Connect | None) -> bool:
    if one.user is not None and one.user != (ANONYMOUS if user is None else user):
        return False
    if one.client_id is not None and not fnmatchcase(client, one.client_id):
        return False
    said = connect.properties.user_properties if connect is not None else ()
    return all((name, value) in said for name, value in one.user_property.items())


def is_within(narrow: ClientClass, wide: ClientClass) -> bool:
    """Does the rule of `wide` fit every client that the rule of `narrow` fits?"""
    if wide.user is not None and wide.user != narrow.user:
        return False
    if (
        wide.client_id is not None
        and wide.client_id != "*"
        and not _pattern_within(narrow.client_id, wide.client_id)
    ):
        return False
    return wide.user_property.items() <= narrow.user_property.items()


def _pattern_within(narrow: str | None, wide: str) -> bool:
    """Whether `wide` surely fits all that `narrow` fits: equal patterns, a single client id, a longer beginning."""
    if narrow is None:
        return False
    if narrow == wide:
        return True
    is_single = not any(mark in narrow for mark in "*?[")
    if is_single:
        return fnmatchcase(narrow, wide)
    begins = wide[:-1]
    return wide.endswith("*") and not any(mark in begins for mark in "*?[") and narrow.startswith(begins)
