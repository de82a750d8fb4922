"""Messages of the mobility schemes: to other brokers, and from them to whichever part handles their type."""

from collections.abc import Callable
from typing import Any

from roamq.core.events import BrokerId
from roamq.core.messages import Message
from roamq.overlay.base import Router

Handler = Callable[[BrokerId, Any], None]
"""Takes the broker that sent a message, and the message."""


class Mailbox:
    """Sends messages of one broker's scheme and hands those that come to their handlers."""

    suffix: str = ""
    """What tells the timers of a scheme from those of another that is alike, at the same broker."""

    def __init__(self, me: BrokerId, router: Router) -> None:
        self.me = me
        self.router = router
        self._handlers: dict[type[Message], Handler] = {}
        self._returned: dict[type[Message], Handler] = {}

    def handle(self, message_type: type[Message], handler: Handler) -> None:
        """Messages of this type go to `handler` from now on. A scheme may put its own in place of a part's."""
        self._handlers[message_type] = handler

    def handles(self, message: Message) -> bool:
        return message.__class__ in self._handlers

    def receive(self, sender: BrokerId, message: Message) -> None:
        handler = self._handlers.get(message.__class__)
        assert handler is not None, f"{message} from {sender} is for nobody"
        handler(sender, message)

    def handlers(self) -> dict[type[Message], Handler]:
        """The handler of each type of message, as it is now."""
        return dict(self._handlers)

    def handle_returned(self, message_type: type[Message], handler: Handler) -> None:
        """A message of this type that cannot reach its broker, because that one departed, goes to `handler`."""
        self._returned[message_type] = handler

    def returned(self, to: BrokerId, message: Message) -> None:
        """The broker `to` departed before it had this message. Most need no answer."""
        if (handler := self._returned.get(message.__class__)) is not None:
            handler(to, message)

    def send(self, to: BrokerId, message: Message) -> None:
        """To another broker, or to this one: a context that is here already takes the same steps without links."""
        if to == self.me:
            self.receive(to, message)
        elif self.router.is_departed(to):
            self.returned(to, message)
        else:
            self.router.unicast(to, message)
