"""A server's awareness of virtual consumers elsewhere, at ESi: the attempts, how ESi fills them, what it hands over.

Paper: [PRE] section 4: VC(ESie). Algorithm A1, in `prehandoff.py`, decides when a pre-handoff is requested and
cancelled. Filling virtual consumers and handing over to them are ours (docs/decisions/0080, 0081), and so is the
message that says what a client had read when its connection ended (0260).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import digest_of
from roamq.schemes.messages.handover import ContextRequest, NoContext
from roamq.schemes.messages.prehandoff import (
    AskExpected,
    CancelPreforward,
    Handed,
    LastRead,
    Preforwarded,
    Prestored,
    Replaced,
    StillExpected,
)
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.part import Part
from roamq.schemes.parts.transfers import PART_EVENTS
from roamq.schemes.parts.virtual_consumers import note


@dataclass(slots=True, eq=False)
class Attempt:
    """ESi's awareness of one virtual consumer: an element of VC(ESie)."""

    context: Context
    server: BrokerId
    epoch: Epoch
    """The client's connection for which ESi asked for the virtual consumer."""
    number: int
    changes: int = 0
    """The number of sets of subscriptions that were sent; 0 until the server has enabled the pre-handoff."""
    fence: Mapping[BrokerId, int] | None = None
    """What the server had seen when it subscribed to the last set."""
    takes_last_read: bool = False
    """Whether the server knows what to do with `LastRead`."""


class Preforwarding(Part):
    """The virtual consumers of a server's own clients at other servers."""

    hands_over = True

    def __init__(
        self, contexts: Contexts, mailbox: Mailbox, handover: HandOver, *, close: Callable[..., None]
    ) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.handover = handover
        self.router = contexts.router
        self.close = close
        """The scheme's way to close a context."""
        self.aware: dict[Context, dict[BrokerId, Attempt]] = {}
        """VC(ESie) for each client here: context -> server -> the attempt there."""
        self.attempts: dict[int, Attempt] = {}
        """The same attempts, by number."""
        self.successors: dict[Context, Replaced] = {}
        """Contexts whose client another server serves already -> its message; kept until that server has all their
        events."""
        self._filled: dict[Context, dict[BrokerId, tuple[int, int]]] = {}
        """Context -> server -> the last attempt that got all its events, and its changes. A cancelled attempt stays:
        the client may have come before the cancellation."""
        self.pending = self._unfilled = dict[int, Attempt]()
        """Attempts that wait for this server to see what the other server had seen."""
        self._last_number = 0
        mailbox.handle(Preforwarded, self.on_preforwarded)
        mailbox.handle(Replaced, self.on_replaced)
        mailbox.handle(AskExpected, self.on_ask_expected)

    # --- VC(ESie) as a set ----------------------------------------------------------------------------------

    def of(self, context: Context) -> Mapping[BrokerId, Attempt]:
        """Server -> the attempt there, for one client."""
        return self.aware.get(context, {})

    def begin(self, context: Context, server: BrokerId) -> Attempt:
        self._last_number += 1
        attempt = Attempt(context, server, context.epoch, self._last_number)
        self.aware.setdefault(context, {})[server] = attempt
        self.attempts[attempt.number] = attempt
        note(self.contexts, "requested", context.client, server, attempt.number)
        return attempt

    def changed(self, attempt: Attempt) -> None:
        """The server gets another set of subscriptions: the events that it was sent count no longer."""
        attempt.changes += 1
        attempt.fence = None
        self._unfilled.pop(attempt.number, None)

    def cancel(self, attempt: Attempt) -> None:
        """Send Cancel_Preforward (MHs, ESi) to ESe."""
        client = attempt.context.client
        self._forget(attempt)
        note(self.contexts, "cancelled", client, attempt.server, attempt.number)
        message = CancelPreforward(client=client, epoch=attempt.epoch, attempt=attempt.number)
        self.mailbox.send(attempt.server, message)

    def cancel_all(self, context: Context, *, but: BrokerId | None = None) -> None:
        for server, attempt in list(self.of(context).items()):
            if server != but:
                self.cancel(attempt)

    def _forget(self, attempt: Attempt) -> None:
        del self.attempts[attempt.number]
        self._unfilled.pop(attempt.number, None)
        aware = self.aware[attempt.context]
        del aware[attempt.server]
        if not aware:
            del self.aware[attempt.context]

    def closed(self, context: Context) -> None:
        self._filled.pop(context, None)

    # --- filling virtual consumers --------------------------------------------------------------------------

    def on_preforwarded(self, server: BrokerId, message: Preforwarded) -> None:
        attempt = self.attempts.get(message.attempt)
        if attempt is not None and attempt.changes == message.changes:
            attempt.fence = message.fence
            attempt.takes_last_read = message.takes_last_read
            self._unfilled[message.attempt] = attempt
            self._fill_passed(attempt)
            if attempt.context in self.successors and self._may_go_late(attempt):
                self.overdue(attempt.context.client)

    def on_event(self, event: Event) -> None:
        self.on_passed()

    def on_passed(self) -> None:
        for attempt in list(self._unfilled.values()):
            self._fill_passed(attempt)

    def _fill_passed(self, attempt: Attempt) -> None:
        """If this broker has seen what the server had seen when it subscribed: send the server what the client has not
        read."""
        if attempt.fence is None or not self.router.passed(attempt.fence):
            return
        context = attempt.context
        del self._unfilled[attempt.number]
        self._filled.setdefault(context, {})[attempt.server] = (attempt.number, attempt.changes)
        message = Prestored(
            client=context.client,
            epoch=attempt.epoch,
            attempt=attempt.number,
            events=tuple(context.events()),
            position=dict(context.position),
            changes=attempt.changes,
        )
        self.mailbox.send(attempt.server, message)
        successor = self.successors.pop(context, None)
        if successor is not None:
            self._hand_all(context, successor)
        else:
            self._tell_last_read(attempt)

    def take_for_filled(self, attempt: Attempt) -> None:
        """Fig. 3 of the paper: the other server gets nothing but the subscriptions, so count the attempt as filled."""
        self._filled.setdefault(attempt.context, {})[attempt.server] = (attempt.number, attempt.changes)

    def on_ask_expected(self, server: BrokerId, message: AskExpected) -> None:
        """Say whether this server still expects the client there; a server that has forgotten the attempt says no."""
        known = self.attempts.get(message.attempt)
        is_known = known is not None and (known.server, known.context.client, known.epoch) == (
            server,
            message.client,
            message.epoch,
        )
        answer = StillExpected if is_known else CancelPreforward
        self.mailbox.send(server, answer(client=message.client, epoch=message.epoch, attempt=message.attempt))

    # --- the connection ends --------------------------------------------------------------------------------

    def connection_ended(self, context: Context) -> None:
        """The client is gone, and reads no more here: tell its virtual consumers what it had read."""
        for attempt in self.of(context).values():
            self._tell_last_read(attempt)

    def _tell_last_read(self, attempt: Attempt) -> None:
        """Tell a filled virtual consumer what its client had read. Other virtual consumers ask when the client
        comes."""
        context, server = attempt.context, attempt.server
        is_filled = self._filled.get(context, {}).get(server) == (attempt.number, attempt.changes)
        if not (is_filled and attempt.takes_last_read and self._is_final(context)):
            return
        if self.contexts.host.is_cut_off(self.router.next_hop(server)):
            return
        message = LastRead(
            client=context.client,
            epoch=attempt.epoch,
            attempt=attempt.number,
            changes=attempt.changes,
            fence={} if self._sends_unread else self.contexts.fence(server, context),
            **self._what_was_read(context),
        )
        self.mailbox.send(server, message)

    def _is_final(self, context: Context) -> bool:
        """Whether this server knows all that the client has read, and the message to each server would be short.

        A member of a group may still be assigned events here, which no other server sees.
        """
        is_whole = context.local_queue is None and context.late is None
        return (
            self.contexts.tells_last_read
            and self.contexts.is_current(context)
            and context.mode is Mode.ACTIVE
            and is_whole
            and len(context.stored) <= PART_EVENTS
            and all(filter.group is None for filter in context.filters)
        )

    @property
    def _sends_unread(self) -> bool:
        return self.handover.late.after_s is not None

    def _what_was_read(self, context: Context) -> dict[str, Any]:
        """The fields of `Handed` and `LastRead` that say what the client has read."""
        return {
            "position": dict(context.position),
            "reach": dict(context.reach),
            "held": tuple(event.id for event in context.events()),
            "ahead": context.ahead_rows,
            "session": context.session,
            "unread": tuple(context.events()) if self._sends_unread else None,
        }

    # --- handing the client over ----------------------------------------------------------------------------

    def on_replaced(self, server: BrokerId, message: Replaced) -> None:
        """The client has replaced its virtual consumer at `server`: this server does not need its context any more.

        If the client has come back since, or the virtual consumer does not know all its subscriptions, or was cancelled
        before it was whole, this server hands the context over as in a normal handoff.
        """
        account = self.handover.whereabouts
        claim = ContextRequest(client=message.client, epoch=message.successor, new_broker=server)
        context = self._source_of(server, message)
        if message.asks and context is not account.claimed_by(claim):
            context = None  # the client showed nothing, and comes from a later connection
        is_served = message.whole and not message.asks  # the client has shown its subscriptions
        if context is None and is_served:
            self._outran(message)  # or the context was given up in the meantime
            return
        is_current = is_served or context is None or message.digest == digest_of(context.filters)
        if context is None or context.epoch > message.successor or not is_current:
            self.handover.on_context_request(server, claim)
            return
        self.cancel_all(context, but=server)
        if context.mode is Mode.SERVING:
            self.contexts.host.detach(context.client, "taken over")
            self.contexts.pause(context)
        account.remove(context)
        account.remember(context.client, message.successor)
        if self._has_all(context, server, message):
            self._hand_all(context, message)
            return
        self.successors[context] = message
        attempt = self.of(context).get(server)
        if attempt is not None and self._may_go_late(attempt):
            self.overdue(context.client)
        else:
            self.handover.late.wait(context.client)

    def _outran(self, message: Replaced) -> None:
        """Another server serves the client, but its context went to a connection that the client never heard of, since
        it showed the one before. The client read nothing on that connection: the older of the two has to give way to
        the newer."""
        gone = self.handover.whereabouts.gone_to.get(message.client)
        if gone is not None and gone > message.epoch and gone != message.successor:
            older, newer = sorted((gone, message.successor))
            self.handover.whereabouts.remember(message.client, newer)
            self.mailbox.send(older.broker, NoContext(client=message.client, epoch=older, newer=newer))

    def _may_go_late(self, attempt: Attempt) -> bool:
        """Are all events that are missing here of origins that are known to be late?"""
        late, fence = self.handover.late, attempt.fence
        return late.after_s is not None and fence is not None and late.may_go(attempt.context, fence, True)

    def overdue(self, client: ClientId) -> None:
        """A virtual consumer in service cannot be filled, because events come late to this server: hand the context
        over as in a normal handoff, and let the late events follow it."""
        for context, message in list(self.successors.items()):
            if context.client != client:
                continue
            del self.successors[context]
            for attempt in list(self.of(context).values()):
                self._forget(attempt)
            to = message.successor
            claim = ContextRequest(client=client, epoch=to, new_broker=to.broker)
            self.handover.step_2_hand_over(context, claim)

    def _source_of(self, server: BrokerId, message: Replaced) -> Context | None:
        """The context from which the virtual consumer was filled, or will be."""
        held = self.handover.whereabouts.held_for(message.client)
        attempt = self.attempts.get(message.attempt)
        if attempt is not None and attempt.changes == message.changes and attempt.context in held:
            return attempt.context
        return next((context for context in held if self._has_all(context, server, message)), None)

    def _has_all(self, context: Context, server: BrokerId, message: Replaced) -> bool:
        return self._filled.get(context, {}).get(server) == (message.attempt, message.changes)

    def _hand_all(self, context: Context, message: Replaced) -> None:
        """The server has every event: if it asks, tell it which of them the client has not read, and close the
        context."""
        if message.asks:
            handed = Handed(
                client=context.client,
                epoch=message.epoch,
                attempt=message.attempt,
                successor=message.successor,
                fence=self.contexts.fence(message.successor.broker, context),
                **self._what_was_read(context),
            )
            self.mailbox.send(message.successor.broker, handed)
        for attempt in list(self.of(context).values()):
            self._forget(attempt)
        self.close(context, mobile=True)

    def on_restart(self) -> None:
        for context in self.successors:
            self.handover.late.wait(context.client)

    # --- what the checkers ask ----------------------------------------------------------------------------

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        return tuple(sorted(self.of(context)))

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        context = self.contexts.get(client)
        return self.copies_at(context) if context is not None else ()

    def held(self) -> list[Context]:
        return list(self.successors)
