"""Hand-overs that do not wait for a broker that is out of reach: the context goes, and its late events follow.

A fence says which events Broker 1 has to see before it gives a context away. If a broker is down, some of these events
do not come. Then Broker 1 hands over what it has, *owes* Broker 2 the events of the origins behind that broker, and
goes on storing those events for the context. Broker 2 serves the client, and holds back the events of these origins
that reach it directly. When the fence has passed for an origin, Broker 1 sends the late events of that origin, and
Broker 2 delivers what it held back after them.

If the client has moved on meanwhile, Broker 2 owes Broker 3 the same origins in turn. Broker 2 settles them when Broker
1 has settled them with Broker 2, and Broker 2's own fence has passed for them. docs/interest.md has the argument.

Broker 2 may have joined a moment ago, and so may an origin of which Broker 1 has not heard: one name stands for all
such origins (`stands_for_unknown`, docs/decisions/0211). Broker 1 owes the events of such an origin from the moment it
hears of the origin. Broker 2 holds back the events of origins that Broker 1 did not name, and asks Broker 1 which of
these origins it does not owe. Broker 1 settles the common name last.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from roamq.broker.contexts import Contexts
from roamq.broker.mailbox import Handler, Mailbox
from roamq.core.context import Context, Epoch
from roamq.core.events import BrokerId, ClientId, Event, Seconds
from roamq.core.late import (
    NO_ORIGINS,
    UNKNOWN,
    end_late,
    hold_back,
    hold_back_too,
    late_origins,
    stands_for_unknown,
    take_of,
)
from roamq.core.messages import Message
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.schemes.messages.handover import AskLate, LateEvents
from roamq.schemes.parts.own_steps import Care, Leaving
from roamq.schemes.parts.part import Departure, Part
from roamq.schemes.parts.transfers import BROKER_DEPARTED, in_parts, record_missed

LATE_TIMER: Final = "late"
"""The timer of a client whose context waits for a fence."""
ASK_TIMER: Final = "ask_late"
ASK_AFTER_S: Final = 60.0
"""Seconds between two questions of a broker whether the late events still come: the broker that owes them may have lost
its store."""

GoneContext = tuple[ClientId, Epoch, BrokerId]
"""A context that has gone except for its late events: its client, the transfer, and the broker to which it went."""
GivenUp = tuple[ClientId, Epoch]
"""A copy of a context for which nobody waits: its client, and the transfer."""


@dataclass(slots=True, eq=False)
class Owing:
    """A context that has gone to another broker except for its late events."""

    context: Context
    transfer: Epoch
    new_broker: BrokerId
    fence: Mapping[BrokerId, int]
    origins: set[BrokerId] = field(default_factory=set)
    """The origins of which the other broker has not got all events."""
    unpassed: set[BrokerId] = field(default_factory=set)
    """Those of the origins for which the fence has not passed."""


@dataclass(slots=True, eq=False)
class Awaiting:
    """A context that has come here except for its late events."""

    context: Context
    old_broker: BrokerId
    """The broker that owes the late events."""
    was_asked: bool = False
    """Whether this broker has asked the old broker, and has no answer yet."""


class LateParts(Part):
    """The late events that one broker owes to others, and those that it awaits from others."""

    hands_over = True

    def __init__(
        self,
        contexts: Contexts,
        mailbox: Mailbox,
        before_fence: Sequence[Leaving],
        is_settled: Callable[[], None],
        close: Callable[..., None],
        claim_again: Callable[[], None],
        *,
        is_used: bool,
    ) -> None:
        self.contexts = contexts
        self.mailbox = mailbox
        self.me = contexts.me
        self.host = contexts.host
        self.router = contexts.router
        self.before_fence = before_fence
        """The hand-over's list of contexts that wait for a fence."""
        self.is_settled = is_settled
        """Called when late events have come: the hand-over looks again at the contexts that wait for a fence."""
        self.close = close
        """The scheme's way to close a context."""
        self.claim_again = claim_again
        """Called after a restart of this broker: watches claims again that other brokers have not answered."""
        self.is_used = is_used
        """Whether the scheme lets contexts go without their late events."""
        self.pending = self.owing = dict[GoneContext, Owing]()
        self._by_context: dict[Context, Owing] = {}
        self._before: dict[tuple[BrokerId, BrokerId], dict[Context, Owing]] = {}
        """New broker and origin -> the contexts that wait for fences of that broker to pass for that origin, in the
        order of the fences: a fence passes no earlier than those that the same broker made before it."""
        self.awaiting: dict[tuple[ClientId, Epoch], Awaiting] = {}
        self.given_up: dict[GivenUp, frozenset[BrokerId] | None] = {}
        """Copies of contexts for which nobody here waits any more -> the origins whose events are still to come; None
        while this broker does not know these origins."""
        self._of_client: dict[ClientId, set[GoneContext | GivenUp]] | None = None
        """Client -> its contexts in `owing` and `given_up`; None until the first question, and never stored."""
        self.late: Counter[BrokerId] = Counter()
        """Late origin -> the number of contexts that are owed its events. No other context waits for a late origin."""
        mailbox.handle_returned(AskLate, self.on_ask_returned)
        mailbox.handle_returned(LateEvents, self.on_events_returned)

    def handlers(self) -> dict[type[Message], Handler]:
        return {LateEvents: self.on_late_events, AskLate: self.on_ask}

    @property
    def after_s(self) -> Seconds | None:
        """Seconds that a context waits for its fence; None: as long as the fence takes."""
        return self.contexts.late_after_s if self.is_used else None

    # --- at Broker 1, before the context goes -----------------------------------------------------------------

    def missing(self, context: Context, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """The origins of which events may come late to this context here."""
        of_fence = NO_ORIGINS if self.router.passed(fence) else self.router.late(fence)
        return of_fence | late_origins(context)

    def may_go(self, context: Context, fence: Mapping[BrokerId, int], takes_late: bool) -> bool:
        """Has the fence passed, except for origins that are known to be late, if the other broker takes late events?"""
        if self.after_s is None or not takes_late:
            return self.router.passed(fence) and context.late is None
        known = self.late.keys() | late_origins(context)
        return self.after_s == 0 or self.missing(context, fence) <= known

    def lets_go(self, leaving: Leaving, care: Care) -> bool:
        """May the context go now? Not before the new broker has released it."""
        release = leaving.release
        if release is None or not care.fenced:
            return release is not None
        return self.may_go(leaving.context, release.fence, release.takes_late)

    def wait(self, client: ClientId) -> None:
        """Set the timer that ends the wait of the client's contexts for their fences."""
        if self.after_s is not None:
            self.host.set_timer((LATE_TIMER, client), self.after_s)

    # --- at Broker 1, when it has gone ------------------------------------------------------------------------

    def owe(
        self,
        context: Context,
        transfer: Epoch,
        new_broker: BrokerId,
        fence: Mapping[BrokerId, int],
        origins: frozenset[BrokerId],
    ) -> None:
        """All that this context stored has gone to `new_broker`: from now on the context stores only late events."""
        context.release_some(len(context.stored))
        context.session = None
        context.only = origins
        unpassed = set(self.router.late(fence))
        owing = Owing(context, transfer, new_broker, fence, set(origins), unpassed)
        self.owing[context.client, transfer, new_broker] = self._by_context[context] = owing
        self._enter((context.client, transfer, new_broker))
        for origin in sorted(unpassed):
            self._before.setdefault((new_broker, origin), {})[context] = owing
        self.late.update(sorted(origins))

    def on_event(self, event: Event) -> None:
        if event.id[0] in self.late:
            self.on_passed()

    def on_passed(self) -> None:
        """Fences may have passed: of those that one broker made for one origin, look at the first, then at the next,
        and so on."""
        passed: dict[Context, Owing] = {}
        for (new_broker, origin), queue in list(self._before.items()):
            while queue:
                context, owing = next(iter(queue.items()))
                if origin in self.router.late(owing.fence):
                    break
                del queue[context]
                owing.unpassed.discard(origin)
                passed[context] = owing
            if not queue:
                del self._before[new_broker, origin]
        for owing in passed.values():
            self._settle(owing)

    def on_joined(self, broker: BrokerId) -> None:
        """A broker has joined: its events may be late for contexts that went, or came, before this broker knew of
        it."""
        for context in [awaiting.context for awaiting in self.awaiting.values()]:
            if self._is_open(context) and self.router.may_miss(broker):
                hold_back_too(context, broker)
        for owing in list(self.owing.values()):
            if broker not in owing.origins and any(map(stands_for_unknown, owing.origins)):
                self._owe_too(owing, broker)

    def _owe_too(self, owing: Owing, origin: BrokerId) -> None:
        """The other broker may hold back events of this origin: owe it those that come, or tell it that none come."""
        owing.origins.add(origin)
        owing.context.only = frozenset(owing.origins)
        self.late[origin] += 1
        if origin in self.router.late(owing.fence):
            owing.unpassed.add(origin)
            self._before.setdefault((owing.new_broker, origin), {})[owing.context] = owing
        else:
            self._settle(owing)

    def _settle(self, owing: Owing) -> None:
        """Send the late events of those origins of which no more late events can come."""
        context = owing.context
        settled = frozenset(owing.origins - owing.unpassed - late_origins(context))
        if settled != owing.origins:
            settled = frozenset(one for one in settled if not stands_for_unknown(one))
        if not settled:
            return
        events = take_of(context, settled)
        owing.origins -= settled
        context.only = frozenset(owing.origins)
        self._count_off(settled)
        if not owing.origins:
            self._close(owing)
        *parts, last = in_parts(events, self.contexts)
        client, epoch = context.client, owing.transfer
        for part in parts:
            message = LateEvents(client=client, epoch=epoch, events=part, origins=())
            self.mailbox.send(owing.new_broker, message)
        message = LateEvents(client=client, epoch=epoch, events=last, origins=tuple(sorted(settled)))
        self.mailbox.send(owing.new_broker, message)

    def _count_off(self, origins: Iterable[BrokerId]) -> None:
        self.late.subtract(origins)
        for origin in origins:
            if not self.late[origin]:
                del self.late[origin]

    def _enter(self, key: GoneContext | GivenUp) -> None:
        if self._of_client is not None:
            self._of_client.setdefault(key[0], set()).add(key)

    def _strike(self, key: GoneContext | GivenUp) -> None:
        if self._of_client is not None and (keys := self._of_client.get(key[0])) is not None:
            keys.discard(key)
            if not keys:
                del self._of_client[key[0]]

    def _keys_of(self, client: ClientId) -> list[GoneContext | GivenUp]:
        if self._of_client is None:
            self._of_client = {}
            for gone in self.owing:
                self._enter(gone)
            for given_up in self.given_up:
                self._enter(given_up)
        return sorted(self._of_client.get(client, ()))

    def _close(self, owing: Owing) -> None:
        context = owing.context
        self._strike((context.client, owing.transfer, owing.new_broker))
        del self.owing[context.client, owing.transfer, owing.new_broker], self._by_context[context]
        for origin in owing.unpassed:
            del self._before[owing.new_broker, origin][context]
        self._count_off(owing.origins)
        self.close(context, mobile=True)

    # --- at Broker 2 ------------------------------------------------------------------------------------------

    def await_rest(
        self, context: Context, transfer: Epoch, old_broker: BrokerId, origins: Iterable[BrokerId]
    ) -> None:
        """The context has come except for events of these origins: hold back those that come directly, and await the
        rest."""
        hold_back(context, origins)
        awaiting = self.awaiting[context.client, transfer] = Awaiting(context, old_broker)
        if len(self.awaiting) == 1:
            self.host.set_timer((ASK_TIMER,), ASK_AFTER_S)
        held = self.router.joined_later() - late_origins(context) - {self.me}
        if held and self._is_open(context):
            for origin in sorted(held):
                hold_back_too(context, origin)
            awaiting.was_asked = True
            question = AskLate(client=context.client, epoch=transfer, origins=tuple(sorted(held)))
            self.mailbox.send(old_broker, question)

    def _is_open(self, context: Context) -> bool:
        """Whether origins that the old broker did not name may be late too: this broker does not get all events yet."""
        mine = f"{UNKNOWN}{self.me}@"
        return any(origin.startswith(mine) for origin in late_origins(context))

    def give_up(self, context: Context, transfer: Epoch, *, is_whole: bool) -> None:
        """Broker 2 has discarded one of several copies of a context: the client gets its events from another copy, so
        late events for this copy are no loss."""
        self.awaiting.pop((context.client, transfer), None)
        if self.after_s is not None and (context.late is not None or not is_whole):
            self.given_up[context.client, transfer] = late_origins(context) if is_whole else None
            self._enter((context.client, transfer))

    def on_given_up(self, client: ClientId, transfer: Epoch, late: Iterable[BrokerId]) -> None:
        """The rest of a given-up copy has come: only events of the origins `late` are still to come for it."""
        if (client, transfer) in self.given_up:
            self._expect(client, transfer, frozenset(late))

    def _expect(self, client: ClientId, transfer: Epoch, late: frozenset[BrokerId]) -> None:
        if late:
            self.given_up[client, transfer] = late
        else:
            self._forget((client, transfer))

    def _forget(self, key: GivenUp) -> None:
        self._strike(key)
        del self.given_up[key]

    def on_late_events(self, old_broker: BrokerId, message: LateEvents) -> None:
        key = (message.client, message.epoch)
        if key in self.given_up:
            left = NO_ORIGINS if message.origins is None else (self.given_up[key] or NO_ORIGINS)
            self._expect(*key, left - frozenset(message.origins or ()))
            return
        awaiting = self.awaiting.get(key)
        if awaiting is None or awaiting.context.late is None:
            self.awaiting.pop(key, None)
            self._record_dropped(message.client, message.events, "late")
            return
        awaiting.was_asked = False
        context = awaiting.context
        is_over = message.origins is None or any(map(stands_for_unknown, message.origins))
        origins = tuple(awaiting.context.late) if is_over else message.origins or ()
        if message.origins is None:
            known = (None if stands_for_unknown(origin) else origin for origin in origins)
            record_missed(self.contexts, context.client, old_broker, known)
        for event in end_late(context, origins, message.events):
            self.contexts.drop(context, event, "queue_full")
        if context.late is None:
            del self.awaiting[key]
        if context.local_queue is None:
            self.contexts.replay(context)
        if (owing := self._by_context.get(context)) is not None:  # the context has gone on from here
            self._settle(owing)
        self.is_settled()

    # --- the broker that owes events may have lost its store --------------------------------------------------

    def on_timer(self, key: TimerKey) -> bool:
        if key[0] != ASK_TIMER:
            return False
        for (client, epoch), awaiting in list(self.awaiting.items()):
            if awaiting.context.late is None:
                del self.awaiting[client, epoch]
            elif not awaiting.was_asked:
                awaiting.was_asked = True
                self.mailbox.send(awaiting.old_broker, AskLate(client=client, epoch=epoch))
        if self.awaiting:
            self.host.set_timer((ASK_TIMER,), ASK_AFTER_S)
        return True

    def on_ask(self, new_broker: BrokerId, question: AskLate) -> None:
        """Answer which origins this broker does not owe; if it has forgotten what it owed, it owes none at all."""
        owing = self.owing.get((question.client, question.epoch, new_broker))
        heard_of = self.router.joined_later().intersection(question.origins)
        origins = None if owing is None else tuple(sorted(heard_of - owing.origins))
        self.mailbox.send(
            new_broker, LateEvents(client=question.client, epoch=question.epoch, events=(), origins=origins)
        )

    def on_ask_returned(self, to: BrokerId, question: AskLate) -> None:
        self.on_late_events(
            to, LateEvents(client=question.client, epoch=question.epoch, events=(), origins=None)
        )

    def on_events_returned(self, to: BrokerId, message: LateEvents) -> None:
        self._record_dropped(message.client, message.events, BROKER_DEPARTED)

    def _record_dropped(self, client: ClientId, events: Iterable[Event], reason: str) -> None:
        for event in events:
            origin, sequence = event.id
            self.host.record(
                Record("dropped", self.host.now(), self.me, client, origin, sequence, detail=reason)
            )

    # --- ends -------------------------------------------------------------------------------------------------

    def on_departed(self, broker: BrokerId, departure: Departure) -> None:
        for (client, epoch), awaiting in list(self.awaiting.items()):
            if awaiting.old_broker == broker:
                self.on_ask_returned(broker, AskLate(client=client, epoch=epoch))
        for owing in [owing for owing in self.owing.values() if owing.new_broker == broker]:
            self.contexts.drop_all(owing.context, BROKER_DEPARTED)
            self._close(owing)
        for key in [key for key in self.given_up if key[1].broker == broker]:
            self._forget(key)

    def on_ended(self, client: ClientId, epoch: Epoch) -> None:
        """The session is over: nobody will read its late events."""
        if not self.owing and not self.given_up:
            return
        for key in [key for key in self._keys_of(client) if key[1] <= epoch]:
            if len(key) == 3:
                self._close(self.owing[key])
            else:
                self._forget(key)

    def on_restart(self) -> None:
        self.claim_again()
        for leaving in self.before_fence:
            self.wait(leaving.context.client)
        if self.awaiting:
            self.host.set_timer((ASK_TIMER,), ASK_AFTER_S)

    def awaited(self) -> Mapping[BrokerId, int]:
        return Counter(one.old_broker for one in self.awaiting.values() if one.context.late is not None)

    def held(self) -> list[Context]:
        return [owing.context for owing in self.owing.values()]
