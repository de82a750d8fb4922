"""The index of covering filters gives what a scan of all filters gives."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.covering import CoverIndex
from roamq.core.filters import Filter
from roamq.core.topics import topic_covers
from tests.core.filter_strategies import filters, thorough, topic_filters

PLAIN = st.builds(Filter.parse, topic_filters())
SETS = st.lists(st.one_of(PLAIN, filters("x")), max_size=12)


def index_of(held: list[Filter]) -> CoverIndex:
    index = CoverIndex()
    for filter in held:
        index.add(filter)
    return index


def covered_by(index: CoverIndex, filter: Filter) -> list[Filter]:
    found = index.covered_by_at_most(filter, None)
    assert found is not None
    return found


def is_covered(special: Filter, general: Filter) -> bool:
    """As the index has it: what nothing matches is covered by itself alone."""
    return general.covers(special) if special.satisfiable else general == special


@thorough
@given(SETS, st.one_of(PLAIN, filters("x")))
def test_the_index_finds_what_a_scan_finds(held: list[Filter], asked: Filter) -> None:
    index = index_of(held)

    assert set(index.covering(asked)) == {filter for filter in held if is_covered(asked, filter)}
    assert set(covered_by(index, asked)) == {filter for filter in held if is_covered(filter, asked)}


@given(SETS, st.data())
def test_a_filter_is_there_until_it_was_removed_as_often_as_it_was_added(
    held: list[Filter], data: st.DataObject
) -> None:
    index = index_of(held)
    for filter in data.draw(st.permutations(held)):
        assert filter in index.covering(filter)
        index.remove(filter)

    root = index._trie.root
    assert root.children is None
    assert root.plus is None
    assert root.is_empty
    with pytest.raises(KeyError):
        index.remove(Filter.parse("a/b"))


@given(SETS)
def test_topics_that_cover_others_come_first(held: list[Filter]) -> None:
    found = covered_by(index_of(held), Filter.parse("#"))

    for place, earlier in enumerate(found):
        for later in found[place + 1 :]:
            assert earlier.levels == later.levels or not topic_covers(later.levels, earlier.levels)


def test_a_question_costs_what_its_answer_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of filters of others are not looked at."""
    index = index_of([Filter.parse(f"site/{number}/#") for number in range(5000)])
    asked: list[Filter] = []
    admits = Filter.admits

    def counted(general: Filter, special: Filter) -> bool:
        asked.append(special)
        return admits(general, special)

    monkeypatch.setattr(Filter, "admits", counted)
    wide = Filter.parse("site/+/news", "x = 1")
    assert index.covering(Filter.parse("site/7/news")) == [Filter.parse("site/7/#")]
    assert covered_by(index, wide) == []
    assert len(asked) == 1
    assert all(a.topic != b.topic for a, b in pairwise(covered_by(index, Filter.parse("site/#"))))
