"""Prefetching: standard, but steps 2 to 5 take place when the client disconnects, towards the predicted broker.

Paper: [DIS] section 3.2.1; what a wrong prediction costs is in section 4.1.
Assumes: as standard, and a prediction (schemes.prediction): of one broker or of a set.
Departs: when the client comes to a broker that was not predicted, Broker 1 contacts the closest of the predicted
brokers, for the new broker does not know them (docs/decisions/0031). A predicted broker replays at once only to a
client whose ticket names the very context that was prefetched; otherwise it asks Broker 1 first, since a copy of an
earlier visit may still be waiting to be discarded.
"""

from dataclasses import dataclass, field, replace
from typing import Final

from roamq.core.choices import choose_from
from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.ports import TimerKey
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.beside import Beside
from roamq.schemes.messages.handover import ContextRequest
from roamq.schemes.messages.prefetching import Discard, Prefetch, Prefetched
from roamq.schemes.parts.own_steps import Leaving, OwnSteps, always
from roamq.schemes.parts.prediction import Foretold, Learned, Oracle, Predictor
from roamq.schemes.parts.transfers import addressed
from roamq.schemes.parts.whereabouts import Claim

PREDICTIONS: Final = ("perfect", "learned", "wrong")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchingOptions(SchemeOptions):
    """Parameters of prefetching."""

    prediction: str | None = None
    """perfect, learned or wrong; None: perfect where the world knows the future (the simulator), else learned."""
    targets: int = 1
    """The number of predicted brokers to which Broker 1 pushes the context."""

    def __post_init__(self) -> None:
        if self.prediction not in (None, *PREDICTIONS):
            hint = choose_from(self.prediction, PREDICTIONS)
            raise ConfigError(f"scheme.prediction: {self.prediction!r} is no choice{hint}")
        if self.targets < 1:
            raise ConfigError(f"scheme.targets: {self.targets} is too few; give 1 or more")


@dataclass(slots=True)
class Pushed:
    """At Broker 1: a context that was pushed, and the brokers to which it was pushed."""

    of: Epoch
    targets: tuple[BrokerId, ...]
    claims: list[Claim] = field(default_factory=list)
    """Claims of other brokers that came before one of the targets had answered."""


@dataclass(slots=True)
class PrefetchedContext:
    """At a predicted broker: a context that waits for its client."""

    context: Context
    pushed_by: BrokerId
    targets: tuple[BrokerId, ...]


class Prefetching(Scheme):
    """One broker's part of prefetching."""

    name = "prefetching"
    options_type = PrefetchingOptions
    messages = (Prefetch, Prefetched, Discard)
    stands_beside_others = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.beside = PrefetchingBeside(self)
        assert isinstance(setup.options, PrefetchingOptions)
        self.target_count = setup.options.targets
        self.predictor = _predictor(setup.options.prediction, setup.oracle)
        own = OwnSteps(
            claim=self.claim,
            hand_over=self.hand_over,
            forward=self.step_5_forward,
            completed=self.completed,
            overdue=self.overdue,
            sends_head=always,
        )
        self.handover = self.hand_over_by(setup, own, may_be_late=True)
        self.whereabouts = self.handover.whereabouts
        self.pushed: dict[ClientId, list[Pushed]] = {}
        self.prefetched: dict[tuple[ClientId, Epoch], PrefetchedContext] = {}
        self.discarded: set[tuple[ClientId, Epoch]] = set()
        """Contexts that another broker told this one to discard before they came: the new broker was faster than the
        old one."""
        self.mailbox.handle(Prefetch, self.on_prefetch)
        self.mailbox.handle(Prefetched, self.on_prefetched)
        self.mailbox.handle(Discard, self.on_discard)

    # --- at Broker 1: the client disconnects, steps 2 to 5 follow at once -----------------------------------

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        super().on_disconnect(client, reason)
        context = self.contexts.get(client)
        if context is not None and context not in self.whereabouts.incomplete and reason != "replaced":
            self.prefetch(context)

    def completed(self, context: Context) -> None:
        """A context is whole: if its client has left meanwhile, push the context now."""
        self.forget_pushes_before(context)
        self.handover.completed(context)
        if self.contexts.is_current(context) and context.mode is Mode.ACTIVE:
            self.prefetch(context)

    def prefetch(self, context: Context) -> None:
        """Push the context to the predicted brokers.

        The context stays if the client most likely comes back here, or the predictor has no idea. It also stays if it
        lacks late events: the broker to which the client comes requests it.
        """
        if context.late is not None:
            return
        predicted = self.predictor.predict(context.client, self.target_count)
        if not predicted or predicted[0] == self.me:
            return
        targets = tuple(target for target in predicted if target != self.me)
        self.pushed.setdefault(context.client, []).append(Pushed(context.epoch, targets))
        self.predictor.assumed(targets[0])
        for target in targets:
            leaving = self.handover.part_with(context, context.epoch, target)
            leaving.session_sent = True
            push = Prefetch(
                client=context.client,
                epoch=context.epoch,
                filters=tuple(context.filters),
                targets=targets,
                session=context.session,
            )
            self.mailbox.send(target, push)

    # --- at a predicted broker ----------------------------------------------------------------------------

    def on_prefetch(self, old_broker: BrokerId, push: Prefetch) -> None:
        """Steps 3 and 4, without the client: subscribe, release Broker 1, and store new events."""
        context = self.contexts.new(push.client, push.epoch, Mode.ACTIVE)
        if push.targets[0] == self.me:
            self.host.take_session(context, push.session)  # the copy at the first target owns the session
        else:
            context.session = push.session
        arriving = self.handover.expect(context, push.epoch)
        key = (push.client, push.epoch)
        self.prefetched[key] = PrefetchedContext(context, old_broker, push.targets)
        if self.options.timeout_s is not None:
            self.host.set_timer(_timer(key), self.options.timeout_s)
        self.handover.step_3_subscribe(arriving, push.filters)
        self.handover.step_3_release(arriving, old_broker)
        if key in self.discarded:
            self.discarded.remove(key)
            self.discard(key)

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        old_broker = self.whereabouts.last_broker(client, old_broker)
        waiting = self.prefetched.get((client, ticket.epoch)) if ticket and ticket.epoch else None
        if waiting is not None:
            self.step_6_predicted(waiting)
        elif old_broker == self.me and client not in self.contexts and self.pushed.get(client):
            self.handover.step_1_reconnected(client, self.me, carried)  # the client came back unexpectedly
        else:
            self.handover.on_connect(client, old_broker, carried)

    def step_6_predicted(self, waiting: PrefetchedContext) -> None:
        """ "That particular broker replays all stored events, and informs the other brokers to discard." """
        context = waiting.context
        if (earlier := self.contexts.get(context.client)) is not None:
            self.whereabouts.leave_behind(earlier)
        self.stop_waiting(context)
        self.whereabouts.remove(context)
        of, context.epoch = context.epoch, self.contexts.new_epoch(above=context.epoch)
        self.contexts.put(context)
        self.contexts.serve(context)
        for other in waiting.targets:
            if other != self.me:
                self.mailbox.send(other, Discard(client=context.client, epoch=of, new_broker=self.me))
        if len(waiting.targets) > 1:  # so that Broker 1 learns to which of them the client came
            self.mailbox.send(waiting.pushed_by, Discard(client=context.client, epoch=of, new_broker=self.me))
        if context not in self.whereabouts.incomplete:
            self.forget_pushes_before(context)

    def on_discard(self, sender: BrokerId, message: Discard) -> None:
        key = (message.client, message.epoch)
        if message.epoch.broker == self.me:
            for pushed in self.pushed.get(message.client, []):
                if pushed.of == message.epoch:
                    self.settled(message.client, pushed, message.new_broker)
                    for claim in pushed.claims:
                        self.lead_to(message.new_broker, pushed, claim)
                    break
        elif key in self.prefetched:
            self.discard(key)
        else:
            self.discarded.add(key)

    def discard(self, key: tuple[ClientId, Epoch]) -> None:
        """Forget a prefetched context: its client went elsewhere, or stayed away too long."""
        context = self.prefetched[key].context
        arriving = self.whereabouts.incomplete.get(context)
        self.handover.late.give_up(context, key[1], is_whole=arriving is None)
        if arriving is not None:
            self.whereabouts.expect_no_more(arriving)
        self.stop_waiting(context)
        self.whereabouts.remove(context)
        self.contexts.close(context, mobile=True)

    def stop_waiting(self, context: Context) -> None:
        """Note that the context does not wait for its client any more, if it did."""
        key = (context.client, context.epoch)
        if key in self.prefetched and self.prefetched[key].context is context:
            del self.prefetched[key]
            self.host.cancel_timer(_timer(key))

    def ended(self, client: ClientId, epoch: Epoch) -> None:
        for key in [key for key in self.prefetched if key[0] == client and key[1] <= epoch]:
            self.discard(key)
        self.discarded.difference_update(
            [key for key in self.discarded if key[0] == client and key[1] <= epoch]
        )
        self._forget_pushes(client, epoch)

    def on_leave(self, client: ClientId) -> None:
        """The client is gone for good: discard the contexts that wait for it here."""
        for key in [key for key in self.prefetched if key[0] == client]:
            self.discard(key)
        super().on_leave(client)

    # --- the client came where it was not expected ----------------------------------------------------------

    def claim(self, context: Context | None, claim: Claim) -> None:
        waiting = self.prefetched.get((claim.client, claim.of)) if claim.of is not None else None
        if waiting is not None:
            self.handover.standard_claim(waiting.context, claim)
            return
        # If no context waits any more, the client has been here since, and its later context may have been pushed on.
        pushed = self.last_push_before(claim)
        if pushed is not None and (context is None or context.epoch < pushed.of):
            self.pass_on(pushed, claim)
        else:
            self.predictor.observed(claim.new_broker, None)
            self.handover.standard_claim(context, claim)

    def last_push_before(self, claim: Claim) -> Pushed | None:
        earlier = (p for p in self.pushed.get(claim.client, ()) if p.of < claim.epoch)
        return max(earlier, key=lambda p: p.of, default=None)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.stop_waiting(context)
        self.handover.step_2_hand_over(context, claim)

    def pass_on(self, pushed: Pushed, claim: Claim) -> None:
        """ "The new broker can contact the closest broker from the set of prefetched brokers."

        If none of the predicted brokers has answered yet, it may be out of reach: the claim waits here for an answer,
        for a while.
        """
        holders = self.holders(claim.client, pushed)
        if claim.new_broker not in pushed.targets and not holders:
            pushed.claims.append(claim)
            self.handover.late.wait(claim.client)
            return
        self.settled(claim.client, pushed, claim.new_broker)
        self.whereabouts.remember(claim.client, claim.epoch)
        if claim.new_broker in pushed.targets:
            holder = claim.new_broker
            self.mailbox.send(holder, Prefetched(client=claim.client, epoch=claim.epoch, of=pushed.of))
        else:
            holder = min(holders, key=lambda t: (self.router.distance(claim.new_broker, t), t))
            self.lead_to(holder, pushed, claim)
        for target in pushed.targets:
            if target != holder:
                discard = Discard(client=claim.client, epoch=pushed.of, new_broker=claim.new_broker)
                self.mailbox.send(target, discard)
        self.claim_again(pushed.claims)  # claims that had to wait are led to where the context goes

    def lead_to(self, holder: BrokerId, pushed: Pushed, claim: Claim) -> None:
        self.mailbox.send(holder, addressed(replace(claim, of=pushed.of), holder, self.contexts))

    def holders(self, client: ClientId, pushed: Pushed) -> list[BrokerId]:
        """The brokers that may have the pushed context: all targets, or, if hand-overs do not wait for brokers that are
        out of reach, the targets that have answered."""
        if self.handover.late.after_s is None:
            return list(pushed.targets)
        leaving = self.handover.leaving.get(client, {})
        unsure = [to for (of, to), one in leaving.items() if of == pushed.of and one.release is None]
        return [target for target in pushed.targets if target not in unsure]

    def step_5_forward(self, leaving: Leaving) -> None:
        """Step 5, for a target that has answered: it gets the events, and claims of the context may go there."""
        self.handover.step_5_forward(leaving)
        assert leaving.release is not None
        client, of = leaving.context.client, leaving.release.epoch
        for pushed in [one for one in self.pushed.get(client, ()) if one.of == of and one.claims]:
            self.claim_again(pushed.claims)

    def claim_again(self, claims: list[Claim]) -> None:
        """Make these claims again: the earliest connection gets the context, and later ones are led to it."""
        waiting = sorted(claims, key=lambda claim: claim.epoch)
        claims.clear()
        for claim in waiting:
            self.handover.claim(self.whereabouts.claimed_by(claim), claim)

    def overdue(self, client: ClientId) -> None:
        """If no target of a push has answered, the context is still here: hand it to the first claimer."""
        for pushed in [one for one in self.pushed.get(client, ()) if one.claims]:
            if self.holders(client, pushed):
                self.claim_again(pushed.claims)
                continue
            first, *later = sorted(pushed.claims, key=lambda claim: claim.epoch)
            context = self.take_back(client, pushed, first)
            self.handover.step_2_hand_over(context, first)
            self.claim_again(later)

    def take_back(self, client: ClientId, pushed: Pushed, claim: Claim) -> Context:
        leaving = self.handover.leaving[client]
        mine = [leaving.pop((pushed.of, target)) for target in pushed.targets]
        if not leaving:
            del self.handover.leaving[client]
        self.settled(client, pushed, claim.new_broker)
        for target in pushed.targets:
            discard = Discard(client=client, epoch=pushed.of, new_broker=claim.new_broker)
            self.mailbox.send(target, discard)
        return mine[0].context

    def on_prefetched(self, old_broker: BrokerId, reply: Prefetched) -> None:
        """The context that waits here is the one that this broker claimed: it goes through the standard steps, from
        here to here."""
        request = ContextRequest(client=reply.client, epoch=reply.epoch, new_broker=self.me, of=reply.of)
        self.handover.on_context_request(self.me, request)

    def settled(self, client: ClientId, pushed: Pushed, went_to: BrokerId) -> None:
        self.predictor.observed(went_to, pushed.targets[0])
        self.pushed[client].remove(pushed)
        if not self.pushed[client]:
            del self.pushed[client]

    # --- bookkeeping --------------------------------------------------------------------------------------

    def forget_pushes_before(self, context: Context) -> None:
        """Forget the pushes before a context that is whole: it has collected all earlier ones, so no broker asks for
        them."""
        self._forget_pushes(context.client, context.epoch)

    def _forget_pushes(self, client: ClientId, epoch: Epoch) -> None:
        pushes = self.pushed.pop(client, ())
        if kept := [pushed for pushed in pushes if pushed.of > epoch]:
            self.pushed[client] = kept
        self.claim_again([claim for pushed in pushes if pushed.of <= epoch for claim in pushed.claims])

    def resumed(self) -> None:
        for client, pushes in self.pushed.items():
            if any(pushed.claims for pushed in pushes):
                self.handover.late.wait(client)

    def ring(self, key: TimerKey) -> bool:
        if key[0] != "copy":
            return False
        _, client, connected_at, broker = key
        pushed = (ClientId(client), Epoch(float(connected_at), BrokerId(broker)))
        waiting = self.prefetched.get(pushed)
        if waiting is not None and waiting.context not in self.whereabouts.waiting:
            self.contexts.drop_all(waiting.context, "timeout")
            self.discard(pushed)
        return True

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        return tuple(target for pushed in self.pushed.get(context.client, ()) for target in pushed.targets)

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        return self.predictor.predict(client, self.target_count)

    def held_itself(self) -> list[Context]:
        return [waiting.context for waiting in self.prefetched.values()]


class PrefetchingBeside(Beside):
    """Prefetching beside other schemes."""

    scheme: Prefetching

    def set_options(self, options: SchemeOptions) -> None:
        assert isinstance(self.scheme.options, PrefetchingOptions)
        assert isinstance(options, PrefetchingOptions)
        if options.prediction != self.scheme.options.prediction:
            self.scheme.predictor = _predictor(options.prediction, self.scheme.setup.oracle)
        self.scheme.target_count = options.targets
        super().set_options(options)

    def insists(self, client: ClientId, old_broker: BrokerId | None) -> bool:
        """Yes, if the client's context was pushed from here, and the client has come back."""
        return (
            old_broker == self.scheme.me
            and client not in self.scheme.contexts
            and bool(self.scheme.pushed.get(client))
        )

    def expects(self, client: ClientId, ticket: Ticket | None) -> bool:
        return (
            ticket is not None
            and ticket.epoch is not None
            and (client, ticket.epoch) in self.scheme.prefetched
        )

    def knows_of(self, context: Context | None, claim: Claim) -> Epoch | None:
        if claim.of is not None and (claim.client, claim.of) in self.scheme.prefetched:
            return claim.of
        pushed = self.scheme.last_push_before(claim)
        if pushed is None or (context is not None and context.epoch >= pushed.of):
            return None
        return pushed.of

    def withdraw(self, context: Context) -> None:
        self.scheme.forget_pushes_before(context)

    def adopt(self, context: Context) -> None:
        if context.mode is Mode.ACTIVE:
            self.scheme.prefetch(context)


def _timer(key: tuple[ClientId, Epoch]) -> TimerKey:
    client, epoch = key
    return ("copy", client, repr(epoch.connected_at), epoch.broker)


def _predictor(prediction: str | None, oracle: Oracle | None) -> Predictor:
    if prediction == "learned" or (prediction is None and oracle is None):
        return Learned()
    if oracle is None:
        raise ConfigError(
            f"scheme.prediction = {prediction!r} needs a world that knows the future, which is the simulator's; "
            "use 'learned' here"
        )
    return Foretold(oracle, right=prediction != "wrong")
