"""Where the contexts of moving clients are: on their way here, left behind here, or gone from here.

Clients may move faster than their contexts, and than the news of where they are. A broker therefore keeps account of
contexts that it awaits, of contexts whose client has been elsewhere since, and of where contexts went; whoever asks
for one of them gets an answer from this account (docs/decisions/0007).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from roamq.broker.contexts import Contexts
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.messages.handover import ContextRequest, Release

if TYPE_CHECKING:
    from roamq.schemes.parts.inquiries import Inquiry

REMEMBERED_MAX = 100_000
"""How many clients' whereabouts a broker remembers after they left."""

Claim = ContextRequest | Release
"""What a new broker claims a context with: a request, or a release at once if it has the subscriptions."""


@dataclass(slots=True, eq=False)
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
    asked: BrokerId | None = None
    """The broker that this one has asked for the context last."""
    last: Epoch | None = None
    """The client's last connection, as far as was known when it came, if that was at the broker that was asked."""
    claims: set[BrokerId] = field(default_factory=set)
    """The brokers that it has asked, and that have not answered, nor has who they passed the claim on to."""
    answered: bool = False
    """Whether Broker 1 has sent the subscriptions: the stored events follow, in order."""
    answered_by: BrokerId | None = None
    """Which broker that was."""
    inquiry: "Inquiry | None" = None
    """What all brokers have said about the context, if the broker that was asked has forgotten, or is silent."""


class Lead(NamedTuple):
    """What a broker knows of a context that is claimed, and that is not here to be handed over."""

    gone: Epoch | None = None
    """It went to this connection, elsewhere: the claim is to follow."""
    awaited: Context | None = None
    """What comes for this context is what the claim is looking for."""
    newer: Epoch | None = None
    """It went to a later connection than the claim's."""
    awaits: bool = False
    """Or that connection waits for it itself."""


class Whereabouts:
    """One broker's account of contexts that are awaited, were left behind, or went elsewhere."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.me = contexts.me
        self.arriving: dict[tuple[ClientId, Epoch], Arriving] = {}
        """Contexts that are awaited, by the mark of their messages."""
        self.incomplete: dict[Context, Arriving] = {}
        """The same, by context."""
        self.waiting: dict[Context, list[Claim]] = {}
        """Claims to contexts that are themselves still arriving."""
        self.left_behind: dict[ClientId, list[Context]] = {}
        """Contexts whose client has been elsewhere since: the broker it went to will ask for them."""
        self.gone_to: dict[ClientId, Epoch] = {}
        """Where contexts went that were here: for claims of clients that outran the news."""
        self.hearsay: set[ClientId] = set()
        """Clients of which a later connection is known that waits for the context itself, and no more."""

    # --- on their way here ----------------------------------------------------------------------------------

    def expect(self, arriving: Arriving) -> None:
        """The rest of this context is on its way."""
        self.arriving[arriving.context.client, arriving.transfer] = arriving
        self.incomplete[arriving.context] = arriving

    def expect_no_more(self, arriving: Arriving) -> None:
        del self.arriving[arriving.context.client, arriving.transfer]
        del self.incomplete[arriving.context]

    def mark_anew(self, arriving: Arriving, transfer: Epoch) -> None:
        """The context is awaited under another mark from now on."""
        del self.arriving[arriving.context.client, arriving.transfer]
        arriving.transfer = transfer
        self.arriving[arriving.context.client, transfer] = arriving

    # --- here -----------------------------------------------------------------------------------------------

    def held_for(self, client: ClientId) -> list[Context]:
        """The client's contexts that are this broker's: those it left behind, and its current one."""
        held = list(self.left_behind.get(client, ()))
        if (current := self.contexts.get(client)) is not None:
            held.append(current)
        return held

    def context_of(self, client: ClientId, epoch: Epoch) -> Context | None:
        """The context of that connection, if it is still this broker's."""
        for context in self.held_for(client):
            arriving = self.incomplete.get(context)
            if epoch in (context.epoch, arriving.transfer if arriving else None):
                return context
        return None

    def is_held(self, context: Context) -> bool:
        return self.contexts.is_current(context) or context in self.left_behind.get(context.client, ())

    def claimed_by(self, claim: Claim) -> Context | None:
        """The newest context here that is older than the claimer's connection."""
        candidates = [c for c in self.held_for(claim.client) if c.epoch < claim.epoch]
        return max(candidates, key=lambda c: c.epoch, default=None)

    def whole_since(self, context: Context) -> Epoch | None:
        """The connection of the same client that came here after this context, and has all of its own.

        Nobody asks for the older context any more: that connection has found what there was, wherever it was.
        """
        held = [one for one in self.held_for(context.client) if one not in self.incomplete]
        return min((one.epoch for one in held if one.epoch > context.epoch), default=None)

    def leave_behind(self, context: Context) -> None:
        """The client was elsewhere since it left us: that broker's claim to this context is on its way."""
        if context.mode is Mode.SERVING:
            self.contexts.pause(context)
        self.left_behind.setdefault(context.client, []).append(context)
        self.contexts.take_off(context)

    def remove(self, context: Context) -> None:
        """The context is neither the client's current one here nor left behind any more."""
        left = self.left_behind.get(context.client, [])
        if context in left:
            left.remove(context)
            if not left:
                del self.left_behind[context.client]
        self.contexts.take_off(context)

    # --- gone -----------------------------------------------------------------------------------------------

    def remember(self, client: ClientId, epoch: Epoch, *, awaits: bool = False) -> None:
        """The client's context went to the connection `epoch`, or will if that connection `awaits` it."""
        known = self.gone_to.pop(client, None)
        self.gone_to[client] = epoch if known is None else max(known, epoch)
        if not awaits and self.gone_to[client] == epoch:
            self.hearsay.discard(client)
        elif known is None or epoch > known:
            self.hearsay.add(client)
        if len(self.gone_to) > REMEMBERED_MAX:
            oldest = next(iter(self.gone_to))  # the one heard of least recently
            del self.gone_to[oldest]
            self.hearsay.discard(oldest)

    def went_since(self, claim: Claim) -> Epoch | None:
        """The later connection to which a context went from here, if it did."""
        gone = self.gone_to.get(claim.client)
        return gone if gone is not None and gone > claim.epoch else None

    def has_gone_to(self, claim: Claim) -> bool:
        """Whether the context went from here to the very connection that claims it: that claim came another way, too,
        and was quicker."""
        if claim.client in self.hearsay or not isinstance(claim, ContextRequest):
            return False
        is_claimer = claim.epoch.broker == claim.new_broker != self.me
        return is_claimer and self.gone_to.get(claim.client) == claim.epoch

    def last_broker(self, client: ClientId, named: BrokerId | None) -> BrokerId | None:
        """The broker to ask for the client's context, where the client itself has `named` one.

        A client that comes back here may not know that a broker it never heard from has fetched its context.
        """
        gone = self.gone_to.get(client)
        if named != self.me or gone is None or client in self.contexts or gone.broker == self.me:
            return named
        return gone.broker

    def lead(self, claim: Claim) -> Lead:
        """What is known here of a context that is claimed.

        Each step leads to a later connection, and none later than the claim's, so it ends. A later context that is
        whole here has come back from wherever an earlier one went: that trail is cold. One that is still awaited
        may have been asked for before the claimer's connection; then what comes is what the claim is looking for. If
        it was asked for after the connection to which an earlier one went, that trail is cold, too.
        """
        later = [context for context in self.held_for(claim.client) if context.epoch > claim.epoch]
        whole = [context.epoch for context in later if context not in self.incomplete]
        gone = self.gone_to.get(claim.client)
        awaited = {
            arriving.transfer: context
            for context in later
            if (arriving := self.incomplete.get(context)) and arriving.transfer < claim.epoch
        }
        is_cold = bool(whole) or (gone is not None and any(mark > gone for mark in awaited))
        if gone is not None and not is_cold and self.leads_on(gone, claim):
            return Lead(gone=gone)
        newer = whole if gone is None or gone <= claim.epoch else [*whole, gone]
        if not newer:
            if awaited:
                return Lead(awaited=awaited[max(awaited)])
            return Lead(newer=min((context.epoch for context in later), default=None), awaits=True)
        first = min(newer)
        return Lead(newer=first, awaits=first == gone and claim.client in self.hearsay)

    def leads_on(self, gone: Epoch, claim: Claim) -> bool:
        """Is `gone` a later connection than the claim has asked at, elsewhere, and not later than its own?"""
        return gone.broker != self.me and gone < claim.epoch and (claim.after is None or gone > claim.after)

    def lead_past(self, broker: BrokerId, went: Mapping[ClientId, Epoch]) -> None:
        """A broker is gone for good: whoever asks for a context that went there is led to where it went from there."""
        for client in [client for client, epoch in self.gone_to.items() if epoch.broker == broker]:
            gone, next_one = self.gone_to.pop(client), went.get(client)
            self.hearsay.discard(client)
            if next_one is not None and next_one > gone and next_one.broker != broker:
                self.gone_to[client] = next_one
                self.hearsay.add(client)  # perhaps it had only heard of it

    # --- what the checkers ask ------------------------------------------------------------------------------

    def held(self) -> list[Context]:
        return [context for contexts in self.left_behind.values() for context in contexts]
