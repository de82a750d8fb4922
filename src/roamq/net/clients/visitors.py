"""Subscriptions of clients whose context is at their home broker: SUBACK waits until the home has confirmed them.

Under `home-broker` the broker that a client visits passes its subscriptions on to its home, which subscribes. The
visited broker asks the home to tell when the network knows; then the visited broker sends SUBACK and tells of places in
shared groups, so that nobody assigns an event to a member whose home would not get it.
"""

from dataclasses import dataclass
from typing import Final

from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.net.clients.confirmations import Confirmations
from roamq.net.clients.connections import Connection
from roamq.net.clients.mqtt.codec import Suback
from roamq.net.host import LiveHost
from roamq.net.links.others import OtherBrokers
from roamq.net.topics.directory import Directory
from roamq.net.topics.memberships import Memberships

HOME_TIMER: Final = "home_confirms"
"""The timer for a home that does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmVisitor(Message):
    """Visited broker -> home, behind a subscription: tell me when the network knows of the subscription."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitorConfirmed(Message):
    """Home -> visited broker: the network knows of all subscriptions that you passed on before you asked."""

    number: int


@dataclass(slots=True)
class VisitorSuback:
    """A SUBACK that waits for the client's home, and the places in shared groups that begin with it."""

    connection: Connection
    suback: Suback
    places: tuple[Filter, ...]


class Visitors:
    """SUBACKs of clients whose home is another broker."""

    def __init__(
        self,
        host: LiveHost,
        confirmations: Confirmations,
        memberships: Memberships,
        directory: Directory,
        others: OtherBrokers,
    ) -> None:
        self._host = host
        self._confirmations = confirmations
        self._memberships = memberships
        self._directory = directory
        self._others = others
        self._number = 0
        self._waiting: dict[int, VisitorSuback] = {}

    def hold(
        self, connection: Connection, client: ClientId, suback: Suback, places: tuple[Filter, ...]
    ) -> None:
        """Send SUBACK when the client's home has confirmed the subscriptions that were passed on to it."""
        home = self._directory.home(client)
        self._number += 1
        self._waiting[self._number] = VisitorSuback(connection, suback, places)
        if home is None or home == self._host.me:
            self.answer(self._number)
            return
        self._others.tell(home, ConfirmVisitor(number=self._number))
        self._host.set_timer((HOME_TIMER, str(self._number)), 3 * self._confirmations.timeout_s)

    def on_asked(self, sender: BrokerId, message: ConfirmVisitor) -> None:
        self._confirmations.hold(sender, VisitorConfirmed(number=message.number))

    def on_confirmed(self, sender: BrokerId, message: VisitorConfirmed) -> None:
        self.answer(message.number)

    def answer(self, number: int) -> None:
        """Send SUBACK and tell of places: the home has answered, or its time to answer is over."""
        held = self._waiting.pop(number, None)
        self._host.cancel_timer((HOME_TIMER, str(number)))
        if held is None:
            return
        connection = held.connection
        client = connection.client if connection.is_open else None
        for filter in held.places:
            if client is not None and connection.mqtt.subscriptions.wants(filter):
                self._memberships.set(filter, client, connection.epoch, True)
        self._confirmations.send(connection, held.suback)
