"""MatchIndex: which of many filters match an event.

Three structures, one after the other, so that an event touches what concerns it and little else:

1. a trie of topic filters (those without a wildcard in a hash table beside it) finds those that match;
2. below each, a tree of tables (`branches`) finds filters by their predicates, the most selective kind first;
3. the few filters so found are asked themselves; equal filters are asked once for all keys that hold them.

Adding and removing walk one path per place of the filter, in time independent of the number of filters but
for ordered bounds, which are in log time. Written here because existing libraries match topics or contents,
not both.
"""

from collections.abc import Collection, Hashable, Iterator
from typing import Any, Final, Generic, TypeVar

from roamq.core.branches import Branch, Entry, collect, hang, hung, unhang, unhung
from roamq.core.events import Event
from roamq.core.filters import Filter
from roamq.core.level_trie import LevelTrie

K = TypeVar("K", bound=Hashable)

RESULTS_MAX: Final = 4096
"""The number of different events for which the keys found are remembered."""


class MatchIndex(Generic[K]):
    """A set of pairs (key, filter), and the keys of those whose filter matches an event."""

    def __init__(self) -> None:
        self.version = 0
        """A number that grows with every change: users see by it when what they derived from the index is stale."""
        self.results: dict[Hashable, tuple[K, ...]] = {}
        """`Event.match_key` -> the keys found for such events lately; every change of the index empties it."""
        self._pairs = 0
        self._serial = 0
        self._entries: dict[Filter, Entry] = {}
        self._came: dict[K, int] = {}  # the order of the keys
        self._held: dict[K, int] = {}  # how many filters a key holds
        self._by_topic: dict[object, Branch] = {}
        self._trie: LevelTrie[Branch] = LevelTrie()
        self.shapes: dict[str, int] = {}
        """Shape -> how many filters in the trie have it: at most one topic filter of a shape matches a topic."""

    def __len__(self) -> int:
        """The number of pairs."""
        return self._pairs

    def __contains__(self, pair: tuple[K, Filter]) -> bool:
        key, filter_ = pair
        entry = self._entries.get(filter_)
        return entry is not None and key in _keys(entry)

    def add(self, key: K, filter: Filter) -> None:
        """Add a pair; one that is already there changes nothing."""
        entry = self._entries.get(filter)
        if entry is None:
            self._serial += 1
            entry = self._entries[filter] = Entry(filter, self._serial, key)
            if filter.satisfiable:
                self._insert(entry)
        else:
            holders = entry.holders
            if not isinstance(holders, dict):
                if holders == key:
                    return
                holders = entry.holders = {holders: None}
            elif key in holders:
                return
            holders[key] = None
        held = self._held.get(key, 0)
        if not held:
            self._serial += 1
            self._came[key] = self._serial
        self._held[key] = held + 1
        self._pairs += 1
        self.version += 1
        self.results.clear()

    def remove(self, key: K, filter: Filter) -> None:
        """Remove a pair. `KeyError` if it is not there."""
        entry = self._entries[filter]
        holders = entry.holders
        if isinstance(holders, dict):
            del holders[key]
            is_held = bool(holders)
        elif holders == key:
            is_held = False
        else:
            raise KeyError(key)
        if not is_held:
            del self._entries[filter]
            if filter.satisfiable:
                self._delete(entry)
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key], self._came[key]
        self._pairs -= 1
        self.version += 1
        self.results.clear()

    def pairs(self) -> Iterator[tuple[K, list[Filter]]]:
        """Each key with its filters, in the order in which the keys came: added again, they match in that order."""
        held: dict[K, list[Filter]] = {key: [] for key in self._came}
        for filter, entry in self._entries.items():
            for key in _keys(entry):
                held[key].append(filter)
        return iter(held.items())

    def found(self, event: Event) -> tuple[K, ...]:
        """The keys that `match` finds, remembered until the index changes."""
        found = self.results.get(event.match_key)
        if found is None:
            found = self.remember(event, tuple(self.match(event)))
        return found

    def remember(self, event: Event, found: tuple[K, ...]) -> tuple[K, ...]:
        """Remember these keys for events with this one's `match_key` until the index changes."""
        key = event.match_key
        if key is not None:
            if len(self.results) >= RESULTS_MAX:
                self.results.clear()
            self.results[key] = found
        return found

    def match(self, event: Event) -> list[K]:
        """The keys with a filter that matches, each once, in the order in which they came to the index."""
        attributes = event.attributes
        found: list[Entry] = []
        branch = self._by_topic.get(event.topic)
        if branch is not None:
            collect(branch, attributes, found)
        if self.shapes and event.topic:
            for branch in self._wildcard_branches(event.topic):
                collect(branch, attributes, found)
        if not found:
            return []
        keys: list[K]
        if len(found) == 1:
            keys = list(_keys(found[0]))
        else:
            distinct: dict[K, None] = {}
            for entry in found:
                holders = entry.holders
                if isinstance(holders, dict):
                    distinct.update(holders)
                else:
                    distinct[holders] = None  # type: ignore[index]  # as `add` was given it
            keys = list(distinct)
        if len(keys) > 1:
            keys.sort(key=self._came.__getitem__)
        return keys

    def _wildcard_branches(self, topic: str) -> list[Branch]:
        levels = tuple(topic.split("/"))
        depth = len(levels)
        branches: list[Branch] = []
        for node in self._trie.fitting(levels, reserved=topic[0] == "$"):
            if node.rest is not None:  # "#" matches its parent level too
                branches.append(node.rest)
            if node.depth == depth and node.end is not None:
                branches.append(node.end)
        return branches

    def _insert(self, entry: Entry) -> None:
        filter = entry.filter
        levels = filter.levels
        if not filter.has_wildcard:
            hang(self._by_topic, filter.topic, entry, 0)
            return
        self.shapes[filter.shape] = self.shapes.get(filter.shape, 0) + 1
        if levels[-1] == "#":
            node = self._trie.place(levels[:-1])
            node.rest = hung(node.rest, entry, 0)
        else:
            node = self._trie.place(levels)
            node.end = hung(node.end, entry, 0)

    def _delete(self, entry: Entry) -> None:
        levels = entry.filter.levels
        if not entry.filter.has_wildcard:
            unhang(self._by_topic, entry.filter.topic, entry)
            return
        self.shapes[entry.filter.shape] -= 1
        if not self.shapes[entry.filter.shape]:
            del self.shapes[entry.filter.shape]
        rest = levels[-1] == "#"
        if rest:
            levels = levels[:-1]
        node = self._trie.find(levels)
        assert node is not None
        if rest:
            assert node.rest is not None
            node.rest = unhung(node.rest, entry)
        else:
            assert node.end is not None
            node.end = unhung(node.end, entry)
        if node.is_empty:
            self._trie.prune(levels)


def _keys(entry: Entry) -> Collection[Any]:
    """The keys that hold the filter, in the order in which they came."""
    holders = entry.holders
    return holders if isinstance(holders, dict) else (holders,)
