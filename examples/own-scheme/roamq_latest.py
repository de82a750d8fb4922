"""Latest: of what waited for a client that moves, the last events of each topic go along, and the others are dropped.

For clients that show the state of things (a dashboard, a map): an old reading is worth nothing once there is a newer
one. The hand-over is the standard one of [DIS] section 3.1; step 5, in which the old broker forwards what it stored, is
done this scheme's own way.
"""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Ticket
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.base import Scheme, SchemeOptions, Setup
from roamq.schemes.parts.handover import HandOver
from roamq.schemes.parts.own_steps import Leaving, OwnSteps


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestOptions(SchemeOptions):
    """Parameters of the scheme: a field here is a key under `[scheme]` in a scenario."""

    keep: int = 1
    """How many events of each topic go along."""

    def __post_init__(self) -> None:
        if self.keep < 1:
            raise ConfigError(f"scheme.keep: {self.keep} is too few; give 1 or more")


class Latest(Scheme):
    """One broker's part of the scheme."""

    name = "latest"
    options_type = LatestOptions
    guarantees: ClassVar[frozenset[str]] = frozenset({"duplication", "order", "leak"})
    """What the simulator's checkers hold it to: all but "loss", for it drops events on purpose."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        assert isinstance(setup.options, LatestOptions)
        self.keep = setup.options.keep
        own = OwnSteps(forward=self.step_5_forward)
        self.handover = self.add(HandOver(self.contexts, self.mailbox, own))

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        self.handover.on_connect(client, old_broker)

    def step_5_forward(self, leaving: Leaving) -> None:
        """Forward the newest events of each topic; record the others as dropped."""
        newer: Counter[str] = Counter()
        superseded = []
        for event in reversed(list(leaving.context.events())):
            newer[event.topic] += 1
            if newer[event.topic] > self.keep:
                superseded.append(event)
                self.contexts.drop(leaving.context, event, "superseded")
        self.handover.step_5_forward(leaving, without=frozenset(event.id for event in superseded))
