"""Markers: how a broker learns that what it subscribed to is known where it matters (docs/interest.md).

A marker travels behind the subscriptions of the broker that sends it, along the chosen paths. The brokers that it is
for answer with an *echo*, which travels behind the events that they sent. One kind of marker goes to every broker and
comes back to its sender: then every broker knows the sender's subscriptions (`confirm`). The other kind goes where
the paths to two brokers part, and its echoes come to the other broker: then that one has seen every event that the
sender will not get (`fence`).

Brokers come and go, and the others do not all hear of that at once. So a fence names the brokers that its marker
visits, as the sender knows the network. If all its neighbours have told the sender which brokers there are, it gets
every event, from the first one on, of an origin that it hears of later. Until they have, its fences are *partial*; when
they have, it sends another marker for each broker that has such a fence (`marked.py`). Nobody waits for a broker that
departed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from roamq.core.events import BrokerId
from roamq.core.ports import Host
from roamq.overlay.messages import Echo, MarkAgain, Marker, MarkerMessage, StoreLost
from roamq.overlay.topology import Topology

AT: Final = -1
"""A value in a fence: the marker visits the broker of that name."""
FOR: Final = -2
"""A value in a fence: the fence was made for the broker of that name."""


def _visits(fence: Mapping[BrokerId, int]) -> dict[BrokerId, int]:
    """A fence without its maker: the brokers that the marker visits, and the one that the fence was made for."""
    return {broker: value for broker, value in fence.items() if value in (AT, FOR)}


class Markers:
    """The markers of one broker: those it sends, answers, passes on and waits for."""

    def __init__(
        self,
        me: BrokerId,
        host: Host,
        topology: Topology,
        first_number: int = 0,
        *,
        knows_all: bool = True,
    ) -> None:
        self.me = me
        self.host = host
        self.topology = topology
        self.number = first_number
        """The number of the last marker. A life that remembers none begins above the numbers of all earlier lives."""
        self.is_behind = False
        """Whether this broker has subscribed to something since the last marker of `confirm`."""
        self.echoed: dict[tuple[BrokerId, BrokerId], int] = {}
        """Sender of markers, and a broker that they visit -> the number of the last one whose echo came here."""
        self._confirmation = 0
        """The number of the last marker of `confirm`."""
        self._confirmation_at: tuple[BrokerId, ...] = ()
        """The brokers that this marker visits."""
        self._awaited_at: dict[BrokerId, tuple[BrokerId, ...]] = {}
        """Sender of a marker -> the brokers at which somebody here expects it."""
        self._marked_again: dict[BrokerId, tuple[int, tuple[BrokerId, ...]]] = {}
        """Broker that sent another marker for this one -> the number of that marker, and the brokers that it visits."""
        self._awaited: dict[BrokerId, int] = {}
        """Sender of markers -> the number of the last one that somebody here waits for."""
        self._asked_again: dict[BrokerId, int] = {}
        """Sender of markers -> the number of the last one in whose place this broker asked for another."""
        self.knows_all = knows_all
        """Whether all neighbours have told this life of the broker which brokers there are."""
        self.fenced: set[BrokerId] = set()
        """Brokers that have partial fences of this one: it sends a marker for each when all neighbours have told."""
        self._marked_whole: dict[BrokerId, tuple[int, tuple[BrokerId, ...]]] = {}
        """The same, of markers that their senders sent when they had been told of all brokers."""

    def receive(self, message: MarkerMessage) -> bool:
        """Handle a message; True if a fence that had not `passed` may have passed now."""
        match message:
            case Marker():
                self._on_marker(message)
            case Echo():
                return self._on_echo(message)
            case MarkAgain():
                self._on_mark_again(message)
            case StoreLost():
                self.on_store_lost(message)
        return False

    # --- what is waited for ---------------------------------------------------------------------------------

    def fence(self, peer: BrokerId, origins: frozenset[BrokerId] | None = None) -> Mapping[BrokerId, int]:
        """Send a marker to the brokers where the paths to `peer` and to this broker part, but not to those that the
        fence itself passes. `origins`: only where the paths from these part; no event that matters comes of others."""
        if peer == self.me:
            return {}
        visited = self.topology.unique_paths.partings(self.me, peer, origins)
        self._mark(peer, visited)
        return {self.me: self.number, peer: FOR, **dict.fromkeys(visited, AT)}

    def confirm(
        self, *, anew: bool = False, asked: frozenset[BrokerId] | None = None
    ) -> Mapping[BrokerId, int]:
        """A fence that has passed when every broker knows of all that this broker has subscribed to.

        `asked`: the only brokers that were asked for something since the last marker; None: any. The marker also visits
        those that have not answered an earlier one, so that it stands for all before it."""
        if self.is_behind or anew:
            self.is_behind = False
            silent = self._silent(self.me, self._confirmation, self._confirmation_at)
            self._confirmation_at = tuple(
                one
                for one in self._visited(self.me, self.me)
                if asked is None or one in asked or one in silent
            )
            self._mark(self.me, self._confirmation_at)
            self._confirmation = self.number
        if not self._confirmation_at:
            return {}
        return {self.me: self._confirmation, **dict.fromkeys(self._confirmation_at, AT)}

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        """Whether all echoes of the fence's marker have come. If the fence was made for another broker and passed on to
        this one, ask its maker for a marker that this broker gets the echoes of."""
        for by, number in fence.items():
            if number <= 0 or by in self.topology.departed:
                continue
            is_for_us = fence.get(self.me, AT) != AT
            visited = self._visited_by(by, fence) if is_for_us else self._visited_again(by, number)
            if visited is not None and not self._silent(by, number, visited):
                continue
            self._await(by, number, visited or ())
            return False
        return True

    def _await(self, by: BrokerId, number: int, visited: tuple[BrokerId, ...]) -> None:
        self._awaited[by] = max(number, self._awaited.get(by, 0))
        self._awaited_at[by] = tuple(dict.fromkeys((*self._awaited_at.get(by, ()), *visited)))

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """The origins behind the partings from which no echo has come. If the fence was made for another broker, any
        origin may be behind them."""
        late: set[BrokerId] = set()
        for by, number in fence.items():
            if number <= 0 or self.passed({by: number, **_visits(fence)}):
                continue
            if fence.get(self.me) != FOR or by not in self.topology.all_brokers:
                return frozenset(self.topology.all_brokers)
            visited = self._visited_by(by, fence)
            silent = self._silent(by, number, visited)
            late |= self._late(by, visited, silent)
        return frozenset(late)

    def late_since(self, by: BrokerId, number: int) -> frozenset[BrokerId] | None:
        """The origins behind the partings from which no echo has come, of the marker that `by` sent when it had been
        told of all brokers; None if `by` has not sent such a marker since `number`."""
        whole, visited = self._marked_whole.get(by, (0, ()))
        silent = self._silent(by, whole, visited)
        if whole < number or silent:
            self._await(by, max(whole, number), visited)
        return frozenset(self._late(by, visited, silent)) if whole >= number else None

    def _late(self, by: BrokerId, visited: tuple[BrokerId, ...], silent: Iterable[BrokerId]) -> set[BrokerId]:
        return self.topology.unique_paths.late(by, self.me, visited, list(silent))

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        """The brokers that have not answered the marker of a `confirm`."""
        number = confirmation.get(self.me, 0)
        return set(self._silent(self.me, number, self._visited_by(self.me, confirmation)))

    def _silent(self, by: BrokerId, number: int, visited: Iterable[BrokerId]) -> list[BrokerId]:
        """The brokers among `visited` whose echo has not come here; those that departed do not count."""
        gone = self.topology.departed
        return [at for at in visited if self.echoed.get((by, at), 0) < number and at not in gone]

    def _visited_by(self, by: BrokerId, fence: Mapping[BrokerId, int]) -> tuple[BrokerId, ...]:
        """The brokers that a fence's marker visits. A fence of the release before, without edge brokers, names none."""
        if by == self.me or fence.get(self.me) == FOR:
            return tuple(at for at, value in fence.items() if value == AT)
        return self._visited(by, self.me)

    def _visited_again(self, by: BrokerId, number: int) -> tuple[BrokerId, ...] | None:
        """The brokers visited by the marker that this broker asked `by` for, and `by` itself; None while not known."""
        marked, visited = self._marked_again.get(by, (0, ()))
        if marked >= number:
            return (*visited, by)
        if self._asked_again.get(by, 0) < number:
            self._ask_again(by, number)
        return None

    # --- markers and echoes under way -------------------------------------------------------------------------

    def _mark(self, peer: BrokerId, visited: tuple[BrokerId, ...]) -> None:
        self.number += 1
        for neighbour, targets in self._by_next_hop(visited):
            marker = Marker(by=self.me, number=self.number, peer=peer, targets=targets)
            self.host.send(neighbour, marker)

    def _visited(self, by: BrokerId, peer: BrokerId) -> tuple[BrokerId, ...]:
        """The brokers that a marker of `by` for `peer` visits."""
        if by == peer:
            return tuple(broker for broker in self.topology.brokers if broker != by)
        return self.topology.unique_paths.partings(by, peer)

    def _by_next_hop(self, targets: tuple[BrokerId, ...]) -> Iterator[tuple[BrokerId, tuple[BrokerId, ...]]]:
        hops: dict[BrokerId, list[BrokerId]] = {}
        for target in targets:
            if target in self.topology.departed:
                continue
            hops.setdefault(self._next_hop(target), []).append(target)
        for neighbour, beyond in hops.items():
            yield neighbour, tuple(beyond)

    def _next_hop(self, to: BrokerId) -> BrokerId:
        return self.topology.unique_paths.next_hop(self.me, to)

    def _send(self, to: BrokerId, message: Marker | Echo | MarkAgain) -> None:
        """Send a message on its way to a broker, unless that broker departed."""
        if to not in self.topology.departed:
            self.host.send(self._next_hop(to), message)

    def _on_marker(self, marker: Marker) -> None:
        if self.me in marker.targets:
            echo = Echo(to=marker.peer, by=marker.by, number=marker.number, at=self.me)
            self._send(marker.peer, echo)
        others = tuple(target for target in marker.targets if target != self.me)
        for neighbour, targets in self._by_next_hop(others):
            passed_on = Marker(by=marker.by, number=marker.number, peer=marker.peer, targets=targets)
            self.host.send(neighbour, passed_on)

    def _on_echo(self, echo: Echo) -> bool:
        if echo.to != self.me:
            self._send(echo.to, echo)
            return False
        if echo.at == echo.by:
            visited = self._visited(echo.by, self.me) if echo.visited is None else echo.visited
            self._marked_again[echo.by] = (echo.number, visited)
            if echo.knows_all:
                self._marked_whole[echo.by] = (echo.number, visited)
        key = (echo.by, echo.at)
        self.echoed[key] = max(echo.number, self.echoed.get(key, 0))
        return True

    # --- markers that are lost with a store -------------------------------------------------------------------

    def on_store_lost(self, message: StoreLost) -> None:
        """A broker lost markers and echoes that it was to pass on: tell the brokers behind this one, and if somebody
        here waits for echoes, ask for another marker."""
        paths = self.topology.unique_paths
        for neighbour in self.topology.neighbours[self.me]:
            if neighbour != message.by and paths.next_hop(neighbour, message.by) == self.me:
                self.host.send(neighbour, message)
        for by, number in list(self._awaited.items()):
            awaited = self._awaited_at.get(by, ())
            source = () if by == self.me else (by,)
            if by in self.topology.departed or not self._silent(by, number, (*awaited, *source)):
                del self._awaited[by]
                self._awaited_at.pop(by, None)
            elif by == self.me:
                self._mark(self.me, self._visited(self.me, self.me))
            else:
                self._ask_again(by, number, awaited)

    def _ask_again(self, by: BrokerId, number: int, at: tuple[BrokerId, ...] = ()) -> None:
        self._asked_again[by] = max(number, self._asked_again.get(by, 0))
        self._send(by, MarkAgain(to=by, peer=self.me, number=number, at=at))

    def _on_mark_again(self, message: MarkAgain) -> None:
        if message.to != self.me:
            self._send(message.to, message)
            return
        self.number = max(self.number, message.number)  # this broker may have lost its store itself
        if not self.knows_all:
            self.fenced.add(message.peer)
        self._mark_again(message.peer, message.at)

    def _mark_again(self, peer: BrokerId, at: tuple[BrokerId, ...] = ()) -> None:
        visited = self._visited(self.me, peer)
        awaited = tuple(one for one in at if one not in visited and one != self.me)
        self._mark(peer, (*visited, *awaited))
        echo = Echo(
            to=peer, by=self.me, number=self.number, at=self.me, visited=visited, knows_all=self.knows_all
        )
        self._send(peer, echo)

    # --- a life that has not been told of all brokers ---------------------------------------------------------

    def told_all(self) -> None:
        """All neighbours have told which brokers there are: send the markers that partial fences wait for."""
        self.knows_all = True
        for peer in sorted(self.fenced - self.topology.departed):
            self._mark_again(peer)
        self.fenced.clear()
