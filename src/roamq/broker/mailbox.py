"""Sends messages of a mobility scheme to other brokers, and hands those that come to the part for their type."""

from collections.abc import Callable
from typing import Any

from roamq.core.events import BrokerId
from roamq.core.messages import Message
from roamq.overlay.base import Router

Handler = Callable[[BrokerId, Any], None]
"""A function that takes the broker that sent a message, and the message."""


class Mailbox:
    """Sends messages of one broker's scheme, and hands messages that come to their handlers."""

    suffix: str = ""
    """A suffix for timer keys, which tells a scheme's timers from those of a like scheme at the same broker."""

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
        """Messages of this type that cannot reach their broker, because it departed, go to `handler` from now on."""
        self._returned[message_type] = handler

    def returned(self, to: BrokerId, message: Message) -> None:
        """Handle a message that the broker `to` did not get before it departed; most types need nothing done."""
        if (handler := self._returned.get(message.__class__)) is not None:
            handler(to, message)

    def send(self, to: BrokerId, message: Message) -> None:
        """Send a message to a broker, maybe this one: a context that is here takes the same steps without links."""
        if to == self.me:
            self.receive(to, message)
        elif self.router.is_departed(to):
            self.returned(to, message)
        else:
            self.router.unicast(to, message)
