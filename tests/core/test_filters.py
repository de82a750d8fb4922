"""Filters decide exactly: every answer is compared with an enumeration of events."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import Value
from roamq.core.filters import Filter
from tests.core.filter_strategies import (
    TOPICS,
    VALUES,
    event,
    filters,
    selectors,
    thorough,
    topic_filters,
)


def content(selector: str) -> Filter:
    return Filter.parse("#", selector)


def accepted(filter_: Filter) -> set[tuple[str, Value | None]]:
    """The values of the only attribute `x` that match; with their types, since True equals 1 in Python."""
    return {(type(value).__name__, value) for value in VALUES if filter_.matches(event(x=value))}


def matched_topics(filter_: Filter) -> set[str]:
    return {topic for topic in TOPICS if filter_.matches(event(topic))}


# -- one attribute, against enumeration

one_attribute = selectors("x").map(content)


@thorough
@given(one_attribute, one_attribute)
def test_covering_of_contents_is_inclusion(general: Filter, special: Filter) -> None:
    assert general.covers(special) == (accepted(special) <= accepted(general))


@thorough
@given(one_attribute, one_attribute)
def test_overlap_of_contents_is_a_common_event(one: Filter, other: Filter) -> None:
    assert one.overlaps(other) == bool(accepted(one) & accepted(other))


@thorough
@given(one_attribute)
def test_a_filter_is_satisfiable_if_something_matches(filter_: Filter) -> None:
    assert filter_.satisfiable == bool(accepted(filter_))


@thorough
@given(st.lists(selectors("x", max_size=1).filter(bool), min_size=1, max_size=5))
def test_a_conjunction_matches_what_each_of_its_predicates_matches(predicates: list[str]) -> None:
    """The meaning of the canonical form is that of the predicates it was made of."""
    each = [accepted(content(predicate)) for predicate in predicates]

    assert accepted(content(" AND ".join(predicates))) == set.intersection(*each)


# -- topics, against enumeration


@thorough
@given(topic_filters().map(Filter.parse), topic_filters().map(Filter.parse))
def test_covering_of_topics_is_inclusion(general: Filter, special: Filter) -> None:
    assert general.covers(special) == (matched_topics(special) <= matched_topics(general))


@thorough
@given(topic_filters().map(Filter.parse), topic_filters().map(Filter.parse))
def test_overlap_of_topics_is_a_common_topic(one: Filter, other: Filter) -> None:
    assert one.overlaps(other) == bool(matched_topics(one) & matched_topics(other))


# -- whole filters

SMALL_TOPICS = ("a", "a/b", "$a", "$a/b", "b/a/b", "/b")
SMALL_VALUES: tuple[Value | None, ...] = (0, 0.5, 1, "a", "ab", "b", True, None)


@thorough
@given(filters(), filters())
def test_equality_is_covering_both_ways(one: Filter, other: Filter) -> None:
    assert (one == other) == (one.covers(other) and other.covers(one))
    if one == other:
        assert hash(one) == hash(other)


@thorough
@given(filters(), filters())
def test_what_a_covered_filter_matches_the_covering_one_matches(one: Filter, other: Filter) -> None:
    for topic in SMALL_TOPICS:
        for x in SMALL_VALUES:
            for y in SMALL_VALUES:
                seen = event(topic, x=x, y=y)
                if one.matches(seen) and other.matches(seen):
                    assert one.overlaps(other)
                    assert other.overlaps(one)
                if other.matches(seen) and not one.matches(seen):
                    assert not one.covers(other)


@thorough
@given(filters(), filters(), filters())
def test_covering_is_transitive(one: Filter, two: Filter, three: Filter) -> None:
    if one.covers(two) and two.covers(three):
        assert one.covers(three)


@thorough
@given(filters())
def test_a_filter_prints_and_reads_back(filter_: Filter) -> None:
    again = Filter.parse(filter_.topic, filter_.selector)

    assert again == filter_
    assert str(again) == str(filter_)
    assert pickle.loads(pickle.dumps(filter_)) == filter_  # noqa: S301 - our own bytes


@thorough
@given(st.text(min_size=1), st.text(), st.text())
def test_any_name_word_and_prefix_reads_back(name: str, word: str, prefix: str) -> None:
    quoted_name = name.replace('"', '""')
    quoted_word = word.replace("'", "''")
    escaped = "".join("!" + char if char in "!%_" else char for char in prefix).replace("'", "''")
    text = f"\"{quoted_name}\" LIKE '{escaped}%' ESCAPE '!' AND \"{quoted_name}\" <> '{quoted_word}'"
    filter_ = content(text)

    assert Filter.parse("#", filter_.selector) == filter_
    assert filter_.matches(event(**{name: prefix + "x" + word})) == (prefix + "x" + word != word)
    assert not filter_.matches(event(**{name: word}))


# -- the examples of the paper

TABLE_1 = {
    "s1": "product = 'computer' AND brand = 'IBM' AND price < 1600",
    "row 1": "product = 'computer' AND brand = 'IBM' AND price < 1500",
    "row 2": "product = 'computer' AND price < 1600",
    "row 3": "product = 'computer' AND brand = 'Dell' AND price < 1500",
}


@pytest.mark.parametrize(
    ("row", "s1_covers_s2", "s2_covers_s1"),
    [("row 1", True, False), ("row 2", False, True), ("row 3", False, False)],
)
def test_table_1_of_the_paper(row: str, s1_covers_s2: bool, s2_covers_s1: bool) -> None:
    """[DIS] section 2: "S1 covers S2 if and only if all the events that match S2 also match S1".

    In row 2 the second subscription names no brand: by this sentence it is the one that covers.
    """
    s1, s2 = content(TABLE_1["s1"]), content(TABLE_1[row])

    assert s1.covers(s2) == s1_covers_s2
    assert s2.covers(s1) == s2_covers_s1


def test_the_advertisement_of_the_paper() -> None:
    """[DIS] section 2: a subscription intersects with an advertisement "if there is at least one event that
    matches both the subscription and the advertisement"."""
    advertisement = content("brand = 'IBM' AND price > 500")

    assert content(TABLE_1["s1"]).overlaps(advertisement)
    assert not content(TABLE_1["row 3"]).overlaps(advertisement)
    assert not content("price <= 500").overlaps(advertisement)


# -- cases worth a name


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x IN (1)", "x = 1"),
        ("x >= 1 AND x <= 1", "x = 1.0"),
        ("x BETWEEN 1 AND 3 AND x <> 3", "x >= 1 AND x < 3"),
        ("x <> TRUE", "x = FALSE"),
        ("s LIKE 'ab%' AND s LIKE 'a%'", "s LIKE 'ab%'"),
        ("s LIKE 'a%' AND s NOT LIKE 'b%'", "s like 'a%'"),
        ("s NOT LIKE 'a%' AND s NOT LIKE 'ab%'", "s NOT LIKE 'a%'"),
        ("s LIKE 'abc'", "s = 'abc'"),
        ("x NOT BETWEEN 1 AND 2 AND x NOT BETWEEN 2 AND 3", "x NOT BETWEEN 1 AND 3"),
        ("x > 1 AND x IS NOT NULL", "(x > 1)"),
        ("x = 1 AND x = 2", "y IS NULL AND y = 'a'"),
        ("x BETWEEN 2 AND 1", "FALSE"),
    ],
)
def test_spellings_of_one_filter_are_equal(one: str, other: str) -> None:
    assert content(one) == content(other)


@pytest.mark.parametrize(("one", "other"), [("+/#", "#"), ("/#", "/+/#")])
def test_spellings_of_one_topic_filter_are_equal(one: str, other: str) -> None:
    assert Filter.parse(one) == Filter.parse(other)


@pytest.mark.parametrize("value", [None, 5, 1.5, True, float("nan")])
def test_unlike_types_compare_false_even_as_unequal(value: Value | None) -> None:
    assert not content("x <> 'a'").matches(event(x=value))
    assert not content("x NOT LIKE 'a%'").matches(event(x=value))


def test_extreme_numbers_are_numbers() -> None:
    huge = content("x > 1" + "0" * 400)

    assert huge.matches(event(x=10**401))
    assert huge.matches(event(x=float("inf")))
    assert not huge.matches(event(x=1e308))
    assert not content("x <> 1").matches(event(x=float("nan")))
    assert content("x IS NOT NULL").matches(event(x=float("nan")))
    assert Filter.parse("#", huge.selector) == huge


def test_a_filter_is_a_value() -> None:
    filter_ = Filter(topic="stocks/#", selector="price < 1600 AND brand = 'IBM'")

    assert str(filter_) == "stocks/# WHERE brand = 'IBM' AND price < 1600"
    assert repr(filter_) == "Filter('stocks/#', \"brand = 'IBM' AND price < 1600\")"
    with pytest.raises(AttributeError):
        filter_.topic = "bonds/#"  # type: ignore[misc]
