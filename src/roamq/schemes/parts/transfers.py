"""The messages of a hand-over as they travel: in parts that hold no client up, and addressed to the broker that gets
them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from roamq.broker.contexts import Contexts
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.schemes.messages.handover import Release, StoredEvents
from roamq.schemes.parts.own_steps import Leaving
from roamq.schemes.parts.whereabouts import Claim

BROKER_DEPARTED: Final = "broker_departed"
STORE_LOST: Final = "store_lost"
PART_EVENTS = 500
"""The most stored events in one message, where brokers work in slices: reading them takes some three milliseconds."""


def messages_of(message: StoredEvents, contexts: Contexts) -> Iterator[StoredEvents]:
    """The message, or several parts of it: the first part has the position and the session."""
    *parts, last = in_parts(message.events, contexts)
    for part in parts:
        yield replace(message, events=part, last=False)
        message = replace(message, position={}, ahead=(), session=None)
    yield replace(message, events=last)


def stored_as(
    message: StoredEvents, to: BrokerId, contexts: Contexts, *, at_once: bool, is_whole: bool, head_sent: bool
) -> Iterator[StoredEvents]:
    """The messages that step 5 sends; also records the transfer. `is_whole`: all events go in one message."""
    events, size = message.events, message.size_bytes
    if not at_once:
        yield from one_by_one(message)
        size = sum(event.size_bytes for event in events)
    if not at_once or events or not head_sent:
        record_transfer(contexts, message.client, to, len(events), size)
    if at_once:
        yield from (message,) if is_whole else messages_of(message, contexts)


def one_by_one(message: StoredEvents) -> Iterator[StoredEvents]:
    """[PRO] section 1: "Bi sends all the subscriber messages to Bj": one message per event, and then an empty last
    one."""
    for group in (*((event,) for event in message.events), ()):
        yield replace(message, events=group, last=not group)


def in_parts(events: tuple[Event, ...], contexts: Contexts) -> list[tuple[Event, ...]]:
    """The events as they go to another broker: in one part, unless other clients of that broker would have to wait for
    it."""
    size = PART_EVENTS if contexts.works_in_slices else len(events)
    return [events[at : at + size] for at in range(0, len(events), size)] if events else [()]


def addressed(claim: Claim, to: BrokerId, contexts: Contexts) -> Claim:
    """The claim as it goes to `to`: if this broker sends on its own release, it makes the fence anew for `to`."""
    if isinstance(claim, Release) and claim.new_broker == contexts.me:
        return replace(claim, fence=contexts.router.fence(to))
    return claim


def take_head(
    leaving: Leaving, claim: Claim, contexts: Contexts, of_client: Iterable[Leaving]
) -> Iterator[StoredEvents]:
    """Send the stored events to Broker 2 at once, as the head; events stored later follow in step 5
    (docs/decisions/0145).

    There is no head if the host does not want heads; if the context is for several brokers (`of_client` are all
    contexts of the client that go), or for this one, where nothing has to travel; if older events are still to come to
    this broker; or if the client is a member of a shared group: the group would hear that it is at Broker 2 while this
    broker still stores the events assigned to it. An empty head goes as well: it says that Broker 2 may deliver to the
    client.
    """
    context = leaving.context
    if not contexts.sends_heads or context.late is not None or claim.new_broker == contexts.me:
        return iter(())
    if sum(other.context is context for other in of_client) > 1:
        return iter(())
    if any(filter.group is not None for filter in context.filters):
        return iter(())
    head = StoredEvents(
        client=context.client,
        epoch=claim.epoch,
        events=tuple(context.events()),
        position=dict(context.position),
        ahead=context.ahead_rows,
        last=False,
    )
    leaving.head_sent = True
    record_transfer(contexts, context.client, claim.new_broker, len(head.events), head.size_bytes)
    contexts.discards.empty(context)
    return messages_of(head, contexts)


def record_transfer(contexts: Contexts, client: ClientId, to: BrokerId, count: int, size: int) -> None:
    host, me = contexts.host, contexts.me
    host.record(Record("transferred", host.now(), me, client, peer=to, count=count, bytes=size))


def record_missed(
    contexts: Contexts, client: ClientId, peer: BrokerId, origins: Iterable[BrokerId | None]
) -> None:
    """Record that events may be missing: the broker that was to send them does not have them, and nobody knows their
    number."""
    host, me = contexts.host, contexts.me
    why = BROKER_DEPARTED if contexts.router.is_departed(peer) else STORE_LOST
    for origin in origins:
        host.record(Record("missed", host.now(), me, client, origin, peer=peer, detail=why))


def record_late(host: Host, me: BrokerId, message: StoredEvents) -> None:
    """Record the events as dropped: they came after their client had moved on, and are lost."""
    for event in message.events:
        origin, sequence = event.id
        host.record(Record("dropped", host.now(), me, message.client, origin, sequence, detail="late"))
