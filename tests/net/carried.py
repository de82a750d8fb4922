"""A fleet with direct paths: each broker is linked with each, over the connections there are, through whoever is up.

Each broker finds the ways of its links as a live one does: by its own map of who is linked with whom (`LinkMap`), which
it is told over links that are up, and which may be old. A way that does not work is given up. A link that breaks loses
the bytes, acknowledgements and news that were on their way; when it is up again both ends say what they have.
Brokers die, and stay dead for as long as the ride wants.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations, pairwise, permutations
from random import Random

from roamq.core.events import BrokerId
from roamq.net.links.linkmap import LinkMap, Path
from roamq.net.links.lives import MICROSECONDS
from roamq.net.links.protocol import CARRIERS_MAX, LinkedWith
from roamq.net.ops.wiring import linked_when_joining, why_not_direct
from tests.net.fleet import Choice
from tests.net.growing import GrowingFleet
from tests.net.queues import Ends, Queues

Pair = frozenset[BrokerId]
Connections = Sequence[tuple[str, str]]


def random_connections(seed: int, brokers: int) -> Connections:
    """A connected graph with cycles over which each can be linked with each."""
    chance = Random(seed)
    names = [f"b{number}" for number in range(1, brokers + 1)]
    while True:
        order = chance.sample(names, brokers)
        found = {frozenset((name, chance.choice(order[:at]))) for at, name in enumerate(order) if at}
        spare = [frozenset(pair) for pair in combinations(names, 2) if frozenset(pair) not in found]
        found.update(chance.sample(spare, min(len(spare), chance.randint(1, brokers))))
        pairs = [(min(pair), max(pair)) for pair in sorted(found, key=sorted)]
        if not why_not_direct(names, pairs):
            return pairs


class CarriedFleet(GrowingFleet):
    """Machines whose links run over connections and through each other."""

    def __init__(
        self, seed: int, scheme: str, connections: Connections, *, is_direct: bool = True, **settings: object
    ) -> None:
        """With paths along the links, neighbours alone are linked, and others carry their links around cuts."""
        self.is_direct = is_direct
        self.wires: set[Pair] = {frozenset(map(BrokerId, pair)) for pair in connections}
        self.dead: set[BrokerId] = set()
        self.through: dict[Pair, Path] = {}
        """Links that are up -> the brokers that carry them, from the caller on; none if they are direct."""
        self.calls: dict[BrokerId, tuple[BrokerId, ...]] = {}
        """Brokers that joined later -> those that they can call."""
        self.breaks = self.rerouted = 0
        self._maps: dict[BrokerId, LinkMap] = {}
        self._acks: Queues[int] = Queues()
        self._news: Queues[list[LinkedWith]] = Queues()
        self._failed: dict[Pair, dict[Path, int]] = defaultdict(dict)
        """Links -> the ways that were tried in vain, and what had changed by then."""
        self._stuck: dict[Pair, int] = {}
        """Links for which there is no way -> what had changed by then."""
        self._acquainted: tuple[object, dict[Pair, None]] = (None, {})
        """Brokers that count each other as neighbours; what that depends on comes first."""
        self._to_be_called: tuple[object, list[tuple[Pair]]] = (None, [])
        """Links that are down and not stuck; what that depends on comes first."""
        self._changed = 0
        """How often something has changed that a way depends on."""
        self._better: tuple[int, list[tuple[Pair]]] = (-1, [])
        names = {name for pair in self.wires for name in pair}
        given = None if is_direct else connections
        super().__init__(seed, scheme, len(names), ring=False, given=given, **settings)
        self.up.clear()  # they come up by and by

    # --- what is up ------------------------------------------------------------------------------------------

    def is_running(self, broker: BrokerId) -> bool:
        return broker in self.machines and broker not in self.dead

    def is_whole(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether one of two brokers can call the other now."""
        pair = frozenset((one, other))
        return pair in self.wires and pair not in self.cut and self.is_running(one) and self.is_running(other)

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        return frozenset((source, target)) in self.up

    @property
    def serving(self) -> list[BrokerId]:
        return [name for name in super().serving if name not in self.dead]

    def direct(self, broker: BrokerId) -> list[BrokerId]:
        """The brokers of the core with which this one is linked without a carrier."""
        return [
            other
            for pair, way in self.through.items()
            if not way and broker in pair
            for other in pair - {broker}
            if other not in self.calls
        ]

    def distance(self, one: BrokerId, other: BrokerId, without: Collection[BrokerId] = ()) -> int | None:
        """By how many connections brokers reach each other over brokers of the core that are up; None: by none."""
        reached, ring, hops = {one}, {one}, 0
        while ring:
            if other in ring:
                return hops
            carrying = {name for name in ring if name == one or name not in self.calls}
            ring = {
                there
                for here in carrying
                for there in self.machines
                if there not in reached and there not in without and self.is_whole(here, there)
            }
            reached |= ring
            hops += 1
        return None

    def reaches(self, one: BrokerId, other: BrokerId, without: Collection[BrokerId] = ()) -> bool:
        """Whether a link between two brokers finds a way."""
        hops = self.distance(one, other, without)
        return hops is not None and hops - 1 <= CARRIERS_MAX

    def not_linked(self) -> list[tuple[BrokerId, BrokerId]]:
        """Links that are down, and could be up."""
        running = [name for name in self.machines if self.is_running(name)]
        return [
            (one, other)
            for one, other in combinations(running, 2)
            if frozenset((one, other)) not in self.up
            and self.know_each_other(one, other)
            and self.reaches(one, other)
        ]

    # --- brokers and connections fail --------------------------------------------------------------------------

    def kill(self, name: str) -> None:
        """The process is gone; what it has stored is not."""
        broker = BrokerId(name)
        self.dead.add(broker)
        for client in self.clients:
            if client.at == broker:
                client.vanish()
        self.losses = [loss for loss in self.losses if loss[1] != broker]
        self._break_links()

    def start(self, name: str) -> None:
        broker = BrokerId(name)
        self.dead.discard(broker)
        self._maps.pop(broker, None)
        self._changed += 1
        self.machines[broker].recovered(self.clock(broker))
        self.take_outputs()

    def crash(self, name: str) -> None:
        self.kill(name)
        self.start(name)

    def cut_connection(self, pair: Pair) -> None:
        self.cut.add(pair)
        self._break_links()

    def mend(self) -> None:
        self.cut.clear()
        self._changed += 1

    def break_link(self, pair: Pair) -> None:
        """The connection of a link ends, and nothing else does."""
        self._go_down(pair)

    def _break_links(self) -> None:
        self._changed += 1
        for pair in sorted(self.up, key=sorted):
            caller, peer = self._ends(pair)
            hops = pairwise((caller, *self.through[pair], peer))
            if not all(self.is_whole(*hop) for hop in hops):
                self._go_down(pair)

    def links_come_up(self, name: BrokerId) -> None:
        """They do when somebody has called."""
        self.take_outputs()

    # --- links come and go ----------------------------------------------------------------------------------------

    def look_after_links(self) -> None:
        """Who has departed is told that its last word was heard, and the link ends (`LinkSockets._part`)."""
        known = (self._changed, self.who_knows_whom())
        if known == self._known:
            return
        self._known = known
        for pair in sorted(self.up.difference(self._neighbours()), key=sorted):
            for source, target in permutations(sorted(pair)):
                while self._acks[source, target] and target in self.machines:
                    self._ack(source, target)
            self._go_down(pair)

    def _neighbours(self) -> dict[Pair, None]:
        """The pairs of brokers that count each other as neighbours, in the order of the machines."""
        known = self.who_knows_whom()
        if self._acquainted[0] != known:
            pairs = [pair for pair in combinations(self.machines, 2) if self.know_each_other(*pair)]
            self._acquainted = (known, dict.fromkeys(map(frozenset, pairs)))
        return self._acquainted[1]

    def _ends(self, pair: Pair) -> tuple[BrokerId, BrokerId]:
        """Who calls, and whom."""
        one, other = sorted(pair)
        return (other, one) if other in self.calls and one not in self.calls else (one, other)

    def all_choices(self) -> list[Choice]:
        return [
            *super().all_choices(),
            (self._call, self._to_call()),
            (self._reroute, self._improvable()),
            (self._ack, self._acks.filled),
            (self._hear, self._news.filled),
        ]

    def _to_call(self) -> list[tuple[Pair]]:
        if self._to_be_called[0] != self._known:
            self._to_be_called = (self._known, self._find_to_call())
        return self._to_be_called[1]

    def _find_to_call(self) -> list[tuple[Pair]]:
        down = [pair for pair in self._neighbours() if pair not in self.up and self.dead.isdisjoint(pair)]
        return [(pair,) for pair in down if self._stuck.get(pair) != self._changed]

    def _improvable(self) -> list[tuple[Pair]]:
        """Links that run through others, and for which there is a way through fewer of them."""
        if self._better[0] != self._changed:
            found = []
            for pair, way in self.through.items():
                if not way:
                    continue
                caller, peer = self._ends(pair)
                if self.is_whole(caller, peer):
                    found.append((pair,))
                elif len(way) > 1:
                    better = self._map(caller).way(peer, self.direct(caller))
                    hops = pairwise((caller, *(better or way), peer))
                    if better and len(better) < len(way) and all(self.is_whole(*hop) for hop in hops):
                        found.append((pair,))
            self._better = (self._changed, found)
        return self._better[1]

    def _reroute(self, pair: Pair) -> None:
        self.rerouted += 1
        self._go_down(pair)
        self._call(pair)

    def _call(self, pair: Pair) -> None:
        """As `sockets` and `detours` do: directly, or by a way that the caller believes in and has not tried."""
        caller, peer = self._ends(pair)
        self._to_be_called = (None, [])
        if self.is_whole(caller, peer):
            self._come_up(pair, ())
            return
        way = self._map(caller).way(peer, self.direct(caller), self._failed[pair])
        if way is None:
            failed = self._failed.pop(pair, {})
            if all(when == self._changed for when in failed.values()):  # else a way may have come back since
                self._stuck[pair] = self._changed
        elif all(self.is_whole(*hop) for hop in pairwise((caller, *way, peer))):
            self._come_up(pair, way)
        else:
            self._failed[pair][way] = self._changed

    def _come_up(self, pair: Pair, way: Path) -> None:
        one, other = self._ends(pair)
        self._failed.pop(pair, None)
        self.through[pair] = way
        self._changed += 1
        self._link(one, other)
        for here, there in ((one, other), (other, one)):
            if entries := self._map(here).entries:
                self._news.put((here, there), [entries])
            if not way:
                self._say(here)

    def _go_down(self, pair: Pair) -> None:
        self.breaks += 1
        self.up.discard(pair)
        way = self.through.pop(pair)
        self._changed += 1
        one, other = pair
        for ends in ((one, other), (other, one)):
            self.links.clear(ends)
            self._acks.end(ends)
            self._news.end(ends)
        for end in sorted(pair) if not way else ():
            if self.is_running(end):
                self._say(end)

    def _map(self, broker: BrokerId) -> LinkMap:
        return self._maps.setdefault(broker, LinkMap(broker))

    def _say(self, broker: BrokerId) -> None:
        """Those that joined later carry nothing, and say nothing."""
        if broker in self.calls:
            return
        called = {one for pair, way in self.through.items() if not way and broker in pair for one in pair}
        edges = called.intersection(self.machines[broker].membership.edges_in_between)
        number = int(self.clock(broker) * MICROSECONDS)
        news = self._map(broker).say(self.direct(broker), number, edges)
        self._tell(broker, [news] if news is not None else [])

    def _tell(self, broker: BrokerId, news: Iterable[LinkedWith]) -> None:
        for pair in self.through:
            if broker in pair:
                (other,) = pair - {broker}
                if theirs := self._map(broker).news_for(other, news):
                    self._news.put((broker, other), [theirs])

    def _hear(self, source: BrokerId, target: BrokerId) -> None:
        core = self.machines[target].made_of.brokers
        news = self._map(target).learn(self._news.take((source, target)), core)
        if news:
            self._changed += 1
            self._tell(target, news)

    # --- frames and acknowledgements ------------------------------------------------------------------------------

    def put_on_link(self, ends: Ends, frames: list[tuple[int, bytes]]) -> None:
        """Nothing is put on a link that is down: what is in the outbox is sent when it comes up."""
        self.links.put(ends, frames if frozenset(ends) in self.up else ())

    def _frame(self, source: BrokerId, target: BrokerId) -> None:
        sequence, frame = self.links.take((source, target))
        self.machines[target].link_received(source, sequence, frame, self.clock(target))
        if self.has_taken(source, target, sequence):
            self._acks.put((target, source), [sequence])

    def _ack(self, source: BrokerId, target: BrokerId) -> None:
        sequence = self._acks.take((source, target))
        if source in self.machines[target].outboxes.frames:
            self.machines[target].link_acked(source, sequence, self.clock(target))

    # --- brokers come and go --------------------------------------------------------------------------------------

    def join(self, name: str, *at: str, asked: BrokerId | None = None) -> None:
        """`roamq join NAME --at ...`: with two of them it is linked with all of the core."""
        broker = BrokerId(name)
        core = [one for one in self.core if one not in self.going]
        self.calls[broker] = tuple(map(BrokerId, at))
        self.wires |= {frozenset((broker, one)) for one in self.calls[broker]}
        pairs = [(min(pair), max(pair)) for pair in self.wires]
        super().join(
            name, *linked_when_joining("direct" if self.is_direct else "links", core, pairs, at), asked=asked
        )
        self._changed += 1

    def in_reach(self, asked: BrokerId, joining: BrokerId) -> Collection[BrokerId]:
        """As `Detours.edges_in_reach`."""
        membership, calls = self.machines[asked].membership, self.calls[joining]
        up = {one for pair in self.up if asked in pair for one in pair}
        if len(calls) < 2 or not up.issuperset(membership.core_others):
            return ()
        return [one for one in membership.edges_in_between if self._map(asked).is_reached(one, calls)]

    def _end(self, name: BrokerId) -> None:
        for pair in [pair for pair in self.up if name in pair]:
            self._go_down(pair)
        super()._end(name)
        self.dead.discard(name)
        self._maps.pop(name, None)
        if self.calls.pop(name, None) is not None:
            self.wires = {pair for pair in self.wires if name not in pair}
        self._break_links()

    def _is_heard(self, name: BrokerId) -> bool:
        """A neighbour has it that this broker left, and none that is up is to be told (`ops/growing.py`)."""
        frames = self.machines[name].outboxes.frames
        heard = [self.machines[peer].membership.members.get(name) for peer in frames if self.is_running(peer)]
        waiting = [peer for peer in frames if frames[peer] and self.is_open(name, peer)]
        return any(member is not None and member.is_gone for member in heard) and not waiting

    def check_not_needed(self, name: BrokerId) -> None:
        if self.apart_without(name):
            raise ValueError(f"others reach each other through {name}")

    def apart_without(self, name: BrokerId) -> bool:
        """Whether others reach each other through this broker alone, as it would say itself."""
        return self._map(name).apart_without_me(self.direct(name)) is not None
