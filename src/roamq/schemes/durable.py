"""Durable subscriptions: a context stays, active, at every broker the client has ever visited.

Paper: [PRO] section 1: brokers propagate nothing between them, "at the expense of perpetually caching messages for
inactive subscribers". The client brings its subscriptions to each broker it visits for the first time.
Two consequences are kept here on purpose: a broker delivers events that the client has read elsewhere meanwhile
(duplicates), and events published while the client was on its way to a broker that did not know it wait at the last
broker until the client returns there. A bound (`buffer_bytes`) is that of the one store all subscriptions share, as a
JMS broker has it; when the store is full, the oldest message makes room.
"""

from typing import ClassVar

from roamq.core.context import Context, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.core.forgetting import give_up_first
from roamq.core.records import Record
from roamq.schemes.base import Scheme


class Durable(Scheme):
    """One broker with durable subscriptions; it knows nothing of the other brokers."""

    name = "durable"
    guarantees: ClassVar[frozenset[str]] = frozenset()
    carries_subscriptions: ClassVar[bool] = True

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        context = self.contexts.get(client)
        if context is None:
            context = self.contexts.open(client, self.contexts.new_epoch(), Mode.SERVING)
        for filter in carried:
            self.contexts.add_filter(context, filter)
        self.contexts.serve(context)

    def on_event(self, event: Event) -> None:
        buffer = self.contexts.buffer
        if buffer.limit_bytes is not None and buffer.bytes + event.cost_bytes > buffer.limit_bytes:
            self.make_room(buffer.bytes + event.cost_bytes - buffer.limit_bytes)
        super().on_event(event)

    def make_room(self, wanted_bytes: int) -> None:
        """Give up the oldest messages, for all clients, except those on their way to a connected client."""
        buffer = self.contexts.buffer
        target = buffer.bytes - wanted_bytes
        for event_id in list(buffer.oldest_first()):
            if buffer.bytes <= target:
                return
            given_up = [give_up_first(context, event_id) for context in self.contexts.values()]
            clients = sum(event is not None for event in given_up)
            self.host.record(
                Record(
                    "dropped", self.host.now(), self.me, None, *event_id, detail="queue_full", count=clients
                )
            )

    def may_keep(self, context: Context) -> bool:
        """True: no broker tells another that the client is elsewhere."""
        return True
