"""Sending copies of contexts to neighbors, and activating them: the serving broker's side of pro-active caching.

Paper: [PRO] section 4.1, the messages of cases 1, 2, 4, 6 and 8 as Bj sends them; `copies.py` has the other end.
When the client disconnects, "broker Bj forwards Msgs(S) to its neighbors Bi until the activation request is
acknowledged": the acknowledgement carries a fence, and Bj goes on until it has seen what Bi had seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from roamq.core.context import Context, Epoch, digest_of
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.messages import Activate, Activated, CopyRequest, Delete, Forwarded, PassiveCopy
from roamq.core.ports import Host
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions
from roamq.schemes.copies import CopyHolder


@dataclass(slots=True)
class Activation:
    """Case 2 under way: the neighbors that have not got everything yet."""

    context: Context
    pending: dict[BrokerId, Mapping[BrokerId, int] | None] = field(default_factory=dict)
    """Neighbor -> the fence it acknowledged with, once it did."""


class CopySender(CopyHolder):
    """Keeps account of the copies of its clients' contexts at other brokers."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.activations: dict[Context, Activation] = {}
        self.holders: dict[Context, dict[BrokerId, bool]] = {}
        """Where copies of a context are kept on this broker's account, and whether all of them have arrived."""
        self.handle(Activated, self.on_activated)
        self.handle(CopyRequest, self.on_copy_request)

    def send_copies(self, context: Context, neighbors: Iterable[BrokerId]) -> None:
        for neighbor in sorted(neighbors):
            self.holders.setdefault(context, {})[neighbor] = False
            copy = PassiveCopy(
                client=context.client,
                epoch=context.epoch,
                filters=tuple(context.filters),
                session=context.session,
            )
            self.router.unicast(neighbor, copy)

    def delete_copies(self, context: Context, *, for_good: bool = False) -> None:
        self.activations.pop(context, None)
        for holder in sorted(self.holders.pop(context, ())):
            delete = Delete(client=context.client, epoch=context.epoch, for_good=for_good)
            self.router.unicast(holder, delete)

    def activate(self, activation: Activation, neighbor: BrokerId) -> None:
        context = activation.context
        activation.pending[neighbor] = None
        self.holders.setdefault(context, {})[neighbor] = False
        request = Activate(
            client=context.client,
            epoch=context.epoch,
            digest=digest_of(context.filters),
            position=dict(context.position),
            session=context.session,
        )
        self.router.unicast(neighbor, request)
        self.forward(activation, neighbor, tuple(context.events()))

    def forward(
        self, activation: Activation, neighbor: BrokerId, events: tuple[Event, ...], *, last: bool = False
    ) -> None:
        if events or last:
            context = activation.context
            message = Forwarded(client=context.client, epoch=context.epoch, events=events, last=last)
            self.router.unicast(neighbor, message)

    def on_event(self, event: Event) -> None:
        super().on_event(event)
        if self.activations:
            for activation in list(self.activations.values()):
                stored = activation.context.stored
                if stored and stored[-1].event is event:
                    for neighbor in activation.pending:
                        self.forward(activation, neighbor, (event,))
                self.end_passed(activation)

    def on_activated(self, neighbor: BrokerId, message: Activated) -> None:
        """The acknowledgement: forward until we have seen all that the neighbor saw before it began to store."""
        activation = self.activation_of(message.client, message.epoch)
        if activation is not None and neighbor in activation.pending:
            activation.pending[neighbor] = message.fence
            holders = self.holders.get(activation.context)
            if holders is not None and neighbor in holders:
                holders[neighbor] = True
            self.end_passed(activation)

    def end_passed(self, activation: Activation) -> None:
        for neighbor, fence in list(activation.pending.items()):
            if fence is not None and self.router.passed(fence):
                del activation.pending[neighbor]
                self.forward(activation, neighbor, (), last=True)
        if not activation.pending:
            self.activations.pop(activation.context, None)
            self.all_forwarded(activation.context)

    def all_forwarded(self, context: Context) -> None:
        """Every neighbor has what it lacked."""

    def on_copy_request(self, neighbor: BrokerId, request: CopyRequest) -> None:
        """The neighbor found nothing to activate: send it the context before the client arrives."""
        activation = self.activation_of(request.client, request.epoch)
        if activation is not None and neighbor in activation.pending:
            self.send_copies(activation.context, [neighbor])
            self.activate(activation, neighbor)

    def activation_of(self, client: ClientId, epoch: Epoch) -> Activation | None:
        for context, activation in self.activations.items():
            if context.client == client and context.epoch == epoch:
                return activation
        return None
