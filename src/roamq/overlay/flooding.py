"""Flooding: every event to every broker ([PRO] section 3).

The graph may have cycles. An event follows the shortest-path tree of its origin, which every broker computes
alike, so it crosses each broker once; links are FIFO, hence the events of one origin arrive in sequence, and the
last sequence seen per origin (the *frontier*) is all that must be remembered.

A fence waits until the frontier has come so far. What a broker saw in an earlier life does not come again, so its
frontier is also moved by word from the broker before it in the origin's tree (`EventsPassed`), and it passes the word
on. The word begins where nobody knows of anything older: at an origin that begins anew, and, for an origin that
departed, at the brokers that were linked with it.

A broker that joins, or begins anew, gets the events of an origin from when the broker before it in the origin's tree
has heard of it, and does not know from which number on before that one has said so. Until then its fences are
*partial*: they name the origins of which it knows, and who gets such a fence waits for word of the others
(`EventsPassed.comes`). Brokers that have joined meanwhile, and that it has not heard of, are among the others.
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
"""In a fence, under the name and the life of who made it: of origins that it does not name, word follows."""


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
        """`confirms`: neighbours say from where on events come to a broker that begins anew; simulated ones do not."""
        super().__init__(me, host, topology)
        self.frontier: dict[BrokerId, int] = {}
        if first_number:
            self.frontier[me] = first_number  # of earlier lives of this broker nothing more comes
        self.ended: set[BrokerId] = set()
        """Origins that departed, and of which nothing more comes here."""
        self._counted_on = first_number
        """Up to here, numbers of this broker's events may have been used in a life that the store does not remember."""
        self.life = first_number if confirms else 0
        """Which life of this broker it is; 0 if nobody says from where on events come."""
        self.has_met = False
        """Whether this life has had to do with another broker."""
        self.unmet: set[BrokerId] = set()
        """If this broker was started from a store that knows of no other: neighbours that have said nothing since."""
        self.unheard: dict[BrokerId, tuple[BrokerId, ...] | None] = {}
        """Neighbour -> the origins of which it may not pass on everything yet; None: any, for it has said nothing."""
        self.fenced: set[BrokerId] = set()
        """Brokers that were given partial fences: they wait for word."""
        self.promised: dict[BrokerId, tuple[int, Mapping[BrokerId, int] | None, bool]] = {}
        """Broker -> its life, of which origins it gets all above which numbers, and whether of all others it gets all;
        None while it has not said."""
        self._toward: dict[BrokerId, tuple[BrokerId, ...]] = {}
        self.rewired()

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        """Every event comes here anyway."""

    def advertise(self, filter: Filter) -> None:
        """Every event goes everywhere anyway."""

    def publish(self, event: Event) -> None:
        """Our own events come in sequence: nothing to look up."""
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
        """Those behind this broker may not have seen what it will never see, either."""
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
        """The first that this life has to do with others: none of them has said from where on events come."""
        if not self.has_met:
            self.has_met = True
            if self.life:
                self.unheard = dict.fromkeys(self.topology.neighbours[self.me])

    def _gets_all_of(self, origin: BrokerId) -> bool:
        """Whether the broker before this one in the origin's tree has said that it passes on all that comes."""
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
        """A neighbour passes on all from now on, but for these origins."""
        before = self._not_all_of()
        self.unheard[neighbour] = unheard
        if not unheard:
            del self.unheard[neighbour]
        self._say_heard(before)

    def _say_heard(self, before: set[BrokerId]) -> None:
        """Tell those that have partial fences, and those behind this broker that do not get everything either."""
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
        """The origins that a partial fence does not name, and of which this broker may not have seen enough; and a name
        for those that this broker has not heard of."""
        for mark, number in fence.items():
            by, _, life = mark.rpartition("@")
            if number != PARTIAL or BrokerId(by) in self.topology.departed:
                continue
            if by == self.me:
                yield from self._not_all_of()
                continue
            known, comes, is_all = self.promised.get(BrokerId(by), (0, None, False))
            if known > int(life):
                continue  # that life is over, and what it had is forgotten
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
        """Whether there are events of brokers that join, of which this one will hear."""
        return any(number and origin not in self._toward for origin, number in comes.items())

    def may_miss(self, origin: BrokerId) -> bool:
        return not self._gets_all_of(origin)

    def doubt(self) -> None:
        """Every event goes everywhere anyway; of a life that the store does not remember nothing more comes."""
        if self._counted_on > self.frontier.get(self.me, 0):
            self.frontier[self.me] = self._counted_on
            self._say_passed({self.me: self._counted_on})

    def restarted(self) -> None:
        """A store of the release before does not say what was heard."""
        if not self.has_met:
            self.unmet.update(self.topology.neighbours[self.me])

    def count_on(self, number: int) -> None:
        """There are no numbers but those of events."""
        self._counted_on = number

    def in_step(self, neighbour: BrokerId) -> None:
        """It has said already from where on events come, if the store does not know of it."""
        if neighbour in self.unmet:
            self.unmet.remove(neighbour)
            self._meet()
            if neighbour in self.unheard:
                self._hear(neighbour, ())

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """What went there before will not come again: no fence may wait for it."""
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
        """It gets every event from now on; how far the others have come it is told when the link is up.

        This broker gets all of the new one's. But if it begins anew itself, that one may have been there before."""
        self._meet()
        if self.unheard and broker in self.topology.neighbours[self.me]:
            self.unheard[broker] = None
        self.ended.discard(broker)
        self.rewired()

    def broker_departed(self, broker: BrokerId) -> None:
        """Who was linked with it has all that it sent, or will never have it."""
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
        """What has been seen here. Of its own events a broker that begins anew has seen none: nobody waits for them."""
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
        """Our own events we have all seen, those of a life that we do not remember included."""
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
        """Every event comes here anyway, from when neighbours have said so."""
        return {self._mark: PARTIAL} if self.unheard else {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self._not_all_of() - self.topology.departed if confirmation else set()
