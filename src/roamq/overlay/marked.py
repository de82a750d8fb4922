"""Paths that are chosen once for all, and an order that rests on markers: a router by interest without who wants what.

Two brokers cannot compare how far they have seen where each gets only what is wanted there. So a fence is made of
markers and echoes (`markers.py`).
"""

from collections.abc import Mapping

from roamq.core.events import BrokerId
from roamq.overlay.base import TreeUnicast
from roamq.overlay.markers import Markers


class OrderedByMarkers(TreeUnicast):
    """A router that finds its paths in the topology, and orders events by markers."""

    markers: Markers

    def next_hop(self, to: BrokerId) -> BrokerId:
        return self.topology.unique_paths.next_hop(self.me, to)

    def pair_through(self, broker: BrokerId) -> tuple[BrokerId, BrokerId] | None:
        return self.topology.pair_through(broker, self.topology.unique_paths)

    def fence(self, peer: BrokerId) -> Mapping[BrokerId, int]:
        return self.markers.fence(peer)

    def confirm(self, *, anew: bool = False) -> Mapping[BrokerId, int]:
        return self.markers.confirm(anew=anew)

    def passed(self, fence: Mapping[BrokerId, int]) -> bool:
        return self.markers.passed(fence)

    def late(self, fence: Mapping[BrokerId, int]) -> frozenset[BrokerId]:
        return self.markers.late(fence)

    def silent(self, confirmation: Mapping[BrokerId, int]) -> set[BrokerId]:
        return self.markers.silent(confirmation)
