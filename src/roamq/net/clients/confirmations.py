"""SUBACK is a promise: a client gets it when every broker in reach knows of the subscription.

A message that is published anywhere after SUBACK was sent reaches the subscriber. Where events are routed by interest a
subscription must spread first: the broker sends a marker behind it to all others and holds SUBACK until their echoes
are back (`Router.confirm`). One marker at a time stands for all SUBSCRIBEs that came before it; later ones wait for the
next marker. A broker that does not answer in time counts as out of reach until it answers.
"""

from collections.abc import Mapping
from typing import Final

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.net.clients.connections import Connection
from roamq.net.clients.mqtt.codec import Suback
from roamq.net.host import LiveHost

CONFIRM_TIMER: Final = "confirm"
"""The timer for brokers that do not answer."""
LINGERING_MAX: Final = 2_000
"""Most ended places whose filters this broker keeps subscribed. While a broker is out of reach, places in groups may
come and go for ever, and no client is charged for ended ones: events that the broker assigned to earlier ones must then
reach their new member without this broker."""

Fence = Mapping[BrokerId, int]
HeldAnswer = tuple[Connection, Suback] | tuple[BrokerId, Message]
"""A SUBACK for a client, or a message for the broker that a client visits."""


class Confirmations:
    """SUBACKs that wait for the network, and filters that are kept until the network knows that nobody wants them."""

    def __init__(self, host: LiveHost, broker: Broker, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        """Seconds that the brokers have to answer a marker."""
        self._host = host
        self._router = broker.router
        self._asked: Fence | None = None
        """The marker that not all brokers have answered."""
        self._answers: list[HeldAnswer] = []
        """Answers that go out when the brokers have answered `_asked`."""
        self._next: list[HeldAnswer] = []
        """Answers that came after `_asked` was sent: the next marker is for them."""
        self._unreached: set[BrokerId] = set()
        """Brokers that did not answer in time, and have not since."""
        self._unanswered: Fence | None = None
        """The marker that `_unreached` did not answer."""
        self._lingering: list[tuple[Filter, Fence]] = []
        """Filters that nobody here wants any more, kept until the events have come that other brokers assigned to
        members."""

    @property
    def is_waiting(self) -> bool:
        return self._asked is not None or bool(self._lingering)

    def hold(self, to: Connection | BrokerId, answer: Suback | Message) -> None:
        """Send SUBACK as soon as the network knows of every subscription that this broker has made so far."""
        asked = self._router.confirm() if self._asked is None else self._asked
        if not asked:
            self.send(to, answer)  # there is nobody to ask
            return
        self._next.append((to, answer))  # type: ignore[arg-type]
        if self._asked is None:
            self._ask()

    def linger(self, filter: Filter) -> None:
        """Stay subscribed after a place in a shared group has ended: events that other brokers assigned to it come here
        until they know of the end."""
        self._router.subscribe(filter)
        fence = self._router.confirm(anew=True)
        if self._router.passed(fence):
            self._router.unsubscribe(filter)
            return
        self._lingering.append((filter, fence))
        if len(self._lingering) > LINGERING_MAX:
            first, _ = self._lingering.pop(0)
            self._router.unsubscribe(first)

    def look(self) -> None:
        """Look whether an echo has come, and send the answers and end the subscriptions that waited for it."""
        if self._asked is not None:
            self._see_who_is_back()
            silent = self._router.silent(self._asked)
            self._unreached &= silent
            if silent <= self._unreached:
                self._answer()
        passed = 0
        for filter, fence in self._lingering:
            if not self._router.passed(fence):
                break  # no later filter has passed its fence either
            self._router.unsubscribe(filter)
            passed += 1
        del self._lingering[:passed]

    def give_up(self) -> None:
        """The time to answer is over: count the brokers that have not answered as out of reach."""
        if self._asked is not None:
            self._unanswered = self._asked
            self._unreached = self._router.silent(self._asked)
            self._answer()

    def _see_who_is_back(self) -> None:
        """Wait again for brokers that have answered since they were given up, however many markers were sent
        meanwhile."""
        unanswered = self._unanswered
        self._unreached &= self._router.silent(unanswered) if unanswered is not None else set()

    def _ask(self) -> None:
        self._asked = self._router.confirm()
        self._answers, self._next = self._next, []
        self._see_who_is_back()
        silent = self._router.silent(self._asked)
        if silent <= self._unreached:
            self._answer()
        else:
            self._host.set_timer((CONFIRM_TIMER,), self.timeout_s)

    def _answer(self) -> None:
        self._host.cancel_timer((CONFIRM_TIMER,))
        self._asked = None
        answers, self._answers = self._answers, []
        for to, answer in answers:
            self.send(to, answer)
        if self._next:
            self._ask()

    def send(self, to: Connection | BrokerId, answer: Suback | Message) -> None:
        """Send SUBACK to a client, or a message to the broker that a client visits."""
        if isinstance(to, Connection):
            assert isinstance(answer, Suback)
            to.mqtt.answer(answer)
            self._host.out.dirty[to.number] = to.mqtt
        else:
            assert isinstance(answer, Message)
            self._router.unicast(to, answer)
