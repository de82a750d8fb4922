"""The whereabouts of moving clients' contexts: on their way here, left behind here, or gone from here.

A client may move faster than its context, and than the news of where it is. A broker therefore keeps account of the
contexts that it awaits, of the contexts whose client has been elsewhere since, and of where contexts went. From this
account it answers every broker that asks for one of them (docs/decisions/0007).
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
"""The number of clients whose whereabouts a broker remembers after they left."""

Claim = ContextRequest | Release
"""The message by which a new broker claims a context: a request, or at once a release, if it has the subscriptions."""


@dataclass(slots=True, eq=False)
class Arriving:
    """A context on its way here: opened at connect, complete with the last stored event."""

    context: Context
    transfer: Epoch
    """The mark of the context's messages: the epoch of the connection that asked for the context."""
    released: bool = False
    """Whether Broker 1 was told that it may unsubscribe."""
    unsubscribed: set[Filter] = field(default_factory=set)
    """Filters that the client unsubscribed from before this broker knew that it had subscribed to them."""
    leaves: bool = False
    """Whether the client has gone for good before its context came."""
    asked: BrokerId | None = None
    """The broker that this one asked last for the context."""
    last: Epoch | None = None
    """The client's last connection, as far as this broker knew when the client came, if it was at the broker asked."""
    claims: set[BrokerId] = field(default_factory=set)
    """The brokers that this one has asked, and that have not answered, nor have the brokers to which they passed the
    claim on."""
    answered: bool = False
    """Whether Broker 1 has sent the subscriptions: the stored events follow, in order."""
    answered_by: BrokerId | None = None
    """The broker that sent the subscriptions."""
    inquiry: "Inquiry | None" = None
    """The answers of all brokers about the context, if the broker that was asked has forgotten, or is silent."""


class Lead(NamedTuple):
    """A broker's knowledge of a claimed context that it cannot hand over."""

    gone: Epoch | None = None
    """The connection elsewhere to which the context went: the broker passes the claim on."""
    awaited: Context | None = None
    """The context here whose arrival the claim has to wait for."""
    newer: Epoch | None = None
    """The connection to which the context went, later than the claim's."""
    awaits: bool = False
    """Whether the later connection waits for the context itself."""


class Whereabouts:
    """One broker's account of contexts that are awaited, were left behind, or went elsewhere."""

    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.me = contexts.me
        self.arriving: dict[tuple[ClientId, Epoch], Arriving] = {}
        """Awaited contexts, by client and the mark of their messages."""
        self.incomplete: dict[Context, Arriving] = {}
        """The same awaited contexts, by context."""
        self.waiting: dict[Context, list[Claim]] = {}
        """Claims to contexts that are themselves still arriving."""
        self.left_behind: dict[ClientId, list[Context]] = {}
        """Contexts whose client has been elsewhere since: the broker to which the client went will ask for them."""
        self.gone_to: dict[ClientId, Epoch] = {}
        """Client -> the connection to which its context went from here: for claims of clients that outran the news."""
        self.hearsay: set[ClientId] = set()
        """Clients of which this broker only knows a later connection that waits for the context itself."""

    # --- on their way here ----------------------------------------------------------------------------------

    def expect(self, arriving: Arriving) -> None:
        """Await the rest of this context."""
        self.arriving[arriving.context.client, arriving.transfer] = arriving
        self.incomplete[arriving.context] = arriving

    def expect_no_more(self, arriving: Arriving) -> None:
        del self.arriving[arriving.context.client, arriving.transfer]
        del self.incomplete[arriving.context]

    def mark_anew(self, arriving: Arriving, transfer: Epoch) -> None:
        """Await the context under another mark from now on."""
        del self.arriving[arriving.context.client, arriving.transfer]
        arriving.transfer = transfer
        self.arriving[arriving.context.client, transfer] = arriving

    # --- here -----------------------------------------------------------------------------------------------

    def held_for(self, client: ClientId) -> list[Context]:
        """The client's contexts that belong to this broker: those that the client left behind, and its current one."""
        held = list(self.left_behind.get(client, ()))
        if (current := self.contexts.get(client)) is not None:
            held.append(current)
        return held

    def context_of(self, client: ClientId, epoch: Epoch) -> Context | None:
        """The context of that connection, if it still belongs to this broker."""
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
        """The first later connection of the same client here whose context is whole.

        No broker asks for the older context any more: the later connection has collected all that there was.
        """
        held = [one for one in self.held_for(context.client) if one not in self.incomplete]
        return min((one.epoch for one in held if one.epoch > context.epoch), default=None)

    def leave_behind(self, context: Context) -> None:
        """Put the context aside: the client has been elsewhere since, and the claim of that broker is on its way."""
        if context.mode is Mode.SERVING:
            self.contexts.pause(context)
        self.left_behind.setdefault(context.client, []).append(context)
        self.contexts.take_off(context)

    def remove(self, context: Context) -> None:
        """Take the context out of this account: it is neither the client's current one here nor left behind any
        more."""
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
            oldest = next(iter(self.gone_to))  # the client heard of least recently
            del self.gone_to[oldest]
            self.hearsay.discard(oldest)

    def went_since(self, claim: Claim) -> Epoch | None:
        """The later connection to which a context went from here, if it did."""
        gone = self.gone_to.get(claim.client)
        return gone if gone is not None and gone > claim.epoch else None

    def has_gone_to(self, claim: Claim) -> bool:
        """Whether the context went from here to the connection that claims it: another claim of that connection came
        before."""
        if claim.client in self.hearsay or not isinstance(claim, ContextRequest):
            return False
        is_claimer = claim.epoch.broker == claim.new_broker != self.me
        return is_claimer and self.gone_to.get(claim.client) == claim.epoch

    def last_broker(self, client: ClientId, named: BrokerId | None) -> BrokerId | None:
        """The broker that this one asks for the client's context; the client itself has `named` one.

        A client that comes back here may not know that another broker, from which it never heard, has fetched its
        context.
        """
        gone = self.gone_to.get(client)
        if named != self.me or gone is None or client in self.contexts or gone.broker == self.me:
            return named
        return gone.broker

    def lead(self, claim: Claim) -> Lead:
        """What this broker knows of a claimed context.

        Each step leads to a later connection, but never to one later than the claim's, so the search ends. A later
        context that is whole here has come back from wherever an earlier one went: that trail is cold. A later context
        that is still awaited may have been asked for before the claimer's connection; then the claim waits for what
        comes. If it was asked for after the connection to which an earlier context went, that trail is cold, too.
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
        """Is `gone` a connection elsewhere, later than the one at which the claim has asked, and earlier than the
        claim's own?"""
        return gone.broker != self.me and gone < claim.epoch and (claim.after is None or gone > claim.after)

    def lead_past(self, broker: BrokerId, went: Mapping[ClientId, Epoch]) -> None:
        """A broker is gone for good: lead claims for contexts that went there to the brokers to which they went from
        there."""
        for client in [client for client, epoch in self.gone_to.items() if epoch.broker == broker]:
            gone, next_one = self.gone_to.pop(client), went.get(client)
            self.hearsay.discard(client)
            if next_one is not None and next_one > gone and next_one.broker != broker:
                self.gone_to[client] = next_one
                self.hearsay.add(client)  # perhaps the departed broker had only heard of that connection

    # --- what the checkers ask ------------------------------------------------------------------------------

    def held(self) -> list[Context]:
        return [context for contexts in self.left_behind.values() for context in contexts]
