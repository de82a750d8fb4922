"""Paths that are chosen once for all, and an order that rests on markers: a router by interest without who wants what.

Two brokers cannot compare how far they have seen where each gets only what is wanted there. So a fence is made of
markers and echoes (`markers.py`).
"""

from collections.abc import Iterable, Mapping

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.ports import Host
from roamq.overlay.advertised import Advertised
from roamq.overlay.base import TreeUnicast
from roamq.overlay.markers import Markers
from roamq.overlay.topology import Topology


class OrderedByMarkers(TreeUnicast):
    """A router that finds its paths in the topology, and orders events by markers."""

    markers: Markers
    _advertised: Advertised

    def __init__(self, me: BrokerId, host: Host, topology: Topology) -> None:
        super().__init__(me, host, topology)
        self._unconfirmed = 0
        """Origins, one bit each, that were asked for something since the last marker that went to all such."""

    def next_hop(self, to: BrokerId) -> BrokerId:
        return self.topology.unique_paths.next_hop(self.me, to)

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        return self.topology.pair_through(broker, self.topology.unique_paths)

    def fence(self, peer: BrokerId, filters: Iterable[Filter] | None = None) -> Mapping[BrokerId, int]:
        return self.markers.fence(peer, self._advertised.sending(filters))

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        """Where brokers say what is published there, nobody else has to know what is wanted."""
        is_narrow = self._advertised.is_declared and not anew
        asked = self._advertised.named(self._unconfirmed) if is_narrow else None
        if self.markers.is_behind or anew:
            self._unconfirmed = 0
        return self.markers.confirm(anew=anew, asked=asked)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return self.markers.passed(fence)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        return self.markers.late(fence)

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self.markers.silent(confirmation)
