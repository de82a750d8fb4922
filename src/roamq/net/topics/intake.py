"""Takes in events that enter the network here, or reach this broker, for retained messages and shared groups."""

from dataclasses import replace

from roamq.broker.broker import Broker
from roamq.core.events import ClientId, Event
from roamq.net.topics.retained import RetainedMessages
from roamq.net.topics.shared import GroupKey, SharedGroups


class EventIntake:
    """Takes events in for the core's broker, the retained messages and the shared groups."""

    def __init__(self, broker: Broker, retained: RetainedMessages, groups: SharedGroups) -> None:
        self._broker = broker
        self._retained = retained
        self.shared = groups

    def enter(self, event: Event) -> None:
        """An event enters the network here, with the next id of this broker, and with a member of each shared group
        assigned."""
        if event.retain:
            event = self._retained.in_turn(event)
        if self.shared.groups and (assigned := self.shared.assign(event)):
            event = replace(event, assigned=assigned)
        self._broker.inject(event)
        if event.retain:
            self._retained.observe(event)

    def arrived(self, event: Event) -> None:
        """The contexts have got an event from elsewhere: retain it, and hand it on for groups of which no member could
        take it."""
        if event.retain and not event.is_handed_on:
            self._retained.observe(event)
        if self.shared.groups or event.assigned is not None:
            for key, member in list(self.shared.left_over(event)):
                if member is None:
                    self.hand_on(event, key)
                elif self._has_place(member, key):
                    self.hand_to(member, event, key)

    def hand_on(self, event: Event, key: GroupKey) -> None:
        """The member to which the event was assigned has left the group: give the event to the next member."""
        member = self.shared.next_member(key)
        if member is not None:
            self.hand_to(member, event, key)

    def hand_to(self, member: ClientId, event: Event, key: GroupKey) -> None:
        """Give a member a copy of the event for the group alone, as an event of its own."""
        event_id = self._broker.next_event_id()
        self._broker.inject(replace(event, id=event_id, assigned={key: member}, is_handed_on=True))

    def _has_place(self, client: ClientId, key: GroupKey) -> bool:
        """Is the client's current context, with its place in the group, at this broker?"""
        context = self._broker.contexts.get(client)
        return context is not None and any(str(filter) == key for filter in context.filters)
