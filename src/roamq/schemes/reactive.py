"""Reactive transfer as [PRO] section 1 describes it: the standard algorithm without what makes it safe.

Paper: [PRO] section 1; [DIS] section 3.1 has the same steps. By default the scheme leaves out three things that the
standard scheme of this package does. Each can be switched on; with all three it is the standard scheme, sent event by
event:
- `fenced`: Bi waits to unsubscribe until it has seen what Bj had seen. Without it, an event that passed Bj before it
  subscribed and Bi after it unsubscribed is lost;
- `deduplicated`: Bj removes events that came to it both ways ("potentially after removing duplicates");
- `followed`: a transfer that is under way when the client moves on is followed by the next one. Without it, "the state
  transfer protocol cannot catch up with the moving subscribers", and events that come too late are lost.
"""

from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.own_steps import Care

AS_PUBLISHED = Care(fenced=False, deduplicated=False, followed=False, at_once=False)
"""The precautions of [PRO]'s own transfer: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactiveOptions(SchemeOptions):
    """The precautions of the transfer."""

    fenced: bool = False
    """Whether the old broker waits to unsubscribe until it has seen what the new one had seen."""
    deduplicated: bool = False
    """Whether the new broker removes events that came to it both ways."""
    followed: bool = False
    """Whether the events that are still on their way follow a client that moves on."""


class Reactive(Scheme):
    """One broker's part of the paper's reactive scheme."""

    name = "reactive"
    options_type = ReactiveOptions
    guarantees: ClassVar[frozenset[str]] = frozenset({"leak"})

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        options = setup.options
        assert isinstance(options, ReactiveOptions)
        care = Care(
            fenced=options.fenced,
            deduplicated=options.deduplicated,
            followed=options.followed,
            at_once=False,
        )
        self.handover = self.add(HandOver(self.contexts, self.mailbox, care=care))

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        self.handover.on_connect(client, old_broker, carried)
