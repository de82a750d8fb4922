"""A client replaces its virtual consumer: the last branch of algorithm A1, at ESj, where the client appears.

Paper: [PRE] section 4, Fig. 3. A virtual consumer that is whole serves a client that shows how far it has read at
once: that is the just-in-time delivery of the title. Otherwise nothing is delivered until the rest has come from ESi,
be it events or the client's read position (docs/decisions/0080, 0081).
"""

from dataclasses import dataclass

from roamq.core.context import Epoch, Position, Ticket, digest_of
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.messages import NoContext, Subscriptions
from roamq.core.ports import Host
from roamq.core.prehandoff_messages import Handed, Prestored, Replaced
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions
from roamq.schemes.claims import Arriving
from roamq.schemes.copies import start_over
from roamq.schemes.virtual_consumers import VirtualConsumer, VirtualConsumerHolder


@dataclass(slots=True, kw_only=True, eq=False)
class Replacing(Arriving):
    """A virtual consumer that its client replaces before it is whole, or before its position is known."""

    virtual: VirtualConsumer
    position: Position | None
    """How far the client has read, if it showed that."""
    inherited: set[Filter]
    """The subscriptions that came with the virtual consumer."""
    handed: Handed | None = None


class VirtualConsumerReplacer(VirtualConsumerHolder):
    """Lets clients take the place of the virtual consumers that are held for them."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.replacing: dict[tuple[ClientId, Epoch], Replacing] = {}
        """Virtual consumers in service that are not whole, by the connection they were made for."""
        self._handed: list[Replacing] = []
        """Those that wait for events which the client's last server has seen already."""
        self.handle(Handed, self.on_handed)

    def is_usable(self, virtual: VirtualConsumer, old_broker: BrokerId, ticket: Ticket | None) -> bool:
        """Is this the surrogate of the connection the client comes from, with the subscriptions it has?

        A client that shows nothing is believed; the server that it names will know.
        """
        if virtual.context is None or virtual.epoch.broker != old_broker:
            return False
        if ticket is not None and ticket.epoch is not None and ticket.epoch != virtual.epoch:
            return False
        return ticket is None or ticket.digest in (None, digest_of(virtual.context.filters))

    def a1_replace(self, virtual: VirtualConsumer, ticket: Ticket | None) -> None:
        """VC_MHs ∈ VC(ESj): Local(ESj) = Local(ESj) ∪ MHs; VC(ESj) = VC(ESj) - VC_MHs."""
        client, context = virtual.client, virtual.context
        assert context is not None
        shows_all = ticket is not None and ticket.epoch is not None and ticket.digest is not None
        position = dict(ticket.position) if shows_all and ticket and ticket.position is not None else None
        del self.virtual[client]
        self.host.cancel_timer(("lease", client))
        self.contexts[client] = context
        context.epoch = self.new_epoch(above=virtual.epoch)
        self.note("hit" if virtual.whole else "unready", client, virtual.epoch.broker, virtual.attempt)
        replaced = Replaced(
            client=client,
            epoch=virtual.epoch,
            attempt=virtual.attempt,
            heir=context.epoch,
            whole=virtual.whole,
            asks=position is None,
            digest=digest_of(context.filters),
            changes=virtual.changes,
        )
        if virtual.whole and position is not None:
            context.skip_to(position)
        else:
            arriving = Replacing(
                context, context.epoch, virtual=virtual, position=position, inherited=set(context.filters)
            )
            self.arriving[client, context.epoch] = self.incomplete[context] = arriving
            self.replacing[client, virtual.epoch] = arriving
            if virtual.whole:
                context.open_local_queue()  # nothing is delivered until the position is known
        self.serve(context, resumed=True)
        self.router.unicast(virtual.epoch.broker, replaced)

    # --- what is still missing comes ----------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        for arriving in list(self._handed):
            self.complete_passed(arriving)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        super().on_subscribe(client, filter)
        if isinstance(arriving := self.incomplete.get(self.contexts[client]), Replacing):
            arriving.inherited.discard(filter)

    def on_prestored(self, server: BrokerId, message: Prestored) -> None:
        arriving = self.replacing.get((message.client, message.epoch))
        if arriving is None or arriving.virtual.attempt != message.attempt:
            super().on_prestored(server, message)
        elif arriving.virtual.changes == message.changes:
            self.fill(arriving.context, message)
            arriving.virtual.whole = True
            self.note("ready", message.client, server, message.attempt)
            if arriving.position is not None:
                arriving.context.skip_to(arriving.position)
                self.step_6_replay(arriving)

    def on_handed(self, server: BrokerId, message: Handed) -> None:
        """What the client has read is known; what it has not may in part be on its way here, as events."""
        arriving = self.arriving.get((message.client, message.heir))
        if isinstance(arriving, Replacing):
            arriving.handed = message
            self._handed.append(arriving)
            self.complete_passed(arriving)

    def complete_passed(self, arriving: Replacing) -> None:
        message = arriving.handed
        assert message is not None
        if self.router.passed(message.fence):
            arriving.context.skip_to(dict(message.position))
            arriving.context.keep_unread(message.reach, message.held)
            self.step_6_replay(arriving)

    def on_subscriptions(self, old_broker: BrokerId, reply: Subscriptions) -> None:
        arriving = self.arriving.get((reply.client, reply.epoch))
        if isinstance(arriving, Replacing):
            self.begin_anew(arriving, reply.filters)
        super().on_subscriptions(old_broker, reply)

    def on_no_context(self, old_broker: BrokerId, reply: NoContext) -> None:
        context = self.contexts.get(reply.client)
        if context is None or context.epoch != reply.epoch or context in self.incomplete:
            super().on_no_context(old_broker, reply)
        elif reply.newer is not None and reply.newer > context.epoch:
            # The client never heard that it was served here, and went back to where it was.
            self.host.detach(context.client, "taken over")
            self.close(context)
            self.remember_where(context.client, reply.newer)

    def begin_anew(self, arriving: Replacing, filters: tuple[Filter, ...]) -> None:
        """The virtual consumer was not what the client needs, and nothing of it was delivered: a normal handoff."""
        context = arriving.context
        self.expect_no_more(arriving)
        start_over(context, {})
        for filter in [f for f in context.filters if f in arriving.inherited and f not in filters]:
            self.remove_filter(context, filter, mobile=True)
        anew = self.expect(context, arriving.transfer)
        anew.unsubscribed, anew.leaves = arriving.unsubscribed, arriving.leaves

    def expect_no_more(self, arriving: Arriving) -> None:
        super().expect_no_more(arriving)
        if isinstance(arriving, Replacing):
            del self.replacing[arriving.context.client, arriving.virtual.epoch]
            if arriving.handed is not None:
                self._handed.remove(arriving)
