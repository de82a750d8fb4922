"""Whose is a context? For clients that move faster than their contexts, and than the news of where they are.

A new broker claims a context from the broker before; claims may wait for a context that is itself on its way, are
pointed on to where it went, or are told that a later connection of the client has it (docs/decisions/0007).
"""

from dataclasses import dataclass, field, replace

from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest, Message, NoContext, Release, SessionLeft
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import Scheme, SchemeOptions

REMEMBERED_MAX = 100_000
"""How many clients' whereabouts a broker remembers after they left."""

Claim = ContextRequest | Release
"""What a new broker claims a context with: a request, or a release at once if it has the subscriptions."""


@dataclass(slots=True)
class Arriving:
    """A context on its way here: opened at connect, complete with the last stored event."""

    context: Context
    transfer: Epoch
    """What its messages are marked with: the epoch of the connection that asked for the context."""
    released: bool = False
    """Whether Broker 1 was told that it may unsubscribe."""
    unsubscribed: set[Filter] = field(default_factory=set)
    """What the client unsubscribed before we knew that it had subscribed."""
    leaves: bool = False
    """Whether the client has gone for good before its context came."""


class Claims(Scheme):
    """Keeps account of contexts that are awaited, were left behind, or went elsewhere, and answers claims to them."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.arriving: dict[tuple[ClientId, Epoch], Arriving] = {}
        self.incomplete: dict[Context, Arriving] = {}
        """The same, by context."""
        self.left_behind: dict[ClientId, list[Context]] = {}
        """Contexts whose client has been elsewhere since: the broker it went to will ask for them."""
        self.waiting: dict[Context, list[Claim]] = {}
        """Claims to contexts that are themselves still arriving."""
        self.gone_to: dict[ClientId, Epoch] = {}
        """Where contexts went that were here: for claims of clients that outran the news."""
        self.handle(NoContext, self.on_no_context)
        self.handle(SessionLeft, self.on_session_left)

    # --- what a scheme does about it ------------------------------------------------------------------------

    def step_2_retrieve(
        self, arriving: Arriving, old_broker: BrokerId, carried: tuple[Filter, ...] = ()
    ) -> None:
        """Claim the context from `old_broker`."""
        raise NotImplementedError

    def hand_over(self, context: Context, claim: Claim) -> None:
        """The context is the claimer's now."""
        raise NotImplementedError

    def step_6_replay(self, arriving: Arriving) -> None:
        """Nothing more will come for this context."""
        raise NotImplementedError

    # --- contexts that are awaited, held, and left behind ---------------------------------------------------

    def expect(self, context: Context, transfer: Epoch) -> Arriving:
        """Stored events for `context` are on their way, marked `transfer`."""
        context.open_local_queue()
        arriving = Arriving(context, transfer)
        self.arriving[context.client, transfer] = self.incomplete[context] = arriving
        return arriving

    def expect_no_more(self, arriving: Arriving) -> None:
        del self.arriving[arriving.context.client, arriving.transfer]
        del self.incomplete[arriving.context]

    def held_for(self, client: ClientId) -> list[Context]:
        """The client's contexts that are this broker's: those it left behind, and its current one."""
        held = list(self.left_behind.get(client, ()))
        if (current := self.contexts.get(client)) is not None:
            held.append(current)
        return held

    def leave_behind(self, context: Context) -> None:
        """The client was elsewhere since it left us: that broker's request for this context is on its way."""
        if context.mode is Mode.SERVING:
            self.pause(context)
        self.left_behind.setdefault(context.client, []).append(context)
        self.forget(context)

    def take_off(self, context: Context) -> None:
        """The context is neither the client's current one here nor left behind any more."""
        left = self.left_behind.get(context.client, [])
        if context in left:
            left.remove(context)
            if not left:
                del self.left_behind[context.client]
        self.forget(context)

    def completed(self, context: Context) -> None:
        """The context is whole; whoever waits for it may have it."""
        # The earliest connection after this one comes first, and later ones are pointed on to it; a claim older
        # than the context is of a connection that the client gave up to come back here.
        for claim in sorted(self.waiting.pop(context, []), key=lambda claim: claim.epoch):
            is_held = self.contexts.get(context.client) is context or context in self.left_behind.get(
                context.client, ()
            )
            self.claim(context if is_held and context.epoch < claim.epoch else None, claim)

    # --- claims ---------------------------------------------------------------------------------------------

    def claim(self, context: Context | None, claim: Claim) -> None:
        if context is None:
            self.point_onward(claim)
        elif context in self.incomplete:
            # The client was faster than its context: hand on when it is whole.
            self.waiting.setdefault(context, []).append(claim)
        else:
            self.hand_over(context, claim)

    def claimed_by(self, claim: Claim) -> Context | None:
        """The newest context here that is older than the claimer's connection."""
        candidates = [c for c in self.held_for(claim.client) if c.epoch < claim.epoch]
        return max(candidates, key=lambda c: c.epoch, default=None)

    def point_onward(self, claim: Claim) -> None:
        """The client's old broker was not the last one: pass the claim on to where the context went.

        Each step leads to a later connection, and none later than the claim's, so it ends. A later context that is
        whole here has come back from wherever an earlier one went: that trail is cold. One that is still awaited
        may have been asked for before the claimer's connection; then what comes is what the claim is looking for.
        """
        later = [context for context in self.held_for(claim.client) if context.epoch > claim.epoch]
        whole = [context.epoch for context in later if context not in self.incomplete]
        gone = self.gone_to.get(claim.client)
        if gone is not None and not whole and self.leads_on(gone, claim):
            self.tell(gone.broker, replace(claim, after=gone))
            return
        newer = whole if gone is None or gone <= claim.epoch else [*whole, gone]
        if not newer:
            for context in later:
                if self.incomplete[context].transfer < claim.epoch:
                    self.waiting.setdefault(context, []).append(claim)
                    return
            newer = [context.epoch for context in later]
        reply = NoContext(client=claim.client, epoch=claim.epoch, newer=min(newer, default=None))
        self.tell(claim.new_broker, reply)

    def leads_on(self, gone: Epoch, claim: Claim) -> bool:
        """Is a later connection than the claim has asked at, elsewhere, and not later than its own?"""
        return gone.broker != self.me and gone < claim.epoch and (claim.after is None or gone > claim.after)

    def remember_where(self, client: ClientId, epoch: Epoch) -> None:
        known = self.gone_to.pop(client, None)
        self.gone_to[client] = epoch if known is None else max(known, epoch)
        if len(self.gone_to) > REMEMBERED_MAX:
            del self.gone_to[next(iter(self.gone_to))]  # the one heard of least recently

    def went_to(self, client: ClientId) -> BrokerId | None:
        gone = self.gone_to.get(client)
        return None if gone is None or client in self.contexts or gone.broker == self.me else gone.broker

    # --- the answers ----------------------------------------------------------------------------------------

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        """Broker 1 knows nothing of the client (it gave the context up): begin anew with what we have."""
        arriving = self.arriving.get((reply.client, reply.epoch))
        if arriving is None:
            return
        if reply.newer is None:
            self.step_6_replay(arriving)
        elif reply.newer > arriving.context.epoch:
            self.step_aside(arriving, reply.newer)
        else:
            self.ask_again(arriving, reply.newer)

    def ask_again(self, arriving: Arriving, newer: Epoch) -> None:
        """The claim was older than who has the context, but the client has come back here since: claim it anew.

        Claims of connections in between would wait for us while we wait for them: they are pointed on.
        """
        context = arriving.context
        del self.arriving[context.client, arriving.transfer]
        arriving.transfer = context.epoch
        self.arriving[context.client, arriving.transfer] = arriving
        self.remember_where(context.client, newer)
        self.step_2_retrieve(arriving, newer.broker)
        claims = self.waiting.pop(context, [])
        if after := [claim for claim in claims if claim.epoch > context.epoch]:
            self.waiting[context] = after
        for claim in claims:
            if claim.epoch < context.epoch:
                self.point_onward(claim)

    def step_aside(self, arriving: Arriving, newer: Epoch) -> None:
        """The client has connected elsewhere since, and its context is there: nothing is kept here."""
        context = arriving.context
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
        if context.session is not None:
            self.tell(newer.broker, SessionLeft(client=context.client, epoch=newer, session=context.session))
        self.expect_no_more(arriving)
        claims = self.waiting.pop(context, [])
        self.take_off(context)
        self.close(context)
        self.remember_where(context.client, newer)
        for claim in claims:
            self.point_onward(claim)

    def on_session_left(self, sender: BrokerId, message: SessionLeft) -> None:
        held = self.held_for(message.client)
        gone = self.gone_to.get(message.client)
        if held:
            self.host.join_session(max(held, key=lambda context: context.epoch), message.session)
        elif gone is not None and gone > message.epoch and gone.broker != self.me:
            self.router.unicast(gone.broker, replace(message, epoch=gone))

    # --- bookkeeping ----------------------------------------------------------------------------------------

    def tell(self, broker: BrokerId, message: Message) -> None:
        """To another broker, or to ourselves: a context that is here already takes the same steps without links."""
        if broker == self.me:
            self.on_message(self.me, message)
        else:
            self.router.unicast(broker, message)

    def held_contexts(self) -> list[Context]:
        left = [context for contexts in self.left_behind.values() for context in contexts]
        return [*super().held_contexts(), *left]
