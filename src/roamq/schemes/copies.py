"""Copies of contexts kept for neighboring brokers: the neighbor's side of pro-active caching.

Paper: [PRO] section 4.1, as it runs at Bi, a neighbor of the broker that serves the client.

A copy obeys the newest connection of its client: its epoch is the paper's control attribute, and a request with an
older one is not performed. Who creates copies under an epoch (`PassiveCopy`, `Activate`) sends a `Delete` after
them, or leaves them to the next broker when it knows that they have arrived: so none is left behind.
"""

from roamq.core.context import Context, Epoch, Mode, Position, digest_of
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import (
    Activate,
    Activated,
    CopyRequest,
    Deactivate,
    Delete,
    Forwarded,
    PassiveCopy,
)
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions
from roamq.schemes.proactive_states import MODES, State, Stimulus, after
from roamq.schemes.standard import Standard


class CopyHolder(Standard):
    """Holds copies of contexts for other brokers, beside the contexts of its own clients."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.copies: dict[ClientId, Context] = {}
        self.handle(PassiveCopy, self.on_passive_copy)
        self.handle(Activate, self.on_activate)
        self.handle(Deactivate, self.on_deactivate)
        self.handle(Delete, self.on_delete)
        self.handle(Forwarded, self.on_forwarded)

    def copy_state(self, client: ClientId) -> State:
        copy = self.copies.get(client)
        if copy is None:
            return State.NONE
        return State.PASSIVE if copy.mode is Mode.PASSIVE else State.ACTIVE

    def has_control(self, client: ClientId, epoch: Epoch) -> bool:
        """The control attribute: may a request of this epoch change what is kept here for the client?

        Not if a later one already did, nor if the client itself has connected here since.
        """
        copy = self.copies.get(client)
        held = [context.epoch for context in self.own_contexts(client)]
        return all(epoch > mine for mine in held) and (copy is None or copy.epoch <= epoch)

    def own_contexts(self, client: ClientId) -> list[Context]:
        """What this broker has as a broker of the client: the current context, and those not yet fetched."""
        leaving = [leaving.context for key, leaving in self.leaving.items() if key[0] == client]
        return [*leaving, *self.held_for(client)]

    # --- what the broker that has control asks ------------------------------------------------------------

    def on_passive_copy(self, sender: BrokerId, message: PassiveCopy) -> None:
        """Case 7: "When broker Bj receives Context(S) from its neighbors, it locally stores it"."""
        if self.has_control(message.client, message.epoch):
            self.keep_copy(message.client, message.epoch, message.filters, message.session)

    def keep_copy(
        self, client: ClientId, epoch: Epoch, filters: tuple[Filter, ...], session: object | None
    ) -> None:
        """A passive copy of exactly these subscriptions, in place of any other."""
        assert after(self.copy_state(client), Stimulus.COPY) is State.PASSIVE
        self.drop_copy(client)
        copy = Context(client, epoch=epoch, mode=Mode.PASSIVE, buffer=self.new_queue())
        copy.filters = dict.fromkeys(filters)
        copy.session = session
        self.copies[client] = copy
        self.record_mode(copy)
        self.host.store(client)

    def on_activate(self, sender: BrokerId, message: Activate) -> None:
        """Case 2, at a neighbor: store whatever matches and the client has not read.

        "In case the activate request could not find the Sub(S), Bk will be notified and asked to deliver
        Context(S) prior to S arrival."
        """
        if not self.has_control(message.client, message.epoch):
            return
        copy = self.copies.get(message.client)
        if copy is None or digest_of(copy.filters) != message.digest:
            request = CopyRequest(client=message.client, epoch=message.epoch)
            self.router.unicast(message.epoch.broker, request)
            return
        state = after(self.copy_state(message.client), Stimulus.ACTIVATE)
        copy.epoch = message.epoch
        copy.session = message.session
        start_over(copy, dict(message.position))
        copy.open_local_queue()  # until everything older has been forwarded
        self.set_mode(copy, MODES[state])
        reply = Activated(client=message.client, epoch=message.epoch, fence=self.router.fence())
        self.router.unicast(message.epoch.broker, reply)

    def on_forwarded(self, sender: BrokerId, message: Forwarded) -> None:
        """What the last broker stored before this copy did; with the last of it the copy is whole."""
        copy = self.copies.get(message.client)
        if copy is not None and copy.epoch == message.epoch and copy.mode is Mode.ACTIVE:
            self.admit_forwarded(copy, message)
            if message.last:
                copy.close_local_queue()
            self.host.store(copy.client)

    def admit_forwarded(self, context: Context, message: Forwarded) -> None:
        for event in message.events:
            if context.is_new(event) and not context.admit(event, "transferred"):
                self.drop(context, event, "queue_full")

    def on_deactivate(self, sender: BrokerId, message: Deactivate) -> None:
        """Cases 3 and 4, at a neighbor: "deactivate Sub(S), terminate the caching process, and clean up"."""
        copy = self.copies.get(message.client)
        if copy is not None and copy.epoch <= message.epoch:
            state = after(self.copy_state(message.client), Stimulus.DEACTIVATE)
            copy.epoch = message.heir
            start_over(copy, {})
            self.set_mode(copy, MODES[state])
            self.host.store(copy.client)

    def on_delete(self, sender: BrokerId, message: Delete) -> None:
        """Cases 4, 6 and 8, at a neighbor. Leaving for good has the privilege to ignore who has control."""
        copy = self.copies.get(message.client)
        if copy is not None and (message.for_good or copy.epoch <= message.epoch):
            assert after(self.copy_state(message.client), Stimulus.DELETE) is State.NONE
            self.drop_copy(message.client)

    def drop_copy(self, client: ClientId) -> None:
        copy = self.copies.pop(client, None)
        if copy is not None:
            self.close(copy, mobile=True)

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held_contexts(self) -> list[Context]:
        return [*super().held_contexts(), *self.copies.values()]


def start_over(context: Context, position: Position) -> None:
    """Forget what is stored; the client has read up to `position`."""
    context.take_all()
    context.local_queue = None
    context.position = position
    context.reach = dict(position)
