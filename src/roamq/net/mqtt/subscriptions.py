"""Subscriptions of one session: what a SUBSCRIBE asks for, and how an event reaches this client because of
them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from roamq.core.events import Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.net.mqtt.codec.topics import parse_share
from roamq.net.mqtt.state import SessionState, Subscription

REMEMBERED_TOPICS_MAX: Final = 1024
_UNKNOWN: Final = object()


class Route(NamedTuple):
    """How an event goes to this client: the matching subscriptions taken together."""

    qos: int
    """The highest granted ([MQTT-3.3.4-2])."""
    retain_as_published: bool
    identifiers: tuple[int, ...]
    """Of all that match ([MQTT-3.3.4-3], [MQTT-3.3.4-4])."""


class SubscriptionSet:
    """The subscriptions of a session, ready for matching; the session's state stays the one truth.

    The network brings an event to a client once, whatever number of its subscriptions match, so that this is
    where MQTT's options are applied. Routes are remembered by topic as long as no subscription depends on
    more than the topic (a selector, No Local).
    """

    def __init__(self, state: SessionState) -> None:
        self._state = state
        self._filters: dict[str, Filter] = {}
        self._index: MatchIndex[str] = MatchIndex()
        self.routes: dict[str, Route | None] = {}
        """Known routes by topic; emptied at every change. Read by `Outbound`, where every call counts."""
        self._by_topic_only = True
        for subscription in state.subscriptions.values():
            self._insert(subscription)

    def __len__(self) -> int:
        return len(self._filters)

    def filter_of(self, topic_filter: str) -> Filter | None:
        return self._filters.get(topic_filter)

    @property
    def filters(self) -> Mapping[str, Filter]:
        return self._filters

    def wants(self, filter: Filter) -> bool:
        """Does any subscription, however it is written, stand for exactly this filter?"""
        return filter in self._filters.values()

    def add(self, subscription: Subscription) -> None:
        """Add or replace: an identical topic filter stands once in a session ([MQTT-3.8.4-3])."""
        self.remove(subscription.topic_filter)
        self._state.subscriptions[subscription.topic_filter] = subscription
        self._insert(subscription)

    def remove(self, topic_filter: str) -> Filter | None:
        """Compared character by character ([MQTT-3.10.4-1]); gives what was removed."""
        removed = self._filters.pop(topic_filter, None)
        if removed is not None:
            del self._state.subscriptions[topic_filter]
            self._index.remove(topic_filter, removed)
            self._changed()
        return removed

    def _insert(self, subscription: Subscription) -> None:
        share = parse_share(subscription.topic_filter)
        topic = share.topic_filter if share else subscription.topic_filter
        filter_ = Filter.parse(topic, subscription.selector)
        self._filters[subscription.topic_filter] = filter_
        self._index.add(subscription.topic_filter, filter_)
        self._changed()

    def _changed(self) -> None:
        self.routes.clear()
        self._by_topic_only = not any(s.selector or s.no_local for s in self._state.subscriptions.values())

    def route(self, event: Event) -> Route | None:
        """How `event` goes to this client; `None` if it does not."""
        route = self.routes.get(event.topic, _UNKNOWN)
        if route is not _UNKNOWN:
            return route  # type: ignore[return-value]  # the sentinel is excluded
        found = self._find_route(event)
        if self._by_topic_only:
            if len(self.routes) >= REMEMBERED_TOPICS_MAX:
                self.routes.clear()
            self.routes[event.topic] = found
        return found

    def _find_route(self, event: Event) -> Route | None:
        subscriptions = self._state.subscriptions
        matching = [subscriptions[key] for key in self._index.match(event)]
        if event.publisher == self._state.client_id:
            # [MQTT-3.8.3-3]
            matching = [subscription for subscription in matching if not subscription.no_local]
        # A shared subscription counts only where no other explains the event: which member of the group gets
        # it was settled before it came here.
        own = [subscription for subscription in matching if not _is_shared(subscription)] or matching
        if not own:
            return None
        return Route(
            max(subscription.qos for subscription in own),
            any(subscription.retain_as_published for subscription in own),
            tuple(subscription.identifier for subscription in own if subscription.identifier),
        )


def _is_shared(subscription: Subscription) -> bool:
    return subscription.topic_filter.startswith("$share/")
