"""The messages of a hand-over as they travel: in parts that hold nobody up, and addressed to whoever gets them."""

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
"""Where brokers work in slices, one message has no more stored events: reading them takes some three milliseconds."""


def messages_of(message: StoredEvents, contexts: Contexts) -> Iterator[StoredEvents]:
    """The message, or several that say the same: the first of them has what is not events."""
    *parts, last = in_parts(message.events, contexts)
    for part in parts:
        yield replace(message, events=part, last=False)
        message = replace(message, position={}, ahead=(), session=None)
    yield replace(message, events=last)


def stored_as(
    message: StoredEvents, to: BrokerId, contexts: Contexts, *, at_once: bool, is_whole: bool, head_sent: bool
) -> Iterator[StoredEvents]:
    """The messages that step 5 sends, and the record of it. `is_whole`: all events go in one message."""
    events, size = message.events, message.size_bytes
    if not at_once:
        yield from one_by_one(message)
        size = sum(event.size_bytes for event in events)
    if not at_once or events or not head_sent:
        record_transfer(contexts, message.client, to, len(events), size)
    if at_once:
        yield from (message,) if is_whole else messages_of(message, contexts)


def one_by_one(message: StoredEvents) -> Iterator[StoredEvents]:
    """[PRO] section 1: "Bi sends all the subscriber messages to Bj", one by one, and then a closing word."""
    for group in (*((event,) for event in message.events), ()):
        yield replace(message, events=group, last=not group)


def in_parts(events: tuple[Event, ...], contexts: Contexts) -> list[tuple[Event, ...]]:
    """The events as they go to another broker: one part, unless whoever is served there would wait for it."""
    size = PART_EVENTS if contexts.works_in_slices else len(events)
    return [events[at : at + size] for at in range(0, len(events), size)] if events else [()]


def addressed(claim: Claim, to: BrokerId, contexts: Contexts) -> Claim:
    """The claim as it goes to `to`: a broker that passes on its own release fences it for who gets it."""
    if isinstance(claim, Release) and claim.new_broker == contexts.me:
        return replace(claim, fence=contexts.router.fence(to))
    return claim


def take_head(
    leaving: Leaving, claim: Claim, contexts: Contexts, of_client: Iterable[Leaving]
) -> Iterator[StoredEvents]:
    """What is stored goes to Broker 2 at once; what is stored from now on follows in step 5 (docs/decisions/0145).

    Not where the world does not want it; nor if the context is for several brokers (`of_client` are all that go), or
    for this one, where nothing has to travel; nor if older events are to come to this broker still; nor if the client
    is a member of a group, which would be told that it is there while this broker still stores what it was assigned. An
    empty head goes as well: it says that the client may come in.
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
    """Nobody knows which events the broker had that was to send them on, nor whether there were any."""
    host, me = contexts.host, contexts.me
    why = BROKER_DEPARTED if contexts.router.is_departed(peer) else STORE_LOST
    for origin in origins:
        host.record(Record("missed", host.now(), me, client, origin, peer=peer, detail=why))


def record_late(host: Host, me: BrokerId, message: StoredEvents) -> None:
    """What comes after its client has moved on is lost, and the records say so."""
    for event in message.events:
        origin, sequence = event.id
        host.record(Record("dropped", host.now(), me, message.client, origin, sequence, detail="late"))
