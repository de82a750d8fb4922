"""What clients want at each broker of an `OverlayNet` that routes by interest: it changes, brokers publish and forget,
and in the end everybody should have what was wanted.

`test_interest.py` and `test_advertised.py` try the same with and without lists of what is published where.
"""

from collections.abc import Iterator, Mapping, Sequence

from hypothesis import strategies as st

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event
from roamq.core.filters import Filter
from roamq.overlay.interest import ByInterest
from roamq.schemes.messages.handover import Release
from tests.support.events import event
from tests.support.overlay_net import OverlayNet

Change = tuple[int, Filter]
"""At which broker, for which filter: a subscription begins, or ends if there is one."""


def changes_of(filters: Sequence[Filter]) -> st.SearchStrategy[list[Change]]:
    return st.lists(st.tuples(st.integers(0, 6), st.sampled_from(filters)), max_size=25)


class OneByOne(ByInterest):
    """What a filter has covered is asked for one by one, as it is where there are thousands of filters."""

    uncovers_at_once = 1


ROUTERS = st.sampled_from([ByInterest, OneByOne])


class Wants:
    """What somebody wants at each broker of a net, and what each should get."""

    def __init__(self, net: OverlayNet) -> None:
        self.net = net
        self.filters: dict[BrokerId, set[Filter]] = {broker: set() for broker in net.topology.brokers}
        self.published: dict[BrokerId, int] = {}

    def broker(self, number: int) -> BrokerId:
        return self.net.topology.brokers[number % len(self.net.topology.brokers)]

    # --- what happens -------------------------------------------------------------------------------------

    def change(self, number: int, filter: Filter) -> None:
        broker = self.broker(number)
        router, wanted = self.net.routers[broker], self.filters[broker]
        if filter in wanted:
            wanted.remove(filter)
            router.unsubscribe(filter)
        else:
            wanted.add(filter)
            router.subscribe(filter)

    def change_all(self, changes: Sequence[Change]) -> None:
        """One change after the other; in between some messages arrive."""
        for change in changes:
            self.change(*change)
            self.step_at_most(3)

    def end_all(self) -> None:
        """Nobody wants anything any more."""
        for number, broker in enumerate(self.net.topology.brokers):
            for filter in list(self.filters[broker]):
                self.change(number, filter)

    def lose_store(self, number: int) -> None:
        broker = self.broker(number)
        self.net.lose_store(broker)
        self.filters[broker] = set()

    def step_at_most(self, steps: int) -> None:
        for _ in range(self.net.rng.randrange(steps + 1)):
            self.net.step()

    def topic(self, broker: BrokerId, number: int, x: int) -> str:
        """What a broker's event of this number is about."""
        return "u" if x == 8 else "t"

    def publish(self, broker: BrokerId, x: int) -> Event:
        number = self.published[broker] = self.published.get(broker, 0) + 1
        made = event(number, origin=broker, topic=self.topic(broker, number, x), x=x)
        self.net.publish(broker, made)
        return made

    def publish_everywhere(self) -> list[Event]:
        return [self.publish(broker, x) for broker in self.net.topology.brokers for x in range(9)]

    def settled_events(self) -> list[Event]:
        """All is quiet; then every broker publishes, and all is quiet again."""
        self.net.settle()
        events = self.publish_everywhere()
        self.net.settle()
        return events

    # --- what should be so --------------------------------------------------------------------------------

    def wants(self, broker: BrokerId, made: Event) -> bool:
        return any(filter.matches(made) for filter in self.filters[broker])

    def check(self, events: list[Event], *, exactly: bool = True) -> None:
        """Each broker that wants an event, or is on the way to one that does, has it once and in order; `exactly`: and
        no other broker has it."""
        paths = self.net.topology.unique_paths
        for broker in self.net.topology.brokers:
            got = [e for e in self.net.arrived[broker] if e in events]
            for origin in self.net.topology.brokers:
                sequences = [e.id.sequence for e in got if e.id.origin == origin]
                assert sequences == sorted(set(sequences)), f"{broker} saw {sequences} of {origin}"
        for made in events:
            wanting = [b for b in self.net.topology.brokers if self.wants(b, made)]
            reached = {b for b in self.net.topology.brokers if made in self.net.arrived[b]}
            on_the_way = {made.id.origin, *(v for b in wanting for v in paths.path(made.id.origin, b))}
            assert reached == on_the_way if exactly else reached >= on_the_way, (
                f"{made.id} {made.attributes} is wanted at {wanting}"
            )

    def check_nothing_is_left(self) -> None:
        """No router remembers a filter that nobody wants."""
        for router in self.net.routers.values():
            assert isinstance(router, ByInterest)
            assert not any(router._asked.values())
            assert not any(router._sent.values())
            assert not len(router._index)

    def wait_for_confirmation(self, broker: BrokerId, confirmation: Mapping[BrokerId, int]) -> None:
        while not self.net.routers[broker].passed(confirmation):
            assert self.net.step(), "the confirmation never comes"

    # --- a client that moves --------------------------------------------------------------------------------

    def lost_in_a_move(
        self,
        filters: Sequence[Filter],
        ends: tuple[int, int],
        changes: Sequence[Change],
        *,
        names_filters: bool,
    ) -> list[Event]:
        """A client with these filters moves from one broker to another, while others publish and change their minds.

        Returns the events that the new broker does not get, and that the old one has not seen when the fence has
        passed: there are none, by the theorem of docs/interest.md. `names_filters`: the fence is told what the client
        wants, so that its markers go only where that may be published.
        """
        net, rng, busy = self.net, self.net.rng, iter(changes)
        old, new = self.broker(ends[0]), self.broker(ends[1])
        for filter in filters:
            net.routers[old].subscribe(filter)
        net.settle()
        self._go_on(rng.randrange(6), busy)
        before = len(net.arrived[new])
        for filter in filters:
            net.routers[new].subscribe(filter)
        fence = net.routers[new].fence(old, filters if names_filters else None)
        release = Release(client=ClientId("c"), epoch=Epoch(1.0, new), new_broker=new, fence=fence)
        if old == new:
            net.told[old].append(release)
        else:
            net.routers[new].unicast(old, release)
        has_passed = net.routers[old].passed
        while not net.told[old] or not has_passed(fence):
            assert net.step(), "the fence never passes"
            if rng.random() < 0.3:
                self._go_on(1, busy)
        seen = set(net.arrived[old])
        for filter in filters:
            net.routers[old].unsubscribe(filter)
        self._go_on(rng.randrange(6), busy)
        net.settle()
        seen.update(net.arrived[new][before:])
        made = {one for events in net.arrived.values() for one in events}
        return [one for one in made - seen if any(filter.matches(one) for filter in filters)]

    def _go_on(self, steps: int, changes: Iterator[Change]) -> None:
        """Somebody publishes, somebody changes what it wants, and some messages arrive."""
        rng = self.net.rng
        for _ in range(steps):
            self.publish(self.broker(rng.randrange(7)), rng.randrange(8))
            if (change := next(changes, None)) is not None:
                self.change(*change)
            self.step_at_most(4)
