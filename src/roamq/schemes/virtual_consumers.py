"""Virtual consumers kept for clients of other servers: algorithm A2 of pre-handoff.

Paper: [PRE] section 4, Fig. 3, as it runs at ESj, next to the area of the server that serves the client.
Departs: when it has subscribed, ESj says what it had seen by then, and ESi sends what the client has not consumed once
it has seen as much (docs/decisions/0080). Until then the virtual consumer keeps what comes in its local queue; from
then on it holds every event that the client may still need, and only its read position is missing. A virtual consumer
that nothing is heard of ends (0085).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from roamq.core.context import Context, Epoch, Mode
from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.core.filters import Filter
from roamq.core.ports import Host, TimerKey
from roamq.core.prehandoff_messages import (
    AskExpected,
    CancelPreforward,
    EnablePrehandoff,
    Preforward,
    Preforwarded,
    PrehandoffMessage,
    PrehandoffRequest,
    Prestored,
    PreSubforward,
    StillExpected,
)
from roamq.core.records import Record
from roamq.geo.here import is_location_dependent, qualified
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions
from roamq.schemes.copies import start_over
from roamq.schemes.standard import Standard

LEASE_S = 300.0
"""After how long without news of it a virtual consumer is doubted, unless the scheme's options say."""


@dataclass(slots=True)
class VirtualConsumer:
    """VC_MHs: the surrogate of a client that is connected at another server."""

    client: ClientId
    epoch: Epoch
    """The client's connection at the server that asked for this."""
    attempt: int
    context: Context | None = None
    """Nothing until the subscriptions have come."""
    changes: int = 0
    speed_mps: float | None = None
    whole: bool = False
    """Whether all that came before its routes were established has come too."""
    doubted: bool = False
    """Whether ESi was asked about it and has not answered."""


class VirtualConsumerHolder(Standard):
    """Holds virtual consumers, VC(ESj), beside the contexts of its own clients."""

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        self.virtual: dict[ClientId, VirtualConsumer] = {}
        self.lease_s: Seconds = LEASE_S
        self.handle(PrehandoffRequest, self.a2_i_prehandoff_request)
        self.handle(Preforward, self.a2_ii_preforward)
        self.handle(PreSubforward, self.a2_iii_pre_subforward)
        self.handle(CancelPreforward, self.a2_iv_cancel_preforward)
        self.handle(Prestored, self.on_prestored)
        self.handle(StillExpected, self.on_still_expected)

    # --- A2 -----------------------------------------------------------------------------------------------

    def a2_i_prehandoff_request(self, server: BrokerId, request: PrehandoffRequest) -> None:
        """I. VC(ESj) = VC(ESj) ∪ VC_MHs; send Enable_prehandoff."""
        if not self.is_newest(request.client, request.epoch):
            return  # the client has been faster: it is, or was, here
        self.end(request.client)
        self.virtual[request.client] = VirtualConsumer(request.client, request.epoch, request.attempt)
        self.host.set_timer(("lease", request.client), self.lease_s)
        self.router.unicast(
            server, EnablePrehandoff(client=request.client, epoch=request.epoch, attempt=request.attempt)
        )

    def a2_ii_preforward(self, server: BrokerId, message: Preforward) -> None:
        """II. Update the routing table for all subscriptions S ∈ SSUBQ_MHs."""
        virtual = self.find(message)
        if virtual is None:
            return
        context = Context(message.client, epoch=message.epoch, mode=Mode.ACTIVE, buffer=self.buffer)
        context.session = message.session
        context.open_local_queue()
        virtual.context = context
        virtual.speed_mps = message.speed_mps
        self.record_mode(context)
        for filter in message.filters:
            self.add_filter(context, filter, mobile=True)
        self.routed(server, virtual)

    def a2_iii_pre_subforward(self, server: BrokerId, message: PreSubforward) -> None:
        """III. Store S in SSUBQ_MHs and forward it; what was stored without S is sent again with it.

        One rule for both: a virtual consumer is filled anew for each set of subscriptions, so that it is never
        in doubt which of them an event it holds was stored for.
        """
        virtual = self.find(message)
        if virtual is None or virtual.context is None:
            return
        start_over(virtual.context, {})
        virtual.context.open_local_queue()
        if message.wanted:
            self.add_filter(virtual.context, message.filter, mobile=True)
        else:
            self.remove_filter(virtual.context, message.filter, mobile=True)
        self.routed(server, virtual)

    def a2_iv_cancel_preforward(self, server: BrokerId, message: CancelPreforward) -> None:
        """IV. Unsubscribe each S ∈ SSUBQ_MHs; VC(ESj) = VC(ESj) - VC_MHs."""
        if self.find(message) is not None:
            self.end(message.client)

    # --- what makes it exact ------------------------------------------------------------------------------

    def routed(self, server: BrokerId, virtual: VirtualConsumer) -> None:
        """The routes are on their way up: tell ESi what this server had seen when it asked for them."""
        virtual.changes += 1
        virtual.whole = False
        self.router.unicast(
            server,
            Preforwarded(
                client=virtual.client,
                epoch=virtual.epoch,
                attempt=virtual.attempt,
                fence=self.router.fence(),
                changes=virtual.changes,
            ),
        )

    def on_prestored(self, server: BrokerId, message: Prestored) -> None:
        virtual = self.find(message)
        if virtual is not None and virtual.context is not None and virtual.changes == message.changes:
            self.fill(virtual.context, message)
            virtual.context.close_local_queue()
            virtual.whole = True
            self.note("ready", message.client, server, message.attempt)
            self.host.store(message.client)

    def fill(self, context: Context, message: Prestored) -> None:
        context.skip_to(dict(message.position))
        elsewhere = any(is_location_dependent(filter) for filter in context.filters)
        meant = self.meant(context, context.filters) if elsewhere else []
        for event in message.events:
            if elsewhere and not any(filter.matches(event) for filter in meant):
                continue  # it spoke of the area that the client has left
            self.take_in(context, event, "transferred")

    # --- the lease ----------------------------------------------------------------------------------------

    def on_timer(self, key: TimerKey) -> None:
        if key[0] == "lease":
            if (virtual := self.virtual.get(ClientId(key[1]))) is not None:
                self.lease_ran_out(virtual)
        else:
            super().on_timer(key)

    def lease_ran_out(self, virtual: VirtualConsumer) -> None:
        """ESi may have fallen and forgotten this client: ask, and without an answer expect it no longer."""
        if virtual.doubted:
            self.end(virtual.client)
            return
        virtual.doubted = True
        self.host.set_timer(("lease", virtual.client), self.lease_s)
        self.router.unicast(
            virtual.epoch.broker,
            AskExpected(client=virtual.client, epoch=virtual.epoch, attempt=virtual.attempt),
        )

    def on_still_expected(self, server: BrokerId, message: StillExpected) -> None:
        if (virtual := self.find(message)) is not None:
            virtual.doubted = False
            self.host.set_timer(("lease", virtual.client), self.lease_s)

    def on_restart(self) -> None:
        super().on_restart()
        for client in sorted(self.virtual):  # its timers fell with the broker
            self.host.set_timer(("lease", client), self.lease_s)

    # --- bookkeeping --------------------------------------------------------------------------------------

    def find(self, message: PrehandoffMessage) -> VirtualConsumer | None:
        """The virtual consumer that a message is about, unless another one has taken its place."""
        virtual = self.virtual.get(message.client)
        if virtual is not None and (virtual.epoch, virtual.attempt) == (message.epoch, message.attempt):
            return virtual
        return None

    def is_newest(self, client: ClientId, epoch: Epoch) -> bool:
        """Is nothing known here of a later connection of the client?"""
        known = [context.epoch for context in self.left_behind.get(client, ())]
        if (current := self.contexts.get(client)) is not None:
            known.append(current.epoch)
        if (virtual := self.virtual.get(client)) is not None:
            known.append(virtual.epoch)
        return all(epoch >= other for other in known)

    def end(self, client: ClientId) -> None:
        """The virtual consumer was not needed: what it stored was stored for nobody."""
        virtual = self.virtual.pop(client, None)
        self.host.cancel_timer(("lease", client))
        if virtual is not None and virtual.context is not None:
            stored = len(virtual.context.stored) + len(virtual.context.local_queue or ())
            self.note("wasted", client, virtual.epoch.broker, stored)
            self.close(virtual.context, mobile=True)

    def note(self, what: str, client: ClientId, peer: BrokerId, count: int | None = None) -> None:
        self.host.record(
            Record("prehandoff", self.host.now(), self.me, client, peer=peer, detail=what, count=count)
        )

    # --- location-dependent subscriptions -----------------------------------------------------------------

    def meant(self, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        """Subscriptions as they are meant in this area, less those that others of the client mean as well."""
        listed = dict.fromkeys(filters)
        if not any(map(is_location_dependent, context.filters)) and not any(
            map(is_location_dependent, listed)
        ):
            return list(listed)
        others = {qualified(filter, self.me) for filter in context.filters if filter not in listed}
        return [f for f in dict.fromkeys(qualified(f, self.me) for f in listed) if f not in others]

    def _watch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        super()._watch(context, self.meant(context, filters), mobile=mobile)

    def _unwatch(self, context: Context, filters: Iterable[Filter], *, mobile: bool) -> None:
        super()._unwatch(context, self.meant(context, filters), mobile=mobile)

    # --- what the checkers ask ----------------------------------------------------------------------------

    def held_contexts(self) -> list[Context]:
        virtual = [v.context for v in self.virtual.values() if v.context is not None]
        return [*super().held_contexts(), *virtual]
