"""Routing by interest: an event travels only toward brokers where somebody wants it, on any connected graph.

An event follows the tree of the chosen shortest paths from its origin (`paths.py`), cut back to the branches that
asked for it. A broker asks the neighbour from which it gets an origin's events for what it wants itself, and what the
brokers behind it in that origin's tree want. It asks once for many origins, but not for those of which it already gets
a filter that covers the new one. Before it takes a covering filter back, it asks for those that the filter covered.

A broker gets no events that nobody there wants, so two brokers cannot compare how far they have seen. Instead, the new
broker sends a *marker* behind its subscriptions to every broker where the paths to it and to the old broker part. Those
brokers send the old broker an *echo*, behind the events that they sent there. When all echoes have come, the old broker
has seen every event that the new one will not get. docs/interest.md has the proof.

An edge broker that joins is one that begins anew: nobody knows who wants its events, so they go everywhere until all
brokers have told what they want. Each broker has bits of its own for origins, and never gives a bit another meaning; in
messages, a mark names one life of an edge broker in the network.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Any, ClassVar

from roamq.core.covering import CoverIndex
from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.advertised import ANYBODY, Advertised
from roamq.overlay.marked import OrderedByMarkers
from roamq.overlay.markers import Markers
from roamq.overlay.messages import (
    MarkerMessage,
    RoutingReset,
    RoutingTold,
    StoreLost,
    SubscribeFrom,
    UnsubscribeFrom,
)
from roamq.overlay.questions import Questions
from roamq.overlay.topology import Topology
from roamq.overlay.uncovering import (
    FIRST_GONE,
    GONE_AT_ONCE,
    Gone,
    GoneFilters,
    HiddenFilters,
    PutOff,
    index_of,
    without_origins,
)

ROUTE_CACHE_SIZE = 4096

Origins = int
"""A set of origins: one bit each. First come the brokers of the core, in the alphabetical order of their names, then
edge brokers as this broker heard of them."""


class ByInterest(OrderedByMarkers):
    """The router of one broker in a network that routes by interest."""

    uncovers_at_once: ClassVar[int] = 50
    """How many filters that another one covered are asked for within one input, so that no input takes long."""

    def __init__(
        self, me: BrokerId, host: Host, topology: Topology, *, first_number: int = 0, confirms: bool = False
    ) -> None:
        super().__init__(me, host, topology, first_number if confirms else 0)
        self.frontier: dict[BrokerId, int] = {}
        """Origin -> the sequence of its last event seen here."""
        self._bit = {broker: 1 << place for place, broker in enumerate(sorted(topology.core))}
        self._marks: dict[str, Origins] = {}
        """Mark by which messages name a life of an edge broker in the network -> the broker's bit."""
        self._core: Origins = (1 << len(self._bit)) - 1
        self._bytes = (len(self._bit) + 7) // 8
        for edge in topology.attached:
            self._bit[edge] = 1 << len(self._bit)
        neighbours = topology.neighbours[me]
        self._from: dict[BrokerId, Origins] = {}
        """Neighbour -> the origins whose events come from there."""
        self._to: dict[BrokerId, Origins] = {}
        """Neighbour -> the origins whose events it gets from here, if it wants them."""
        self._relayed: set[BrokerId] = set()
        """The origins whose events some neighbour gets from here."""
        self._asked: dict[BrokerId, dict[Filter, Origins]] = {n: {} for n in neighbours}
        """Neighbour -> the filters that it asked this broker for -> of which origins."""
        self._sent: dict[BrokerId, dict[Filter, Origins]] = {n: {} for n in neighbours}
        """Neighbour -> the filters that this broker asked it for -> of which origins."""
        self._here: Counter[Filter] = Counter()
        """The filters that somebody at this broker wants, counted."""
        self._sent_index: dict[BrokerId, CoverIndex] = {}
        """Neighbour -> an index of the filters that this broker asked it for."""
        self._wanted_index = CoverIndex()
        """The filters wanted at this broker and those that neighbours asked it for; empty while it has no neighbour."""
        self._put_offs: list[PutOff] = []
        self._hidden = HiddenFilters()
        self._gone = GoneFilters()
        self._index: MatchIndex[tuple[BrokerId, Filter]] = MatchIndex()
        self._routes: dict[tuple[BrokerId, bool, Hashable], tuple[BrokerId, ...]] = {}
        """An event's origin, whether it is for every broker, and its `match_key` -> the neighbours that it goes to."""
        self._doubted: dict[BrokerId, dict[Filter, Origins]] = {n: {} for n in neighbours}
        """Neighbour -> the filters that it asked for before this broker doubted it, and has not asked for again."""
        self._untold: dict[BrokerId, Origins] = dict.fromkeys(neighbours, 0)
        """Neighbour -> the origins of which this broker does not know what the neighbour wants: it gets all events."""
        self._telling: set[BrokerId] = set(neighbours)
        """Neighbours that told this life what they want from the beginning on: only their `RoutingTold` counts."""
        self._to_tell: dict[BrokerId, Origins] = dict.fromkeys(neighbours, 0)
        """Neighbour -> the origins for which it waits for this broker's `RoutingTold`."""
        self._unmet: set[BrokerId] = set()
        """Neighbours that have not said since a restart that this broker is up to date: they get all events."""
        self.markers = Markers(me, host, topology, first_number, knows_all=not self.life)
        self.rewired()

    # --- events -------------------------------------------------------------------------------------------

    def publish(self, event: Event) -> None:
        origin, sequence = event.id
        self.frontier[origin] = sequence
        if not self._from:
            return  # there is no other broker
        route = self._routes.get((origin, event.retain, event.match_key))
        if route is None:
            self._pass_on(event)
        elif route:
            self.host.pass_on(route, event)

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        if self._put_offs or self._gone.waiting:
            self._go_on()
        origin, sequence = event.id
        if sequence <= self.frontier.get(origin, 0):
            return False
        self.frontier[origin] = sequence
        if origin in self._relayed:
            self._pass_on(event)
        return True

    def _pass_on(self, event: Event) -> None:
        key = (event.id[0], event.retain and not event.is_handed_on, event.match_key)
        route = self._routes.get(key)
        if route is None:
            route = self._route(event)
            if event.match_key is not None:
                if len(self._routes) > ROUTE_CACHE_SIZE:
                    self._routes.clear()
                self._routes[key] = route
        if route:
            self.host.pass_on(route, event)

    def _route(self, event: Event) -> tuple[BrokerId, ...]:
        """The neighbours that want or may want the event. All get a retained message: clients may subscribe later."""
        bit = self._bit[event.id[0]]
        if event.retain and not event.is_handed_on:
            return tuple(sorted(n for n, origins in self._to.items() if origins & bit))
        wanting = {n for n, filter in self._index.match(event) if self._asked[n][filter] & bit}
        wanting.update(n for n, origins in self._untold.items() if origins & bit)
        wanting.update(n for n in self._unmet if self._to[n] & bit)
        return tuple(sorted(wanting))

    # --- subscriptions ------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        count = self._here.get(filter, 0)
        self._here[filter] = count + 1
        if filter.group is not None and self._from:
            # Brokers that assign events to members must hear of this member, whether or not its filter is covered.
            self.markers.is_behind, self._unconfirmed = True, ANYBODY
        if not count and self._from:
            self._wanted_index.add(filter)
            senders = self._advertised.senders(filter)
            for neighbour, origins in self._from.items():
                self._ask(neighbour, filter, origins & senders, mobile)

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        assert filter in self._here, f"{self.me}: unsubscribes {filter}, which nobody here had subscribed"
        self._here[filter] -= 1
        if not self._here[filter]:
            del self._here[filter]
            if self._from:
                self._wanted_index.remove(filter)
            for neighbour, origins in self._from.items():
                self._ask_no_more(neighbour, filter, origins, mobile)
            self._hidden.forget()

    def advertise(self, filter: Filter) -> None:
        """Do nothing: what may be published at each broker is declared for the whole network (`Topology.publishes`)."""

    def receive(self, sender: BrokerId, message: Message) -> bool:
        if self._put_offs or self._gone.waiting:
            self._go_on()
        match message:
            case SubscribeFrom():
                self._asked_for(sender, message.filter, self._origins(message), message.mobile)
            case UnsubscribeFrom():
                self._asked_no_more(sender, message.filter, self._origins(message), message.mobile)
            case RoutingReset():
                self._telling.add(sender)
                self._look_who_told()
                self._doubt_neighbour(sender)
                if message.asks:
                    self._tell_all(sender)
            case RoutingTold():
                self._on_told(sender, self._origins(message))
            case _:
                assert isinstance(message, MarkerMessage), f"not a routing message: {message}"
                return self.markers.receive(message)
        return False

    def _asked_for(self, neighbour: BrokerId, filter: Filter, origins: Origins, mobile: bool) -> None:
        asked = self._asked[neighbour]
        if not origins:
            return  # the message names brokers that departed
        self._believe(neighbour, filter, origins)
        before = asked.get(filter, 0)
        asked[filter] = before | origins
        if not before:
            self._index.add((neighbour, filter), filter)
            self._wanted_index.add(filter)
        self._routes.clear()
        for other, theirs in self._from.items():
            if other != neighbour:
                self._ask(other, filter, origins & theirs, mobile)

    def _asked_no_more(self, neighbour: BrokerId, filter: Filter, origins: Origins, mobile: bool) -> None:
        asked = self._asked[neighbour]
        self._believe(neighbour, filter, origins)
        origins &= asked.get(filter, 0)  # fewer if a broker forgot what it was told
        if not origins:
            return
        asked[filter] &= ~origins
        if not asked[filter]:
            del asked[filter]
            self._index.remove((neighbour, filter), filter)
            self._wanted_index.remove(filter)
        self._routes.clear()
        for other, theirs in self._from.items():
            if other != neighbour:
                self._ask_no_more(other, filter, origins & theirs, mobile)
        self._hidden.forget()

    def _ask(self, neighbour: BrokerId, filter: Filter, origins: Origins, mobile: bool) -> None:
        """Ask a neighbour for this filter, less origins of which it was asked for a filter that covers this one."""
        if not origins:
            return
        sent, index = self._sent[neighbour], self._sent_index[neighbour]
        for earlier in index.covering(filter):
            origins &= ~sent[earlier]
        if origins:
            if filter not in sent:
                index.add(filter)
            sent[filter] = sent.get(filter, 0) | origins
            self.markers.is_behind = True
            self._unconfirmed |= origins
            self.host.send(neighbour, SubscribeFrom(filter=filter, mobile=mobile, **self._named(origins)))

    def _ask_no_more(self, neighbour: BrokerId, filter: Filter, origins: Origins, mobile: bool) -> None:
        """Take a filter back from a neighbour if nobody wants it any more; first ask for those that it covered."""
        sent = self._sent[neighbour]
        origins &= sent.get(filter, 0) & ~self._wanted(neighbour, filter)
        if not origins:
            return
        left = sent[filter] & ~origins
        if left:
            sent[filter] = left
        else:
            del sent[filter]
            self._sent_index[neighbour].remove(filter)
        for earlier in [w for w in self._put_offs if w.neighbour == neighbour and w.filter == filter]:
            self._put_offs.remove(earlier)  # what it had left to ask for is among `hidden` now
            origins |= earlier.origins
        hidden = self._hidden.by(filter, self._wanted_index, self._here, *self._asked.values())
        if len(hidden) > self.uncovers_at_once:
            # Each input to come asks for some of them. Until all are asked for, the neighbour sends more events than
            # anybody wants; each such event is an input, too, and brings the end nearer.
            self._put_offs.append(PutOff(neighbour, filter, origins, hidden[::-1]))
            return
        for other in hidden:
            self._ask(neighbour, other, self._wanted(neighbour, other) & origins, mobile)
        self._take_back(neighbour, filter, origins, mobile)

    def _take_back(self, neighbour: BrokerId, filter: Filter, origins: Origins, mobile: bool) -> None:
        origins &= ~self._sent[neighbour].get(filter, 0)  # of some it may have been asked for again
        if origins:
            self.host.send(neighbour, UnsubscribeFrom(filter=filter, mobile=mobile, **self._named(origins)))

    def _go_on(self) -> None:
        """Forget some filters that neighbours want no more, or ask for some of the filters that one has covered which
        is to be taken back after that."""
        if self._gone.waiting:
            self._let_go(self._gone.take(GONE_AT_ONCE))
            return
        neighbour, filter, origins, hidden = put_off = self._put_offs[0]
        for other in put_off.take(self.uncovers_at_once):
            self._ask(neighbour, other, self._wanted(neighbour, other) & origins, mobile=False)
        if not hidden:
            del self._put_offs[0]
            self._take_back(neighbour, filter, origins, mobile=False)

    def _wanted(self, neighbour: BrokerId, filter: Filter) -> Origins:
        """The origins behind `neighbour` of which this broker, or another neighbour, wants this filter."""
        origins = self._advertised.senders(filter) if filter in self._here else 0
        for other, asked in self._asked.items():
            if other != neighbour:
                origins |= asked.get(filter, 0)
        return origins & self._from[neighbour]

    @property
    def filters_kept(self) -> int:
        """How many filters this broker keeps about its neighbours: what they asked it for, and it asked them for."""
        return sum(map(len, self._asked.values())) + sum(map(len, self._sent.values()))

    def _named(self, origins: Origins) -> dict[str, Any]:
        """A set of origins, as the fields of a message that names them."""
        edges: tuple[str, ...] = ()
        if origins > self._core:
            edges = tuple(mark for mark, bit in self._marks.items() if bit & origins)
        return {"origins": (origins & self._core).to_bytes(self._bytes, "little"), "edges": edges}

    def _origins(self, message: SubscribeFrom | UnsubscribeFrom | RoutingTold) -> Origins:
        """The origins that a message names, less edge brokers whose named life in the network is over."""
        origins = int.from_bytes(message.origins, "little")
        for mark in message.edges:
            origins |= self._marks.get(mark, 0)
        return origins

    # --- brokers come and go ------------------------------------------------------------------------------

    def rewired(self) -> None:
        """Find out again from which neighbour the events of each origin come, and to which neighbours they go."""
        paths, me = self.topology.unique_paths, self.me
        neighbours = self.topology.neighbours[me]
        self._from.clear()
        self._from.update(dict.fromkeys(neighbours, 0))
        self._to.clear()
        self._to.update(dict.fromkeys(neighbours, 0))
        self._relayed.clear()
        for origin, bit in self._bit.items():
            toward = paths.tree(origin)
            if origin != me and toward[me] in self._from:  # a neighbour that departed sends nothing
                self._from[toward[me]] |= bit
            for neighbour in neighbours:
                if neighbour != origin and toward[neighbour] == me:
                    self._to[neighbour] |= bit
                    self._relayed.add(origin)
        self._advertised = Advertised(self.topology, self._bit)
        self._index_filters()

    def _index_filters(self) -> None:
        """Make the indexes again, from the filters that are wanted and those that were asked for."""
        self._wanted_index = index_of(*(self._here, *self._asked.values()) if self._from else ())
        self._sent_index = {neighbour: index_of(sent) for neighbour, sent in self._sent.items()}

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """This broker does not know who wants the new one's events, so it passes on all. It asks for those that are
        wanted here, and says when it has asked for all."""
        if broker == self.me:
            self._marks[mark] = self._bit[broker]
            return
        self._forget_origin(broker)
        bit = 1 << max(self._bit.values()).bit_length()
        self._bit[broker] = self._marks[mark] = bit
        self.rewired()
        if broker in self._from:
            self._asked[broker], self._sent[broker], self._doubted[broker] = {}, {}, {}
            self._sent_index[broker] = CoverIndex()
            self._untold[broker], self._to_tell[broker] = self._to[broker], 0
        for neighbour, origins in self._to.items():
            self._untold[neighbour] |= origins & bit
        for neighbour, origins in self._from.items():
            if origins & bit:
                for filter in self._here:
                    self._ask(neighbour, filter, bit & self._advertised.senders(filter), mobile=False)
                self._to_tell[neighbour] |= bit
                self._tell_what_is_whole(neighbour)
        self._routes.clear()

    def _forget_origin(self, broker: BrokerId) -> None:
        """Forget the earlier life in the network of a broker that begins another one: nothing names the earlier one."""
        bit = self._bit.pop(broker, 0)
        self._unconfirmed &= ~bit
        for known in (self._asked, self._sent, self._doubted):
            for neighbour, filters in known.items():
                for filter in without_origins(filters, bit):
                    if known is self._asked:
                        self._index.remove((neighbour, filter), filter)
        for waiting in (self._untold, self._to_tell):
            for neighbour in waiting:
                waiting[neighbour] &= ~bit
        self._put_offs = [waiting._replace(origins=waiting.origins & ~bit) for waiting in self._put_offs]
        self._marks = {mark: other for mark, other in self._marks.items() if other != bit}

    def broker_departed(self, broker: BrokerId) -> None:
        """Take back what a departed neighbour wanted; events that it had sent travel on as before."""
        if broker in self._asked:
            for filter, origins in list(self._asked[broker].items()):
                self._asked_no_more(broker, filter, origins, mobile=False)
            for known in (self._asked, self._sent, self._doubted, self._untold, self._to_tell):
                del known[broker]
            self._put_offs = [waiting for waiting in self._put_offs if waiting.neighbour != broker]
            self._telling.discard(broker)
            self._unmet.discard(broker)
        self.rewired()
        self._routes.clear()
        self._look_who_told()
        for neighbour in self._to_tell:
            self._tell_what_is_whole(neighbour)

    # --- a broker that lost its store ---------------------------------------------------------------------

    def doubt(self) -> None:
        """A neighbour may want events that this broker has forgotten: it gets all until it has told what it wants."""
        self._untold.update(self._to)
        self._telling.clear()
        self._routes.clear()

    def restarted(self) -> None:
        self._unmet.update(self._to)
        self._routes.clear()
        self._look_who_told()  # a store of the release before does not say who has told

    def count_on(self, number: int) -> None:
        self.markers.number = max(self.markers.number, number)

    def in_step(self, neighbour: BrokerId) -> None:
        if neighbour in self._unmet:
            self._unmet.remove(neighbour)
            self._routes.clear()

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """Keep what the neighbour wanted until it has told what it wants now; tell it again what this broker wants.

        Markers and echoes that the neighbour was to pass on are gone: a broker that waits for one asks for another.
        """
        self._doubt_neighbour(neighbour)
        self.host.send(neighbour, RoutingReset())
        self._tell_all(neighbour)
        self.markers.on_store_lost(StoreLost(by=self.me))

    def tell_again(self, neighbour: BrokerId) -> None:
        """Tell everything again to a neighbour that kept its store, but missed some of what this broker told it."""
        self.host.send(neighbour, RoutingReset(asks=False))
        self._tell_all(neighbour)

    def _let_go(self, gone: Iterable[Gone]) -> None:
        """Forget filters that neighbours did not ask for again; until then the neighbours get more than they want."""
        for neighbour, filter, origins in gone:
            if left := origins & self._doubted.get(neighbour, {}).get(filter, 0):
                self._asked_no_more(neighbour, filter, left, mobile=False)

    def _doubt_neighbour(self, neighbour: BrokerId) -> None:
        self._gone.forget(neighbour)
        self._doubted[neighbour] = dict(self._asked[neighbour])

    def _believe(self, neighbour: BrokerId, filter: Filter, origins: Origins) -> None:
        """The neighbour has spoken of this filter: it is no longer in doubt for these origins."""
        doubted = self._doubted[neighbour]
        if filter in doubted:
            doubted[filter] &= ~origins
            if not doubted[filter]:
                del doubted[filter]

    def question(self, filter: Filter, origins: Origins) -> SubscribeFrom:
        """The message that asks a neighbour for a filter."""
        return SubscribeFrom(filter=filter, **self._named(origins))

    def _tell_all(self, neighbour: BrokerId) -> None:
        while any(waiting.neighbour == neighbour for waiting in self._put_offs):
            self._go_on()
        self.host.send_each(neighbour, Questions(self, self._sent[neighbour].items()))
        self._to_tell[neighbour] = self._from[neighbour]
        self._tell_what_is_whole(neighbour)

    def _tell_what_is_whole(self, neighbour: BrokerId) -> None:
        """Send a neighbour `RoutingTold` for origins of which no broker behind this one has yet to tell what it wants.

        `RoutingTold` travels from the leaves of an origin's tree to the origin, so brokers never wait in a circle. A
        life that has just begun learns which brokers are behind it from the neighbour, ahead of its `RoutingReset`.
        """
        if neighbour not in self._telling:
            return
        waiting = 0
        for other, origins in self._untold.items():
            if other != neighbour:
                waiting |= origins
        whole = self._to_tell[neighbour] & ~waiting
        if whole:
            self._to_tell[neighbour] &= ~whole
            self.host.send(neighbour, RoutingTold(**self._named(whole)))

    def _on_told(self, neighbour: BrokerId, origins: Origins) -> None:
        """Of these origins the neighbour wants what it has asked for since it was doubted, and nothing else."""
        self._gone.put(neighbour, self._doubted[neighbour], origins)
        self._let_go(self._gone.take(FIRST_GONE))
        if neighbour not in self._telling:
            return  # it told an earlier life of this broker
        self._untold[neighbour] &= ~origins
        self._routes.clear()
        for other in self._to_tell:
            if other != neighbour:
                self._tell_what_is_whole(other)
