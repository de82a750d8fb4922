"""The port: all that a broker may ask of the world."""

from typing import Protocol

from roamq.core.context import Context
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.messages import Message
from roamq.core.records import Record

TimerKey = tuple[str, ...]
"""What a timer is for, and for whom: `("timeout", client)`. A broker has at most one timer per key."""


class Host(Protocol):
    """All that a broker may ask of the world. Each call returns at once, and nothing in it waits.

    A host commits what `store` marked before it lets the effects of the same input leave: whatever another
    party can have seen survives a crash.
    """

    def now(self) -> Seconds: ...

    def send(self, to: BrokerId, message: Message | Event) -> None:
        """To a neighbour in the overlay. Links are reliable and FIFO."""

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        """`send` to each of several neighbours."""

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        """To a connected client; `how` is `live`, `stored` or `transferred`. Acknowledged later, or never."""

    def attached(self, client: ClientId, resumed: bool) -> None:
        """The client's context is ready here; `resumed` says whether it was there before."""

    def detach(self, client: ClientId, reason: str) -> None:
        """The client is served elsewhere: close what is left of its connection here."""

    def take_session(self, context: Context, session: object | None) -> None:
        """Another broker sent what the world's protocol keeps with the context: it becomes the context's."""

    def join_session(self, context: Context, session: object) -> None:
        """A broker where the client was, and which never had its whole context, sent what it kept for the client."""

    def set_timer(self, key: TimerKey, after: Seconds) -> None:
        """`Broker.on_timer(key)` in `after` seconds; replaces a timer of the same key."""

    def cancel_timer(self, key: TimerKey) -> None: ...

    def store(self, client: ClientId) -> None:
        """The durable part of this client's context changed."""

    def record(self, record: Record) -> None:
        """Something happened that a metric may ask about."""
