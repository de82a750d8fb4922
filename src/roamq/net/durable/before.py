"""Reads snapshots of the release before (version 2), which were pickles of the whole broker. Writes none.

No code of such a file runs. The table names the *values* whose classes still mean what they meant in that release. An
object of any other class of ours becomes a *husk*, which takes the object's attributes and does nothing. A class that
is neither is refused by its name, so that a file of another program can do no harm. The husks are then packed as the
parts of a broker are.
"""

import io
import pickle
from collections import Counter, deque
from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

import msgspec

from roamq.core.events import Event
from roamq.core.filters import Filter
from roamq.core.reading import NOTHING_AHEAD
from roamq.net.durable import connections, forms
from roamq.net.durable.graph import Form, Forms, Packer, parts_of
from roamq.net.ops.settings import Settings

FORMAT: Final = b"RQS2"
RELEASE: Final = "0.1.0"
"""The only release that wrote snapshots of this version; such snapshots do not name their release."""

VALUES: Final = {
    "roamq.core.context": "Epoch Held Mode",
    "roamq.core.events": "EventId",
    "roamq.core.filters": "Filter",
    "roamq.core.messages": "Routed",
    "roamq.net.clients.mqtt.codec.packets": (
        "Auth Connect Disconnect Pingreq Puback Pubcomp Publish Pubrec Pubrel Subscribe SubscriptionRequest "
        "Unsubscribe Version Will"
    ),
    "roamq.net.clients.mqtt.codec.properties": "Properties",
    "roamq.net.clients.mqtt.codec.publishing": "EncodedMessage",
    "roamq.net.clients.mqtt.codec.reason_codes": "ReasonCode",
    "roamq.net.clients.mqtt.limits": "Limits",
    "roamq.net.clients.mqtt.negotiation": "Terms",
    "roamq.net.clients.mqtt.session": "ConnectionPhase",
    "roamq.net.clients.mqtt.state": "InFlight SessionState Subscription",
    "roamq.net.clients.mqtt.subscriptions": "DeliveryRoute",
    "roamq.net.ops.settings": "AccessRules Quotas Rule Settings",
    "roamq.net.topics.directory": "Adopt Ended Known KnownConnection Serving WhoServes",
    "roamq.net.topics.shared": "GroupPlace",
    "roamq.schemes.messages.copies": (
        "Activate Activated CopiesLeft CopyRequest Deactivate Delete Forwarded MovedHere PassiveCopy"
    ),
    "roamq.schemes.messages.handover": "ContextRequest NoContext PartialSession Release StoredEvents Subscriptions",
    "roamq.schemes.messages.home_broker": "ChangeSubscription Consumed Forward Leave Recall Visiting Welcome",
    "roamq.schemes.messages.logging": "LoggedIds StoredIds",
    "roamq.schemes.messages.neighbors": "NeighborList",
    "roamq.schemes.messages.prefetching": "Discard Prefetch Prefetched",
    "roamq.schemes.messages.prehandoff": (
        "AskExpected CancelPreforward EnablePrehandoff Handed PreSubforward Preforward Preforwarded "
        "PrehandoffRequest Prestored Replaced StillExpected WasAway"
    ),
    "roamq.schemes.parts.locations": "Choice Sighting",
}
"""Module, by its name in that release -> the classes in it that are values."""

_EVENT_FIELDS: Final = (
    "id",
    "topic",
    "attributes",
    "payload",
    "published_at",
    "expires_at",
    "publisher",
    "qos",
    "retain",
    "properties",
    "assigned",
    "is_handed_on",
    "cost_bytes",
)


class Husk:
    """The attributes of an object whose class does not matter."""

    def __new__(cls, *_: Any) -> "Husk":
        return object.__new__(cls)

    def __init__(self, *_: Any) -> None:
        """Takes the arguments of any class and ignores them."""

    def __setstate__(self, state: Any) -> None:
        for attributes in state if isinstance(state, tuple) else (state,):
            if isinstance(attributes, dict):
                self.__dict__.update(attributes)


class _Joint:
    """Stands for a method that one object had from another object."""


def _joint(*_: Any) -> _Joint:
    return _Joint()


def _event(*values: Any) -> Event:
    return Event(**dict(zip(_EVENT_FIELDS, values, strict=True)))


class ContextHusk(Husk):
    """A context of that release, with defaults for the attributes that contexts have today besides."""

    ahead = NOTHING_AHEAD
    only = None
    late = None
    delivers_head = False
    under = ""


class OutboundHusk(Husk):
    """The sending half of a client's connection."""

    @property
    def begun(self) -> Any:
        return self.__dict__["_before"]


class MatchIndexHusk(Husk):
    """Finds the pairs of a match index in the tables of that release's index."""

    def pairs(self) -> Iterator[tuple[Any, list[Filter]]]:
        tables = self.__dict__
        held: dict[Any, list[Filter]] = {key: [] for key in tables["_came"]}
        for filter, entry in tables["_entries"].items():
            for key in tables["_holders"][entry]:
                held[key].append(filter)
        return iter(held.items())


_HUSKS: Final[dict[str, type[Husk]]] = {
    "Context": ContextHusk,
    "MatchIndex": MatchIndexHusk,
    "Outbound": OutboundHusk,
}


def _husk(name: str) -> type[Husk]:
    if name not in _HUSKS:
        _HUSKS[name] = type(name, (Husk,), {})
    return _HUSKS[name]


class _Unpickler(pickle.Unpickler):
    """Finds the classes that the table names, and no others."""

    def find_class(self, module: str, name: str) -> Any:
        if name in VALUES.get(module, "").split():
            return getattr(import_module(module), name)
        match module, name:
            case "collections", "Counter":
                return Counter
            case "collections", "deque":
                return deque
            case "builtins", "getattr":
                return _joint
            case "msgspec._utils", "rebuild":
                return _rebuild
            case "roamq.net.durable.snapshot", "_event":
                return _event
        if module.partition(".")[0] in ("roamq", "sortedcontainers"):
            return _husk(name)
        raise pickle.UnpicklingError(f"{module}.{name} does not belong into a snapshot")


def _rebuild(kind: type[msgspec.Struct], values: dict[str, Any]) -> Any:
    return kind(**values)


def _pack_connection(packer: Packer, mqtt: Any) -> list[Any]:
    """Gives a connection of that release the form that connections have today."""
    if getattr(mqtt, "outbound", None) is None:
        return [connections.said(packer, mqtt)]
    filters = list(mqtt.subscriptions._filters)
    return [connections.said_and_told(packer, mqtt, filters, mqtt._inbound)]


def _forms() -> Forms:
    parts = {_husk(kind.__name__): entry for kind, entry in forms.PARTS.items()}
    parts |= {_husk(scheme.__name__): ("scheme", forms.OF_SCHEMES) for scheme in forms.OUR_SCHEMES}
    husks = [form._replace(kind=_husk(form.kind.__name__)) for form in forms.VALUES]
    values = [
        *forms.VALUES,
        *husks,
        Form("ServerConnection", _husk("ServerConnection"), pack=_pack_connection),
    ]
    options = [husk for name, husk in _HUSKS.items() if name.endswith("Options")]
    wiring = [_husk(kind.__name__) for kind in forms.WIRING]
    return Forms(
        values,
        parts,
        forms.TUPLES,
        forms.ENUMS,
        (*wiring, *options, *forms.WIRING, _Joint),
        finds_parts=False,
    )


def read(data: bytes | memoryview) -> dict[str, Any]:
    """Reads a snapshot of the release before, and returns its state in the form of today."""
    live: Any = _Unpickler(io.BytesIO(data)).load()
    known = _forms()
    packer = Packer(known)
    packer.index_kinds(MatchIndexHusk)
    parts = {name: packer.part(part) for name, part in sorted(parts_of(live, known).items())}
    packer.finish()
    settings: Settings = live.machine.settings
    used = dict.fromkeys(row[0] for row in packer.objects)
    return {
        "release": RELEASE,
        "made_of": settings,
        "settings": settings,
        "time": live.machine.host.time,
        "layout": {name: list(known.by_name[name].fields) for name in used},
        "events": packer.events,
        "objects": packer.objects,
        "parts": parts,
    }
