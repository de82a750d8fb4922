"""Clients in the place of their virtual consumers, at ESj: what is still missing comes from ESi.

Paper: [PRE] section 4, Fig. 3, the last branch of algorithm A1; `prehandoff.py` decides when to take it. A virtual
consumer that is whole serves its client at once if the client shows how far it has read, or if ESi told that before the
client came: that is the just-in-time delivery of the title. Otherwise ESj delivers nothing until the rest has come from
ESi, be it events or the client's read position (docs/decisions/0080, 0081, 0260).
"""

from dataclasses import dataclass

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.context import Context, Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.local_queue import open_local_queue
from roamq.core.read_elsewhere import skip_to, start_over
from roamq.core.reading import Position
from roamq.schemes.messages.handover import Subscriptions
from roamq.schemes.messages.prehandoff import Handed, Prestored
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.part import Part
from roamq.schemes.parts.virtual_consumers import VirtualConsumer, VirtualConsumers, note
from roamq.schemes.parts.whereabouts import Arriving


@dataclass(slots=True, kw_only=True, eq=False)
class Replacing(Arriving):
    """A virtual consumer that its client replaces before it is whole, or before its position is known."""

    virtual: VirtualConsumer
    position: Position | None
    """The client's read position, if the client showed it."""
    inherited: set[Filter]
    """The subscriptions that came with the virtual consumer."""
    handed: Handed | None = None


class Replacements(Part):
    """The virtual consumers in service that still lack something."""

    def __init__(
        self, contexts: Contexts, mailbox: Mailbox, handover: HandOver, virtual: VirtualConsumers
    ) -> None:
        self.contexts = contexts
        self.handover = handover
        self.whereabouts = handover.whereabouts
        self.virtual = virtual
        self._replacing: dict[tuple[ClientId, Epoch], Replacing] = {}
        """Client and the connection for which the virtual consumer was made -> the replacement."""
        self.pending = self._handed = list[Replacing]()
        """Replacements that wait for events which the client's last server has seen already."""
        mailbox.handle(Prestored, self.on_prestored)
        mailbox.handle(Handed, self.on_handed)
        mailbox.handle(Subscriptions, self.on_subscriptions)

    def begin(self, virtual: VirtualConsumer, context: Context, position: Position | None) -> None:
        """The client replaces a virtual consumer that lacks events, or the client's position."""
        arriving = Replacing(
            context, context.epoch, virtual=virtual, position=position, inherited=set(context.filters)
        )
        self.whereabouts.expect(arriving)
        self._replacing[context.client, virtual.epoch] = arriving
        if virtual.whole:
            open_local_queue(context)  # nothing is delivered until the position is known

    def end(self, arriving: Arriving) -> None:
        """Await nothing more for this context, if it replaces a virtual consumer."""
        if isinstance(arriving, Replacing):
            del self._replacing[arriving.context.client, arriving.virtual.epoch]
            if arriving.handed is not None:
                self._handed.remove(arriving)

    # --- what is missing comes ------------------------------------------------------------------------------

    def on_prestored(self, server: BrokerId, message: Prestored) -> None:
        """The events that the virtual consumer lacked have come."""
        arriving = self._replacing.get((message.client, message.epoch))
        if arriving is None or arriving.virtual.attempt != message.attempt:
            self.virtual.on_prestored(server, message)
        elif arriving.virtual.changes == message.changes:
            self.virtual.fill(arriving.context, message)
            arriving.virtual.whole = True
            note(self.contexts, "ready", message.client, server, message.attempt)
            if arriving.position is not None:
                skip_to(arriving.context, arriving.position)
                self.handover.replay(arriving)

    def on_handed(self, server: BrokerId, message: Handed) -> None:
        """ESi says what the client has read. Some of the events that it has not read may still be on their way here."""
        arriving = self.whereabouts.arriving.get((message.client, message.successor))
        if isinstance(arriving, Replacing):
            arriving.handed = message
            self._handed.append(arriving)
            self._complete_passed(arriving)

    def on_event(self, event: Event) -> None:
        self.on_passed()

    def on_passed(self) -> None:
        for arriving in list(self._handed):
            self._complete_passed(arriving)

    def _complete_passed(self, arriving: Replacing) -> None:
        message = arriving.handed
        assert message is not None
        if self.virtual.has_passed(message):
            if message.session is not None:
                self.contexts.host.take_session(arriving.context, message.session)
            self.virtual.take_read(arriving.context, message)
            self.handover.replay(arriving)

    def on_subscribe(self, context: Context, filter: Filter) -> None:
        if isinstance(arriving := self.whereabouts.incomplete.get(context), Replacing):
            arriving.inherited.discard(filter)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        """ESi answers with a normal handoff: the virtual consumer was not the one that the client needs."""
        arriving = self.whereabouts.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, Replacing):
            self._start_over(arriving, reply.filters)
        self.handover.on_subscriptions(old_broker, reply)

    def _start_over(self, arriving: Replacing, filters: tuple[Filter, ...]) -> None:
        """ESj has delivered no event of the virtual consumer: go on without its events."""
        context = arriving.context
        self.end(arriving)
        self.whereabouts.expect_no_more(arriving)
        start_over(context, {})
        for filter in [f for f in context.filters if f in arriving.inherited and f not in filters]:
            self.contexts.remove_filter(context, filter, mobile=True)
        requested = self.handover.expect(context, arriving.transfer)
        requested.unsubscribed, requested.leaves = arriving.unsubscribed, arriving.leaves
