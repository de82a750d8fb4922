"""The base of all mobility schemes: how a scheme is set up, and what each input means where no client moves.

A scheme decides at which brokers a client's context lives, in which mode, and when it moves. The broker has the
mechanics (`broker/contexts.py`); `parts` has what several schemes do alike, and a scheme is composed of parts.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.choices import choose_from
from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId, Event, EventId, Seconds
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.geo.region import Region
from roamq.schemes.beside import Beside
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.own_steps import Care, OwnSteps
from roamq.schemes.parts.part import Departure, Part, Parts
from roamq.schemes.parts.prediction import Oracle

P = TypeVar("P", bound=Part)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeOptions:
    """Parameters that every scheme has; a scheme with more of them derives its own class."""

    buffer_bytes: int | None = None
    """Bound of the broker's store of events, in bytes, each event counted once; None for no bound."""
    queue_bytes: int | None = None
    """Bound of the events stored for one client, in bytes, however many clients share a copy ([PRO] Table 1); None for
    no bound."""
    timeout_s: Seconds | None = None
    """[PRO] Timeout(S): seconds after which the broker gives up the context of an absent client; None to wait for
    ever."""

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> "SchemeOptions":
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(f"scheme.{name}: unknown option{choose_from(name, sorted(known))}")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The things with which a scheme works at one broker."""

    contexts: Contexts
    mailbox: Mailbox
    options: SchemeOptions
    carries_subscriptions: bool = False
    """Whether clients bring their subscriptions along ([DIS] section 3.2.4)."""
    oracle: Oracle | None = None
    """A world that knows the future, as the simulator does."""
    region: Region | None = None
    """The map of the brokers' areas, where the world has one."""
    handover: HandOver | None = None
    """The hand-over of the broker, for a scheme that shares it with others (`by_class.py`)."""


class Scheme(ABC):
    """Base of all schemes: one instance per broker. Each input has the meaning that holds where no client moves."""

    name: ClassVar[str]
    options_type: ClassVar[type[SchemeOptions]] = SchemeOptions
    guarantees: ClassVar[frozenset[str]] = frozenset({"loss", "duplication", "order", "leak"})
    """The guarantees that hold with sufficient buffers and without lost stores; the simulator's checkers enforce
    these."""
    carries_subscriptions: ClassVar[bool] = False
    """Whether clients are to bring their subscriptions along ([DIS] section 3.2.4)."""
    counts_acknowledgements: ClassVar[bool] = False
    """Whether the scheme must hear of every event that a client consumed, even of events that need no
    acknowledgement."""
    means_places: ClassVar[bool] = False
    """Whether subscriptions to `location = 'HERE'` mean the area of the broker that serves the client."""

    lets_brokers_depart: ClassVar[bool] = False
    """Whether brokers may leave the network: a drained broker keeps nothing of any client, and no broker waits for one
    that departed."""

    messages: ClassVar[tuple[type[Message], ...]] = ()
    """The messages between brokers of this scheme alone, beside those of the hand-over."""
    stands_beside_others: ClassVar[bool] = False
    """Whether a broker may have this scheme for some clients and others for other clients, and take contexts from one
    to the other: such a scheme hands over by `HandOver`, and answers what `Beside` asks."""

    label: str = ""
    """The scheme's name among the schemes of its broker, where there are several."""
    own: OwnSteps | None = None
    """The steps of the hand-over that the scheme does its own way."""
    may_be_late: bool = False
    """Whether the scheme's contexts may go to another broker before all their events have come."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.contexts = setup.contexts
        self.mailbox = setup.mailbox
        self.options = setup.options
        self.me = setup.contexts.me
        self.host = setup.contexts.host
        self.router = setup.contexts.router
        self.beside: Beside = Beside(self)
        self.parts = Parts()
        self._pending = self.parts.pending

    def add(self, part: P) -> P:
        """Compose the scheme of this part as well."""
        self.parts.add(part)
        return part

    def hand_over_by(
        self,
        setup: Setup,
        own: OwnSteps | None = None,
        *,
        care: Care | None = None,
        may_be_late: bool = False,
    ) -> HandOver:
        """Compose the scheme of the standard hand-over, with the steps `own` done its own way. With `may_be_late`, a
        context may go to another broker without its late events, and they follow."""
        self.own = own
        self.may_be_late = may_be_late
        handover = setup.handover or HandOver(
            self.contexts,
            self.mailbox,
            own,
            care=care,
            on_device=setup.carries_subscriptions,
            may_be_late=may_be_late,
        )
        self.add(handover)
        self.add(handover.late)
        return handover

    @classmethod
    def guaranteed(cls, options: SchemeOptions) -> frozenset[str]:
        """The guarantees that hold with these options."""
        return cls.guarantees

    # --- the client comes and goes ------------------------------------------------------------------------

    @abstractmethod
    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        """The client has connected here; its last broker was `old_broker`.

        `carried` are subscriptions that the client keeps on the device, `ticket` is what it shows of its last
        connection.
        """

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        """The client has disconnected, with or without a word."""
        context = self.contexts.get(client)
        if context is not None and context.mode is Mode.SERVING:
            self.contexts.pause(context)

    def on_leave(self, client: ClientId) -> None:
        """The client unsubscribes from everything and is gone for good."""
        context = self.contexts.get(client)
        if context is not None and not any(part.on_leave(context) for part in self.parts):
            self.contexts.close(context)

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """Another broker says that all that the client had up to the connection `epoch` is over: forget what is left of
        it here outside the table, since nobody will ask for it."""
        self.parts.on_ended(client, epoch)
        self.ended(client, epoch)

    def ended(self, client: ClientId, epoch: Epoch) -> None:  # noqa: B027 - few keep contexts themselves
        """The same as `on_ended`, for what the scheme itself keeps."""

    def on_location(self, client: ClientId, cell: str) -> None:  # noqa: B027 - most schemes do not care
        """The connected client crossed into `cell`."""

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        for part in self.parts.of_subscriptions:
            part.on_subscribe(context, filter)
        self.contexts.add_filter(context, filter)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        context = self.contexts[client]
        for part in self.parts.of_subscriptions:
            part.on_unsubscribe(context, filter)
        self.contexts.remove_filter(context, filter)

    def on_taken_back(self, client: ClientId, events: Iterable[Event]) -> None:  # noqa: B027 - few keep two stores
        """Events were taken out of the client's context here: the client must not get them, at any broker."""

    # --- events -------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """An event has reached this broker for the first time."""
        self.contexts.on_event(event)
        if any(self._pending):
            self.parts.on_event(event)

    def on_passed(self) -> None:
        """The router has heard something by which a fence may have passed."""
        self.parts.on_passed()

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None:
        """The client has consumed an event."""
        self.contexts.acknowledge(client, event_id)

    # --- brokers ------------------------------------------------------------------------------------------

    def on_joined(self, broker: BrokerId) -> None:
        """A broker has joined, and the router knows."""
        self.parts.on_joined(broker)

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good, and the router knows."""
        self.parts.on_departed(broker, departure)

    # --- time ---------------------------------------------------------------------------------------------

    def on_timer(self, key: TimerKey) -> None:
        """A timer set by this scheme has run out."""
        if self.ring(key) or any(part.on_timer(key) for part in self.parts):
            return
        if key[0] == "timeout" and (context := self.contexts.get(ClientId(key[1]))) is not None:
            self.on_timeout(context)

    def ring(self, key: TimerKey) -> bool:
        """A timer has run out. Returns whether it is the scheme's own timer, not a part's."""
        return False

    def on_timeout(self, context: Context) -> None:
        """[PRO] case 8: the client stayed away longer than Timeout(S)."""
        self.contexts.drop_all(context, "timeout")
        self.contexts.close(context)

    def on_restart(self) -> None:
        """The broker came back with its store: no client is connected, and contexts go on storing."""
        for context in list(self.contexts.values()):
            if context.mode is Mode.SERVING:
                self.fell(context)
        self.parts.on_restart()
        self.resumed()

    def fell(self, context: Context) -> None:
        """The broker crashed while the client of this context was connected."""
        self.contexts.pause(context)

    def resumed(self) -> None:  # noqa: B027 - few have timers
        """The broker came back, without the scheme's own timers: set them again."""

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held(self) -> list[Context]:
        """All contexts at this broker, on the table or on their way out."""
        return [*self.contexts.values(), *self.parts.held(), *self.held_itself()]

    def held_itself(self) -> list[Context]:
        """The contexts that neither the table nor a part holds."""
        return self.gives_away()

    def gives_away(self) -> list[Context]:
        """Those of the contexts of `held_itself` that belong to another broker already."""
        return []

    def on_the_way(self) -> list[Context]:
        """The contexts that belong to another broker and have not gone there entirely."""
        return [*self.parts.on_the_way(), *self.gives_away()]

    def may_keep(self, context: Context) -> bool:
        """Is it by design that this context is here while another broker serves its client?"""
        return context.mode is Mode.PASSIVE

    # --- what operators ask -------------------------------------------------------------------------------

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        """The brokers that keep a copy of the context because this broker asked them to."""
        return tuple(dict.fromkeys(at for part in self.parts for at in part.copies_at(context)))

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        """The brokers at which the scheme expects the client next, the likeliest first."""
        return tuple(dict.fromkeys(at for part in self.parts for at in part.expected_at(client)))
