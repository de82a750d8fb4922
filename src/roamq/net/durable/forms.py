"""What snapshots store of a broker, and under which names: the one place to change when the parts of a broker change.

A name here is written to disk. A developer who renames a class changes nothing here but the class. A developer who
renames, adds or drops a stored attribute changes what snapshots look like: `tests/net/durable/test_layout.py` notices
it, and `docs/live.md` (Upgrades) says what to do.
"""

import sys
from collections import deque
from dataclasses import is_dataclass
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from roamq.broker.broker import Broker
from roamq.broker.contexts import Contexts
from roamq.broker.discards import Discards
from roamq.broker.mailbox import Mailbox
from roamq.broker.room import Room
from roamq.broker.watched import WatchedFilters
from roamq.core.buffers import EventBuffer
from roamq.core.context import Context, Epoch, Held, Mode
from roamq.core.covering import CoverIndex
from roamq.core.events import EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.reading import NOTHING_AHEAD
from roamq.core.tuples import new_tuple
from roamq.geo.here import MeaningHere
from roamq.net.clients.access import Access
from roamq.net.clients.admission import Admission, SessionSearch
from roamq.net.clients.connections import Connections
from roamq.net.clients.mqtt.codec import Suback, Will
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ConnectionPhase
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.permits import Permits
from roamq.net.clients.quota import SessionQuota
from roamq.net.clients.requests import Requests
from roamq.net.clients.sessions import Sessions
from roamq.net.clients.visitors import VisitorSuback
from roamq.net.durable.connections import CONNECTION_FORMS
from roamq.net.durable.graph import (
    Form,
    Forms,
    Packer,
    Row,
    UnknownFormError,
    Unpacker,
    encode_settings,
    parts_of,
    record_form,
    struct_form,
)
from roamq.net.durable.inputs import LiveBroker
from roamq.net.host import LiveHost
from roamq.net.links.members import Member
from roamq.net.links.membership import Membership
from roamq.net.links.others import OtherBrokers
from roamq.net.links.outboxes import Outboxes, SaidMessages
from roamq.net.links.resuming import Resuming
from roamq.net.machine import Machine
from roamq.net.news import NewsDesk
from roamq.net.ops.settings import AccessRules, Settings
from roamq.net.outputs import Outputs
from roamq.net.topics.directory import Directory, KnownConnection
from roamq.net.topics.expiries import Expiries
from roamq.net.topics.fullness import Crowded, Fullness, Told
from roamq.net.topics.intake import EventIntake
from roamq.net.topics.memberships import Memberships
from roamq.net.topics.replays import Replays
from roamq.net.topics.retained import RetainedMessages, Search, TopicNode
from roamq.net.topics.roll_calls import Roll, RollCalls
from roamq.net.topics.shared import Group, SharedGroups
from roamq.net.topics.tables import RetainedForOne
from roamq.overlay.advertised import Advertised
from roamq.overlay.flooding import Flooding
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.interest import ByInterest
from roamq.overlay.questions import Questions
from roamq.overlay.topology import Topology
from roamq.overlay.uncovering import Gone, HiddenFilters, PutOff
from roamq.schemes.base import SchemeOptions, Setup
from roamq.schemes.beside import Beside
from roamq.schemes.by_class import ByClass
from roamq.schemes.durable import Durable
from roamq.schemes.home_broker import ForwardingOutlet, HomeBroker, Resident, Visit
from roamq.schemes.labels import MeaningByScheme, SchemeMailbox
from roamq.schemes.logging import Log, Logging
from roamq.schemes.parts.copies import Activation, HeldCopies, SentCopies
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.inquiries import Inquiry
from roamq.schemes.parts.late import Awaiting, LateParts, Owing
from roamq.schemes.parts.locations import Expectation, LocationTable, Sighting
from roamq.schemes.parts.movement_pattern import MovementPattern
from roamq.schemes.parts.neighbors import Edge, NeighborGraph, Neighborhood
from roamq.schemes.parts.own_steps import Care, Leaving, OwnSteps
from roamq.schemes.parts.part import Parts
from roamq.schemes.parts.prediction import Foretold, Learned
from roamq.schemes.parts.preforwarding import Attempt, Preforwarding
from roamq.schemes.parts.replacing import Replacements, Replacing
from roamq.schemes.parts.virtual_consumers import VirtualConsumer, VirtualConsumers
from roamq.schemes.parts.whereabouts import Arriving, Whereabouts
from roamq.schemes.prefetching import PrefetchedContext, Prefetching, Pushed
from roamq.schemes.prehandoff import PreHandoff
from roamq.schemes.proactive import ProActive, TakenOver
from roamq.schemes.reactive import Reactive
from roamq.schemes.standard import Standard

# --- values ----------------------------------------------------------------------------------------------------------

_CONTEXT_FIELDS: Final = (
    "client",
    "epoch",
    "mode",
    "filters",
    "position",
    "reach",
    "in_flight",
    "window",
    "outlet",
    "delivers_early",
    "session",
    "_acknowledged",
    "limit_bytes",
    "ahead",
    "delivers_head",
)
"""The fields of a context, in the order of a row. Releases add to the end: a row of the release before is shorter."""
_context_fields: Final = attrgetter(*_CONTEXT_FIELDS)
_PACKED_APART: Final = {
    "stored",
    "local_queue",
    "late",
    "only",
    "under",
    "sent_early",
    "buffer",
    "bytes",
    "_sent",
}
assert {*_CONTEXT_FIELDS, *_PACKED_APART} == set(Context.__slots__)


def _pack_context(packer: Packer, context: Context) -> Row:
    """Packs a context: the numbers of its events, which are most of a snapshot, and beside each how the event came."""
    stored = list(context.stored)
    later = context.local_queue
    only, late = context.only, context.late
    return [
        [packer.pack(value) for value in _context_fields(context)],
        [packer.event(held[0]) for held in stored],
        [held[1] for held in stored],
        None if later is None else [packer.event(event) for event in later],
        [packer.event(event) for event in context.sent_early],
        None if only is None else sorted(only),
        None
        if late is None
        else [[origin, [packer.event(event) for event in queue]] for origin, queue in late.items()],
        context.under,
    ]


def _fill_context(unpacker: Unpacker, context: Context, row: Row) -> None:
    _, fields, numbers, hows, later, early, *more = row
    only, late, under = more or (None, None, "")  # fields that rows of the release before do not have
    if len(fields) > len(_CONTEXT_FIELDS):
        raise UnknownFormError(
            f"a context has {len(fields)} fields, this program knows {len(_CONTEXT_FIELDS)}"
        )
    context.ahead = NOTHING_AHEAD
    context.under = under
    context.delivers_head = False
    for name, value in zip(_CONTEXT_FIELDS, fields, strict=False):
        setattr(context, name, unpacker.unpack(value))
    events = unpacker.events
    context.stored = deque([new_tuple(Held, (events[n], how)) for n, how in zip(numbers, hows, strict=True)])
    context.local_queue = None if later is None else deque([events[number] for number in later])
    context.sent_early = [events[number] for number in early]
    context.only = None if only is None else frozenset(only)
    context.late = (
        None if late is None else {origin: deque([events[n] for n in queue]) for origin, queue in late}
    )
    context.buffer = unpacker.parts["buffer"]
    context._sent = frozenset()
    kept = (*(entry[0] for entry in context.stored), *context.waiting(), *context.sent_early)
    context.bytes = sum(event.cost_bytes for event in kept)


VALUES: Final = (
    Form("Context", Context, pack=_pack_context, fill=_fill_context),
    Form(
        "Filter",
        Filter,
        pack=lambda _, filter: [filter.topic, filter.selector, filter.group],
        make=lambda _, row: Filter(*row[1:]),
    ),
    struct_form("SessionState", SessionState),
    struct_form("Will", Will),
    struct_form("Suback", Suback),
    record_form("VisitorSuback", VisitorSuback),
    struct_form("AccessRules", AccessRules, encode_settings),
    struct_form("Member", Member),
    *CONNECTION_FORMS,
    record_form("SessionSearch", SessionSearch),
    record_form("SaidMessages", SaidMessages),
    record_form("Roll", Roll),
    Form("Group", Group, tuple(sorted(Group.__slots__))),
    Form("Told", Told, ("at", "origins")),
    Form("RetainedTopic", TopicNode, ("below", "event", "number")),
    Form("RetainedSearch", Search, ("filter", "number", "_root", "open")),
    Form("RetainedForOne", RetainedForOne, ("_host", "_me", "_search", "_to")),
    Form("Questions", Questions, ("_filters", "_router")),
    record_form("Leaving", Leaving),
    record_form("Owing", Owing),
    record_form("Awaiting", Awaiting),
    record_form("Arriving", Arriving),
    record_form("Inquiry", Inquiry),
    record_form("TakenOver", TakenOver),
    record_form("Replacing", Replacing),
    record_form("Activation", Activation),
    record_form("Attempt", Attempt),
    record_form("VirtualConsumer", VirtualConsumer),
    record_form("Edge", Edge),
    record_form("Resident", Resident),
    record_form("Visit", Visit),
    Form("ForwardingOutlet", ForwardingOutlet, ("router", "visited", "epoch")),
    record_form("Pushed", Pushed),
    record_form("PrefetchedContext", PrefetchedContext),
)

TUPLES: Final[dict[str, type]] = {
    "Epoch": Epoch,
    "EventId": EventId,
    "Held": Held,
    "KnownConnection": KnownConnection,
    "Crowded": Crowded,
    "PutOff": PutOff,
    "Gone": Gone,
    "Sighting": Sighting,
}

ENUMS: Final[dict[str, type[Enum]]] = {"Mode": Mode, "ConnectionPhase": ConnectionPhase}

# --- parts -----------------------------------------------------------------------------------------------------------

_NOTHING: Final = frozenset[str]()


def _but(*names: str) -> frozenset[str]:
    """Names attributes that are not stored: caches, values from settings, and what is empty between two inputs."""
    return frozenset(names)


PARTS: Final[dict[type, tuple[str, frozenset[str]]]] = {
    LiveBroker: ("live", _NOTHING),
    Machine: (
        "machine",
        _but("settings", "made_of", "me", "_failure", "_handlers", "_timers", "_name_client"),
    ),
    Connections: ("connections", _NOTHING),
    Outboxes: ("outboxes", _but("_encoded", "begun")),
    Resuming: ("resuming", _NOTHING),
    RollCalls: ("roll_calls", _NOTHING),
    Access: ("access", _but("_answers", "is_open", "takes_all", "_lists", "_taken")),
    LiveHost: ("host", _but("out", "done", "news", "me", "_by_client", "classes", "traffic")),
    Directory: ("directory", _NOTHING),
    RetainedMessages: (
        "retained",
        _but("_count_max", "_bytes_max", "_count_per_client_max", "_bytes_per_client_max", "_expiries"),
    ),
    Replays: ("replays", _NOTHING),
    SharedGroups: ("groups", _NOTHING),
    OtherBrokers: ("others", _but("_names", "_known", "_successors", "_mates", "_joined")),
    Membership: ("membership", _NOTHING),
    EventIntake: ("intake", _NOTHING),
    Memberships: ("memberships", _NOTHING),
    Fullness: ("fullness", _NOTHING),
    Sessions: ("sessions", _NOTHING),
    SessionQuota: ("quota", _but("shapes_max")),
    Admission: ("admission", _NOTHING),
    Requests: ("requests", _NOTHING),
    Permits: ("permits", _NOTHING),
    NewsDesk: ("news", _NOTHING),
    Broker: ("broker", _but("me", "_learns")),
    Mailbox: ("mailbox", _but("me", "_handlers", "_returned")),
    SchemeMailbox: ("scheme_mailbox", _but("me", "_handlers", "_returned", "label", "suffix")),
    ByClass: (
        "schemes",
        _but("me", "schemes", "_make", "_speaker", "_shared", "_handlers"),
    ),
    Contexts: (
        "contexts",
        _but(
            *("me", "settles_at_once", "timeout_s", "works_in_slices", "late_after_s", "sends_heads"),
            *("under", "timeouts", "comes", "came", "tells_last_read"),
        ),
    ),
    WatchedFilters: ("watched", _but("meaning", "_closed")),
    Room: ("room", _but("queue_bytes", "nearly_full_bytes", "reserve_bytes")),
    Discards: ("discards", _NOTHING),
    EventBuffer: ("buffer", _but("limit_bytes", "entry_bytes")),
    Flooding: ("flooding", _but("me", "_via", "_toward")),
    Hierarchy: (
        "hierarchy",
        _but("me", "_via", "_routes", "advertisements", "covering", "children", "parent"),
    ),
    ByInterest: (
        "interest",
        _but("me", "_via", "_routes", "_core", "_bytes", "_from", "_sent_index", "_wanted_index", "_relayed"),
    ),
    HandOver: ("handover", _but("me", "on_device", "pending")),
    LateParts: ("late_parts", _but("me", "is_used", "pending", "before_fence", "_of_client")),
    Whereabouts: ("whereabouts", _but("me")),
    HeldCopies: ("held_copies", _NOTHING),
    SentCopies: ("sent_copies", _but("pending")),
    Neighborhood: ("neighborhood", _but("timer")),
    NeighborGraph: (
        "neighbor_graph",
        _but("me", "lifetime_s", "limit", "outlier_crossings", "outlier_s"),
    ),
    Log: ("log", _but("log", "pending", "uses")),
    Learned: ("learned", _NOTHING),
    Foretold: ("foretold", _but("oracle", "right")),
    LocationTable: ("locations", _NOTHING),
    MovementPattern: ("movement_pattern", _but("me")),
    VirtualConsumers: ("virtual_consumers", _but("lease_s", "pending")),
    Preforwarding: ("preforwarding", _but("pending")),
    Replacements: ("replacements", _but("pending")),
}

OF_SCHEMES: Final = _but(
    *("me", "label", "setup", "options", "_pending", "report_every", "target_count", "moving_s")
)
OUR_SCHEMES: Final = (Durable, HomeBroker, Logging, PreHandoff, Prefetching, ProActive, Reactive, Standard)
WIRING: Final = (
    *(
        Topology,
        CoverIndex,
        Expiries,
        SchemeOptions,
        OwnSteps,
        Care,
        Expectation,
        Limits,
        Settings,
        MeaningHere,
        MeaningByScheme,
        Beside,
        Parts,
        Setup,
        Outputs,
        HiddenFilters,
        Advertised,
    ),
)
"""Classes of objects that settings or code make anew: snapshots never store them."""


FORMERLY: Final[dict[str, str | None]] = {
    "contexts.meaning": None,
    "contexts.index": "watched.index",
    "contexts._places": "watched._places",
    "contexts.nearly_full": "room.nearly_full",
    "contexts.crowded": "room.crowded",
    "contexts._matches": None,
    "contexts._matches_version": None,
    "groups._matches": None,
    "groups._matches_version": None,
    "contexts._nearly_full_bytes": None,
    "contexts.queue_bytes": None,
    "scheme.parts": None,
    "scheme._listeners": None,
    "hierarchy._routes_version": None,
    "machine._status_count": None,
    "outboxes._unused": None,
    "outboxes._left_out": "outboxes._skipped",
    "retained._expiring": None,
    # Live networks of the release that had these could not route by interest.
    "interest._asked_again": None,
    "interest._awaited": None,
    "interest._echoed": None,
    "interest._marker": None,
}
"""Attributes of parts that were renamed, moved or dropped: `part.attribute` in older snapshots -> the attribute's name
today, with the part in front if it has moved to another part; None: it means nothing any more."""


def forms_for(live: LiveBroker) -> Forms:
    """Returns the forms for one broker. A scheme of another package is stored as our schemes are: its attributes, those
    of its parts, and the dataclasses of its module, under the names of their classes."""
    parts = dict(PARTS)
    values = list(VALUES)
    for scheme in _schemes(live):
        parts[scheme.__class__] = ("scheme", OF_SCHEMES)
        for part in scheme.parts:
            if part.__class__ not in parts:
                parts[part.__class__] = (f"scheme.{part.__class__.__name__}", _but("me", "pending"))
        _add_values(scheme.__class__.__module__, values)
    return Forms(values, parts, TUPLES, ENUMS, WIRING, FORMERLY)


def _add_values(module: str, values: list[Form]) -> None:
    known = {form.kind for form in values}
    for kind in vars(sys.modules[module]).values():
        if not isinstance(kind, type) or kind.__module__ != module or kind in known:
            continue
        if is_dataclass(kind) and not issubclass(kind, Message | SchemeOptions):
            values.append(record_form(kind.__name__, kind))


def _schemes(live: LiveBroker) -> list[Any]:
    scheme: Any = live.machine.broker.scheme
    return list(scheme.schemes.values()) if isinstance(scheme, ByClass) else [scheme]


def all_parts(live: LiveBroker, forms: Forms) -> dict[str, Any]:
    """Returns the parts of a broker by name. If it has several schemes, their parts have the scheme's label in
    front."""
    found = parts_of(live, forms)
    scheme = live.machine.broker.scheme
    if isinstance(scheme, ByClass):
        shared = {id(part) for part in found.values()}
        for label, one in scheme.schemes.items():
            for name, part in parts_of(one, forms).items():
                if id(part) not in shared:
                    found[f"{label}:{name}"] = part
    return found
