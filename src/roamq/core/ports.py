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

    A host keeps whatever a broker's inputs changed before it lets the effects of the same input leave: what another
    party can have seen survives a crash.
    """

    settles_at_once: bool
    """Whether `deliver_at_once` ever says yes. A broker asks once, when it is built."""

    def now(self) -> Seconds: ...

    # --- to other brokers ---------------------------------------------------------------------------------

    def send(self, to: BrokerId, message: Message | Event) -> None:
        """Send to a neighbour in the overlay. Links are reliable and FIFO."""

    def send_each(self, to: BrokerId, source: MessageSource) -> None:
        """`send` all that the source gives. A host may ask for it little by little; what is sent later follows it."""

    def pass_on(self, to: tuple[BrokerId, ...], event: Event) -> None:
        """`send` to each of several neighbours."""

    def unicast(self, to: BrokerId, via: BrokerId, message: Message) -> None:
        """Send to any broker of the network. The way there begins with the neighbour `via`."""

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        """Whether so much waits for a neighbour that it should be sent nothing that others can do without."""

    # --- to clients ---------------------------------------------------------------------------------------

    def deliver(self, to: ClientId, event: Event, how: str) -> None:
        """Send to a connected client; `how` is `live`, `stored` or `transferred`. It acknowledges later, or never."""

    def deliver_at_once(self, to: ClientId, event: Event) -> bool:
        """Send an event that needs no acknowledgement and say True, or do nothing and say False.

        The client counts as having read what was delivered at once, so the broker does not store it.
        """

    def window(self, client: ClientId) -> int:
        """How many events may be on their way to the client at once; 0 while it has not been let in."""

    def has_begun(self, context: Context, event: Event) -> bool:
        """Whether an earlier connection of the client has begun to hand the event over: then it is completed, even if
        it has expired since."""

    def client_class(self, client: ClientId, context: Context | None) -> str:
        """The class that the configuration gives the client; empty for a client of no class. `context`: its own."""

    def ready(self, client: ClientId) -> None:
        """The broker holds the client's whole context: nothing of it is on its way any more."""

    def detach(self, client: ClientId, reason: str) -> None:
        """Another broker serves the client: close what is left of its connection here."""

    # --- the state of the world's own protocol --------------------------------------------------------------

    def take_session(self, context: Context, session: object | None) -> None:
        """Another broker sent the protocol's state that it kept with the context: it becomes the context's."""

    def join_session(self, context: Context, session: object) -> None:
        """A broker that never had the client's whole context sent the protocol's state that it began there."""

    def end_session(self, context: Context) -> None:
        """The context came only to be closed, because its client is gone for good: so ends what the protocol kept."""

    def places_ended(
        self, client: ClientId, filters: tuple[Filter, ...], events: tuple[Event, ...] = ()
    ) -> None:
        """Another broker says that a client has left shared groups, its places in which were here.

        `events` were stored for the client and are not to be delivered: other members may get them.
        """

    # --- time and records -----------------------------------------------------------------------------------

    def set_timer(self, key: TimerKey, after: Seconds) -> None:
        """Call `Broker.on_timer(key)` in `after` seconds; replaces a timer of the same key."""

    def cancel_timer(self, key: TimerKey) -> None: ...

    def record(self, record: Record) -> None:
        """Something happened that a metric may ask about."""
