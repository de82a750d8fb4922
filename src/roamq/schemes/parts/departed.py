"""Brokers that are gone for good: how hand-overs with such a broker end.

A broker that has *left* has answered or passed on every claim, and has told where its contexts went. A broker that is
*lost* answers nothing: the claimers seek elsewhere the contexts that they claimed there, and nobody gets the contexts
that it claimed itself.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message
from roamq.core.records import Record
from roamq.schemes.messages.handover import ContextRequest, NoContext, Release, StoredEvents
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.own_steps import Leaving
from roamq.schemes.parts.part import Departure, Part

if TYPE_CHECKING:
    from roamq.schemes.proactive import ProActive

DEPARTED: Final = "broker_departed"
"""The recorded reason for dropping an event whose client was at a broker that is gone for good."""


class DepartedBrokers(Part):
    """Ends or redirects hand-overs with brokers that departed."""

    def __init__(self, handover: HandOver, *more_claims: type[Message]) -> None:
        """`more_claims`: other types of messages that `NoContext` answers."""
        self.handover = handover
        self.past: dict[BrokerId, dict[ClientId, Epoch]] = {}
        """Departed broker -> the connections to which contexts went from there: for claims that came too late to reach
        it."""
        for claim in (ContextRequest, Release, *more_claims):
            handover.mailbox.handle_returned(claim, self.on_claim_returned)
        handover.mailbox.handle_returned(StoredEvents, self.on_events_returned)

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        handover = self.handover
        self.past[broker] = dict(departure.went)
        handover.whereabouts.lead_past(broker, departure.went)
        handover.inquiries.broker_departed(broker)
        if not departure.is_lost:
            return
        for arriving in list(handover.whereabouts.arriving.values()):
            if broker == arriving.asked or (arriving.asked and broker in arriving.claims):
                nothing = NoContext(client=arriving.context.client, epoch=arriving.transfer, forgot=True)
                handover.mailbox.receive(broker, nothing)
        pending = cast("list[Leaving]", handover.pending)
        for client, leavings in list(handover.leaving.items()):
            for key in [key for key in leavings if key[1] == broker]:
                leaving = leavings.pop(key)
                if leaving in pending:
                    pending.remove(leaving)
                if not any(other.context is leaving.context for other in leavings.values()):
                    handover.contexts.drop_all(leaving.context, DEPARTED)
                    handover.close(leaving.context, mobile=True)
            if not leavings:
                del handover.leaving[client]

    def went(self) -> Mapping[ClientId, Epoch]:
        return self.handover.whereabouts.gone_to

    def on_claim_returned(self, to: BrokerId, claim: Any) -> None:
        """The claim did not reach a broker that is gone for good: send the claim after the context, seek it, or do
        without it."""
        handover = self.handover
        gone = self.past.get(to, {}).get(claim.client)
        claimer = getattr(claim, "new_broker", handover.me)
        if gone is not None and gone > claim.epoch:
            newer = NoContext(
                client=claim.client, epoch=claim.epoch, newer=gone, awaits=True
            )  # as the departed broker had heard
            handover.mailbox.send(claimer, newer)
        elif gone is not None and isinstance(claim, ContextRequest) and gone.broker not in (to, claimer):
            handover.mailbox.send(gone.broker, replace(claim, after=gone))
        elif claimer != handover.me:
            handover.redirect(claim)
        else:
            handover.mailbox.receive(to, NoContext(client=claim.client, epoch=claim.epoch, forgot=True))

    def on_events_returned(self, to: BrokerId, message: StoredEvents) -> None:
        """The broker that was to get these events is gone, and so is the session: record that the events are
        dropped."""
        host, me = self.handover.host, self.handover.me
        for event in message.events:
            origin, sequence = event.id
            host.record(Record("dropped", host.now(), me, message.client, origin, sequence, detail=DEPARTED))


class LostCopies(Part):
    """Ends the wait of copies in service, and of contexts that still forward events, for a broker that is lost."""

    def __init__(self, scheme: "ProActive") -> None:
        self.scheme = scheme

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        scheme = self.scheme
        if not departure.is_lost:
            return
        for taken in [taken for taken in scheme.taken.values() if taken.taken.broker == broker]:
            scheme.on_no_context(broker, NoContext(client=taken.context.client, epoch=taken.transfer))
        for context in [c for c, claim in scheme.successors.items() if claim.new_broker == broker]:
            scheme.sent.stop(context)
            scheme.all_forwarded(context)
