"""The part of a router by interest that knows paths, and orders events by markers; it does not know who wants what.

Where each broker gets only what somebody there wants, two brokers cannot compare how far they have seen. So a fence is
made of markers and echoes (`markers.py`).

A broker that has just joined, or begins anew, may not have heard of all others. When all its neighbours have told it
which brokers there are, it gets all events of every broker of which it hears later. While a neighbour has not, the
first events of another newcomer may go past this broker, or end before it: that neighbour said what is wanted behind it
before it had heard of this broker. So this broker's fences are *partial* until all neighbours have told it
(docs/decisions/0264). A partial fence names the lives of edge brokers of which its maker has heard; for any other
broker it has not passed before a later marker has.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.late import NO_ORIGINS, UNKNOWN
from roamq.core.ports import Host
from roamq.overlay.advertised import Advertised
from roamq.overlay.base import TreeUnicast
from roamq.overlay.markers import Markers
from roamq.overlay.topology import Topology

PARTIAL: Final = -3
"""A value in a fence; its key names the maker of the fence, and that broker's life. It says that the maker may not get
all events of brokers that the fence does not name."""
KNOWN: Final = -4
"""A value in a partial fence: the maker of the fence had heard of the edge broker's life that the key names."""


def _named_in(mark: str) -> BrokerId:
    """The broker whose life a mark names."""
    return BrokerId(mark.rpartition("@")[0])


class OrderedByMarkers(TreeUnicast):
    """A router that finds its paths in the topology, and orders events by markers."""

    markers: Markers
    _advertised: Advertised
    _marks: dict[str, int]
    _telling: set[BrokerId]

    def __init__(self, me: BrokerId, host: Host, topology: Topology, life: int) -> None:
        super().__init__(me, host, topology)
        self.life = life
        """The number of this broker's life; 0 if neighbours do not say which brokers there are."""
        self._unconfirmed = 0
        """Origins, one bit each, that this broker asked for something since it last sent all such origins a marker."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        return self.topology.unique_paths.next_hop(self.me, to)

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        return self.topology.pair_through(broker, self.topology.unique_paths)

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        fence = self.markers.fence(peer, self._advertised.sending(filters))
        if self.markers.knows_all or peer == self.me:
            return fence
        self.markers.fenced.add(peer)
        known = dict.fromkeys(map(BrokerId, self._marks), KNOWN)
        return {**known, **fence, BrokerId(f"{self.me}@{self.life}"): PARTIAL}

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """A fence for this broker itself. If brokers declare what is published there, only those that were asked for
        something have to know of the subscriptions."""
        is_narrow = self._advertised.is_declared and not anew
        asked = self._advertised.named(self._unconfirmed) if is_narrow else None
        if self.markers.is_behind or anew:
            self._unconfirmed = 0
        return self.markers.confirm(anew=anew, asked=asked)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return self.markers.passed(fence) and not self._of_unknown(fence)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        return self.markers.late(fence) | self._of_unknown(fence)

    def _of_unknown(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        """Of a partial fence: the origins that its maker had not heard of, and of which it may not get events that come
        here; and a name for the origins that this broker has not heard of either."""
        mark = next((one for one, value in fence.items() if value == PARTIAL), None)
        if mark is None or (by := _named_in(mark)) in self.topology.departed:
            return NO_ORIGINS
        strangers = frozenset(_named_in(one) for one in self._marks if one not in fence) - {by, self.me}
        late = self.markers.late_since(by, fence[by])
        return strangers | {BrokerId(UNKNOWN + mark)} if late is None else strangers & late

    def may_miss(self, origin: BrokerId) -> bool:
        return self.life > 0 and self.next_hop(origin) not in self._telling

    def _look_who_told(self) -> None:
        """See whether all neighbours that are left have told which brokers there are. Edge brokers do not count: they
        pass nothing on to others."""
        near = self.topology.core.intersection(self.topology.neighbours[self.me])
        if not self.markers.knows_all and near <= self._telling:
            self.markers.told_all()

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self.markers.silent(confirmation)
