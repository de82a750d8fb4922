"""The steps of a message between its publication and its end, as records: routed, stored, acknowledged.

They are for operators who ask where a message is (`roamq trace`). A busy broker would write three records for each
message, so it writes them only if the configuration asks for them (`records.steps`).
"""

from collections.abc import Iterable

from roamq.broker.contexts import Contexts
from roamq.core.context import Mode
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.records import Record
from roamq.net.host import LiveHost


class Steps:
    """Writes the records of the steps at one broker."""

    def __init__(self, host: LiveHost, contexts: Contexts, enabled: bool) -> None:
        self._host = host
        self._contexts = contexts
        self.enabled = enabled

    def routed(self, peer: BrokerId, event: Event) -> None:
        """Record an event that came over a link from `peer`, and that every context that wants it has."""
        origin, sequence = event.id
        self._host.record(Record("routed", self._host.time, self._host.me, None, origin, sequence, peer))
        self.stored(event)

    def stored(self, event: Event) -> None:
        """Record that an event waits here for each client that is away, or whose session is on its way."""
        origin, sequence = event.id
        for context in self._contexts.watched.index.match(event):
            if context.mode is not Mode.SERVING or context.local_queue is not None:
                self._host.record(
                    Record("stored", self._host.time, self._host.me, context.client, origin, sequence)
                )

    def acknowledged(self, client: ClientId, event_ids: Iterable[EventId]) -> None:
        for origin, sequence in event_ids:
            self._host.record(
                Record("acknowledged", self._host.time, self._host.me, client, origin, sequence)
            )
