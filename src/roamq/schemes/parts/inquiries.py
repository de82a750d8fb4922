"""Who has forgotten does not deny: a context that was asked for in vain is sought at every broker.

A broker that begins anew does not remember where the contexts went that were there, and one that is lost cannot say.
A claim that comes to such a broker is an old one: its sender had not heard yet that the client was elsewhere since. So
the claimer asks all brokers whether they have the context, or know where it went, and claims it there. Only when
nobody knows does the client begin with nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Epoch
from roamq.core.events import BrokerId
from roamq.core.messages import Message
from roamq.schemes.messages.handover import ContextRequest, Holding, NoContext, WhoHolds
from roamq.schemes.parts.whereabouts import Arriving, Whereabouts


@dataclass(slots=True, eq=False)
class Inquiry:
    """What the brokers have said about one context that is sought."""

    unheard: set[BrokerId]
    """Those that have not answered."""
    denied: set[BrokerId] = field(default_factory=set)
    """Those that were asked for the context itself, and do not have it."""
    named: list[BrokerId] = field(default_factory=list)
    """Where the context may be, and was not claimed yet."""
    newer: list[Epoch] = field(default_factory=list)
    """Later connections that contexts of the client went to."""


class Inquiries:
    """One broker's part in seeking contexts: it asks, and answers others."""

    def __init__(
        self,
        contexts: Contexts,
        mailbox: Mailbox,
        whereabouts: Whereabouts,
        retrieve: Callable[[Arriving, BrokerId], None],
    ) -> None:
        self.me = contexts.me
        self.router = contexts.router
        self.mailbox = mailbox
        self.whereabouts = whereabouts
        self.retrieve = retrieve
        mailbox.handle_returned(WhoHolds, self.on_question_returned)

    def handlers(self) -> dict[type[Message], Handler]:
        return {WhoHolds: self.on_who_holds, Holding: self.on_holding}

    def denied(self, arriving: Arriving, by: BrokerId) -> None:
        """`by` was asked for the context; it does not have it, and does not remember whether it had."""
        inquiry = arriving.inquiry
        arriving.asked = None
        if inquiry is None:
            others = {broker for broker in self.router.brokers() if broker not in (self.me, by)}
            inquiry = arriving.inquiry = Inquiry(unheard=others)
            question = WhoHolds(client=arriving.context.client, epoch=arriving.transfer)
            self._take(inquiry, self.answer(self.me, question))
            for broker in sorted(others):
                self.mailbox.send(broker, question)
        inquiry.denied.add(by)
        self._go_on(arriving)

    def on_who_holds(self, claimer: BrokerId, question: WhoHolds) -> None:
        self.mailbox.send(claimer, self.answer(claimer, question))

    def answer(self, claimer: BrokerId, question: WhoHolds) -> Holding:
        """What this broker would do with the claim: have it here, pass it on, or name a later connection."""
        claim = ContextRequest(client=question.client, epoch=question.epoch, new_broker=claimer)
        lead = self.whereabouts.lead(claim)
        at: BrokerId | None = None
        if self.whereabouts.claimed_by(claim) is not None or lead.awaited is not None:
            at = self.me
        elif lead.gone is not None:
            at = lead.gone.broker
        return Holding(client=question.client, epoch=question.epoch, at=at, newer=lead.newer)

    def on_holding(self, sender: BrokerId, answer: Holding) -> None:
        arriving = self.whereabouts.arriving.get((answer.client, answer.epoch))
        if arriving is not None and arriving.inquiry is not None:
            arriving.inquiry.unheard.discard(sender)
            self._take(arriving.inquiry, answer)
            self._go_on(arriving)

    def on_question_returned(self, to: BrokerId, question: WhoHolds) -> None:
        self.on_holding(to, Holding(client=question.client, epoch=question.epoch))

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker is gone for good: it will not answer."""
        for arriving in list(self.whereabouts.arriving.values()):
            if arriving.inquiry is not None and broker in arriving.inquiry.unheard:
                self.on_holding(broker, Holding(client=arriving.context.client, epoch=arriving.transfer))

    def _take(self, inquiry: Inquiry, answer: Holding) -> None:
        if answer.at is not None:
            inquiry.named.append(answer.at)
        if answer.newer is not None:
            inquiry.newer.append(answer.newer)

    def _go_on(self, arriving: Arriving) -> None:
        """Claim the context where it may be; if it can be nowhere, the client goes on without it."""
        inquiry = arriving.inquiry
        assert inquiry is not None
        if arriving.asked is not None:
            return  # a broker has been asked for the context, and answers
        while inquiry.named:
            at = inquiry.named.pop(0)
            if at not in inquiry.denied and not self.router.is_departed(at):
                self.retrieve(arriving, at)
                return
        if not inquiry.unheard:
            newer = min(inquiry.newer, default=None)
            nothing = NoContext(client=arriving.context.client, epoch=arriving.transfer, newer=newer)
            self.mailbox.receive(self.me, nothing)
