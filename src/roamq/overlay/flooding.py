"""Flooding: the overlay in which every event reaches every broker ([PRO] section 3).

The graph may have cycles. An event follows the shortest-path tree of its origin, which every broker computes
alike, so it crosses each broker once; links are FIFO, hence the events of one origin arrive in sequence, and a broker
need only remember the last sequence that it has seen of each origin (its *frontier*).

A fence has passed when the broker's frontier has come as far as the fence says. Events that a broker saw in an earlier
life do not come again. So the broker before it in an origin's tree tells it how far the origin's events have come
(`EventsPassed`); it moves its frontier, and tells those behind it. The first broker to tell is one that knows of no
older events: an origin that begins anew, or, for an origin that departed, a broker that was linked with it.

A broker that joins, or begins anew, gets the events of an origin from the moment on when the broker before it in the
origin's tree has heard of it; it does not know the first number until that broker tells it. Until then its fences are
*partial*: they name the origins for which it knows the number, and a broker that gets such a fence waits until it is
told about the others (`EventsPassed.comes`). Among the others are brokers that joined meanwhile, and that the maker of
the fence has not heard of.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.late import UNKNOWN
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.base import TreeUnicast
from roamq.overlay.messages import EventsPassed
from roamq.overlay.topology import Topology

PARTIAL: Final = -1
"""A value in a fence; its key names the maker of the fence, and that broker's life. It says that the maker will send an
`EventsPassed` about the origins that the fence does not name."""


class Flooding(TreeUnicast):
    """The router of one broker in a flooded network."""

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        topology: Topology,
        *,
        first_number: int = 0,
        confirms: bool = False,
    ) -> None:
        """`confirms`: neighbours tell a broker that begins anew from which numbers on it gets events; in simulations
        they do not."""
        super().__init__(me, host, topology)
        self.frontier: dict[BrokerId, int] = {}
        if first_number:
            self.frontier[me] = first_number  # no more events of this broker's earlier lives come
        self.ended: set[BrokerId] = set()
        """Origins that departed, and from which nothing more comes here."""
        self._counted_on = first_number
        """The highest number that a life of this broker which the store does not remember may have given an event."""
        self.life = first_number if confirms else 0
        """The number of this broker's life; 0 if neighbours do not say from which numbers on events come."""
        self.has_met = False
        """Whether this life of the broker has dealt with another broker yet."""
        self.unmet: set[BrokerId] = set()
        """Neighbours that have said nothing since this broker started from a store that knows of no other broker."""
        self.unheard: dict[BrokerId, tuple[BrokerId, ...] | None] = {}
        """Neighbour -> the origins whose events it may not all pass on yet; None: any origin, since it said nothing."""
        self.fenced: set[BrokerId] = set()
        """Brokers that have partial fences of this one, and wait for an `EventsPassed` about the other origins."""
        self.promised: dict[BrokerId, tuple[int, Mapping[BrokerId, int] | None, bool]] = {}
        """Broker -> its life; origin -> the number above which that broker gets all events, None while it has not said;
        and whether it gets all events of all other origins."""
        self._toward: dict[BrokerId, tuple[BrokerId, ...]] = {}
        self.rewired()

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Do nothing: every event comes here anyway."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Do nothing: every event comes here anyway."""

    def advertise(self, filter: Filter) -> None:
        """Do nothing: every event goes everywhere anyway."""

    def publish(self, event: Event) -> None:
        """Pass the event on. This broker's own events come in sequence, so the frontier need not be looked up."""
        me = self.me
        self.frontier[me] = event.id[1]
        self.host.pass_on(self._toward[me], event)

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        origin, sequence = event.id
        if sequence <= self.frontier.get(origin, 0):
            return False
        self.frontier[origin] = sequence
        self.host.pass_on(self._toward[origin], event)
        return True

    def receive(self, sender: BrokerId, message: Message) -> bool:
        assert isinstance(message, EventsPassed), (
            f"flooding has no such routing message, but {sender} sent {message}"
        )
        if message.by is not None:
            return self._on_promise(message.by, message)
        frontier, departed = self.frontier, self.topology.departed
        passed = {
            origin: sequence
            for origin, sequence in message.frontier.items()
            if origin in self._toward and sequence > frontier.get(origin, 0)
        }
        frontier.update(passed)
        ended = departed.intersection(message.ended) - self.ended
        self.ended |= ended
        self._say_passed(passed, ended)
        self._meet()
        if message.life > self.promised.get(sender, (0, None, False))[0]:
            self.promised[sender] = (message.life, None, False)
        if message.unheard is not None and sender in self.unheard:
            self._hear(sender, message.unheard)
        return True

    def _say_passed(self, passed: Mapping[BrokerId, int], ended: Collection[BrokerId] = ()) -> None:
        """Tell the neighbours behind this broker which events it will never see: they may not have seen them either."""
        behind = dict.fromkeys(n for origin in (*passed, *ended) for n in self._toward[origin])
        for neighbour in behind:
            self._say_passed_to(neighbour, passed, ended, unheard=None)

    def _say_passed_to(
        self,
        neighbour: BrokerId,
        passed: Mapping[BrokerId, int],
        ended: Collection[BrokerId],
        unheard: tuple[BrokerId, ...] | None,
    ) -> None:
        toward = self._toward
        there = {o: sequence for o, sequence in passed.items() if neighbour in toward.get(o, ())}
        over = tuple(sorted(o for o in ended if neighbour in toward.get(o, ())))
        life = 0 if unheard is None else self.life
        self.host.send(neighbour, EventsPassed(frontier=there, ended=over, unheard=unheard, life=life))

    # --- a life that does not get everything yet ----------------------------------------------------------------

    def _meet(self) -> None:
        """When this life first deals with another broker, note that no neighbour has said from which numbers on events
        come."""
        if not self.has_met:
            self.has_met = True
            if self.life:
                self.unheard = dict.fromkeys(self.topology.neighbours[self.me])

    def _gets_all_of(self, origin: BrokerId) -> bool:
        """Whether the broker before this one in the origin's tree says that it passes on all of the origin's events."""
        parent = self.topology.tree(origin)[self.me]
        if parent not in self.unheard:
            return True
        unheard = self.unheard[parent]
        return unheard is not None and origin not in unheard

    def _not_all_of(self) -> set[BrokerId]:
        return (
            {one for one in self.topology.all_brokers if not self._gets_all_of(one)}
            if self.unheard
            else set()
        )

    def _hear(self, neighbour: BrokerId, unheard: tuple[BrokerId, ...]) -> None:
        """The neighbour says that it passes on all events from now on, but for those of the `unheard` origins."""
        before = self._not_all_of()
        self.unheard[neighbour] = unheard
        if not unheard:
            del self.unheard[neighbour]
        self._say_heard(before)

    def _say_heard(self, before: set[BrokerId]) -> None:
        """Tell brokers that have partial fences of this one, and neighbours behind it, of which origins it gets all."""
        left = self._not_all_of()
        heard = before - left
        for neighbour in self.topology.neighbours[self.me]:
            if any(neighbour in self._toward.get(origin, ()) for origin in heard):
                self._say_all_to(neighbour)
        comes = tuple((o, self.frontier.get(o, 0)) for o in self.topology.all_brokers if o not in left)
        for peer in sorted(self.fenced):
            word = EventsPassed(
                frontier={},
                unheard=None,
                to=peer,
                by=self.me,
                life=self.life,
                comes=comes,
                is_all=not self.unheard,
            )
            self.host.send(self.next_hop(peer), word)
        if not self.unheard:
            self.fenced.clear()

    def _on_promise(self, by: BrokerId, message: EventsPassed) -> bool:
        if message.to != self.me:
            if message.to is not None and not self.is_departed(message.to):
                self.host.send(self.next_hop(message.to), message)
            return False
        comes = None if message.comes is None else dict(message.comes)
        self.promised[by] = (message.life, comes, message.is_all)
        return True

    def _undecided(self, fence: Mapping[BrokerId, int]) -> Iterator[BrokerId]:
        """The origins that a partial fence does not name, and of whose events this broker may not have seen enough; and
        a name for the origins that this broker has not heard of."""
        for mark, number in fence.items():
            by, _, life = mark.rpartition("@")
            if number != PARTIAL or BrokerId(by) in self.topology.departed:
                continue
            if by == self.me:
                yield from self._not_all_of()
                continue
            known, comes, is_all = self.promised.get(BrokerId(by), (0, None, False))
            if known > int(life):
                continue  # the life that made the fence is over, and what it had is forgotten
            if known < int(life) or comes is None or not is_all or self._has_not_heard_of(comes):
                yield BrokerId(UNKNOWN + mark)
            for origin in self.topology.all_brokers:
                if origin in fence or origin in (self.me, by) or origin in self.ended:
                    continue
                if comes is None or known < int(life):
                    yield origin
                elif origin in comes:
                    if self.frontier.get(origin, 0) < comes[origin]:
                        yield origin
                elif not is_all or origin in self.topology.departed:
                    yield origin

    def _has_not_heard_of(self, comes: Mapping[BrokerId, int]) -> bool:
        """Whether `comes` counts events of a broker that is just joining: this one has yet to hear of it."""
        return any(number and origin not in self._toward for origin, number in comes.items())

    def may_miss(self, origin: BrokerId) -> bool:
        return not self._gets_all_of(origin)

    def doubt(self) -> None:
        """Tell the brokers behind this one that no more events come of a life that the store does not remember. This
        broker has nothing to ask its neighbours: every event goes everywhere anyway."""
        if self._counted_on > self.frontier.get(self.me, 0):
            self.frontier[self.me] = self._counted_on
            self._say_passed({self.me: self._counted_on})

    def restarted(self) -> None:
        """If the store knows of no other broker, wait for word of all neighbours: a store of the release before does
        not say which of them had given it."""
        if not self.has_met:
            self.unmet.update(self.topology.neighbours[self.me])

    def count_on(self, number: int) -> None:
        """Keep the number for `doubt`: under flooding only events have numbers."""
        self._counted_on = number

    def in_step(self, neighbour: BrokerId) -> None:
        """Count the neighbour as one that passes on all events: it has said so, though the store does not know that."""
        if neighbour in self.unmet:
            self.unmet.remove(neighbour)
            self._meet()
            if neighbour in self.unheard:
                self._hear(neighbour, ())

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """Tell the neighbour which events will not come to it again: its fences must not wait for them."""
        self.unmet.discard(neighbour)
        self._meet()
        self._say_all_to(neighbour)

    def _say_all_to(self, neighbour: BrokerId) -> None:
        toward = self._toward
        unheard = tuple(sorted(o for o in self._not_all_of() if neighbour in toward.get(o, ())))
        self._say_passed_to(neighbour, self.frontier, self.ended, unheard)

    def rewired(self) -> None:
        self._via.clear()
        children = self.topology.children
        self._toward = {origin: children(origin, self.me) for origin in self.topology.all_brokers}

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """The new broker gets every event from now on. When the link to a neighbour is up, the neighbour tells it how
        far the events of other origins have come.

        This broker gets all events of the new one. But if this broker begins anew itself, the new one may have been in
        the network before."""
        self._meet()
        if self.unheard and broker in self.topology.neighbours[self.me]:
            self.unheard[broker] = None
        self.ended.discard(broker)
        self.rewired()

    def broker_departed(self, broker: BrokerId) -> None:
        """The departed broker's neighbours already have everything from it that will ever arrive, and say so to those
        behind them."""
        before = self._not_all_of()
        self.rewired()
        self.promised.pop(broker, None)
        self.fenced.discard(broker)
        if before:
            self.unheard.pop(broker, None)
            self._say_heard(before)
        if self.topology.tree(broker)[self.me] == broker:
            self.ended.add(broker)
            self._say_passed({}, (broker,))

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        """A fence made of what this broker has seen. A broker that begins anew has seen none of its own events: nobody
        waits for them."""
        self._meet()
        fence = dict(self.frontier)
        if fence.get(self.me) == self._counted_on:
            fence.pop(self.me, None)
        if self.unheard and peer != self.me:
            self.fenced.add(peer)
            not_all = self._not_all_of()
            others = [one for one in self.topology.all_brokers if one not in not_all and one != self.me]
            fence = {**dict.fromkeys(others, 0), **{o: n for o, n in fence.items() if o not in not_all}}
            fence[self._mark] = PARTIAL
        return fence

    @property
    def _mark(self) -> BrokerId:
        return BrokerId(f"{self.me}@{self.life}")

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Whether the frontier has reached the fence. This broker has seen all its own events, also those of a life
        that it does not remember."""
        frontier, me, ended = self.frontier, self.me, self.ended
        is_seen = all(
            frontier.get(origin, 0) >= sequence or origin == me or origin in ended
            for origin, sequence in fence.items()
        )
        return is_seen and (PARTIAL not in fence.values() or next(self._undecided(fence), None) is None)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        named = (o for o, sequence in fence.items() if sequence >= 0 and not self.passed({o: sequence}))
        return frozenset((*named, *self._undecided(fence)))

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """A fence that has passed when all neighbours have said that they pass on every event; it comes here anyway."""
        return {self._mark: PARTIAL} if self.unheard else {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self._not_all_of() - self.topology.departed if confirmation else set()
