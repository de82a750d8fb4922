"""The trie of filters finds all that cover a filter, and all that it covers, however filters came and went."""

from hypothesis import given
from hypothesis import strategies as st

from roamq.core.filters import Filter
from roamq.overlay.covering import FilterTrie

LEVELS = st.lists(st.sampled_from(("a", "b", "+", "$x", "")), min_size=1, max_size=4)


def parsed(levels: list[str], rest: bool, selector: str | None) -> Filter:
    topic = "/".join(levels if len(levels) > 1 or levels[0] else ["a"])
    return Filter.parse(f"{topic}/#" if rest else topic, selector)


FILTERS = st.one_of(
    st.builds(parsed, LEVELS, st.booleans(), st.sampled_from((None, "p > 1", "p > 2", "p > 2 AND p < 1"))),
    st.just(Filter.parse("#")),
)


@given(st.lists(FILTERS, max_size=30), st.lists(st.integers(0, 29), max_size=10), FILTERS)
def test_nothing_that_covers_or_is_covered_is_missed(
    filters: list[Filter], gone: list[int], asked: Filter
) -> None:
    trie, left = FilterTrie(filters), dict.fromkeys(filters)
    for number in gone:
        if number < len(filters):
            trie.discard(filters[number])
            left.pop(filters[number], None)
    assert len(trie) == len(left)
    covering, covered = list(trie.may_cover(asked)), list(trie.may_be_covered(asked))
    assert len(covering) == len(set(covering)) and len(covered) == len(set(covered))
    assert left.keys() >= {*covering, *covered}
    assert {filter for filter in left if filter.covers(asked)} <= set(covering)
    if asked.satisfiable:
        matched = {filter for filter in left if filter.satisfiable and asked.covers(filter)}
        assert matched <= set(covered)


def test_filters_that_have_nothing_to_do_with_each_other_are_not_looked_at() -> None:
    trie = FilterTrie(Filter.parse(f"client/{number}/#") for number in range(1000))
    mine = Filter.parse("client/7/#")

    assert list(trie.may_cover(mine)) == list(trie.may_be_covered(mine)) == [mine]
    for number in range(1000):
        trie.discard(Filter.parse(f"client/{number}/#"))
    assert not trie
    assert not trie._root.below
