"""Retained messages for new subscriptions: replayed in slices, so that no SUBSCRIBE keeps the other clients waiting."""

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from roamq.broker.broker import Broker
from roamq.core.events import ClientId
from roamq.core.filters import Filter
from roamq.net.clients.mqtt.state import SessionState
from roamq.net.clients.mqtt.subscriptions import filters_of
from roamq.net.host import LiveHost
from roamq.net.topics.retained import RetainedMessages, Search

REPLAY_TIMER: Final = "retained"
"""The timer for the next slice."""
SPARE_SEARCHES: Final = 256
"""The number of waiting searches of a client, besides two per subscription, above which the broker drops useless
ones."""
SLICE_STEPS: Final = 256
"""The number of topics at which one slice looks."""


class Replays:
    """Hands retained messages to clients that have subscribed: the first slice at once, the others in turn."""

    def __init__(self, host: LiveHost, broker: Broker, retained: RetainedMessages) -> None:
        self._host = host
        self._broker = broker
        self._retained = retained
        self._waiting: dict[ClientId, deque[Search]] = {}

    def begin(self, client: ClientId, filters: Iterable[Filter]) -> None:
        """The client has subscribed: hand it the retained messages that the filters match ([MQTT-3.3.1-9])."""
        filters = [filter for filter in filters if self._retained.may_match(filter)]
        if not filters:
            return
        is_under_way = client in self._waiting
        searches = self._waiting.setdefault(client, deque())
        searches.extend(self._retained.search(filter) for filter in filters)
        if not is_under_way:
            self.go_on(client)
        else:
            self._tidy(client, searches)

    def _tidy(self, client: ClientId, searches: deque[Search]) -> None:
        """Drop searches that nobody needs: a client may subscribe again and again while its first replay goes on.

        Of several searches for one filter the last finds all that the others would.
        """
        context = self._broker.contexts.get(client)
        session = context.session if context is not None else None
        if not isinstance(session, SessionState):
            return
        if len(searches) <= SPARE_SEARCHES + 2 * len(session.subscriptions):
            return
        under_way = searches.popleft()
        wanted = set(filters_of(session))
        last = {search.filter: search for search in searches if search.filter in wanted}
        searches.clear()
        searches.append(under_way)
        searches.extend(last.values())

    def go_on(self, client: ClientId) -> None:
        """Hand the client the next slice. If its session has moved on or ended, give up its searches."""
        searches = self._waiting.get(client)
        context = self._broker.contexts.get(client)
        session = context.session if context is not None else None
        if searches is None or not isinstance(session, SessionState):
            self._waiting.pop(client, None)
            return
        steps = SLICE_STEPS
        while searches and steps > 0:
            found, steps = searches[0].go_on(self._host.time, steps)
            for event in found:
                # A retained message goes through the context like everything else.
                copy = replace(event, id=session.next_replay_id(), assigned=None, is_handed_on=False)
                self._broker.contexts.hand(client, copy)
            if searches[0].is_over:
                searches.popleft()
        if searches:
            self._host.set_timer((REPLAY_TIMER, client), 0.0)
        else:
            del self._waiting[client]
