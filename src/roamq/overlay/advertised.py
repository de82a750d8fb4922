"""Which brokers may publish something that matches a filter.

The description of the network may declare topic filters for a broker (`publishes`). Such a broker refuses every other
topic, so the others do not ask it for other topics, and a client that wants other topics does not wait for it
(docs/interest.md). At a broker without such a list anything may be published.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.overlapping import OverlapIndex
from roamq.overlay.topology import Topology

ANYBODY: Final = -1
"""The set of all origins, one bit each, those that join later included."""
CACHE_SIZE: Final = 10_000


def may_send(advertised: Iterable[Filter], wanted: Filter) -> bool:
    """Whether a broker with these advertisements may publish an event that matches the wanted filter."""
    return any(wanted.overlaps(one) for one in advertised)


def is_within(advertised: Iterable[Filter] | None, published: Filter) -> bool:
    """Whether a broker with these advertisements may publish on this topic, or on every topic that this filter matches.
    None: the broker declares nothing, and may publish anything."""
    return advertised is None or any(one.covers(published) for one in advertised)


class Advertised:
    """Finds the origins that may publish what a filter matches: a set with one bit for each origin."""

    def __init__(self, topology: Topology, bits: Mapping[BrokerId, int]) -> None:
        """`bits`: origin -> its bit."""
        self._topology = topology
        self._bits = bits
        self._found: dict[Filter, int] = {}
        """Filter -> its origins, for filters that somebody has asked about."""
        self._index: OverlapIndex | None = None
        """Declared topic filter -> the origins that declare it; made at the first question."""
        self._undeclared = ANYBODY
        """The origins that declare nothing."""

    @property
    def is_declared(self) -> bool:
        """Whether any broker declares what is published there."""
        return bool(self._topology.publishes)

    def senders(self, wanted: Filter) -> int:
        """The origins that may publish an event which matches.

        For the filter of a shared group these are all origins. A broker that hands an event on to another member
        publishes a copy of it, on whatever topic (`EventIntake.hand_to`).
        """
        if not self._topology.publishes or wanted.group is not None:
            return ANYBODY
        found = self._found.get(wanted)
        if found is None:
            index = self._index or self._indexed()
            found = self._undeclared | (index.overlapping(wanted.levels) if wanted.satisfiable else 0)
            if len(self._found) >= CACHE_SIZE:
                self._found.clear()
            self._found[wanted] = found
        return found

    def _indexed(self) -> OverlapIndex:
        index = self._index = OverlapIndex()
        for broker, advertised in self._topology.publishes.items():
            bit = self._bits.get(broker, 0)
            self._undeclared &= ~bit
            for filter in advertised:
                index.add(filter.levels, bit)
        return index

    def sending(self, wanted: Iterable[Filter] | None) -> frozenset[BrokerId] | None:
        """The brokers that may publish an event which matches one of these filters; None: any broker."""
        if wanted is None or not self.is_declared:
            return None
        origins = 0
        for filter in wanted:
            origins |= self.senders(filter)
        return None if origins == ANYBODY else self.named(origins)

    def named(self, origins: int) -> frozenset[BrokerId]:
        """The brokers of a set of origins."""
        return frozenset(broker for broker, bit in self._bits.items() if bit & origins)
