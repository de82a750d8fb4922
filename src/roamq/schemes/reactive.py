"""Reactive transfer as [PRO] section 1 describes it: the standard algorithm without what makes it safe.

Paper: [PRO] section 1; [DIS] section 3.1 has the same steps. Three things that the standard scheme of this package
does are left out by default, and each can be switched on; with all three it is the standard scheme, sent event by
event:
- `fenced`: Bi waits to unsubscribe until it has seen what Bj had seen. Without it, an event that passed Bj before it
  subscribed and Bi after it unsubscribed is lost;
- `deduplicated`: Bj removes what it has received both ways ("potentially after removing duplicates");
- `followed`: a transfer that is under way when the client moves on is followed by the next one. Without it, "the state
  transfer protocol cannot catch up with the moving subscribers", and what comes too late is lost.
"""

from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Context, Held
from roamq.core.events import BrokerId, Event
from roamq.core.messages import Release, StoredEvents
from roamq.core.ports import Host
from roamq.core.records import Record
from roamq.overlay.base import Router
from roamq.schemes.base import SchemeOptions, register
from roamq.schemes.claims import Arriving, Claim
from roamq.schemes.standard import Leaving, Standard


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveOptions(SchemeOptions):
    """What the transfer takes care of."""

    fenced: bool = False
    """Whether the old broker waits until it has seen what the new one had seen."""
    deduplicated: bool = False
    """Whether the new broker removes what it has received both ways."""
    followed: bool = False
    """Whether a client that moves on is followed by what is still on its way."""


@register
class Reactive(Standard):
    """One broker's part of the paper's reactive scheme."""

    name = "reactive"
    options_type = ReactiveOptions
    guarantees: ClassVar[frozenset[str]] = frozenset({"leak"})

    def __init__(
        self, me: BrokerId, host: Host, router: Router, options: SchemeOptions | None = None
    ) -> None:
        super().__init__(me, host, router, options)
        assert isinstance(self.options, ReactiveOptions)
        self.care = self.options

    def on_release(self, new_broker: BrokerId, release: Release) -> None:
        if self.care.fenced:
            super().on_release(new_broker, release)
        else:
            leaving = self.leaving[release.client, release.epoch, release.new_broker]
            leaving.release = release
            self.step_5_forward(leaving)

    def step_5_forward(self, leaving: Leaving) -> None:
        """5. "Bi sends all the subscriber messages to Bj": one by one, and then a closing word."""
        context, release = leaving.context, leaving.release
        assert release is not None
        del self.leaving[context.client, release.epoch, release.new_broker]
        position, events = dict(context.position), tuple(context.events())
        self.close(context, mobile=True)
        for group in (*((event,) for event in events), ()):
            message = StoredEvents(
                client=context.client,
                epoch=release.epoch,
                events=group,
                position=position,
                last=not group,
            )
            self.tell(release.new_broker, message)
        count, size = len(events), sum(event.size_bytes for event in events)
        now = self.host.now()
        peer = release.new_broker
        self.host.record(
            Record("transferred", now, self.me, context.client, peer=peer, count=count, bytes=size)
        )

    def claim(self, context: Context | None, claim: Claim) -> None:
        arriving = None if context is None else self.incomplete.get(context)
        if arriving is not None and arriving.released and not self.care.followed:
            self.step_6_replay(arriving)  # what has not come by now comes too late
            context = self.claimed_by(claim)  # an earlier claim may have waited for it
        super().claim(context, claim)

    def on_stored_events(self, old_broker: BrokerId, message: StoredEvents) -> None:
        if (message.client, message.epoch) not in self.arriving:
            for event in message.events:
                origin, sequence = event.id
                self.host.record(
                    Record(
                        "dropped", self.host.now(), self.me, message.client, origin, sequence, detail="late"
                    )
                )
        super().on_stored_events(old_broker, message)

    def take_in(self, context: Context, event: Event, how: str) -> None:
        if self.care.deduplicated:
            super().take_in(context, event, how)
        elif not context.admit(event, how):
            self.drop(context, event, "queue_full")

    def step_6_replay(self, arriving: Arriving) -> None:
        context = arriving.context
        if not self.care.deduplicated and context.local_queue:
            for event in context.local_queue:
                context.reach[event.id.origin] = max(event.id.sequence, context.reach.get(event.id.origin, 0))
                context.stored.append(Held(event, "stored"))
            context.local_queue.clear()
        super().step_6_replay(arriving)
