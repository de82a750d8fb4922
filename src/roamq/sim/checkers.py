"""Checkers: they watch the invariants in every run.

The invariants, stated here alone:
- loss: an event that a client was subscribed to when it was published is delivered to it, sooner or later;
- duplication: at most once;
- order: the events of one origin arrive in the order they were published;
- leak: when everybody has settled, no broker buffers for a client that is served elsewhere;
- position: the read position of a context never goes back (`Context` only ever moves it forward).

The checkers remember events that are outstanding, not all that were published: per client and origin a queue of the
sequences still to come, from whose front deliveries take theirs.
"""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.sim.workload import Publication

if TYPE_CHECKING:
    from roamq.sim.network import Network


class Delivery(NamedTuple):
    """A client and an event: the subject of a finding."""

    client: ClientId
    event: EventId


class Checkers:
    """Know which events every client should get, and compare them with the events that it gets."""

    def __init__(self, network: "Network") -> None:
        self._network = network
        self._index: MatchIndex[ClientId] = MatchIndex()
        self._ever: dict[ClientId, list[Filter]] = {}
        self._outstanding: dict[ClientId, dict[BrokerId, deque[int]]] = {}
        self._last: dict[ClientId, dict[BrokerId, int]] = {}
        self._skipped: dict[Delivery, None] = {}
        self._changed_at: dict[ClientId, float] = {}
        self.duplicated: list[Delivery] = []
        self.reordered: list[Delivery] = []
        self.unasked: list[Delivery] = []
        self.expected_count = 0
        self.delivered_count = 0
        self._seen: dict[ClientId, set[EventId]] | None = None

    def remember_all(self) -> None:
        """Keeps every delivered id, for runs in which clients change their subscriptions: then events that were
        delivered without being owed are checked for repetition and order as well."""
        self._seen = {}

    # --- what should happen -------------------------------------------------------------------------------

    def asked(self, client: ClientId, filter: Filter) -> None:
        """The client may get events of this filter from now on."""
        self._ever.setdefault(client, []).append(filter)
        self._last.setdefault(client, {})

    def subscribed(self, client: ClientId, filter: Filter) -> None:
        """The client must get events of this filter from now on."""
        self.asked(client, filter)
        self._index.add(client, filter)
        self._outstanding.setdefault(client, {})

    def unsubscribed(self, client: ClientId, filter: Filter) -> None:
        """From now on the client is owed no event of this filter, nor any older event that has not come."""
        self._index.remove(client, filter)
        for origin, sequences in self._outstanding[client].items():
            for sequence in sequences:
                self._skipped.pop(Delivery(client, EventId(origin, sequence)), None)
        self._outstanding[client] = {}
        self._changed_at[client] = self._network.engine.now

    def expect(self, publication: Publication) -> tuple[ClientId, ...]:
        """Returns the clients that are subscribed to this publication now."""
        event = Event(id=EventId(BrokerId(""), 0), topic=publication.topic, attributes=publication.attributes)
        return self._index.found(event)

    def published(self, event: Event, expected: Iterable[ClientId]) -> None:
        origin, sequence = event.id
        for client in expected:
            self.expected_count += 1
            by_origin = self._outstanding[client]
            queue = by_origin.get(origin)
            if queue is None:
                queue = by_origin[origin] = deque()
            queue.append(sequence)

    # --- what happens -------------------------------------------------------------------------------------

    def delivered(self, client: ClientId, event: Event) -> None:
        origin, sequence = event.id
        if self._seen is not None and self._repeated_or_late(client, event):
            return
        queue = self._outstanding[client].get(origin)
        if queue and queue[0] == sequence:
            queue.popleft()
            self.delivered_count += 1
            self._last[client][origin] = sequence
            return
        self._unusual(client, event, queue)

    def _repeated_or_late(self, client: ClientId, event: Event) -> bool:
        assert self._seen is not None
        delivery = Delivery(client, event.id)
        seen = self._seen.setdefault(client, set())
        if event.id in seen:
            self.duplicated.append(delivery)
            return True
        seen.add(event.id)
        if event.id.sequence < self._last[client].get(event.id.origin, 0):
            self.reordered.append(delivery)
            self._skipped.pop(delivery, None)
            return True
        return False

    def _unusual(self, client: ClientId, event: Event, queue: deque[int] | None) -> None:
        """Judges an unexpected event: earlier ones are missing, or this one comes again or too late."""
        origin, sequence = event.id
        delivery = Delivery(client, event.id)
        if delivery in self._skipped:
            del self._skipped[delivery]
            self.delivered_count += 1
            self.reordered.append(delivery)
        elif queue and sequence > queue[0]:
            while queue and queue[0] < sequence:
                self._skipped[Delivery(client, EventId(origin, queue.popleft()))] = None
            if queue and queue[0] == sequence:
                queue.popleft()
                self.delivered_count += 1
            self._last[client][origin] = sequence
        elif sequence <= self._last[client].get(origin, 0):
            if not self._excused(client, event):
                self.duplicated.append(delivery)
        elif not any(filter.matches(event) for filter in self._ever[client]):
            self.unasked.append(delivery)
        else:
            self._last[client][origin] = sequence

    def _excused(self, client: ClientId, event: Event) -> bool:
        """Whether the event was published before the client last changed its subscriptions: it counts for nothing."""
        return event.published_at <= self._changed_at.get(client, -1.0)

    # --- at the end ---------------------------------------------------------------------------------------

    def lost(self) -> list[Delivery]:
        """Returns the events that were owed and never came."""
        missing = list(self._skipped)
        for client, by_origin in self._outstanding.items():
            missing += [Delivery(client, EventId(o, s)) for o, queue in by_origin.items() for s in queue]
        return missing

    def leaks(self) -> list[str]:
        """Describes contexts that store events for a client which has settled elsewhere."""
        found = []
        serving: dict[ClientId, list[BrokerId]] = {}
        for broker, host in self._network.hosts.items():
            for client in host.clients:
                serving.setdefault(client, []).append(broker)
        for broker, host in self._network.hosts.items():
            scheme = host.broker.scheme
            for context in scheme.held():
                settled = serving.get(context.client, [])
                if settled and settled != [broker] and not scheme.may_keep(context):
                    found.append(f"{context} at {broker}, while the client is at {settled[0]}")
            distinct = {held.event.id for c in scheme.held() for held in c.stored}
            buffered = len(host.broker.contexts.buffer)
            if buffered != len(distinct):
                found.append(f"the buffer of {broker} holds {buffered} events, its contexts {len(distinct)}")
        for client, brokers in serving.items():
            if len(brokers) > 1:
                found.append(f"{client} is served by {' and '.join(brokers)}")
        return found
