"""Roll calls: a broker that was cut off hears from the others which sessions they have.

While a broker is cut off, its neighbours keep no news of sessions and of places in shared groups for it. Instead, each
broker whose news it has missed tells it which sessions and places that broker has. If the listener believes a session
to be there and the caller did not call it, it is not there any more: it has ended, or is with another broker, which
says so itself. So the listener forgets where the session is, and nothing else: contexts go by claims and epochs alone.

A roll speaks for the life of its caller, up to the moment in which it was called. Its parts are numbered, for some of
them may be left out when a broker on the way is cut off again; then a broker asks the caller for another roll.
"""

from dataclasses import dataclass, field, replace

from roamq.broker.broker import Broker
from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.net.clients.sessions import Sessions
from roamq.net.topics.directory import Directory
from roamq.net.topics.shared import GroupKey, SharedGroups
from roamq.net.topics.tables import TablesTold


@dataclass(slots=True)
class Roll:
    """The parts of one roll that have come so far."""

    as_of: Epoch
    parts: int = 0
    clients: set[ClientId] = field(default_factory=set)
    places: set[tuple[GroupKey, ClientId]] = field(default_factory=set)


class RollCalls:
    """The rolls that other brokers call for this one."""

    def __init__(
        self, broker: Broker, directory: Directory, groups: SharedGroups, sessions: Sessions
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._groups = groups
        self._sessions = sessions
        self._rolls: dict[BrokerId, Roll] = {}
        """Broker -> the roll that it is calling."""

    def on_part(self, caller: BrokerId, message: TablesTold) -> None:
        """A part of a roll has come; with the last part, forget the sessions and places that were not called."""
        assert message.roll is not None
        self._learn(caller, message)
        roll = self._rolls.get(caller)
        if roll is None or roll.as_of != message.roll:
            roll = self._rolls[caller] = Roll(message.roll)
        roll.parts += 1
        if roll.parts != message.part:
            return  # some parts were left out on the way
        roll.clients.update(ClientId(client) for client, *_ in message.connections)
        roll.places.update((str(place.filter), place.client) for place in message.places)
        if message.is_all:
            del self._rolls[caller]
            self._forget_others(caller, roll, message.since)

    def _learn(self, caller: BrokerId, message: TablesTold) -> None:
        self._sessions.hear(caller, message.connections)
        for place in message.places:
            self._groups.learn(place)

    def _forget_others(self, caller: BrokerId, roll: Roll, since: float) -> None:
        def is_over(epoch: Epoch) -> bool:
            return epoch.broker == caller and since <= epoch.connected_at and epoch < roll.as_of

        # A context that was here may have gone there, on a claim that was kept; the news of the move was not.
        went = [
            (client, epoch) for client, epoch in self._broker.scheme.parts.went().items() if is_over(epoch)
        ]
        there = [(client, entry.epoch) for client, entry in self._directory.items() if is_over(entry.epoch)]
        for client, epoch in (*went, *there):
            if client not in roll.clients:
                self._directory.forget(client, epoch)
        for place in list(self._groups.all_places()):
            if (str(place.filter), place.client) not in roll.places and is_over(place.epoch):
                self._groups.learn(replace(place, connected=None))
