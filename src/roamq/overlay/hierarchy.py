"""The hierarchy: events go up to the root, and down where somebody subscribed ([DIS] section 2).

Plain: every subscription travels up to the root, and each broker on the way notes the child it came from.
Covering: a subscription stops where one that covers it was sent before; when the covering one leaves, the covered
ones surface first. Advertisements: events go up only where subscriptions came down, and subscriptions come down
only to where an overlapping advertisement came from. Both can be switched on, alone or together.

Links are FIFO and the overlay is a tree, so unicast and events share their one path, and the ordering condition of
[DIS] section 3.1 holds whenever a message arrives: fences between two brokers are empty, and have always `passed`.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, Event
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from roamq.core.messages import Message
from roamq.core.ports import Host
from roamq.overlay.advertised import may_send
from roamq.overlay.base import TreeUnicast
from roamq.overlay.markers import Markers
from roamq.overlay.messages import (
    Advertise,
    MarkerMessage,
    RoutingReset,
    StoreLost,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from roamq.overlay.topology import Topology

ROUTE_CACHE_SIZE = 4096


class Hierarchy(TreeUnicast):
    """The router of one broker in a tree. `root` decides what is up."""

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        topology: Topology,
        *,
        root: BrokerId | None = None,
        covering: bool = False,
        advertisements: bool = False,
        confirms: bool = False,
        first_number: int = 0,
    ) -> None:
        """`confirms`: subscribers wait until all brokers know of their subscriptions; in [DIS] no subscriber waits."""
        if not topology.is_tree:
            raise ConfigError(
                "network.overlay = 'hierarchy' needs links that form a tree; use 'flooding' otherwise"
            )
        super().__init__(me, host, topology)
        self.covering = covering
        self.advertisements = advertisements
        root = root or topology.brokers[0]
        self.parent: BrokerId | None = None if me == root else topology.next_hop(me, root)
        self.children = topology.children(root, me)
        # Neighbour, or `me` for clients here -> the subscriptions that came from there, counted.
        self._wanted: dict[BrokerId, Counter[Filter]] = {n: Counter() for n in (me, *topology.neighbours[me])}
        self._interest: MatchIndex[BrokerId] = MatchIndex()
        # Neighbour -> the subscriptions that this broker sent it, counted (with covering: at most once each).
        self._sent: dict[BrokerId, Counter[Filter]] = {n: Counter() for n in topology.neighbours[me]}
        self._advertised: dict[BrokerId, Counter[Filter]] = {n: Counter() for n in (me, *self.children)}
        self._routes: dict[BrokerId, dict[Hashable, tuple[BrokerId, ...]]] = {n: {} for n in self._wanted}
        """Sender -> an event's `match_key` -> the neighbours that it goes to, until subscriptions change."""
        self._confirms = confirms
        self._markers = Markers(me, host, topology, first_number)

    # --- events -------------------------------------------------------------------------------------------

    def publish(self, event: Event) -> None:
        self.receive_event(self.me, event)

    def receive_event(self, sender: BrokerId, event: Event) -> bool:
        route = self._routes[sender].get(event.match_key)
        if route is None or event.retain:
            route = self._route(sender, event)
        if route:
            self.host.pass_on(route, event)
        return True

    def _route(self, sender: BrokerId, event: Event) -> tuple[BrokerId, ...]:
        """The neighbours where somebody wants the event, besides the one it came from; remembered."""
        if event.retain and not event.is_handed_on:  # clients at any broker may subscribe to it later
            return tuple(n for n in self.topology.neighbours[self.me] if n != sender)
        interested = set(self._interest.match(event))
        if self.parent is not None and not self.advertisements:
            interested.add(self.parent)
        route = tuple(sorted(interested - {self.me, sender}))
        if event.match_key is not None:
            routes = self._routes[sender]
            if len(routes) > ROUTE_CACHE_SIZE:
                routes.clear()
            routes[event.match_key] = route
        return route

    def _forget_routes(self) -> None:
        for routes in self._routes.values():
            routes.clear()

    # --- subscriptions ------------------------------------------------------------------------------------

    def subscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        self._add(self.me, filter, mobile)

    def unsubscribe(self, filter: Filter, *, mobile: bool = False) -> None:
        self._remove(self.me, filter, mobile)

    def receive(self, sender: BrokerId, message: Message) -> bool:
        match message:
            case Subscribe():
                self._add(sender, message.filter, message.mobile)
            case Unsubscribe():
                self._remove(sender, message.filter, message.mobile)
            case Advertise():
                self._add_advertisement(sender, message.filter)
            case Unadvertise():
                self._remove_advertisement(sender, message.filter)
            case RoutingReset():
                self._forget(sender)
            case _:
                assert isinstance(message, MarkerMessage), f"not a routing message: {message}"
                return self._markers.receive(message)
        return False

    def _add(self, source: BrokerId, filter: Filter, mobile: bool) -> None:
        wanted = self._wanted[source]
        wanted[filter] += 1
        if wanted[filter] == 1:
            self._interest.add(source, filter)
            self._forget_routes()
        for neighbour in self._directions(source, filter):
            sent = self._sent[neighbour]
            if self.covering and any(earlier.covers(filter) for earlier in sent):
                continue
            sent[filter] += 1
            self._markers.is_behind = True
            self.host.send(neighbour, Subscribe(filter=filter, mobile=mobile))

    def _remove(self, source: BrokerId, filter: Filter, mobile: bool) -> None:
        wanted = self._wanted[source]
        if filter not in wanted:
            # A neighbour speaks of what this broker forgot when it lost its store; `RoutingReset` follows.
            assert source != self.me, f"{self.me}: unsubscribes {filter}, which nobody here had subscribed"
            return
        wanted[filter] -= 1
        if not wanted[filter]:
            del wanted[filter]
            self._interest.remove(source, filter)
            self._forget_routes()
        for neighbour in self._directions(source, filter):
            if self.covering:
                self._uncover(neighbour, filter, mobile)
            else:
                self._withdraw(neighbour, filter, mobile)

    def _uncover(self, neighbour: BrokerId, filter: Filter, mobile: bool) -> None:
        """Withdraw a covering subscription; those that it hid are sent before ([DIS] section 2)."""
        sent = self._sent[neighbour]
        if filter not in sent or self._still_wanted(neighbour, filter):
            return
        hidden = self._wanted_beyond(neighbour)
        others = [f for f in sent if f != filter]
        for candidate in hidden:
            if filter.covers(candidate) and not any(other.covers(candidate) for other in others):
                others.append(candidate)
                sent[candidate] += 1
                self.host.send(neighbour, Subscribe(filter=candidate, mobile=mobile))
        self._withdraw(neighbour, filter, mobile)

    def _withdraw(self, neighbour: BrokerId, filter: Filter, mobile: bool) -> None:
        sent = self._sent[neighbour]
        if sent[filter] > 0:
            sent[filter] -= 1
            if not sent[filter]:
                del sent[filter]
            self.host.send(neighbour, Unsubscribe(filter=filter, mobile=mobile))

    def _still_wanted(self, neighbour: BrokerId, filter: Filter) -> bool:
        return any(filter in wanted for source, wanted in self._wanted.items() if source != neighbour)

    def _wanted_beyond(self, neighbour: BrokerId) -> list[Filter]:
        """The filters that this broker and all neighbours but `neighbour` want, widest first if covering can tell."""
        distinct = dict.fromkeys(f for source, w in self._wanted.items() if source != neighbour for f in w)
        filters = list(distinct)
        return sorted(filters, key=lambda f: sum(other.covers(f) for other in filters))

    def _directions(self, source: BrokerId, filter: Filter) -> list[BrokerId]:
        """The neighbours that must know a subscription from `source`: the parent, and children whose advertisements
        overlap it."""
        up = [self.parent] if self.parent is not None and self.parent != source else []
        if not self.advertisements:
            return up
        down = [c for c in self.children if c != source and self._advertises(c, filter)]
        return up + down

    # --- advertisements -----------------------------------------------------------------------------------

    def advertise(self, filter: Filter) -> None:
        self._add_advertisement(self.me, filter)

    def _advertises(self, child: BrokerId, filter: Filter) -> bool:
        return may_send(self._advertised[child], filter)

    def _add_advertisement(self, source: BrokerId, filter: Filter) -> None:
        if not self.advertisements:
            return
        before = set(self._relevant(source))
        self._advertised[source][filter] += 1
        if self.parent is not None:
            self.host.send(self.parent, Advertise(filter=filter))
        if source != self.me:
            for subscription, count in self._wanted_counts(source).items():
                if subscription not in before and subscription.overlaps(filter):
                    self._send_down(source, subscription, count)

    def _remove_advertisement(self, source: BrokerId, filter: Filter) -> None:
        if not self.advertisements:
            return
        advertised = self._advertised[source]
        if filter not in advertised:  # as in `_remove`
            return
        advertised[filter] -= 1
        if not advertised[filter]:
            del advertised[filter]
        if self.parent is not None:
            self.host.send(self.parent, Unadvertise(filter=filter))
        if source != self.me:
            for subscription in list(self._sent[source]):
                while self._sent[source][subscription] and not self._advertises(source, subscription):
                    self._withdraw(source, subscription, mobile=False)

    def _relevant(self, child: BrokerId) -> list[Filter]:
        if child == self.me:
            return []
        return [f for f in self._wanted_counts(child) if self._advertises(child, f)]

    def _wanted_counts(self, child: BrokerId) -> Counter[Filter]:
        total: Counter[Filter] = Counter()
        for source, wanted in self._wanted.items():
            if source != child:
                total.update(wanted)
        return total

    def _send_down(self, child: BrokerId, filter: Filter, count: int) -> None:
        sent = self._sent[child]
        if self.covering:
            if any(earlier.covers(filter) for earlier in sent):
                return
            count = 1
        for _ in range(count):
            sent[filter] += 1
            self._markers.is_behind = True
            self.host.send(child, Subscribe(filter=filter))

    # --- a neighbour that lost its store ------------------------------------------------------------------

    def neighbour_forgot(self, neighbour: BrokerId) -> None:
        """Forget what the neighbour wanted, and tell it again what this broker wants of it.

        `RoutingReset` goes first: messages from before that the neighbour has not taken in yet would count twice.
        """
        self._forget(neighbour)
        self.host.send(neighbour, RoutingReset())
        if neighbour == self.parent and self.advertisements:
            for advertised in self._advertised.values():
                for filter in advertised.elements():
                    self.host.send(neighbour, Advertise(filter=filter))
        for filter in self._sent[neighbour].elements():
            self.host.send(neighbour, Subscribe(filter=filter))
        self._markers.on_store_lost(StoreLost(by=self.me))

    def doubt(self) -> None:
        """Do nothing: neighbours tell this broker again what they want, and until then it does not know."""

    def restarted(self) -> None:
        """Do nothing: this router takes the store to be up to date."""

    def count_on(self, number: int) -> None:
        self._markers.number = max(self._markers.number, number)

    def in_step(self, neighbour: BrokerId) -> None:
        """Do nothing: this router has taken the store to be up to date."""

    def _forget(self, neighbour: BrokerId) -> None:
        """Take back, one by one, all subscriptions and advertisements of the neighbour, as if it had done so itself."""
        for filter in list(self._wanted[neighbour].elements()):
            self._remove(neighbour, filter, mobile=False)
        for filter in list(self._advertised.get(neighbour, Counter()).elements()):
            self._remove_advertisement(neighbour, filter)

    # --- ordering -----------------------------------------------------------------------------------------

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        return {}

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return not fence or self._markers.passed(fence)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """No origins if the fence has passed, as one between two brokers has when it comes: unicast and events share
        one path."""
        return frozenset() if self.passed(fence) else frozenset(self.topology.all_brokers)

    def broker_joined(self, broker: BrokerId, mark: str) -> None:
        """Fail: a hierarchy is one tree, in which every broker has its place from the beginning."""
        raise AssertionError(f"{broker} cannot join a hierarchy")

    def broker_departed(self, broker: BrokerId) -> None:
        raise AssertionError(f"{broker} cannot depart from a hierarchy")

    def rewired(self) -> None:
        """Do nothing: the links of a hierarchy never change."""

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        return self._markers.confirm(anew=anew) if self._confirms else {}

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self._markers.silent(confirmation)
