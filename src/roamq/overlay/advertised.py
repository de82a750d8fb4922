"""What may be published at each broker, as the description of the network declares it.

A broker that declares topic filters takes no publication outside them, so nobody asks it for anything else, and nobody
waits for it because of anything else (docs/interest.md). Of a broker that declares nothing anything may come.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.overlapping import OverlapIndex
from roamq.overlay.topology import Topology

ANYBODY: Final = -1
"""As a set of origins, one bit each: all of them, also those to come."""
CACHE_SIZE: Final = 10_000


def may_send(advertised: Iterable[Filter], wanted: Filter) -> bool:
    """Is there an event that is wanted and that such advertisements speak of?"""
    return any(wanted.overlaps(one) for one in advertised)


def is_within(advertised: Iterable[Filter] | None, published: Filter) -> bool:
    """Do such advertisements speak of all that a filter, or a topic, matches? None: they speak of everything."""
    return advertised is None or any(one.covers(published) for one in advertised)


class Advertised:
    """Finds the origins of which something that is wanted may come, as a set with one bit for each."""

    def __init__(self, topology: Topology, bits: Mapping[BrokerId, int]) -> None:
        self._topology = topology
        self._bits = bits
        self._found: dict[Filter, int] = {}
        self._index: OverlapIndex | None = None
        """What is declared, once somebody has asked."""
        self._silent = ANYBODY
        """The origins that say nothing: anything may be published there."""

    @property
    def is_declared(self) -> bool:
        """Whether any broker says what is published there."""
        return bool(self._topology.publishes)

    def senders(self, wanted: Filter) -> int:
        """The origins of which events may come that match. A copy for a member of a shared group is an event of the
        broker that handed it on, whatever is published there: so of a group's filter they may come from anybody."""
        if not self._topology.publishes or wanted.group is not None:
            return ANYBODY
        found = self._found.get(wanted)
        if found is None:
            index = self._index or self._indexed()
            found = self._silent | (index.overlapping(wanted.levels) if wanted.satisfiable else 0)
            if len(self._found) >= CACHE_SIZE:
                self._found.clear()
            self._found[wanted] = found
        return found

    def _indexed(self) -> OverlapIndex:
        index = self._index = OverlapIndex()
        for broker, advertised in self._topology.publishes.items():
            bit = self._bits.get(broker, 0)
            self._silent &= ~bit
            for filter in advertised:
                index.add(filter.levels, bit)
        return index

    def sending(self, wanted: Iterable[Filter] | None) -> frozenset[BrokerId] | None:
        """The brokers of which events may come that match one of these; None: any broker."""
        if wanted is None or not self.is_declared:
            return None
        origins = 0
        for filter in wanted:
            origins |= self.senders(filter)
        return None if origins == ANYBODY else self.named(origins)

    def named(self, origins: int) -> frozenset[BrokerId]:
        return frozenset(broker for broker, bit in self._bits.items() if bit & origins)
