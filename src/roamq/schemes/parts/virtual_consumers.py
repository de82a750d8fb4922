"""Virtual consumers at ESj, next to the area of the server that serves the client: kept, filled, ended.

Paper: [PRE] section 4. Algorithm A2, in `prehandoff.py`, decides when a virtual consumer begins and ends.
Ours: when it has subscribed, ESj says what it had seen by then, and ESi sends the events that the client has not
consumed once ESi has seen as much (docs/decisions/0080). Until then the virtual consumer keeps new events in its local
queue; from then on it holds every event that the client may still need, and only its read position is missing. When the
client's connection ends, ESi sends the position as well, with the session as the client left it, and the virtual
consumer is *settled*: it is what the client needs, if the client comes from that connection (0260). A virtual consumer
of whose client ESi says nothing for long ends (0085).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.context import Context, Epoch, Ticket
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.local_queue import close_local_queue
from roamq.core.ports import TimerKey
from roamq.core.read_elsewhere import keep_unread, skip_to
from roamq.core.records import Record
from roamq.geo.here import is_location_dependent
from roamq.schemes.messages.prehandoff import (
    AskExpected,
    Handed,
    LastRead,
    Preforwarded,
    PrehandoffMessage,
    PrehandoffRequest,
    Prestored,
    StillExpected,
)
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.part import Part

LEASE_S = 300.0
"""Seconds without news after which ESj doubts a virtual consumer, unless the scheme's options say."""


@dataclass(slots=True)
class VirtualConsumer:
    """VC_MHs: the surrogate of a client that is connected at another server."""

    client: ClientId
    epoch: Epoch
    """The client's connection at ESi, the server that asked for the virtual consumer."""
    attempt: int
    context: Context | None = None
    """The context of the virtual consumer; None until the subscriptions have come."""
    changes: int = 0
    speed_mps: float | None = None
    whole: bool = False
    """Whether all events have come that were published before its routes were established."""
    doubted: bool = False
    """Whether ESj has asked ESi about the client and has no answer yet."""
    last_read: LastRead | None = None
    """ESi's word on what the client had read, kept until ESj has seen what ESi had seen."""
    settled: bool = False
    """Whether it holds exactly the events that the client had not read when its connection ended, and those since."""

    def was_told(self, ticket: Ticket | None) -> bool:
        """Has ESi told what the client had read, and does the client's ticket show that it has read nothing since?"""
        return self.settled and ticket is not None and ticket.epoch == self.epoch


def note(contexts: Contexts, what: str, client: ClientId, peer: BrokerId, count: int | None = None) -> None:
    """Record what became of a pre-handoff."""
    now = contexts.host.now()
    contexts.host.record(Record("prehandoff", now, contexts.me, client, peer=peer, detail=what, count=count))


class VirtualConsumers(Part):
    """VC(ESj): the virtual consumers that a server holds, beside the contexts of its own clients."""

    def __init__(
        self,
        contexts: Contexts,
        mailbox: Mailbox,
        handover: HandOver,
        *,
        lease_s: Seconds,
        close: Callable[..., None],
    ) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.handover = handover
        self.host = contexts.host
        self.lease_s = lease_s
        self.close = close
        """The scheme's way to close a context."""
        self._virtual: dict[ClientId, VirtualConsumer] = {}
        self.pending = self._unsettled = dict[ClientId, VirtualConsumer]()
        """Virtual consumers that know what their client had read, and wait for events which ESi has seen already."""
        mailbox.handle(Prestored, self.on_prestored)
        mailbox.handle(LastRead, self.on_last_read)
        mailbox.handle(StillExpected, self.on_still_expected)

    # --- VC(ESj) as a set -----------------------------------------------------------------------------------

    def __getitem__(self, client: ClientId) -> VirtualConsumer:
        return self._virtual[client]

    def __iter__(self) -> Iterator[ClientId]:
        return iter(self._virtual)

    def get(self, client: ClientId) -> VirtualConsumer | None:
        return self._virtual.get(client)

    def find(self, message: PrehandoffMessage) -> VirtualConsumer | None:
        """The virtual consumer that a message is about, unless another one has taken its place."""
        virtual = self._virtual.get(message.client)
        if virtual is not None and (virtual.epoch, virtual.attempt) == (message.epoch, message.attempt):
            return virtual
        return None

    def is_newest(self, client: ClientId, epoch: Epoch) -> bool:
        """Does this server know of no later connection of the client?"""
        known = [context.epoch for context in self.handover.whereabouts.held_for(client)]
        if (virtual := self._virtual.get(client)) is not None:
            known.append(virtual.epoch)
        return all(epoch >= other for other in known)

    def begin(self, request: PrehandoffRequest) -> None:
        """VC(ESj) ∪ VC_MHs."""
        virtual = VirtualConsumer(request.client, request.epoch, request.attempt)
        self._virtual[request.client] = virtual
        self.host.set_timer(("lease", request.client), self.lease_s)

    def take(self, client: ClientId) -> VirtualConsumer:
        """The client takes the place of its virtual consumer."""
        virtual = self._virtual.pop(client)
        self._unsettled.pop(client, None)
        self.host.cancel_timer(("lease", client))
        assert virtual.context is not None
        self.contexts.put(virtual.context)
        return virtual

    def end(self, client: ClientId) -> None:
        """VC(ESj) - VC_MHs: nobody needed the virtual consumer; record how many events it stored for nothing."""
        virtual = self._virtual.pop(client, None)
        if virtual is None:
            return
        self._unsettled.pop(client, None)
        self.host.cancel_timer(("lease", client))
        if virtual.context is not None:
            stored = len(virtual.context.stored) + len(virtual.context.local_queue or ())
            note(self.contexts, "wasted", client, virtual.epoch.broker, stored)
            self.close(virtual.context, mobile=True)

    # --- filling ----------------------------------------------------------------------------------------------

    def routed(self, server: BrokerId, virtual: VirtualConsumer) -> None:
        """The routes are on their way up: tell ESi what this server had seen when it asked for them."""
        assert virtual.context is not None
        virtual.changes += 1
        virtual.whole = virtual.settled = False
        virtual.last_read = None
        self._unsettled.pop(virtual.client, None)
        self.mailbox.send(
            server,
            Preforwarded(
                client=virtual.client,
                epoch=virtual.epoch,
                attempt=virtual.attempt,
                fence=self.contexts.fence(server, virtual.context),
                changes=virtual.changes,
                takes_last_read=self.contexts.tells_last_read,
            ),
        )

    def complete_as_it_is(self, server: BrokerId, virtual: VirtualConsumer) -> None:
        """Fig. 3 of the paper: the virtual consumer is whole as soon as it has subscribed."""
        virtual.changes += 1
        virtual.whole = True
        note(self.contexts, "ready", virtual.client, server, virtual.attempt)

    def on_prestored(self, server: BrokerId, message: Prestored) -> None:
        virtual = self.find(message)
        if virtual is not None and virtual.context is not None and virtual.changes == message.changes:
            self.fill(virtual.context, message)
            close_local_queue(virtual.context)
            virtual.whole = True
            note(self.contexts, "ready", message.client, server, message.attempt)

    def fill(self, context: Context, message: Prestored) -> None:
        skip_to(context, dict(message.position))
        self.admit_all(context, message.events)

    def admit_all(self, context: Context, events: Iterable[Event]) -> None:
        """Admit older events that came from ESi, except those that speak of the area which the client has left."""
        meaning = self.contexts.watched.meaning
        elsewhere = meaning is not None and any(is_location_dependent(filter) for filter in context.filters)
        meant = meaning.meant(context, context.filters) if meaning is not None and elsewhere else []
        for event in events:
            if elsewhere and not any(filter.matches(event) for filter in meant):
                continue  # the event speaks of the area that the client has left
            self.handover.admit_older(context, event, "transferred")

    # --- what the client has read ---------------------------------------------------------------------------

    def on_last_read(self, server: BrokerId, message: LastRead) -> None:
        """The client's connection at ESi has ended. If the client is here already, ESj has asked ESi, and takes that
        answer."""
        virtual = self.find(message)
        if virtual is not None and virtual.whole and virtual.changes == message.changes:
            virtual.last_read = message
            self._unsettled[message.client] = virtual
            self._settle_passed(virtual)

    def on_event(self, event: Event) -> None:
        self.on_passed()

    def on_passed(self) -> None:
        for virtual in list(self._unsettled.values()):
            self._settle_passed(virtual)

    def _settle_passed(self, virtual: VirtualConsumer) -> None:
        message, context = virtual.last_read, virtual.context
        assert message is not None and context is not None
        if self.has_passed(message):
            context.session = message.session
            self.take_read(context, message)
            virtual.last_read, virtual.settled = None, True
            del self._unsettled[virtual.client]

    def has_passed(self, message: Handed | LastRead) -> bool:
        """Whether this server has, or gets with the message, all events of which the message speaks."""
        return message.unread is not None or self.contexts.router.passed(message.fence)

    def take_read(self, context: Context, message: Handed | LastRead) -> None:
        """Drop the events that the client has read."""
        skip_to(context, dict(message.position), message.ahead)
        self.admit_all(context, message.unread or ())
        keep_unread(context, message.reach, message.held)

    # --- the lease ----------------------------------------------------------------------------------------

    def on_timer(self, key: TimerKey) -> bool:
        if key[0] != "lease":
            return False
        if (virtual := self._virtual.get(ClientId(key[1]))) is not None:
            self._lease_ran_out(virtual)
        return True

    def _lease_ran_out(self, virtual: VirtualConsumer) -> None:
        """ESi may have crashed and forgotten this client: ask ESi, and end the virtual consumer if no answer comes."""
        if virtual.doubted:
            self.end(virtual.client)
            return
        virtual.doubted = True
        self.host.set_timer(("lease", virtual.client), self.lease_s)
        self.mailbox.send(
            virtual.epoch.broker,
            AskExpected(client=virtual.client, epoch=virtual.epoch, attempt=virtual.attempt),
        )

    def on_still_expected(self, server: BrokerId, message: StillExpected) -> None:
        if (virtual := self.find(message)) is not None:
            virtual.doubted = False
            self.host.set_timer(("lease", virtual.client), self.lease_s)

    def on_restart(self) -> None:
        for client in sorted(self._virtual):  # the crash of the broker ended its timers
            self.host.set_timer(("lease", client), self.lease_s)

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held(self) -> list[Context]:
        return [v.context for v in self._virtual.values() if v.context is not None]
