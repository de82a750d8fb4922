"""The trie of levels gives what a trie with a node for each level gives, in the same order, with few nodes."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from roamq.core.covering import CoverIndex
from roamq.core.filters import Filter
from roamq.core.level_trie import LevelNode, LevelTrie
from roamq.core.matching import MatchIndex
from roamq.core.topics import Levels
from tests.core.filter_strategies import event, thorough

NAMES = ("a", "b", "", "$a", "+")


@st.composite
def deep(draw: st.DrawFn, names: tuple[str, ...] = NAMES) -> list[str]:
    """Up to 14 levels that agree with others for a while, and leave them anywhere."""
    trunk = draw(st.sampled_from((["a"] * 12, ["a", "b"] * 6, ["+" if "+" in names else "b", "a", "a"] * 4)))
    levels = trunk[: draw(st.integers(0, 12))] + draw(st.lists(st.sampled_from(names), max_size=2))
    return levels if any(levels) else ["a", *levels]


topics = deep(NAMES[:-1]).map("/".join)
topic_filters = st.builds(
    lambda levels, rest: "/".join([*levels, *rest]), deep(), st.sampled_from(([], ["#"]))
)
filters = st.builds(Filter.parse, topic_filters)


class PlainLevel:
    """One level of the plain trie, in which "+" and "#" are levels like others."""

    def __init__(self) -> None:
        self.below: dict[str, PlainLevel] = {}
        self.filters: dict[Filter, None] = {}

    def widest_first(self, *, is_root: bool) -> "Iterator[PlainLevel]":
        for name, level in sorted(self.below.items(), key=lambda item: item[0] != "+"):
            if name != "#" and not (is_root and name.startswith("$")):
                yield level


class PlainTrie:
    """The dumb twin: it decides what comes in which order, layer by layer."""

    def __init__(self) -> None:
        self.root = PlainLevel()

    def add(self, filter: Filter) -> None:
        level = self.root
        for name in filter.levels:
            level = level.below.setdefault(name, PlainLevel())
        level.filters[filter] = None

    def remove(self, filter: Filter) -> None:
        path = [self.root]
        for name in filter.levels:
            path.append(path[-1].below[name])
        del path[-1].filters[filter]
        for place in range(len(path) - 1, 0, -1):
            if path[place].filters or path[place].below:
                return
            del path[place - 1].below[filter.levels[place - 1]]

    def covering(self, filter: Filter) -> list[Filter]:
        found: list[Filter] = []
        layer = [self.root]
        wild = not filter.levels[0].startswith("$")
        for name in filter.levels:
            deeper: list[PlainLevel] = []
            for level in layer:
                if wild and "#" in level.below:
                    found += level.below["#"].filters
                names = ("+", name) if wild and name not in ("#", "+") else (name,)
                deeper += [level.below[one] for one in names if one != "#" and one in level.below]
            layer, wild = deeper, True
        for level in layer:
            found += level.filters
            if "#" in level.below:
                found += level.below["#"].filters
        return found

    def covered_by(self, filter: Filter) -> list[Filter]:
        layer = [self.root]
        found: list[Filter] = []
        for name in filter.levels:
            if name == "#":
                while layer:
                    for level in layer:
                        if "#" in level.below:
                            found += level.below["#"].filters
                        found += level.filters
                    layer = self._all_below(layer)
                return found
            layer = (
                self._all_below(layer)
                if name == "+"
                else [level.below[name] for level in layer if name in level.below]
            )
        for level in layer:
            found += level.filters
        return found

    def _all_below(self, layer: list[PlainLevel]) -> list[PlainLevel]:
        return [below for level in layer for below in level.widest_first(is_root=level is self.root)]


class IndexesAgree(RuleBasedStateMachine):
    """Filters come and go; after each, both indexes answer as the plain trie and the plain definition do."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.held: dict[Filter, None] = {}
        self.plain = PlainTrie()
        self.cover = CoverIndex()
        self.match: MatchIndex[Filter] = MatchIndex()

    @rule(target=known, added=st.lists(filters, min_size=1, max_size=6))
    def add(self, added: list[Filter]) -> list[Filter]:
        for filter in added:
            if filter not in self.held:
                self.held[filter] = None
                self.plain.add(filter)
                self.cover.add(filter)
                self.match.add(filter, filter)
        return added

    @rule(batch=known, first=st.integers(0, 5))
    def remove(self, batch: list[Filter], first: int) -> None:
        for filter in batch[first:]:
            if filter in self.held:
                del self.held[filter]
                self.plain.remove(filter)
                self.cover.remove(filter)
                self.match.remove(filter, filter)

    @rule(asked=st.lists(filters, min_size=3, max_size=3))
    def ask(self, asked: list[Filter]) -> None:
        for filter in (*asked, *self.held):
            above, below = self.cover.covering(filter), self.cover.covered_by_at_most(filter, None)
            assert above == self.plain.covering(filter)
            assert below == self.plain.covered_by(filter)
            assert below is not None
            assert set(above) == {one for one in self.held if one.covers(filter)}
            assert set(below) == {one for one in self.held if filter.covers(one)}

    @rule(seen=st.lists(topics, min_size=3, max_size=6))
    def publish(self, seen: list[str]) -> None:
        for topic in seen:
            one = event(topic)
            assert self.match.match(one) == [filter for filter in self.held if filter.matches(one)]

    @invariant()
    def no_node_is_idle(self) -> None:
        for trie in (self.cover._trie, self.match._trie):
            assert_compact(trie)

    def teardown(self) -> None:
        for filter in list(self.held):
            self.cover.remove(filter)
            self.match.remove(filter, filter)
        for trie in (self.cover._trie, self.match._trie):
            assert [*nodes_of(trie.root)] == [trie.root]


def nodes_of(node: "LevelNode[Any]") -> "Iterator[LevelNode[Any]]":
    yield node
    for _, child in node.widest_first():
        yield from nodes_of(child)


def assert_compact(trie: "LevelTrie[Any]") -> None:
    """Below the root, every node holds a filter or parts two, and knows its depth."""
    for node in nodes_of(trie.root):
        children = list(node.widest_first())
        assert node is trie.root or not node.is_empty or len(children) > 1
        for name, child in children:
            assert child.depth == node.depth + 1 + len(child.path)
            assert name != "#"
            assert "#" not in child.path


def test_indexes_agree_with_plain_ones_while_deep_filters_come_and_go() -> None:
    run_state_machine_as_test(
        IndexesAgree,
        settings=settings(thorough, max_examples=thorough.max_examples // 4, stateful_step_count=20),
    )


@thorough
@given(st.lists(deep().map(tuple), max_size=30), st.data())
def test_a_trie_finds_what_was_placed_and_nothing_else(placed: list[Levels], data: st.DataObject) -> None:
    trie: LevelTrie[Levels] = LevelTrie()
    for levels in placed:
        trie.place(levels).end = levels
    gone = set(data.draw(st.lists(st.sampled_from(placed)))) if placed else set()
    for levels in gone:
        node = trie.find(levels)
        assert node is not None
        node.end = None
        trie.prune(levels)

    for levels in placed:
        node = trie.find(levels)
        if levels in gone:
            assert node is None or node.end is None
        else:
            assert node is not None
            assert node.end == levels


def test_a_deep_filter_adds_two_nodes_at_most() -> None:
    trie: LevelTrie[int] = LevelTrie()
    for number in range(100):
        levels = ("a",) * (number + 20) + ("+", "b") * 40 + (str(number),)
        trie.place(levels).end = number

    assert len(list(nodes_of(trie.root))) <= 1 + 2 * 100


def test_an_event_visits_few_levels_of_deep_filters() -> None:
    """Counted, not timed: the lines of Python that a match of a deep topic runs do not grow with its depth."""

    def lines(depth: int) -> int:
        index: MatchIndex[int] = MatchIndex()
        for number in range(64):
            wild = [("+" if number >> place & 1 else "a") for place in range(6)]
            index.add(number, Filter.parse("/".join([*wild, *["a", "+"] * depth])))
        counted = 0

        def count(frame: object, what: str, _: object) -> object:
            nonlocal counted
            counted += what == "line"
            return count

        topic = "/".join(["a"] * (6 + 2 * depth))
        sys.settrace(count)  # type: ignore[arg-type]
        try:
            found = index.match(event(topic))
        finally:
            sys.settrace(None)
        assert len(found) == 64
        return counted

    assert lines(60) < 1.1 * lines(5)


def test_a_wide_node_that_loses_a_child_does_not_look_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with 10,000 filters side by side ends: each of them goes in the same time."""
    trie: LevelTrie[int] = LevelTrie()
    for number in range(100):
        trie.place(("a", str(number), "+")).end = number
    looked: list[int] = []
    children = LevelNode.widest_first

    def widest_first(node: LevelNode[int]) -> Iterator[tuple[str, LevelNode[int]]]:
        for child in children(node):
            looked.append(node.depth)
            yield child

    monkeypatch.setattr(LevelNode, "widest_first", widest_first)
    for number in range(100):
        node = trie.find(("a", str(number), "+"))
        assert node is not None
        node.end = None
        trie.prune(("a", str(number), "+"))

    assert len(looked) <= 1, "the last one is joined with the way that leads to it"
    assert trie.root.child("a") is None
