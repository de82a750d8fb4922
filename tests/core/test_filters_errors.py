"""A filter that cannot be read says where and why."""

import pytest

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter


@pytest.mark.parametrize(
    ("selector", "position", "reason"),
    [
        ("a = 1 OR b = 2", 6, "subscribe twice"),
        ("(a = 1 or b = 2)", 7, "subscribe twice"),
        ("NOT (a = 1)", 0, "subscribe twice"),
        ("a = 1 AND not b = 2", 10, "subscribe twice"),
        ("a < 'x'", 4, "strings have no order"),
        ("a BETWEEN 'a' AND 'b'", 10, "strings have no order"),
        ("a < TRUE", 4, "expected a number"),
        ("a LIKE '%x'", 7, "only a prefix"),
        ("a LIKE 'a_c'", 7, "only a prefix"),
        ("a LIKE 'a%%'", 7, "only a prefix"),
        ("a LIKE 5", 7, "a pattern in single quotes"),
        ("a LIKE 'a!b%' ESCAPE '!'", 7, "escape character"),
        ("a LIKE 'a!' ESCAPE '!'", 7, "escape character"),
        ("a LIKE 'a%' ESCAPE '!!'", 19, "one character"),
        ('a = "x"', 4, "single quotes"),
        ("a IN (1, 'x')", 9, "one type"),
        ("a IN (1, TRUE)", 9, "one type"),
        ("a IN ()", 6, "expected a string"),
        ("a IN 5", 5, "expected ("),
        ("a", 1, "expected a comparison"),
        ("a NOT = 5", 6, "expected BETWEEN, IN or LIKE"),
        ("a IS 5", 5, "expected NULL"),
        ("a = 1 AND", 9, "name of an attribute"),
        ("5 = a", 0, "name of an attribute"),
        ("AND = 5", 0, "name of an attribute"),
        ("(a = 1", 6, "expected AND or )"),
        ("a = 1)", 5, "expected AND"),
        ("a = 1 b = 2", 6, "expected AND"),
        ("a = 'x", 4, "never closed"),
        ("a = 1e999", 4, "too large"),
        ("a = " + "9" * 5000, 4, "too large"),
        ("a ~ 2", 2, "unexpected character '~'"),
        ("a = 1 AND a = 2 AND b", 21, "expected a comparison"),
    ],
)
def test_a_mistake_in_a_selector_has_a_position_and_a_reason(
    selector: str, position: int, reason: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        Filter.parse("stocks/#", selector)

    assert caught.value.position == position
    assert reason in caught.value.reason


@pytest.mark.parametrize(
    ("topic", "position", "reason"),
    [
        ("", 0, "at least one character"),
        ("a/#/b", 2, "whole last level"),
        ("a/b#", 3, "whole last level"),
        ("a/b+/c", 3, "whole level"),
        ("a\0b", 1, "null character"),
        ("ä" * 40_000, 40, "longer than 65535 bytes"),
    ],
)
def test_a_mistake_in_a_topic_filter_has_a_position_and_a_reason(
    topic: str, position: int, reason: str
) -> None:
    with pytest.raises(SelectorError) as caught:
        Filter.parse(topic)

    assert caught.value.position == position
    assert reason in caught.value.reason


def test_a_selector_has_the_length_limit_of_a_topic() -> None:
    with pytest.raises(SelectorError, match="longer than 65535"):
        Filter.parse("#", "a = '" + "x" * 65_536 + "'")


def test_a_blank_selector_is_none() -> None:
    assert Filter.parse("a", " ") == Filter.parse("a", "TRUE") == Filter.parse("a")
