"""The choices of a scheme in the standard hand-over: what a transfer takes care of, and steps that it does its own
way."""

from collections.abc import Callable
from dataclasses import dataclass

from roamq.core.context import Context, Epoch
from roamq.core.events import ClientId
from roamq.schemes.messages.handover import Release, StoredEvents
from roamq.schemes.parts.whereabouts import Arriving, Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """The precautions of a transfer. [PRO]'s reactive scheme takes none of them (`reactive.py`)."""

    fenced: bool = True
    """Whether Broker 1 unsubscribes only when it has seen what Broker 2 had seen when it subscribed."""
    deduplicated: bool = True
    """Whether Broker 2 removes events that came to it both ways."""
    followed: bool = True
    """Whether a transfer that is under way when the client moves on is followed by the next one."""
    at_once: bool = True
    """Whether Broker 1 sends all stored events in one message, not one by one."""


@dataclass(slots=True)
class Leaving:
    """A context that belongs to another broker now; this broker stores events in it until the other one has
    subscribed."""

    context: Context
    release: Release | None = None
    session_sent: bool = False
    """Whether the session state went with the subscriptions."""
    head_sent: bool = False
    """Whether the stored events went right behind the subscriptions, and were recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSteps:
    """The steps of the hand-over that a scheme does its own way; None: the standard way."""

    claim: Callable[[Context | None, Claim], None] | None = None
    """Broker 1 decides what becomes of a claim to a context, or to one that it does not have."""
    hand_over: Callable[[Context, Claim], None] | None = None
    """Step 2, at Broker 1: the context belongs to the claimer now."""
    forward: Callable[[Leaving], None] | None = None
    """Step 5: Broker 1 forwards the stored events."""
    admit_all: Callable[[Arriving, StoredEvents, str], None] | None = None
    """Between steps 5 and 6: stored events have come to Broker 2."""
    replay: Callable[[Arriving], None] | None = None
    """Step 6: Broker 2 replays the events."""
    completed: Callable[[Context], None] | None = None
    """After step 6: the context is whole."""
    step_aside: Callable[[Arriving, Epoch], None] | None = None
    """Broker 2 learns that the client has a later connection elsewhere."""
    overdue: Callable[[ClientId], None] | None = None
    """Contexts of a client have waited for their fences long enough."""
    close: Callable[..., None] | None = None
    """The broker closes a context."""
    sends_whole: Callable[[Context], bool] | None = None
    """Whether all stored events of a context go in one message; None: yes, if the scheme has its own `admit_all`."""
    sends_head: Callable[[Context], bool] | None = None
    """Whether stored events may go ahead of step 5; None: yes, unless the scheme has its own `forward` or
    `admit_all`."""

    def may_send_head(self, context: Context) -> bool:
        """Whether the stored events may go to Broker 2 before it has subscribed, ahead of step 5."""
        if self.sends_head is not None:
            return self.sends_head(context)
        return self.forward is None and self.admit_all is None

    def takes_whole(self, context: Context) -> bool:
        """Whether all stored events of the context go in one message: a scheme with its own `admit_all` needs them
        together."""
        return self.sends_whole(context) if self.sends_whole is not None else self.admit_all is not None


def always(context: Context) -> bool:
    """The `OwnSteps.sends_head` of a scheme whose own step 5 sends what is left after the head."""
    return True
