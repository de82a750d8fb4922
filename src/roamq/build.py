"""Assembles a broker: overlay, contexts, mailbox and scheme around a host. No other place does."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from roamq.broker.broker import Broker, learns_nothing
from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, Seconds
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.geo.here import MeaningHere
from roamq.geo.region import Region
from roamq.overlay.base import Router
from roamq.overlay.flooding import Flooding
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.interest import ByInterest
from roamq.overlay.topology import Topology
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.by_class import ByClass
from roamq.schemes.labels import label_of
from roamq.schemes.messages.classes import Classed
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.prediction import Oracle
from roamq.schemes.table import SchemeEntry, check_beside_others, scheme_named, speaker_of

OVERLAYS = ("flooding", "hierarchy", "interest")


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeChoice:
    """The scheme of one class of clients."""

    scheme: str
    options: SchemeOptions
    client_class: str = ""

    @property
    def label(self) -> str:
        return label_of(self.scheme, self.client_class)


Choices = Mapping[str, SchemeChoice]
"""Class of clients -> its scheme. The empty class is that of all other clients."""


def choices_of(
    scheme: str,
    options: Mapping[str, Any] | SchemeOptions,
    classes: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType({}),
) -> Choices:
    """The schemes of a network, with their options parsed; `classes`: class -> scheme and options."""
    named = {"": (scheme, options), **classes}
    return {
        client_class: SchemeChoice(
            scheme=name,
            options=given
            if isinstance(given, SchemeOptions)
            else scheme_named(name).options_type.parse(given),
            client_class=client_class,
        )
        for client_class, (name, given) in named.items()
    }


def check_choices(choices: Choices, field: str = "scheme") -> None:
    """Refuse schemes that cannot be at one broker together, before anything is changed."""
    if len({choice.label for choice in choices.values()}) > 1:
        for client_class, choice in choices.items():
            at = f"classes.{client_class}.scheme" if client_class else field
            check_beside_others(at, choice.scheme, choice.options)


def check_change(before: Choices, after: Choices, field: str = "scheme", *, of_options: bool = False) -> None:
    """Refuse a change from the schemes `before` to those `after` that a running network cannot make, before anything is
    changed.

    `of_options`: options of the schemes change, even if the schemes stay.
    """
    check_choices(after, field)
    before_labels, after_labels = ({choice.label for choice in one.values()} for one in (before, after))
    if of_options or before_labels != after_labels:
        for choice in (*before.values(), *after.values()):
            check_beside_others(field, choice.scheme, choice.options)


def build_router(
    me: BrokerId,
    host: Host,
    topology: Topology,
    overlay: str,
    *,
    covering: bool = False,
    advertisements: bool = False,
    confirms: bool = False,
    first_number: int = 0,
) -> Router:
    """The router of one broker. `covering` and `advertisements` are options of the hierarchy; with `confirms`, as in
    live networks, brokers tell each other what they know also where the papers' brokers do not."""
    if overlay == "flooding":
        return Flooding(me, host, topology, first_number=first_number, confirms=confirms)
    if overlay == "hierarchy":
        return Hierarchy(
            me,
            host,
            topology,
            covering=covering,
            advertisements=advertisements,
            confirms=confirms,
            first_number=first_number,
        )
    if overlay == "interest":
        return ByInterest(me, host, topology, first_number=first_number, confirms=confirms)
    raise ConfigError(f"network.overlay: {overlay!r} is no choice{choose_from(overlay, OVERLAYS)}")


def build_scheme(
    me: BrokerId,
    host: Host,
    router: Router,
    entry: SchemeEntry,
    options: SchemeOptions,
    *,
    oracle: Oracle | None = None,
    region: Region | None = None,
    late_after_s: Seconds | None = None,
) -> Scheme:
    """A scheme, with the contexts and the mailbox that it shares with its broker."""
    contexts = Contexts(
        me,
        host,
        router,
        buffer_bytes=options.buffer_bytes,
        queue_bytes=options.queue_bytes,
        timeout_s=options.timeout_s,
        meaning=MeaningHere(me) if entry.scheme.means_places else None,
        settles_at_once=not entry.scheme.counts_acknowledgements,
        late_after_s=late_after_s,
    )
    return entry.scheme(
        Setup(
            contexts=contexts,
            mailbox=Mailbox(me, router),
            options=options,
            carries_subscriptions=entry.carries_subscriptions,
            oracle=oracle,
            region=region,
        )
    )


def build_broker(
    me: BrokerId,
    host: Host,
    topology: Topology,
    *,
    scheme: str,
    options: Mapping[str, Any] | SchemeOptions | None = None,
    overlay: str = "flooding",
    covering: bool = False,
    advertisements: bool = False,
    oracle: Oracle | None = None,
    region: Region | None = None,
    confirms: bool = False,
    first_number: int = 0,
    late_after_s: Seconds | None = None,
    classes: Mapping[str, tuple[str, Mapping[str, Any]]] | None = None,
) -> Broker:
    """A broker of the network `topology` in the world `host`, with a scheme chosen by name.

    The broker counts events and markers on from `first_number`: a life that remembers no other must not use its numbers
    again, and does not know what its neighbours want (`Broker.doubt`). A hand-over does not wait longer than
    `late_after_s` seconds for a broker that is out of reach, if the scheme can go on without it. `classes`: the classes
    of clients that have another scheme than the rest, or other options.
    """
    entry = scheme_named(scheme)
    parsed = options if isinstance(options, SchemeOptions) else entry.options_type.parse(options or {})
    router = build_router(
        me,
        host,
        topology,
        overlay,
        covering=covering,
        advertisements=advertisements,
        confirms=confirms,
        first_number=first_number,
    )
    built = build_scheme(
        me, host, router, entry, parsed, oracle=oracle, region=region, late_after_s=late_after_s
    )
    broker = Broker(
        me,
        host,
        router,
        built.contexts,
        built.mailbox,
        built,
        first_number=first_number,
        learns=_learn if entry.scheme.stands_beside_others else learns_nothing,
    )
    if first_number:
        broker.doubt()
    if entry.scheme.stands_beside_others and classes:
        change_schemes(broker, choices_of(scheme, parsed, classes))
    return broker


def change_schemes(broker: Broker, choices: Choices) -> None:
    """Give the broker these schemes: its contexts go to them without loss, as they settle."""
    check_choices(choices)
    several_schemes(broker).set_schemes(choices)


def several_schemes(broker: Broker) -> ByClass:
    """The schemes of a broker; a broker that had a single scheme so far can have others beside it from now on."""
    if isinstance(broker.scheme, ByClass):
        return broker.scheme
    first = broker.scheme
    assert isinstance(first, Scheme)
    check_beside_others("scheme", first.name, first.options)
    handover = next(part for part in first.parts if isinstance(part, HandOver))
    schemes = ByClass(first, handover, partial(_beside, first.setup), speaker_of)
    broker.use(schemes)
    return schemes


def _beside(
    setup: Setup, label: str, mailbox: Mailbox, handover: HandOver, options: SchemeOptions | None
) -> Scheme:
    """A scheme beside others, by default with the default options: its configuration may come later."""
    entry = scheme_named(label.partition("/")[0])
    options = options or entry.options_type()
    check_beside_others("scheme", entry.name, options)
    return entry.scheme(
        replace(setup, mailbox=mailbox, options=options, handover=handover, carries_subscriptions=False)
    )


def _learn(broker: Broker, message: Message) -> bool:
    """Make the scheme whose message a neighbour sent, if this broker does not have it yet. Returns whether a scheme has
    it."""
    if not isinstance(message, Classed) and speaker_of(message.__class__) is None:
        return False
    schemes = several_schemes(broker)
    return isinstance(message, Classed) or schemes.knows(message)
