"""Prefetching: standard, but steps 2 to 5 take place when the client disconnects, towards where it is expected.

Paper: [DIS] section 3.2.1; what a wrong prediction costs is in section 4.1.
Assumes: as standard, and a prediction (schemes.prediction): of one broker or of a set.
Departs: when the client comes to a broker that was not predicted, it is Broker 1 that contacts the closest of the
predicted ones, for the new broker does not know them (docs/decisions/0031). A predicted broker replays at once only
to a client whose ticket names the very context that was prefetched; otherwise it asks Broker 1 first, since a copy
of an earlier visit may still be waiting to be discarded.
"""

from dataclasses import dataclass, replace

from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest, Discard, Prefetch, Prefetched
from roamq.core.ports import Host, TimerKey
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Claim
from roamq.schemes.prediction import Foretold, Learned, Oracle, Predictor
from roamq.schemes.standard import Standard


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefetchingOptions(SchemeOptions):
    """Parameters of prefetching."""

    prediction: str | None = None
    """perfect, learned or wrong; None: perfect where the world knows the future (the simulator), else learned."""
    targets: int = 1
    """To how many predicted brokers the context is pushed."""

    def __post_init__(self) -> None:
        if self.prediction not in (None, "perfect", "learned", "wrong"):
            raise ConfigError(f"scheme.prediction: {self.prediction!r}; choose perfect, learned or wrong")
        if self.targets < 1:
            raise ConfigError(f"scheme.targets: {self.targets} is too few; give 1 or more")


@dataclass(slots=True)
class Pushed:
    """At Broker 1: a context that was pushed, and where to."""

    of: Epoch
    targets: tuple[BrokerId, ...]


@dataclass(slots=True)
class Copy:
    """At a predicted broker: a context that waits for its client."""

    context: Context
    pushed_by: BrokerId
    targets: tuple[BrokerId, ...]


@register
class Prefetching(Standard):
    """One broker's part of prefetching."""

    name = "prefetching"
    options_type = PrefetchingOptions

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        router: Router,
        options: SchemeOptions | None = None,
        oracle: Oracle | None = None,
    ) -> None:
        super().__init__(me, host, router, options)
        assert isinstance(self.options, PrefetchingOptions)
        self.target_count = self.options.targets
        self.predictor = _predictor(self.options.prediction, oracle)
        self.ticket: Ticket | None = None
        """Of the client that is connecting just now."""
        self.pushed: dict[ClientId, list[Pushed]] = {}
        self.copies: dict[tuple[ClientId, Epoch], Copy] = {}
        self.discarded: set[tuple[ClientId, Epoch]] = set()
        """Copies that were to be discarded before they came: the new broker was faster than the old one."""
        self.handle(Prefetch, self.on_prefetch)
        self.handle(Prefetched, self.on_prefetched)
        self.handle(Discard, self.on_discard)

    # --- at Broker 1: the client disconnects, steps 2 to 5 follow at once -----------------------------------

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        super().on_disconnect(client, reason)
        context = self.contexts.get(client)
        if context is not None and context not in self.incomplete and reason != "replaced":
            self.prefetch(context)

    def completed(self, context: Context) -> None:
        """A context whose client left before it was whole is pushed as soon as it is."""
        self.forget_pushes_before(context)
        super().completed(context)
        if self.contexts.get(context.client) is context and context.mode is Mode.ACTIVE:
            self.prefetch(context)

    def prefetch(self, context: Context) -> None:
        """Push the context to where the client is expected; if that is here, or nobody knows, it stays."""
        targets = self.predictor.predict(context.client, self.target_count)
        if not targets or self.me in targets:
            return
        self.pushed.setdefault(context.client, []).append(Pushed(context.epoch, targets))
        self.predictor.assumed(targets[0])
        for target in targets:
            self.part_with(context, context.epoch, target)
            push = Prefetch(
                client=context.client,
                epoch=context.epoch,
                filters=tuple(context.filters),
                targets=targets,
                session=context.session,
            )
            self.router.unicast(target, push)

    # --- at a predicted broker ----------------------------------------------------------------------------

    def on_prefetch(self, old_broker: BrokerId, push: Prefetch) -> None:
        """Steps 3 and 4, without the client: subscribe, release Broker 1, and store what comes."""
        context = Context(push.client, epoch=push.epoch, mode=Mode.ACTIVE, buffer=self.new_queue())
        context.session = push.session
        arriving = self.expect(context, push.epoch)
        key = (push.client, push.epoch)
        self.copies[key] = Copy(context, old_broker, push.targets)
        self.record_mode(context)
        self.host.store(push.client)
        if self.options.timeout_s is not None:
            self.host.set_timer(_timer(key), self.options.timeout_s)
        self.step_3_subscribe(arriving, push.filters)
        self.step_3_release(arriving, old_broker)
        if key in self.discarded:
            self.discarded.remove(key)
            self.discard(key)

    def on_ticket(self, client: ClientId, ticket: Ticket | None) -> None:
        self.ticket = ticket

    def on_connect(
        self, client: ClientId, old_broker: BrokerId | None, carried: tuple[Filter, ...] = ()
    ) -> None:
        ticket, self.ticket = self.ticket, None
        copy = self.copies.get((client, ticket.epoch)) if ticket and ticket.epoch else None
        if copy is not None:
            self.step_6_predicted(copy)
        elif old_broker == self.me and client not in self.contexts and self.pushed.get(client):
            self.step_1_reconnected(client, self.me, carried)  # it came back to where nobody expected it
        else:
            super().on_connect(client, old_broker, carried)

    def step_6_predicted(self, copy: Copy) -> None:
        """ "That particular broker replays all stored events, and informs the other brokers to discard." """
        context = copy.context
        if (earlier := self.contexts.get(context.client)) is not None:
            self.leave_behind(earlier)
        self.take_off(context)
        of, context.epoch = context.epoch, self.new_epoch(above=context.epoch)
        self.contexts[context.client] = context
        self.serve(context, resumed=True)
        for other in copy.targets:
            if other != self.me:
                self.router.unicast(other, Discard(client=context.client, epoch=of, new_broker=self.me))
        if len(copy.targets) > 1:  # so that Broker 1 learns which of them it was
            self.router.unicast(copy.pushed_by, Discard(client=context.client, epoch=of, new_broker=self.me))
        if context not in self.incomplete:
            self.forget_pushes_before(context)

    def on_discard(self, sender: BrokerId, message: Discard) -> None:
        key = (message.client, message.epoch)
        if message.epoch.broker == self.me:
            for pushed in self.pushed.get(message.client, []):
                if pushed.of == message.epoch:
                    self.settled(message.client, pushed, message.new_broker)
                    break
        elif key in self.copies:
            self.discard(key)
        else:
            self.discarded.add(key)

    def discard(self, key: tuple[ClientId, Epoch]) -> None:
        """Forget a copy: the client went elsewhere, or stayed away too long."""
        context = self.copies[key].context
        if (arriving := self.incomplete.get(context)) is not None:
            self.expect_no_more(arriving)
        self.take_off(context)
        self.close(context, mobile=True)

    # --- the client came where it was not expected ----------------------------------------------------------

    def claim(self, context: Context | None, claim: Claim) -> None:
        copy = self.copies.get((claim.client, claim.of)) if claim.of is not None else None
        if copy is not None:
            super().claim(copy.context, claim)
            return
        # If it is not a copy any more, the client has been here since, and what it left may have been pushed on.
        earlier = (p for p in self.pushed.get(claim.client, ()) if p.of < claim.epoch)
        pushed = max(earlier, key=lambda p: p.of, default=None)
        if pushed is not None and (context is None or context.epoch < pushed.of):
            self.pass_on(pushed, claim)
        else:
            self.predictor.observed(claim.new_broker, None)
            super().claim(context, claim)

    def pass_on(self, pushed: Pushed, claim: Claim) -> None:
        """ "The new broker can contact the closest broker from the set of prefetched brokers." """
        self.settled(claim.client, pushed, claim.new_broker)
        self.remember_where(claim.client, claim.epoch)
        if claim.new_broker in pushed.targets:
            holder = claim.new_broker
            self.tell(holder, Prefetched(client=claim.client, epoch=claim.epoch, of=pushed.of))
        else:
            holder = min(pushed.targets, key=lambda t: (self.router.distance(claim.new_broker, t), t))
            self.tell(holder, replace(claim, of=pushed.of))
        for target in pushed.targets:
            if target != holder:
                discard = Discard(client=claim.client, epoch=pushed.of, new_broker=claim.new_broker)
                self.router.unicast(target, discard)

    def on_prefetched(self, old_broker: BrokerId, reply: Prefetched) -> None:
        """The copy is ours, as we could not tell for sure: it takes the standard steps from us to us."""
        request = ContextRequest(client=reply.client, epoch=reply.epoch, new_broker=self.me, of=reply.of)
        self.on_context_request(self.me, request)

    def settled(self, client: ClientId, pushed: Pushed, went_to: BrokerId) -> None:
        self.predictor.observed(went_to, pushed.targets[0])
        self.pushed[client].remove(pushed)
        if not self.pushed[client]:
            del self.pushed[client]

    # --- bookkeeping --------------------------------------------------------------------------------------

    def forget_pushes_before(self, context: Context) -> None:
        """A context that is whole has collected all earlier ones: nobody will ask where those went."""
        kept = [p for p in self.pushed.pop(context.client, ()) if p.of > context.epoch]
        if kept:
            self.pushed[context.client] = kept

    def take_off(self, context: Context) -> None:
        key = (context.client, context.epoch)
        if key in self.copies and self.copies[key].context is context:
            del self.copies[key]
            self.host.cancel_timer(_timer(key))
        super().take_off(context)

    def on_timer(self, key: TimerKey) -> None:
        if key[0] == "copy":
            expired = [
                k for k in self.copies if _timer(k) == key and self.copies[k].context not in self.waiting
            ]
            for copy_key in expired:
                for event in self.copies[copy_key].context.events():
                    self.drop(self.copies[copy_key].context, event, "timeout")
                self.discard(copy_key)
        else:
            super().on_timer(key)

    def held_contexts(self) -> list[Context]:
        return [*super().held_contexts(), *(copy.context for copy in self.copies.values())]


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
