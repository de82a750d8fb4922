"""Copies of contexts at neighboring brokers: the messages of pro-active caching, at both ends.

Paper: [PRO] section 4.1. `HeldCopies` is Bi, a neighbor of the broker that serves the client; `SentCopies` is Bj, which
serves the client. `proactive.py` says which case of the paper calls for which of these.

A copy obeys the newest connection of its client: its epoch is the paper's control attribute, and a broker does not
perform a request with an older one. A broker that creates copies under an epoch (`PassiveCopy`, `Activate`) sends a
`Delete` after them, or leaves them to the next broker when it knows that they have arrived: so no copy is left behind.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Mailbox
from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter, digest_of
from roamq.core.local_queue import close_local_queue, open_local_queue
from roamq.core.read_elsewhere import start_over
from roamq.schemes.messages.copies import (
    Activate,
    Activated,
    CopyRequest,
    Deactivate,
    Delete,
    Forwarded,
    PassiveCopy,
)
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.part import Departure, Part
from roamq.schemes.parts.transfers import in_parts
from roamq.schemes.proactive_states import MODES, State, Stimulus, after


class HeldCopies(Part):
    """The copies that a broker holds for its neighbors, beside the contexts of its own clients."""

    def __init__(self, contexts: Contexts, mailbox: Mailbox, handover: HandOver) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.handover = handover
        self.router = contexts.router
        self._copies: dict[ClientId, Context] = {}
        mailbox.handle(PassiveCopy, self.on_passive_copy)
        mailbox.handle(Activate, self.on_activate)
        mailbox.handle(Deactivate, self.on_deactivate)
        mailbox.handle(Delete, self.on_delete)
        mailbox.handle(Forwarded, self.on_forwarded)

    def __getitem__(self, client: ClientId) -> Context:
        return self._copies[client]

    def get(self, client: ClientId) -> Context | None:
        return self._copies.get(client)

    def state(self, client: ClientId) -> State:
        copy = self._copies.get(client)
        if copy is None:
            return State.NONE
        return State.PASSIVE if copy.mode is Mode.PASSIVE else State.ACTIVE

    def has_control(self, client: ClientId, epoch: Epoch) -> bool:
        """The control attribute: may a request of this epoch change what this broker keeps for the client?

        Not if a request of a later epoch already did, nor if the client itself has connected here since.
        """
        copy = self._copies.get(client)
        leaving = [leaving.context for leaving in self.handover.leaving.get(client, {}).values()]
        own = [*leaving, *self.handover.whereabouts.held_for(client)]
        return all(epoch > context.epoch for context in own) and (copy is None or copy.epoch <= epoch)

    # --- what the broker that has control asks ------------------------------------------------------------

    def on_passive_copy(self, sender: BrokerId, message: PassiveCopy) -> None:
        """Case 7: "When broker Bj receives Context(S) from its neighbors, it locally stores it"."""
        if self.has_control(message.client, message.epoch):
            self.keep(message.client, message.epoch, message.filters, message.session)

    def keep(
        self, client: ClientId, epoch: Epoch, filters: tuple[Filter, ...], session: object | None
    ) -> None:
        """Keep a passive copy of exactly these subscriptions, in place of any other copy."""
        assert after(self.state(client), Stimulus.COPY) is State.PASSIVE
        self.drop(client)
        copy = self.contexts.new(client, epoch, Mode.PASSIVE)
        copy.filters = dict.fromkeys(filters)
        copy.session = session
        self._copies[client] = copy

    def on_activate(self, sender: BrokerId, message: Activate) -> None:
        """Case 2, at a neighbor: store events that match and that the client has not read.

        "In case the activate request could not find the Sub(S), Bk will be notified and asked to deliver Context(S)
        prior to S arrival."
        """
        if not self.has_control(message.client, message.epoch):
            return
        copy = self._copies.get(message.client)
        if copy is None or digest_of(copy.filters) != message.digest:
            request = CopyRequest(client=message.client, epoch=message.epoch)
            self.mailbox.send(message.epoch.broker, request)
            return
        state = after(self.state(message.client), Stimulus.ACTIVATE)
        copy.epoch = message.epoch
        copy.session = message.session
        start_over(copy, dict(message.position), message.ahead)
        open_local_queue(copy)  # until Bj has forwarded all older events
        self.contexts.set_mode(copy, MODES[state])
        last_broker = message.epoch.broker
        fence = self.contexts.fence(last_broker, copy)
        reply = Activated(client=message.client, epoch=message.epoch, fence=fence)
        self.mailbox.send(last_broker, reply)

    def on_forwarded(self, sender: BrokerId, message: Forwarded) -> None:
        """Take events that the last broker stored before this copy did; with the last of them the copy is whole."""
        copy = self._copies.get(message.client)
        if copy is not None and copy.epoch == message.epoch and copy.mode is Mode.ACTIVE:
            self.admit_forwarded(copy, message)
            if message.last:
                close_local_queue(copy)

    def admit_forwarded(self, context: Context, message: Forwarded) -> None:
        for event in message.events:
            if context.is_new(event) and not context.admit(event, "transferred"):
                self.contexts.drop(context, event, "queue_full")

    def on_deactivate(self, sender: BrokerId, message: Deactivate) -> None:
        """Cases 3 and 4, at a neighbor: "deactivate Sub(S), terminate the caching process, and clean up"."""
        copy = self._copies.get(message.client)
        if copy is not None and copy.epoch <= message.epoch:
            state = after(self.state(message.client), Stimulus.DEACTIVATE)
            copy.epoch = message.successor
            start_over(copy, {})
            self.contexts.set_mode(copy, MODES[state])

    def on_delete(self, sender: BrokerId, message: Delete) -> None:
        """Cases 4, 6 and 8, at a neighbor. A client that leaves for good ends its copies, whichever broker has
        control."""
        copy = self._copies.get(message.client)
        if copy is not None and (message.for_good or copy.epoch <= message.epoch):
            assert after(self.state(message.client), Stimulus.DELETE) is State.NONE
            self.drop(message.client)

    # --- the client of a copy comes here --------------------------------------------------------------------

    def take(self, client: ClientId) -> Context:
        """The copy becomes the client's context."""
        copy = self._copies.pop(client)
        self.contexts.put(copy)
        return copy

    def drop(self, client: ClientId) -> None:
        copy = self._copies.pop(client, None)
        if copy is not None:
            self.contexts.close(copy, mobile=True)

    def held(self) -> list[Context]:
        return list(self._copies.values())


@dataclass(slots=True, eq=False)
class Activation:
    """Case 2 under way: a context, and the neighbors that have not got all its events yet."""

    context: Context
    pending: dict[BrokerId, Mapping[BrokerId, int] | None] = field(default_factory=dict)
    """Neighbor -> the fence of its acknowledgement, once it has come."""
    given_up: set[BrokerId] = field(default_factory=set)
    """Neighbors whose copies lack events, because the way to the neighbor is cut off."""


class SentCopies(Part):
    """One broker's account of the copies of its clients' contexts at other brokers.

    When the client disconnects, "broker Bj forwards Msgs(S) to its neighbors Bi until the activation request is
    acknowledged": the acknowledgement carries a fence, and Bj goes on until it has seen what Bi had seen.
    """

    def __init__(
        self, contexts: Contexts, mailbox: Mailbox, all_forwarded: Callable[[Context], None]
    ) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.router = contexts.router
        self.all_forwarded = all_forwarded
        """Called when every neighbor has got all events of a context that it lacked."""
        self.pending = self.activations = dict[Context, Activation]()
        self._by_client: dict[ClientId, list[Activation]] = {}
        self.holders: dict[Context, dict[BrokerId, bool]] = {}
        """Context -> the brokers that keep copies of it for this broker, and whether all these copies have arrived
        there."""
        mailbox.handle(Activated, self.on_activated)
        mailbox.handle(CopyRequest, self.on_copy_request)

    # --- passive copies -----------------------------------------------------------------------------------

    def send(self, context: Context, neighbors: Iterable[BrokerId]) -> None:
        for neighbor in sorted(neighbors):
            if self._is_cut_off(neighbor):
                continue  # the neighbor asks for the context if it needs it
            self.holders.setdefault(context, {})[neighbor] = False
            copy = PassiveCopy(
                client=context.client,
                epoch=context.epoch,
                filters=tuple(context.filters),
                session=context.session,
            )
            self.mailbox.send(neighbor, copy)

    def delete(self, context: Context, *, for_good: bool = False) -> None:
        self.stop(context)
        for holder in sorted(self.holders.pop(context, ())):
            delete = Delete(client=context.client, epoch=context.epoch, for_good=for_good)
            self.mailbox.send(holder, delete)

    # --- activation ---------------------------------------------------------------------------------------

    def activate(self, context: Context, neighbors: Iterable[BrokerId]) -> None:
        """Case 2: ask these neighbors to store the events that the client has not read."""
        before = self.activations.get(context)
        self.stop(context)
        activation = self.activations[context] = Activation(context)
        if before is not None:
            activation.given_up |= before.given_up
        self._by_client.setdefault(context.client, []).append(activation)
        for neighbor in neighbors:
            if self._is_cut_off(neighbor):
                activation.given_up.add(neighbor)
            else:
                self._activate(activation, neighbor)

    def _activate(self, activation: Activation, neighbor: BrokerId) -> None:
        context = activation.context
        activation.given_up.discard(neighbor)  # the neighbor gets all events, whatever it lacked before
        activation.pending[neighbor] = None
        self.holders.setdefault(context, {})[neighbor] = False
        request = Activate(
            client=context.client,
            epoch=context.epoch,
            digest=digest_of(context.filters),
            position=dict(context.position),
            ahead=context.ahead_rows,
            session=context.session,
        )
        self.mailbox.send(neighbor, request)
        self._forward(activation, neighbor, tuple(context.events()))

    def end_in_part(self, context: Context, neighbor: BrokerId, late: frozenset[BrokerId]) -> None:
        """The neighbor serves the client, and has all events that its copy lacked, except for those that come late."""
        activation = self.activations[context]
        self.stop(context)
        self._forward(activation, neighbor, (), last=True, late=tuple(sorted(late)))

    def _forward(
        self,
        activation: Activation,
        neighbor: BrokerId,
        events: tuple[Event, ...],
        *,
        last: bool = False,
        late: tuple[BrokerId, ...] = (),
    ) -> None:
        if events or last:
            context = activation.context
            *parts, rest = in_parts(events, self.contexts)
            for part in parts:
                message = Forwarded(client=context.client, epoch=context.epoch, events=part, last=False)
                self.mailbox.send(neighbor, message)
            message = Forwarded(client=context.client, epoch=context.epoch, events=rest, last=last, late=late)
            self.mailbox.send(neighbor, message)

    def on_event(self, event: Event) -> None:
        for activation in list(self.activations.values()):
            stored = activation.context.stored
            if stored and stored[-1].event is event:
                for neighbor in list(activation.pending):
                    if self._is_cut_off(neighbor):
                        self._give_up(activation, neighbor)
                    else:
                        self._forward(activation, neighbor, (event,))
            self._end_passed(activation)

    def on_passed(self) -> None:
        for activation in list(self.activations.values()):
            self._end_passed(activation)

    def _is_cut_off(self, neighbor: BrokerId) -> bool:
        return self.contexts.host.is_cut_off(self.router.next_hop(neighbor))

    def _give_up(self, activation: Activation, neighbor: BrokerId) -> None:
        """Forward nothing more to the neighbor, and delete its copy: without these events the copy would be of no
        use."""
        context = activation.context
        del activation.pending[neighbor]
        activation.given_up.add(neighbor)
        self.holders.get(context, {}).pop(neighbor, None)
        self.mailbox.send(neighbor, Delete(client=context.client, epoch=context.epoch))

    def has_given_up(self, context: Context, neighbor: BrokerId) -> bool:
        """Whether the neighbor's copy of the context, if there is one, lacks events."""
        activation = self.activations.get(context)
        return activation is not None and neighbor in activation.given_up

    def on_activated(self, neighbor: BrokerId, message: Activated) -> None:
        """The acknowledgement: forward until this broker has seen all that the neighbor saw before it began to
        store."""
        activation = self._activation_of(message.client, message.epoch)
        if activation is not None and neighbor in activation.pending:
            activation.pending[neighbor] = message.fence
            holders = self.holders.get(activation.context)
            if holders is not None and neighbor in holders:
                holders[neighbor] = True
            self._end_passed(activation)

    def _end_passed(self, activation: Activation) -> None:
        for neighbor, fence in list(activation.pending.items()):
            if fence is not None and self.router.passed(fence):
                del activation.pending[neighbor]
                self._forward(activation, neighbor, (), last=True)
        if not activation.pending and not activation.given_up:
            self.stop(activation.context)
            self.all_forwarded(activation.context)

    def on_copy_request(self, neighbor: BrokerId, request: CopyRequest) -> None:
        """The neighbor found no copy to activate: send it the context before the client arrives."""
        activation = self._activation_of(request.client, request.epoch)
        if activation is not None and neighbor in activation.pending:
            self.send(activation.context, [neighbor])
            self._activate(activation, neighbor)

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        """A broker is gone for good, and its copies with it."""
        for holders in self.holders.values():
            holders.pop(broker, None)
        for activation in list(self.activations.values()):
            activation.given_up.discard(broker)
            if activation.pending.pop(broker, self) is not self:
                self._end_passed(activation)

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """The session is over: delete its copies, and send none to a neighbor that found no copy to activate."""
        for activation in list(self._by_client.get(client, ())):
            if activation.context.epoch <= epoch:
                self.delete(activation.context)

    def stop(self, context: Context) -> None:
        """Forward nothing more to copies of this context."""
        activation = self.activations.pop(context, None)
        if activation is not None:
            others = self._by_client[context.client]
            others.remove(activation)
            if not others:
                del self._by_client[context.client]

    def copies_at(self, context: Context) -> tuple[BrokerId, ...]:
        return tuple(sorted(self.holders.get(context, ())))

    def _activation_of(self, client: ClientId, epoch: Epoch) -> Activation | None:
        for activation in self._by_client.get(client, ()):
            if activation.context.epoch == epoch:
                return activation
        return None
