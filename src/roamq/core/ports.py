"""The port: all that a broker may ask of the world."""

from typing import Protocol

from roamq.core.context import Context
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import Message, MessageSource
from roamq.core.records import Record

TimerKey = tuple[str, ...]
"""What a timer is for, and for whom: `("timeout", client)`. A broker has at most one timer per key."""


class Host(Protocol):
    """All that a broker may ask of the world. Each call returns at once, and nothing in it waits.

    A host keeps whatever an input of the broker changed before it lets the effects of that input leave: what another
    party can have seen survives a crash.
    """

    settles_at_once: bool
    """Whether `deliver_at_once` ever returns True. A broker asks once, when it is built."""

    def now(self) -> Seconds: ...

    # --- to other brokers ---------------------------------------------------------------------------------

    def send(self, to: BrokerId, message: Message | Event) -> None:
        """Send to a neighbour in the overlay. Links are reliable and FIFO."""

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        """`send` all messages of a source. A host may ask for them bit by bit; what is sent later follows them."""

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        """`send` to each of several neighbours."""

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        """Send to any broker of the network. The way there begins with the neighbour `via`."""

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        """Whether so many messages wait for a neighbour that it should be sent none that can be told again later."""

    # --- to clients ---------------------------------------------------------------------------------------

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        """Send to a connected client, which acknowledges later, or never. `how`: `live`, `stored` or `transferred`."""

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        """Send an event that needs no acknowledgement and return True, or do nothing and return False.

        The client counts as having read what was delivered at once, so the broker does not store it.
        """

    def window(self, client: ClientId) -> int:
        """How many events may be on their way to the client at once; 0 while it has not been let in."""

    def has_begun(self, context: Context, event: Event) -> bool:
        """Whether an earlier connection of the client has begun to give it the event: then the exchange is completed,
        even if the event has expired since."""

    def client_class(self, client: ClientId, context: Context | None) -> str:
        """The class that the configuration gives the client; empty if it gives none. `context`: the client's own."""

    def ready(self, client: ClientId) -> None:
        """The broker holds the client's whole context: nothing of it is on its way any more."""

    def detach(self, client: ClientId, reason: str) -> None:
        """Another broker serves the client: close what is left of its connection here."""

    # --- the state of the world's own protocol --------------------------------------------------------------

    def take_session(self, context: Context, session: object | None) -> None:
        """Give the context the protocol's state that another broker kept with it, and sent."""

    def join_session(self, context: Context, session: object) -> None:
        """Join the context's state of the protocol with one begun at a broker that never had the whole context."""

    def end_session(self, context: Context) -> None:
        """End the protocol's state of a context that came only to be closed, because its client is gone for good."""

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None:
        """Another broker says that a client has left shared groups; its places in them were here.

        `events` were stored for the client and are not to be delivered: other members may get them.
        """

    # --- time and records -----------------------------------------------------------------------------------

    def set_timer(self, key: TimerKey, after: Seconds) -> None:
        """Call `Broker.on_timer(key)` in `after` seconds; replaces a timer of the same key."""

    def cancel_timer(self, key: TimerKey) -> None: ...

    def record(self, record: Record) -> None:
        """Write down something that happened and that a metric may ask about."""
