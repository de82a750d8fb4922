"""The one place that assembles a broker: overlay, contexts, mailbox and scheme around a host."""

from collections.abc import Mapping
from typing import Any

from roamq.broker.broker import Broker
from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, Seconds
from roamq.core.ports import Host
from roamq.geo.here import MeaningHere
from roamq.geo.region import Region
from roamq.overlay.base import Router
from roamq.overlay.flooding import Flooding
from roamq.overlay.hierarchy import Hierarchy
from roamq.overlay.interest import ByInterest
from roamq.overlay.topology import Topology
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.parts.prediction import Oracle
from roamq.schemes.table import SchemeEntry, scheme_named

OVERLAYS = ("flooding", "hierarchy", "interest")


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
    """The router of one broker. `covering`, `advertisements` and `confirms` are options of the hierarchy."""
    if overlay == "flooding":
        return Flooding(me, host, topology, first_number=first_number)
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
        return ByInterest(me, host, topology, first_number=first_number)
    raise ConfigError(f"network.overlay: {overlay!r} is none of {', '.join(OVERLAYS)}")


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
    """A scheme with the contexts and the mailbox that it shares with its broker."""
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
) -> Broker:
    """A broker of the network `topology` in the world `host`, with a scheme chosen by name.

    What it counts - events, markers - it counts on from `first_number`: a life that remembers no other must not use
    its numbers again. Such a life does not know what its neighbours want (`Broker.doubt`). A hand-over does not wait
    longer than `late_after_s` for a broker that is out of reach, if the scheme knows how to go on without.
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
    broker = Broker(me, host, router, built.contexts, built.mailbox, built, first_number=first_number)
    if first_number:
        broker.doubt()
    return broker
