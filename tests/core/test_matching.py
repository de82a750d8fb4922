"""The match index gives what a scan of all filters gives."""

import math
import random
import subprocess
import sys
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from roamq.core import branches
from roamq.core.events import Event, Value
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from tests.core.filter_strategies import LEVELS, TOPICS, VALUES, event, filters, thorough
from tests.support.few import few

events = st.builds(
    event,
    st.sampled_from(TOPICS),
    x=st.sampled_from(VALUES),
    y=st.sampled_from(VALUES),
)


class Scan:
    """The dumb twin: pairs in the order in which they came, each asked."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[int, Filter], None] = {}
        self.keys: dict[int, int] = {}

    def add(self, key: int, filter_: Filter) -> None:
        if (key, filter_) not in self.pairs:
            self.pairs[key, filter_] = None
            self.keys[key] = self.keys.get(key, 0) + 1

    def remove(self, key: int, filter_: Filter) -> None:
        del self.pairs[key, filter_]
        self.keys[key] -= 1
        if not self.keys[key]:
            del self.keys[key]

    def match(self, seen: Event) -> list[int]:
        matching = {key for key, filter_ in self.pairs if filter_.matches(seen)}
        return [key for key in self.keys if key in matching]


class IndexAgreesWithScan(RuleBasedStateMachine):
    """Random additions and removals; after each, random events."""

    known = Bundle("known")

    def __init__(self) -> None:
        super().__init__()
        self.index: MatchIndex[int] = MatchIndex()
        self.scan = Scan()

    @rule(target=known, key=st.integers(0, 5), added=st.lists(filters(), min_size=1, max_size=20))
    def add(self, key: int, added: list[Filter]) -> tuple[int, list[Filter]]:
        for filter_ in added:
            self.index.add(key, filter_)
            self.scan.add(key, filter_)
        return key, added

    @precondition(lambda self: self.scan.pairs)
    @rule(batch=known)
    def remove(self, batch: tuple[int, list[Filter]]) -> None:
        key, removed = batch
        for filter_ in removed:
            if (key, filter_) in self.scan.pairs:
                before = self.index.version
                self.index.remove(key, filter_)
                self.scan.remove(key, filter_)
                assert self.index.version > before
            else:
                with pytest.raises(KeyError):
                    self.index.remove(key, filter_)

    @rule(seen=st.lists(events, min_size=5, max_size=5))
    def match(self, seen: list[Event]) -> None:
        for one in seen:
            assert self.index.match(one) == self.scan.match(one)

    @invariant()
    def has_the_same_length(self) -> None:
        assert len(self.index) == len(self.scan.pairs)

    def teardown(self) -> None:
        for key, filter_ in list(self.scan.pairs):
            self.index.remove(key, filter_)
        assert_empty(self.index)


def assert_empty(index: MatchIndex[int]) -> None:
    """Nothing is left behind in any table when the last pair is gone."""
    assert len(index) == 0
    assert not index._by_topic
    root = index._trie.root
    assert root.children is None
    assert root.plus is None
    assert root.is_empty
    assert not index.shapes
    assert not (index._entries or index._came or index._held)


@pytest.fixture(autouse=True)
def split_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """With small leaves the small indexes of the tests have all the structure of large ones."""
    monkeypatch.setattr(branches, "LEAF_MAX", 2)


def test_the_index_agrees_with_a_scan() -> None:
    run_state_machine_as_test(
        IndexAgreesWithScan,
        settings=settings(thorough, max_examples=thorough.max_examples // 5, stateful_step_count=15),
    )


def compare(pairs: list[Filter], seen: list[Event]) -> None:
    """Add all, compare, remove every other one, compare, remove the rest."""
    index, scan = MatchIndex[int](), Scan()
    for key, filter_ in enumerate(pairs):
        index.add(key, filter_)
        scan.add(key, filter_)
    for one in seen:
        assert index.match(one) == scan.match(one)
    for key, filter_ in list(enumerate(pairs))[::2]:
        index.remove(key, filter_)
        scan.remove(key, filter_)
    for one in seen:
        assert index.match(one) == scan.match(one)
    for key, filter_ in list(enumerate(pairs))[1::2]:
        index.remove(key, filter_)
    assert_empty(index)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_of_every_scale(seed: int) -> None:
    """Bounds from tiny to enormous, in both signs, with one end or two, on two attributes."""
    draw = random.Random(seed)

    def number() -> float:
        return (
            draw.choice((-1, 1))
            * draw.random()
            * 10.0 ** draw.choice((-300, -20, -3, 0, 0, 1, 2, 9, 60, 305))
        )

    def range_on(name: str) -> str:
        low, high = sorted((number(), number()))
        near = low + abs(low) * 1e-9
        return draw.choice(
            (
                f"{name} BETWEEN {low!r} AND {high!r}",
                f"{name} >= {low!r} AND {name} < {near!r}",
                f"{name} > {low!r}",
                f"{name} <= {high!r}",
                f"{name} > {low!r} AND {name} <= {high!r} AND {name} <> {near!r}",
            )
        )

    pairs = [
        content(range_on("x") + (" AND " + range_on("y") if draw.random() < 0.5 else "")) for _ in range(200)
    ]
    values: list[Value | None] = [
        *(number() for _ in range(60)),
        math.inf,
        -math.inf,
        math.nan,
        0,
        10**400,
        True,
    ]
    values += [interval.low for f in pairs[:60] for interval in getattr(f.predicates[0][1], "intervals", ())]
    compare(pairs, [event(x=draw.choice(values), y=draw.choice(values)) for _ in range(150)])


def content(selector: str) -> Filter:
    return Filter.parse("#", selector)


def test_every_small_topic_filter_against_every_small_topic() -> None:
    heads = ["/".join(levels) for depth in (1, 2, 3) for levels in product((*LEVELS, "+"), repeat=depth)]
    texts = [text for head in heads for text in (head, f"{head}/#") if text] + ["#"]
    compare([Filter.parse(text) for text in texts], [event(topic) for topic in TOPICS])


def test_numbers_beyond_every_float() -> None:
    huge = 10**400
    pairs = [content(f"x BETWEEN {huge + i} AND {huge + i + 5}") for i in range(20)]
    compare(pairs, [event(x=huge + i) for i in range(-2, 30)])


def test_a_truth_value_is_not_the_number_one() -> None:
    pairs = [content(f"x = {value}") for value in ("1", "0", "TRUE", "FALSE", "'1'", "1.5", "2")]
    compare(pairs, [event(x=value) for value in (1, 1.0, 0, True, False, "1", None)])


@pytest.mark.slow
def test_long_lists_on_several_attributes_do_not_multiply() -> None:
    many = ", ".join(str(i) for i in range(100))
    pairs = [
        content(f"x IN ({many}, {i + 1000}) AND y IN ({many}, {i + 1000}) AND z IN ({many})")
        for i in range(30)
    ]
    compare(pairs, [event(x=x, y=y, z=z) for x in (1, 1005) for y in (2, 1005, 1006) for z in (3, 100)])


@settings(thorough, max_examples=thorough.max_examples // 6)
@given(st.lists(filters("x"), min_size=10, max_size=40), st.lists(events, min_size=5, max_size=10))
def test_many_filters_on_one_attribute(pairs: list[Filter], seen: list[Event]) -> None:
    compare(pairs, seen)


def test_a_key_with_several_matching_filters_comes_once_and_in_its_order() -> None:
    index = MatchIndex[str]()
    for key, topic in (("z", "a"), ("b", "#"), ("z", "+"), ("a", "a"), ("b", "a")):
        index.add(key, Filter.parse(topic))

    assert index.match(event("a")) == ["z", "b", "a"]


def test_adding_a_pair_twice_changes_nothing() -> None:
    index = MatchIndex[str]()
    index.add("k", Filter.parse("a"))
    version = index.version
    index.add("k", Filter.parse("a"))

    assert (len(index), index.version) == (1, version)
    assert ("k", Filter.parse("a")) in index


def test_a_filter_that_nothing_matches_is_held_and_released() -> None:
    index = MatchIndex[int]()
    index.add(1, Filter.parse("a", "FALSE"))
    assert index.match(event("a")) == []
    assert len(index) == 1
    index.remove(1, Filter.parse("b", "x = 1 AND x = 2"))
    assert_empty(index)


ORDER_SCRIPT = """
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex
from tests.core.filter_strategies import event
index = MatchIndex()
for i in range(200):
    selector = f"x > {i % 50} AND s <> 'w{i}'"
    index.add(f"client-{i * 37 % 200}", Filter.parse("#" if i % 2 else "a/+", selector))
print(index.match(event("a/b", x=30, s="w")))
"""


@pytest.mark.slow
def test_the_order_of_results_does_not_depend_on_the_hash_seed() -> None:
    printed = set()
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)}
        run = subprocess.run(
            [sys.executable, "-c", ORDER_SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        printed.add(run.stdout)

    assert len(printed) == 1
    assert printed.pop().count("client-") > 50


@pytest.mark.parametrize(
    "shape",
    few(
        [
            "x BETWEEN {narrow} AND {narrow}.5",
            "common = 'all' AND x BETWEEN {narrow} AND {narrow}.5",
            "x BETWEEN -1000000 AND 1000000 AND y BETWEEN {narrow} AND {narrow}.5",
            "x > -{wide} AND y > {wide}",
            "x < {wide} AND x > -{wide} AND y > {wide}",
            "x BETWEEN 0.5{wide} AND 0.9{wide} AND s = 'w{narrow}'",
            "x BETWEEN 0.5{wide} AND 0.9{wide}",
            "s LIKE 'w{narrow}%' AND x <> {wide}",
        ],
        1,
    ),
)
def test_an_event_asks_few_filters_even_if_all_share_a_predicate(
    shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: of 3,000 filters at most 2% more than those that match are asked."""
    monkeypatch.setattr(branches, "LEAF_MAX", 12)
    index = MatchIndex[int]()
    for i in range(3000):
        index.add(i, content(shape.format(narrow=i, wide=100_000 + i)))
    asked = 0
    original = Filter.__getattribute__

    def counting(self: Filter, name: str) -> object:
        nonlocal asked
        asked += name == "predicates"
        return original(self, name)

    monkeypatch.setattr(Filter, "__getattribute__", counting)
    found = index.match(event(x=0.2, y=1500.25, s="w1500", common="all"))

    assert asked <= len(found) + 60
