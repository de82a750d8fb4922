"""What a scheme may choose of the standard hand-over: what a transfer takes care of, and steps done its own way."""

from collections.abc import Callable
from dataclasses import dataclass

from roamq.core.context import Context, Epoch
from roamq.core.events import ClientId
from roamq.schemes.messages.handover import Release, StoredEvents
from roamq.schemes.parts.whereabouts import Arriving, Claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """What a transfer takes care of. [PRO]'s reactive scheme takes care of nothing of it (`reactive.py`)."""

    fenced: bool = True
    """Broker 1 waits to unsubscribe until it has seen what Broker 2 had seen when it subscribed."""
    deduplicated: bool = True
    """Broker 2 removes what it has received both ways."""
    followed: bool = True
    """A transfer that is under way when the client moves on is followed by the next one."""
    at_once: bool = True
    """Broker 1 sends all stored events in one message, not one by one."""


@dataclass(slots=True)
class Leaving:
    """A context that belongs to another broker now; it buffers until that one has subscribed."""

    context: Context
    release: Release | None = None
    session_sent: bool = False
    """Whether the session state went with the subscriptions."""
    head_sent: bool = False
    """Whether what was stored went right behind the subscriptions, and was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSteps:
    """The steps that a scheme does its own way; None: the standard way."""

    claim: Callable[[Context | None, Claim], None] | None = None
    """Broker 1 decides what becomes of a claim to a context, or to one that it does not have."""
    hand_over: Callable[[Context, Claim], None] | None = None
    """Step 2, at Broker 1: the context is the claimer's."""
    forward: Callable[[Leaving], None] | None = None
    """Step 5."""
    admit_all: Callable[[Arriving, StoredEvents, str], None] | None = None
    """Between steps 5 and 6: stored events have come to Broker 2."""
    replay: Callable[[Arriving], None] | None = None
    """Step 6."""
    completed: Callable[[Context], None] | None = None
    """After step 6: the context is whole."""
    step_aside: Callable[[Arriving, Epoch], None] | None = None
    """Broker 2 learns that the client has a later connection elsewhere."""
    overdue: Callable[[ClientId], None] | None = None
    """Contexts of a client have waited for their fences long enough."""
    close: Callable[..., None] | None = None
    """A context is closed."""
    sends_whole: Callable[[Context], bool] | None = None
    """Whether all stored events of a context go in one message; None: if this scheme puts them together its own way."""
    sends_head: Callable[[Context], bool] | None = None
    """Whether what is stored may go ahead of step 5; None: if this scheme does not do step 5, or what follows it, its
    own way."""

    def may_send_head(self, context: Context) -> bool:
        """Whether what is stored may go to Broker 2 before it has subscribed, ahead of step 5."""
        if self.sends_head is not None:
            return self.sends_head(context)
        return self.forward is None and self.admit_all is None

    def takes_whole(self, context: Context) -> bool:
        """Who puts the events of a context together its own way has to have them in one message."""
        return self.sends_whole(context) if self.sends_whole is not None else self.admit_all is not None


def always(context: Context) -> bool:
    """For `OwnSteps.sends_head`, of a scheme whose own step 5 sends what is left."""
    return True
