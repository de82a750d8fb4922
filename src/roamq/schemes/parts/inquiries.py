"""Inquiries: a broker that asked for a context in vain asks all brokers where the context is.

A broker that lost its store does not remember where the contexts went that it had, and a lost broker cannot say. A
claim that comes to such a broker is an old one: the claimer had not heard yet that the client was elsewhere since. So
the claimer asks all brokers whether they have the context, or know where it went, and claims the context there. Only if
no broker knows does the client begin with nothing.

A broker that is down says nothing at all. It may have the context; or the client was elsewhere since, and the claimer
had not heard of it. So after a while the claimer asks all brokers; if one of them names a broker that has the context
of a later connection, the claimer claims that context, too. The first claim stands: if no broker names another one, the
context is with the silent broker, and the client waits for it. A context is at one broker at a time, so one claim is
answered with the context, and the other claim in vain.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.schemes.messages.handover import ContextRequest, Holding, NoContext, PartialSession, WhoHolds
from roamq.schemes.parts.transfers import record_missed
from roamq.schemes.parts.whereabouts import Arriving, Whereabouts

SILENT_TIMER: Final = "silent"
"""The timer of a client for whose context this broker has asked another one."""


@dataclass(slots=True, eq=False)
class Inquiry:
    """The brokers' answers about one context that this broker seeks."""

    unheard: set[BrokerId]
    """The brokers that have not answered."""
    denied: set[BrokerId] = field(default_factory=set)
    """The brokers that were asked for the context itself, and do not have it."""
    named: list[BrokerId] = field(default_factory=list)
    """Brokers that may have the context, and where this broker has not claimed it yet."""
    newer: list[Epoch] = field(default_factory=list)
    """Later connections to which contexts of the client went."""
    silent: set[BrokerId] = field(default_factory=set)
    """Brokers that were asked for the context itself before this broker asked all others, and had not answered."""
    since: Epoch | None = None
    """If some brokers are silent: the client's last connection at them. Older contexts elsewhere were left behind."""


class Inquiries:
    """One broker's inquiries: it asks the others about contexts, and answers them."""

    def __init__(
        self,
        contexts: Contexts,
        mailbox: Mailbox,
        whereabouts: Whereabouts,
        retrieve: Callable[[Arriving, BrokerId], None],
        *,
        is_used: bool,
    ) -> None:
        """`is_used`: whether this broker asks all others about a context for which it asked a silent broker, where
        contexts may be late."""
        self.me = contexts.me
        self.host = contexts.host
        self.contexts = contexts
        self.is_used = is_used
        self.router = contexts.router
        self.mailbox = mailbox
        self.whereabouts = whereabouts
        self.retrieve = retrieve
        mailbox.handle_returned(WhoHolds, self.on_question_returned)

    def handlers(self) -> dict[type[Message], Handler]:
        return {
            WhoHolds: self.on_who_holds,
            Holding: self.on_holding,
            PartialSession: self.on_partial_session,
        }

    # --- claims, and what comes of them ---------------------------------------------------------------------

    def watch(self, arriving: Arriving, asked: BrokerId) -> None:
        """This broker has asked `asked` for the context: note that, and set the timer that ends the wait for a silent
        broker."""
        arriving.claims.add(asked)
        if self.contexts.comes is not None and arriving.last is None:
            client, last = self.contexts.comes
            if client == arriving.context.client and last.broker == asked:
                arriving.last = last
        if self.is_used and self.contexts.late_after_s and arriving.inquiry is None:
            self.host.set_timer((SILENT_TIMER, arriving.context.client), self.contexts.late_after_s)

    def answered(self, arriving: Arriving, by: BrokerId) -> None:
        """The broker `by` has the context, and gives it."""
        arriving.answered, arriving.answered_by = True, by
        if self.is_used and self.contexts.late_after_s:
            self.host.cancel_timer((SILENT_TIMER, arriving.context.client))

    def is_idle(self, arriving: Arriving, by: BrokerId, reply: NoContext) -> bool:
        """The broker `by` does not have the context. Is this of no importance, because another broker has it?"""
        claims = arriving.claims
        if reply.is_given and arriving.answered:
            claims.discard(by)
            return True  # the context is here; otherwise it went to an earlier wait under the same mark
        has_begun = arriving.answered and by == arriving.answered_by and reply.newer is None
        if has_begun and self.is_used and self.contexts.late_after_s is not None:
            record_missed(self.contexts, reply.client, by, (None,))
        if by in claims:
            claims.remove(by)
        elif claims and not self.router.is_departed(by):
            claims.remove(min(claims))  # one of them was passed on to `by`
        return arriving.answered_by not in (None, by)

    def others_may_have(self, arriving: Arriving, reply: NoContext) -> bool:
        """Whether this broker claimed the context at other brokers as well, and they have not answered.

        A later connection that waits for the context itself does not prove that the other brokers do not have it.
        """
        is_unknown = reply.newer is None or reply.awaits
        return is_unknown and not arriving.answered and bool(arriving.claims)

    def newer(self, arriving: Arriving) -> Epoch | None:
        """The earliest of the later connections that were named by brokers without the context."""
        named = () if arriving.inquiry is None else arriving.inquiry.newer
        return min((epoch for epoch in named if not self.is_own(epoch)), default=None)

    def is_own(self, newer: Epoch) -> bool:
        """Whether a later connection is one at this broker: other brokers know only that this broker waits for the
        context."""
        return self.is_used and self.contexts.late_after_s is not None and newer.broker == self.me

    def on_partial_session(self, sender: BrokerId, message: PartialSession) -> None:
        """Another broker began a session because the context did not come there: join it with the session of the
        context here, or pass it on to the broker that has the context."""
        held = self.whereabouts.held_for(message.client)
        gone = self.whereabouts.gone_to.get(message.client)
        if held:
            self.host.join_session(max(held, key=lambda context: context.epoch), message.session)
        elif gone is not None and gone > message.epoch and gone.broker != self.me:
            self.mailbox.send(gone.broker, replace(message, epoch=gone))

    def on_timer(self, key: TimerKey) -> bool:
        if key[0] != SILENT_TIMER:
            return False
        account = self.whereabouts
        for context in account.held_for(ClientId(key[1])):
            arriving = account.incomplete.get(context)
            if arriving is not None and self._is_waiting(arriving):
                self._ask_all(arriving, set(), set(arriving.claims), arriving.last)
                self._go_on(arriving)
        return True

    def _is_waiting(self, arriving: Arriving) -> bool:
        is_asked = bool(arriving.claims) and arriving.inquiry is None
        return is_asked and not arriving.answered and arriving.last is not None

    def on_restart(self) -> None:
        for arriving in self.whereabouts.arriving.values():
            if self._is_waiting(arriving):
                self.watch(arriving, min(arriving.claims))

    def denied(self, arriving: Arriving, by: BrokerId, newer: Epoch | None = None) -> None:
        """The broker `by` does not have the context, and is not the only one that was asked, or does not remember
        whether it had it. It may know of a later connection `newer`, to which the client goes if no broker has the
        context."""
        arriving.answered, arriving.answered_by = False, None  # if `by` had it, its store is lost
        inquiry = arriving.inquiry or self._ask_all(arriving, {by}, set())
        inquiry.unheard.discard(by)
        if not arriving.claims:
            inquiry.unheard -= inquiry.silent  # the silent brokers have passed the claim on
        inquiry.denied.add(by)
        if newer is not None:
            inquiry.newer.append(newer)
        self._go_on(arriving)

    def _ask_all(
        self, arriving: Arriving, but: set[BrokerId], silent: set[BrokerId], since: Epoch | None = None
    ) -> Inquiry:
        """Ask all other brokers who has the context, except the `silent` ones: those were asked for the context
        itself."""
        others = {broker for broker in self.router.brokers() if broker != self.me and broker not in but}
        inquiry = arriving.inquiry = Inquiry(unheard=others, silent=silent, since=since)
        question = WhoHolds(client=arriving.context.client, epoch=arriving.transfer)
        self._take(inquiry, self.answer(self.me, question))
        for broker in sorted(others - silent):
            self.mailbox.send(broker, question)
        return inquiry

    # --- what brokers know ------------------------------------------------------------------------------------

    def on_who_holds(self, claimer: BrokerId, question: WhoHolds) -> None:
        self.mailbox.send(claimer, self.answer(claimer, question))

    def answer(self, claimer: BrokerId, question: WhoHolds) -> Holding:
        """Say what this broker would do with the claim: it has the context, passes the claim on, or names a later
        connection."""
        claim = ContextRequest(client=question.client, epoch=question.epoch, new_broker=claimer)
        lead = self.whereabouts.lead(claim)
        at: BrokerId | None = None
        of: Epoch | None = None
        if (context := self.whereabouts.claimed_by(claim)) is not None:
            at, of = self.me, context.epoch
        elif lead.awaited is not None:
            at, of = self.me, self.whereabouts.incomplete[lead.awaited].transfer
        elif lead.gone is not None:
            at, of = lead.gone.broker, lead.gone
        return Holding(client=question.client, epoch=question.epoch, at=at, newer=lead.newer, of=of)

    def on_holding(self, sender: BrokerId, answer: Holding) -> None:
        arriving = self.whereabouts.arriving.get((answer.client, answer.epoch))
        if arriving is not None and arriving.inquiry is not None:
            arriving.inquiry.unheard.discard(sender)
            self._take(arriving.inquiry, answer)
            self._go_on(arriving)

    def on_question_returned(self, to: BrokerId, question: WhoHolds) -> None:
        self.on_holding(to, Holding(client=question.client, epoch=question.epoch))

    def broker_departed(self, broker: BrokerId) -> None:
        """A broker is gone for good: count it as one that knows nothing of any context."""
        for arriving in list(self.whereabouts.arriving.values()):
            if arriving.inquiry is not None and broker in arriving.inquiry.unheard:
                self.on_holding(broker, Holding(client=arriving.context.client, epoch=arriving.transfer))

    def _take(self, inquiry: Inquiry, answer: Holding) -> None:
        is_later = inquiry.since is None or (answer.of is not None and answer.of > inquiry.since)
        if answer.at is not None and is_later:
            inquiry.named.append(answer.at)
        if answer.newer is not None:
            inquiry.newer.append(answer.newer)

    def _go_on(self, arriving: Arriving) -> None:
        """Claim the context from the next broker that may have it; if no broker can have it, the client goes on without
        it."""
        inquiry = arriving.inquiry
        assert inquiry is not None
        if arriving.claims - inquiry.silent or arriving.answered:
            return  # a broker has been asked for the context, and answers
        while inquiry.named:
            at = inquiry.named.pop(0)
            if at not in inquiry.denied and at not in arriving.claims and not self.router.is_departed(at):
                self.retrieve(arriving, at)
                return
        if not inquiry.unheard and not arriving.claims:
            newer, client = self.newer(arriving), arriving.context.client
            nothing = NoContext(client=client, epoch=arriving.transfer, newer=newer, awaits=newer is not None)
            self.mailbox.receive(self.me, nothing)
