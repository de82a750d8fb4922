"""Several schemes at one broker: one for each class of clients, and those that clients are being taken away from.

The schemes share the broker's contexts and **one hand-over**: a claim to a context is the same message whatever scheme
the client is under, at either broker. So a context goes from a broker that has it under one scheme to a broker that
wants it under another in the six steps of every handoff. What a scheme has beside the contexts - copies, virtual
consumers, prefetched contexts, a log, a neighbor graph - is its own, and so are its messages: they go to the scheme of
the same name and class at the other broker, which makes that scheme if it does not have it yet (docs/decisions/0165).

A context says which scheme it is `under`. It changes its scheme only while it is whole and current: the scheme before
withdraws what it has beside the context, and the next one begins from there; epoch, stored events and position stay. So
a context that is on its way, or that has active copies elsewhere while its client is away, changes when it has settled.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Protocol

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Context, Epoch, Mode, Ticket
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.schemes.base import Scheme, SchemeOptions
from roamq.schemes.labels import MeaningByScheme, SchemeMailbox, put_under
from roamq.schemes.messages.classes import Classed
from roamq.schemes.messages.handover import ContextRequest
from roamq.schemes.parts.handover import HandOver, handlers_of
from roamq.schemes.parts.part import Departure, Parts
from roamq.schemes.steps_by_class import StepsByClass

SETTLE_TIMER: Final[TimerKey] = ("settle",)
"""The timer for the next contexts that are to be taken to another scheme."""
SETTLED_AT_ONCE: Final = 200
"""The number of contexts that the broker takes to another scheme at a time, if other clients wait while it works."""


class Chosen(Protocol):
    """A scheme by its name, and its options."""

    @property
    def label(self) -> str: ...

    @property
    def options(self) -> SchemeOptions: ...


class ByClass:
    """The schemes of one broker, behind the interface of a single one."""

    counts_acknowledgements: ClassVar[bool] = False

    def __init__(
        self,
        first: Scheme,
        handover: HandOver,
        make: Callable[[str, Mailbox, HandOver, SchemeOptions | None], Scheme],
        speaker: Callable[[type[Message]], str | None],
    ) -> None:
        """`first` was the broker's only scheme; `make` makes another by its label, and `speaker` names the scheme that
        has a type of message."""
        self.contexts: Contexts = first.contexts
        self.mailbox = first.mailbox
        self.handover = handover
        self.me = first.me
        self.host = first.host
        self._make = make
        self._speaker = speaker
        first.label = first.name
        self.schemes: dict[str, Scheme] = {first.name: first}
        """Label -> scheme."""
        self.labels: dict[str, str] = {"": first.name}
        """Class of clients -> the label of its scheme; the empty class is that of all others."""
        self._unsettled: deque[ClientId] = deque()
        """Clients whose contexts may be under another scheme than they should be: the broker has to look at them."""
        self._shared: dict[type[Message], Handler] = handlers_of(handover)
        self._handlers = {first.name: first.mailbox.handlers()}
        for message_type in (*self._shared, *self._handlers[first.name], Classed):
            self.mailbox.handle(message_type, self.receive)
        self.mailbox.handle_returned(Classed, self._returned)
        for context in first.held():
            context.under = first.name
        handover.own = StepsByClass(self).own
        self.parts = Parts()
        self.gather_parts()

    # --- which schemes there are ----------------------------------------------------------------------------

    def scheme(self, label: str, options: SchemeOptions | None = None) -> Scheme:
        """The scheme with this label: a neighbour may have it before this broker's configuration names it."""
        found = self.schemes.get(label)
        if found is None:
            mailbox = SchemeMailbox(label, self.mailbox)
            found = self.schemes[label] = self._make(label, mailbox, self.handover, options)
            found.label = label
            self._handlers[label] = mailbox.handlers()
            for message_type in self._handlers[label]:
                self.mailbox.handle(message_type, self.receive)
            self.gather_parts()
        return found

    def make_again(self, labels: Iterable[str], options: Mapping[str, SchemeOptions]) -> None:
        """Make the schemes of these labels, for state that is read back; do nothing with them."""
        for label in labels:
            self.scheme(label, options.get(label))
        self.contexts.timeouts = {label: one.timeout_s for label, one in options.items()}

    def knows(self, message: Message) -> bool:
        """Make the scheme that has this message, if any has it. Returns whether one has."""
        label = self._speaker(message.__class__)
        if label is not None:
            self.scheme(label)
        return label is not None

    def set_schemes(self, chosen: Mapping[str, Chosen]) -> None:
        """Take these schemes, by class of clients; the empty class is that of all others.

        Contexts that are whole go to their new scheme now, others when they have settled.
        """
        self.labels = {client_class: one.label for client_class, one in chosen.items()}
        for one in chosen.values():
            self.scheme(one.label).beside.set_options(one.options)
        self.contexts.timeouts = {one.label: one.options.timeout_s for one in chosen.values()}
        self.gather_parts()
        self._unsettled.extend(self.contexts[client].client for client, _ in self.contexts.items())
        self._settle_some()

    def gather_parts(self) -> None:
        """Gather the parts of all schemes; to be called after state was read back as well."""
        self.parts = Parts(dict.fromkeys(part for scheme in self.schemes.values() for part in scheme.parts))
        self.handover.late.is_used = all(scheme.may_be_late for scheme in self.schemes.values())
        wanted = set(self.labels.values())
        for label, scheme in self.schemes.items():
            scheme.beside.set_wanted(label in wanted)
        if any(scheme.means_places for scheme in self.schemes.values()):
            self.contexts.watched.meaning = MeaningByScheme(
                self.me, lambda context: self.of(context).means_places
            )

    @property
    def lets_brokers_depart(self) -> bool:
        return all(scheme.lets_brokers_depart for scheme in self.schemes.values())

    # --- which scheme a context is under --------------------------------------------------------------------

    def of(self, context: Context) -> Scheme:
        return self.schemes[context.under]

    def of_client(self, client: ClientId) -> Scheme:
        context = self.contexts.get(client)
        return self.schemes[self.labels[""]] if context is None else self.of(context)

    def wanted(self, client: ClientId) -> str:
        """The label of the scheme that the client should be under."""
        named = self.host.client_class(client, self.contexts.get(client))
        return self.labels.get(named, self.labels[""])

    @contextmanager
    def at_work(self, label: str) -> Any:
        """Put new contexts under this scheme while the block runs."""
        before, self.contexts.under = self.contexts.under, label
        try:
            yield
        finally:
            self.contexts.under = before

    def settle(self, context: Context) -> None:
        """Take the context to the scheme that its client should be under, if no part of the context is on its way."""
        if self.may_change(context):
            label = self.change(context)
            with self.at_work(label):
                self.schemes[label].beside.adopt(context)

    def may_change(self, context: Context) -> bool:
        if context.under == self.wanted(context.client) or not self.contexts.is_current(context):
            return False
        if context.late is not None:
            return False  # the context changes when the client connects next
        return context not in self.handover.whereabouts.incomplete and self.of(context).beside.can_withdraw(
            context
        )

    def change(self, context: Context) -> str:
        with self.at_work(context.under):
            self.of(context).beside.withdraw(context)
        label = self.wanted(context.client)
        put_under(self.contexts, context, label)
        return label

    def _settle_some(self) -> None:
        count = SETTLED_AT_ONCE if self.contexts.works_in_slices else len(self._unsettled)
        for _ in range(min(count, len(self._unsettled))):
            context = self.contexts.get(self._unsettled.popleft())
            if context is not None:
                self.settle(context)
        if self._unsettled:
            self.host.set_timer(SETTLE_TIMER, 0.0)

    # --- messages -------------------------------------------------------------------------------------------

    def receive(self, sender: BrokerId, message: Any) -> None:
        kind = message.__class__
        if kind is Classed:
            label, message = message.scheme, message.message
            self.scheme(label)
            handler = self._handlers[label][message.__class__]
        elif kind in self._shared:
            label = self._concerned(message)
            handler = self._handlers[label].get(kind, self._shared[kind])
        else:
            found = self._speaker(kind)
            assert found is not None, f"{message} is no scheme's"
            label = found
            self.scheme(label)
            handler = self._handlers[label][kind]
        with self.at_work(label):
            handler(sender, message)

    def _concerned(self, message: Any) -> str:
        """The label of the scheme that a message of the hand-over concerns: that of the context it is about."""
        account = self.handover.whereabouts
        if isinstance(message, ContextRequest):
            context = account.claimed_by(message)
        else:
            arriving = account.arriving.get((message.client, message.epoch))
            context = self.contexts.get(message.client) if arriving is None else arriving.context
        return self.labels[""] if context is None else context.under

    def _returned(self, to: BrokerId, message: Classed) -> None:
        self.mailbox.returned(to, message.message)

    # --- the client comes and goes --------------------------------------------------------------------------

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        """Tell one scheme that the client has connected: that of its context here, or one that keeps something for the
        client. When the context is whole, take it to the scheme that the client should be under."""
        account = self.handover.whereabouts
        last = account.last_broker(client, old_broker)
        context = self.contexts.get(client)
        came_back = context is not None and (last is None or last == self.me)
        if context is not None and (came_back or context in account.incomplete):
            label = context.under
        else:
            label = self._label_to_connect(client, last, ticket)
        if not came_back:
            for other, scheme in self.schemes.items():
                if other != label:
                    scheme.beside.let_go(client)
        with self.at_work(label):
            self.schemes[label].on_connect(client, old_broker, carried, ticket)
        if (context := self.contexts.get(client)) is not None:
            self.settle(context)

    def _label_to_connect(self, client: ClientId, last: BrokerId | None, ticket: Ticket | None) -> str:
        wanted = self.wanted(client)
        insisting = [label for label, scheme in self.schemes.items() if scheme.beside.insists(client, last)]
        if insisting:
            return insisting[0]
        expecting = [label for label, scheme in self.schemes.items() if scheme.beside.expects(client, ticket)]
        return wanted if wanted in expecting or not expecting else expecting[0]

    def on_disconnect(self, client: ClientId, reason: str) -> None:
        scheme = self.of_client(client)
        with self.at_work(scheme.label):
            scheme.on_disconnect(client, reason)

    def on_leave(self, client: ClientId) -> None:
        scheme = self.of_client(client)
        with self.at_work(scheme.label):
            scheme.on_leave(client)

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        self.parts.on_ended(client, epoch)
        for scheme in self.schemes.values():
            scheme.ended(client, epoch)

    def on_location(self, client: ClientId, cell: str) -> None:
        scheme = self.of_client(client)
        with self.at_work(scheme.label):
            scheme.on_location(client, cell)

    def on_subscribe(self, client: ClientId, filter: Filter) -> None:
        scheme = self.of_client(client)
        with self.at_work(scheme.label):
            scheme.on_subscribe(client, filter)

    def on_unsubscribe(self, client: ClientId, filter: Filter) -> None:
        scheme = self.of_client(client)
        with self.at_work(scheme.label):
            scheme.on_unsubscribe(client, filter)

    def on_taken_back(self, client: ClientId, events: Iterable[Event]) -> None:
        self.of_client(client).on_taken_back(client, events)

    # --- events ---------------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        self.contexts.on_event(event)
        if any(self.parts.pending):
            self.parts.on_event(event)

    def on_passed(self) -> None:
        self.parts.on_passed()

    def on_acknowledge(self, client: ClientId, event_id: EventId) -> None:
        self.contexts.acknowledge(client, event_id)

    # --- brokers --------------------------------------------------------------------------------------------

    def on_joined(self, broker: BrokerId) -> None:
        self.parts.on_joined(broker)

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        self.parts.on_departed(broker, departure)

    # --- time -----------------------------------------------------------------------------------------------

    def on_timer(self, key: TimerKey) -> None:
        if key == SETTLE_TIMER:
            self._settle_some()
        elif key[0] == "timeout":
            if (context := self.contexts.get(ClientId(key[1]))) is not None:
                with self.at_work(context.under):
                    self.of(context).on_timeout(context)
        else:
            for part in self.parts:
                part.on_timer(key)
            for label, scheme in list(self.schemes.items()):
                with self.at_work(label):
                    scheme.ring(key)

    def on_restart(self) -> None:
        for context in list(self.contexts.values()):
            if context.mode is Mode.SERVING:
                with self.at_work(context.under):
                    self.of(context).fell(context)
        self.parts.on_restart()
        for scheme in self.schemes.values():
            scheme.resumed()
        if self._unsettled:
            self.host.set_timer(SETTLE_TIMER, 0.0)

    # --- what the checkers and operators ask ----------------------------------------------------------------

    def held(self) -> list[Context]:
        of_schemes = (context for scheme in self.schemes.values() for context in scheme.held_itself())
        return [*self.contexts.values(), *self.parts.held(), *of_schemes]

    def on_the_way(self) -> list[Context]:
        of_schemes = (context for scheme in self.schemes.values() for context in scheme.gives_away())
        return [*self.parts.on_the_way(), *of_schemes]

    def may_keep(self, context: Context) -> bool:
        return self.of(context).may_keep(context)

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        return tuple(dict.fromkeys(at for one in self.schemes.values() for at in one.copies_at(context)))

    def expected_at(self, client: ClientId) -> tuple[BrokerId, ...]:
        return self.of_client(client).expected_at(client)
