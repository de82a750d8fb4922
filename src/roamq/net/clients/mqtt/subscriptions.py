"""Subscriptions of one session: the filters that they ask for, and the way of an event to this client because of
them."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from roamq.core.events import Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.net.clients.mqtt.codec.topics import parse_share
from roamq.net.clients.mqtt.state import SessionState, Subscription

REMEMBERED_TOPICS_MAX: Final = 128
"""Routes that are kept for one client: tens of thousands of clients may each have as many."""
REMEMBERED_FILTERS_MAX: Final = 16_384
REMEMBERED_CHARACTERS_MAX: Final = 128
REMEMBERED_MATCHES_MAX: Final = 8
"""Most subscriptions that a kept route may name; a longer route is found anew for each event."""
SCANNED_MAX: Final = 4
"""Most subscriptions that are asked one by one, without an index."""
INDEXED_AT_ONCE: Final = 250
"""Most subscriptions that enter the index in one step: a client that comes back with thousands holds nobody up."""
_UNKNOWN: Final = object()


class DeliveryRoute(NamedTuple):
    """How an event goes to this client: the matching subscriptions taken together."""

    qos: int
    """The highest QoS granted ([MQTT-3.3.4-2])."""
    retain_as_published: bool
    identifiers: tuple[int, ...]
    """The identifiers of all that match ([MQTT-3.3.4-3], [MQTT-3.3.4-4])."""
    is_shared: bool = False
    """Whether the event goes to the client as a member of a shared group."""
    further: tuple[str, ...] = ()
    """Further shared groups of the client for the event, as the text of their filters: the client gets a copy for
    each."""


QOS: Final = 0
IDENTIFIERS: Final = 2
"""The places of two fields of a route: access by number takes half as long as by name."""


class SubscriptionSet:
    """The subscriptions of a session, ready for matching; the session's state stays the one truth.

    The network brings an event to a client once, however many of its subscriptions match, so MQTT's options are applied
    here. A client gets one copy for all its subscriptions that are not shared, and one for each shared group in which
    the event was assigned to it. Routes are kept by topic as long as no subscription depends on more than the topic (a
    selector, No Local).
    """

    __slots__ = (
        "_beyond_topic",
        "_filters",
        "_index",
        "_scanned",
        "_shapes",
        "_spellings",
        "_state",
        "routes",
        "selector_bytes",
        "shared",
    )

    def __init__(self, state: SessionState, order: Iterable[str] | None = None) -> None:
        """`order`: the order in which the topic filters were added, if not that of the session."""
        self._state = state
        self._filters: dict[str, Filter] = {}
        self._spellings: Counter[Filter] | None = None
        """Filter -> how many subscriptions ask for it; made at the first question with more than `SCANNED_MAX`."""
        self._shapes: Counter[str] | None = None
        """Shape -> how many subscriptions have it; made in the same way."""
        self._beyond_topic = 0
        """How many subscriptions depend on more than the topic."""
        self._index: MatchIndex[str] | None = None
        """Made when there are more than `SCANNED_MAX` subscriptions: the index of a few filters is larger than
        these."""
        self._scanned = self._filters
        """Filters that are not in the index, added after all that are in it; all filters, while there is no index."""
        self.shared = 0
        """How many subscriptions are shared: the one for which an event was assigned depends on more than its topic."""
        self.selector_bytes = 0
        """Characters of all selectors together."""
        self.routes: dict[str, DeliveryRoute | None] = {}
        """Known routes by topic; emptied at every change. `Outbound` reads them directly, because every call counts."""
        self._insert_all(state.subscriptions, order)

    def __len__(self) -> int:
        return len(self._filters)

    @property
    def cost_bytes(self) -> int:
        """Bytes of memory that all subscriptions take."""
        return self._state.subscription_bytes

    def filter_of(self, topic_filter: str) -> Filter | None:
        return self._filters.get(topic_filter)

    @property
    def filters(self) -> Mapping[str, Filter]:
        return self._filters

    def wants(self, filter: Filter) -> bool:
        """Does any subscription, however it is written, ask for exactly this filter?"""
        if self._spellings is None:
            if len(self._filters) <= SCANNED_MAX:
                return filter in self._filters.values()
            self._spellings = Counter(self._filters.values())
        return filter in self._spellings

    @property
    def shapes(self) -> int:
        """In how many ways the subscriptions place their wildcards."""
        return len(self._counted_shapes())

    def has_shape(self, shape: str) -> bool:
        """Does any subscription place its wildcards in this way?"""
        return shape in self._counted_shapes()

    def _counted_shapes(self) -> Counter[str]:
        if self._shapes is not None:
            return self._shapes
        counted = Counter(filter.shape for filter in self._filters.values() if filter.shape)
        if len(self._filters) > SCANNED_MAX:
            self._shapes = counted
        return counted

    def add(
        self, subscription: Subscription, filter: Filter | None = None, cost_bytes: int | None = None
    ) -> None:
        """Add or replace a subscription: an identical topic filter stands once in a session ([MQTT-3.8.4-3]).

        `filter` is the filter that it asks for, and `cost_bytes` its cost, if the caller knows them already.
        """
        topic_filter = subscription.topic_filter
        if topic_filter in self._filters:
            self.remove(topic_filter)
        self._state.subscriptions[topic_filter] = subscription
        self._insert(
            subscription,
            filter_of(subscription) if filter is None else filter,
            subscription.cost_bytes if cost_bytes is None else cost_bytes,
        )

    def remove(self, topic_filter: str) -> Filter | None:
        """Remove a subscription, compared character by character ([MQTT-3.10.4-1]). Return its filter."""
        removed = self._filters.pop(topic_filter, None)
        if removed is not None:
            subscription = self._state.subscriptions.pop(topic_filter)
            if self._index is not None and self._scanned.pop(topic_filter, None) is None:
                self._index.remove(topic_filter, removed)
            if self._spellings is not None:
                self._spellings[removed] -= 1
                if not self._spellings[removed]:
                    del self._spellings[removed]
            if self._shapes is not None and removed.shape:
                self._shapes[removed.shape] -= 1
                if not self._shapes[removed.shape]:
                    del self._shapes[removed.shape]
            self._count_options(subscription, removed, -1)
            self._state.subscription_bytes -= subscription.cost_bytes
            self.routes.clear()
        return removed

    def _insert_all(self, subscriptions: Mapping[str, Subscription], order: Iterable[str] | None) -> None:
        """Take over the subscriptions of a session. It may have thousands, and all clients wait meanwhile."""
        filters, cost_bytes = self._filters, 0
        for topic_filter in subscriptions if order is None else order:
            subscription = subscriptions[topic_filter]
            filters[topic_filter] = filter = asked_for(topic_filter, subscription.selector)
            cost_bytes += subscription.cost_bytes
            if subscription.selector or subscription.no_local or filter.group is not None:
                self._count_options(subscription, filter, 1)
        self._state.subscription_bytes = cost_bytes

    def _insert(self, subscription: Subscription, filter: Filter, cost_bytes: int) -> None:
        filters, topic_filter = self._filters, subscription.topic_filter
        filters[topic_filter] = filter
        if self._scanned is not filters:
            self._scanned[topic_filter] = filter
        if self._spellings is not None:
            self._spellings[filter] += 1
        if self._shapes is not None and filter.shape:
            self._shapes[filter.shape] += 1
        if subscription.selector or subscription.no_local or filter.group is not None:
            self._count_options(subscription, filter, 1)
        self._state.subscription_bytes += cost_bytes
        self.routes.clear()

    def _count_options(self, subscription: Subscription, filter: Filter, by: int) -> None:
        self._beyond_topic += by * bool(subscription.selector or subscription.no_local)
        self.selector_bytes += by * len(subscription.selector or "")
        self.shared += by * (filter.group is not None)

    def route(self, event: Event) -> DeliveryRoute | None:
        """How `event` goes to this client; None if it does not."""
        route = self.routes.get(event.topic, _UNKNOWN)
        if route is not _UNKNOWN:
            return route  # type: ignore[return-value]  # the sentinel is excluded
        found = self._find_route(event)
        if not self._beyond_topic and (not self.shared or (len(self._filters) == 1 and found is not None)):
            self._remember(event.topic, found)
        return found

    def _remember(self, topic: str, route: DeliveryRoute | None) -> None:
        """Keep a route. No client is charged for kept routes, so they must be small whatever topics come."""
        if len(topic) > REMEMBERED_CHARACTERS_MAX:
            return
        if route is not None:
            if len(route.identifiers) + len(route.further) > REMEMBERED_MATCHES_MAX:
                return
            if not route.further:
                route = _one_object(route)
        if len(self.routes) >= REMEMBERED_TOPICS_MAX:
            self.routes.clear()
        self.routes[topic] = route

    def _find_route(self, event: Event) -> DeliveryRoute | None:
        subscriptions = self._state.subscriptions
        matching = [subscriptions[key] for key in self._matching(event)]
        if event.publisher == self._state.client_id:
            # [MQTT-3.8.3-3]
            matching = [subscription for subscription in matching if not subscription.no_local]
        # Section 4.8.2: a shared subscription is apart from the client's others, and has a copy of its own, if the
        # event was assigned to this member of the group. An event that was handed on is such a copy, for its group
        # alone.
        own = matching
        shares: list[tuple[str, Subscription]] = []
        if self.shared or event.is_handed_on:
            own = [] if event.is_handed_on else [one for one in matching if not _is_shared(one)]
            shares = sorted(self._shares(event, matching), key=itemgetter(0))
        if not own and not shares:
            return None
        is_shared = not own
        if is_shared:
            own = [shares.pop(0)[1]]
        return DeliveryRoute(
            max(subscription.qos for subscription in own),
            any(subscription.retain_as_published for subscription in own),
            tuple(subscription.identifier for subscription in own if subscription.identifier),
            is_shared,
            tuple(key for key, _ in shares),
        )

    def _matching(self, event: Event) -> list[str]:
        """The topic filters that match, in the order in which they were added."""
        if len(self._scanned) > SCANNED_MAX:
            self._index_some()
        found = [] if self._index is None else self._index.match(event)
        return found + [key for key, filter in self._scanned.items() if filter.matches(event)]

    def _index_some(self) -> None:
        if self._index is None:
            self._index = MatchIndex()
            self._scanned = dict(self._filters)
        for topic_filter in list(islice(self._scanned, INDEXED_AT_ONCE)):
            self._index.add(topic_filter, self._scanned.pop(topic_filter))

    def _shares(self, event: Event, matching: list[Subscription]) -> Iterator[tuple[str, Subscription]]:
        """The shared groups in which the event was assigned to this client, each with the subscription to it."""
        for key, client in (event.assigned or {}).items():
            if client == self._state.client_id:
                for one in matching:
                    if _is_shared(one) and str(self._filters[one.topic_filter]) == key:
                        yield key, one
                        break


@lru_cache(maxsize=1024)
def _one_object(route: DeliveryRoute) -> DeliveryRoute:
    """One object for equal routes: most clients have the same few routes."""
    return route


def filter_of(subscription: Subscription) -> Filter:
    """The filter that a subscription asks the network for."""
    return asked_for(subscription.topic_filter, subscription.selector)


def asked_for(topic_filter: str, selector: str | None) -> Filter:
    """The filter that a topic filter as the client wrote it, with `$share/...`, and a selector ask for."""
    if selector is not None:
        return _read(topic_filter, selector)
    if len(topic_filter) <= REMEMBERED_CHARACTERS_MAX:
        return _remembered(topic_filter)
    known = _long_ones.get(topic_filter)
    if known is None:
        known = _long_ones[topic_filter] = _read(topic_filter, None)
    return known


_long_ones: Final[WeakValueDictionary[str, Filter]] = WeakValueDictionary()
"""Filters that are too long to be kept beyond their last subscription."""


@lru_cache(maxsize=REMEMBERED_FILTERS_MAX)
def _remembered(topic_filter: str) -> Filter:
    """`_read`, kept: a client with thousands of subscriptions that comes and goes has them read once."""
    return _read(topic_filter, None)


def _read(topic_filter: str, selector: str | None) -> Filter:
    share = parse_share(topic_filter)
    if share is None:
        return Filter(topic_filter, selector)
    return Filter(share.topic_filter, selector, share.group)


def filters_of(session: SessionState) -> list[Filter]:
    """The filters that the subscriptions of a session ask the network for."""
    return [filter_of(subscription) for subscription in session.subscriptions.values()]


def shared_filters_of(session: SessionState) -> list[Filter]:
    """The filters that the shared subscriptions of a session ask for."""
    return [
        filter_of(subscription) for subscription in session.subscriptions.values() if _is_shared(subscription)
    ]


def _is_shared(subscription: Subscription) -> bool:
    return subscription.topic_filter.startswith("$share/")
