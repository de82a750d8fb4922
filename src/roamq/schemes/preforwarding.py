"""What a client's server does about its virtual consumers: asks for them, fills them, cancels them, hands over to them.

Paper: [PRE] section 4, Fig. 3: steps (a) and (b) of algorithm A1 and its `Cancel_Preforward`, as they run at ESi. When
this is done is decided in `prehandoff.py`. Filling and handing over are ours (docs/decisions/0080, 0081).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Mode, digest_of
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import ContextRequest
from roamq.core.ports import Host
from roamq.core.prehandoff_messages import (
    AskExpected,
    CancelPreforward,
    EnablePrehandoff,
    Handed,
    Preforward,
    Preforwarded,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    Replaced,
    StillExpected,
)
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions
from roamq.schemes.claims import Claim
from roamq.schemes.replacing import VirtualConsumerReplacer


@dataclass(slots=True)
class Prehandoff:
    """ESi's awareness of one virtual consumer: an element of VC(ESie)."""

    context: Context
    server: BrokerId
    epoch: Epoch
    """The connection of the client for which it was asked."""
    attempt: int
    changes: int = 0
    """Sets of subscriptions sent; 0 until the server has enabled the pre-handoff."""
    fence: Mapping[BrokerId, int] | None = None
    """What the server had seen when it subscribed to the last of them."""


class Preforwarder(VirtualConsumerReplacer):
    """Keeps virtual consumers of its own clients at other servers."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.aware: dict[Context, dict[BrokerId, Prehandoff]] = {}
        """VC(ESie) for each client here."""
        self.attempts: dict[int, Prehandoff] = {}
        """The same, by the number of the attempt."""
        self.heirs: dict[Context, Replaced] = {}
        """Contexts that another server serves already, kept until it has all their events."""
        self.filled: dict[Context, dict[BrokerId, tuple[int, int]]] = {}
        """The last attempt at each server, and its changes, that was sent all it needs: even if cancelled since, the
        client may have come before the cancellation."""
        self._unfilled: dict[int, Prehandoff] = {}
        """Those that wait for this server to see what the other had seen."""
        self._last_attempt = 0
        self.handle(EnablePrehandoff, self.a1_enabled)
        self.handle(Preforwarded, self.on_preforwarded)
        self.handle(Replaced, self.on_replaced)
        self.handle(AskExpected, self.on_ask_expected)

    def speed_of(self, client: ClientId) -> float | None:
        """How fast a client is, in metres per second, where that is known."""
        return None

    # --- A1 (a), (b), and cancelling -----------------------------------------------------------------------

    def a1_request(self, context: Context, server: BrokerId) -> None:
        """(a.1) Send Pre_handoffRequest (ESi, MHs) to ESe."""
        self._last_attempt += 1
        prehandoff = Prehandoff(context, server, context.epoch, self._last_attempt)
        self.aware.setdefault(context, {})[server] = prehandoff
        self.attempts[prehandoff.attempt] = prehandoff
        self.note("requested", context.client, server, prehandoff.attempt)
        request = PrehandoffRequest(client=context.client, epoch=context.epoch, attempt=prehandoff.attempt)
        self.router.unicast(server, request)

    def a1_enabled(self, server: BrokerId, message: EnablePrehandoff) -> None:
        """(a.2) On receiving Enable_prehandoff (ESe, MHs): send Preforward (MHs, ESi, SSUBQ_MHs) to ESe."""
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is None:
            return
        context = prehandoff.context
        prehandoff.changes = 1
        preforward = Preforward(
            client=context.client,
            epoch=prehandoff.epoch,
            attempt=prehandoff.attempt,
            filters=tuple(context.filters),
            session=context.session,
            speed_mps=self.speed_of(context.client),
        )
        self.router.unicast(server, preforward)

    def a1_subscribed(self, context: Context, filter: Filter, *, wanted: bool) -> None:
        """(b) On receiving Subscribe (S, MHs): send Pre_Subforward (MHs, ESi, S) to ESe."""
        for prehandoff in self.aware.get(context, {}).values():
            if prehandoff.changes:
                prehandoff.changes += 1
                prehandoff.fence = None
                self._unfilled.pop(prehandoff.attempt, None)
                message = PreSubforward(
                    client=context.client,
                    epoch=prehandoff.epoch,
                    attempt=prehandoff.attempt,
                    filter=filter,
                    wanted=wanted,
                )
                self.router.unicast(prehandoff.server, message)

    def cancel(self, prehandoff: Prehandoff) -> None:
        """Send Cancel_Preforward (MHs, ESi) to ESe."""
        context = prehandoff.context
        self.forget_attempt(prehandoff)
        self.note("cancelled", context.client, prehandoff.server, prehandoff.attempt)
        message = CancelPreforward(client=context.client, epoch=prehandoff.epoch, attempt=prehandoff.attempt)
        self.router.unicast(prehandoff.server, message)

    def cancel_all(self, context: Context, *, but: BrokerId | None = None) -> None:
        for server, prehandoff in list(self.aware.get(context, {}).items()):
            if server != but:
                self.cancel(prehandoff)

    def forget_attempt(self, prehandoff: Prehandoff) -> None:
        del self.attempts[prehandoff.attempt]
        self._unfilled.pop(prehandoff.attempt, None)
        aware = self.aware[prehandoff.context]
        del aware[prehandoff.server]
        if not aware:
            del self.aware[prehandoff.context]

    # --- filling virtual consumers, at ESi ------------------------------------------------------------------

    def on_preforwarded(self, server: BrokerId, message: Preforwarded) -> None:
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is not None and prehandoff.changes == message.changes:
            prehandoff.fence = message.fence
            self._unfilled[message.attempt] = prehandoff
            self.fill_passed(prehandoff)

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if self._unfilled:
            for prehandoff in list(self._unfilled.values()):
                self.fill_passed(prehandoff)

    def fill_passed(self, prehandoff: Prehandoff) -> None:
        """What the server had seen before it subscribed has come here: send it what the client has not read."""
        if prehandoff.fence is None or not self.router.passed(prehandoff.fence):
            return
        context = prehandoff.context
        del self._unfilled[prehandoff.attempt]
        self.filled.setdefault(context, {})[prehandoff.server] = (prehandoff.attempt, prehandoff.changes)
        message = Prestored(
            client=context.client,
            epoch=prehandoff.epoch,
            attempt=prehandoff.attempt,
            events=tuple(context.events()),
            position=dict(context.position),
            changes=prehandoff.changes,
        )
        self.router.unicast(prehandoff.server, message)
        heir = self.heirs.pop(context, None)
        if heir is not None:
            self.hand_all(context, heir)

    def on_ask_expected(self, server: BrokerId, message: AskExpected) -> None:
        """A broker that has forgotten an attempt, with its store or since, says so."""
        known = self.attempts.get(message.attempt)
        is_known = known is not None and (known.server, known.context.client, known.epoch) == (
            server,
            message.client,
            message.epoch,
        )
        answer = StillExpected if is_known else CancelPreforward
        self.router.unicast(
            server, answer(client=message.client, epoch=message.epoch, attempt=message.attempt)
        )

    # --- handing the client over, at ESi --------------------------------------------------------------------

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        """The client has replaced its virtual consumer at `server`: its context here is not needed any more.

        Unless the client has come back since, or the virtual consumer does not know all its subscriptions, or was
        cancelled before it was whole: then the context is handed over as in a normal handoff.
        """
        claim = ContextRequest(client=message.client, epoch=message.heir, new_broker=server)
        context = self.source_of(server, message)
        if message.asks and context is not self.claimed_by(claim):
            context = None  # the client showed nothing, and comes from a later connection than was believed
        is_served = message.whole and not message.asks  # what the client has subscribed to, it has shown
        if context is None and is_served:
            return  # it was given up in the meantime
        is_current = is_served or context is None or message.digest == digest_of(context.filters)
        if context is None or context.epoch > message.heir or not is_current:
            super().on_context_request(server, claim)
            return
        self.cancel_all(context, but=server)
        if context.mode is Mode.SERVING:
            self.host.detach(context.client, "taken over")
            self.pause(context)
        self.take_off(context)
        self.remember_where(context.client, message.heir)
        if self.has_all(context, server, message):
            self.hand_all(context, message)
        else:
            self.heirs[context] = message

    def source_of(self, server: BrokerId, message: Replaced) -> Context | None:
        """The context that the virtual consumer was filled from, or will be."""
        current = self.contexts.get(message.client)
        held = [*self.left_behind.get(message.client, ()), *([current] if current is not None else [])]
        prehandoff = self.attempts.get(message.attempt)
        if prehandoff is not None and prehandoff.changes == message.changes and prehandoff.context in held:
            return prehandoff.context
        return next((context for context in held if self.has_all(context, server, message)), None)

    def has_all(self, context: Context, server: BrokerId, message: Replaced) -> bool:
        return self.filled.get(context, {}).get(server) == (message.attempt, message.changes)

    def hand_all(self, context: Context, message: Replaced) -> None:
        """The server has every event; if it asks, say which of them the client has not read."""
        if message.asks:
            handed = Handed(
                client=context.client,
                epoch=message.epoch,
                attempt=message.attempt,
                heir=message.heir,
                fence=self.router.fence(),
                position=dict(context.position),
                reach=dict(context.reach),
                held=tuple(event.id for event in context.events()),
            )
            self.router.unicast(message.heir.broker, handed)
        for prehandoff in list(self.aware.get(context, {}).values()):
            self.forget_attempt(prehandoff)
        self.close(context, mobile=True)

    def leave_behind(self, context: Context) -> None:
        self.cancel_all(context)  # where the client went from here is known, or will be said
        super().leave_behind(context)

    def hand_over(self, context: Context, claim: Claim) -> None:
        self.cancel_all(context)
        super().hand_over(context, claim)

    def close(self, context: Context, *, mobile: bool = False) -> None:
        self.cancel_all(context)
        super().close(context, mobile=mobile)
        self.filled.pop(context, None)

    # --- subscriptions, checkers ----------------------------------------------------------------------------

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_subscribe(client, filter)
        if not known:
            self.a1_subscribed(context, filter, wanted=True)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        known = filter in context.filters
        super().on_unsubscribe(client, filter)
        if known:
            self.a1_subscribed(context, filter, wanted=False)

    def held_contexts(self) -> list[Context]:
        return [*super().held_contexts(), *self.heirs]
