"""Random filters over small domains, and the events that represent each domain.

The domains are representative: for every constant that a selector may use there is an event exactly there and
one on either side, and for every prefix there are strings below it, beside it and equal to it. A filter
cannot tell apart two events between which it has no constant, so what holds for these events holds for all.
"""

from itertools import product

from hypothesis import settings
from hypothesis import strategies as st

from roamq.core.events import BrokerId, Event, EventId, Value
from roamq.core.filters import Filter

thorough = settings(max_examples=2 * settings().max_examples)

NUMBERS = (0, 1, 2)
WORDS = ("", "a", "ab", "abc", "b")
PREFIXES = ("", "a", "ab", "b", "ba")

NUMBER_VALUES: tuple[Value | None, ...] = (-0.5, 0, 0.5, 1, 1.5, 2, 2.5)
STRING_VALUES: tuple[Value | None, ...] = ("", "a", "ab", "abc", "abx", "ax", "b", "ba", "bax", "bx", "x")
OTHER_VALUES: tuple[Value | None, ...] = (None, True, False)
VALUES = NUMBER_VALUES + STRING_VALUES + OTHER_VALUES

LEVELS = ("a", "b", "", "$a")
TOPICS = tuple(
    topic for depth in (1, 2, 3, 4) for levels in product(LEVELS, repeat=depth) if (topic := "/".join(levels))
)
"""Deeper by one than any filter, so that what `#` matches beyond its place is seen."""


def event(topic: str = "a", **attributes: Value | None) -> Event:
    present = {name: value for name, value in attributes.items() if value is not None}
    return Event(id=EventId(BrokerId("b"), 1), topic=topic, attributes=present)


def _quote(text: str) -> str:
    return f"'{text}'"


def _list(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(values, min_size=1, max_size=4).map(lambda chosen: f"({', '.join(chosen)})")


_number = st.sampled_from(NUMBERS).map(str)
_word = st.sampled_from(WORDS).map(_quote)
_truth = st.sampled_from(("TRUE", "FALSE"))
_pattern = st.sampled_from(PREFIXES).map(lambda prefix: f"'{prefix}%'")
_not = st.sampled_from(("", "NOT "))

tails = st.one_of(
    st.builds("{} {}".format, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), _number),
    st.builds("{}BETWEEN {} AND {}".format, _not, _number, _number),
    st.builds("{} {}".format, st.sampled_from(("=", "<>")), st.one_of(_word, _truth)),
    st.builds("{}IN {}".format, _not, st.one_of(_list(_number), _list(_word), _list(_truth))),
    st.builds("{}LIKE {}".format, _not, _pattern),
    st.sampled_from(("IS NULL", "IS NOT NULL")),
)
"""All that may follow the name of an attribute."""


def selectors(names: str, *, max_size: int = 4) -> st.SearchStrategy[str]:
    predicate = st.builds("{} {}".format, st.sampled_from(names), tails)
    return st.lists(predicate, max_size=max_size).map(" AND ".join)


@st.composite
def topic_filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(st.sampled_from((*LEVELS, "+")), max_size=3))
    if not levels or draw(st.booleans()):
        levels = [*levels[:2], "#"]
    return "/".join(levels) or "+"


def filters(names: str = "xy") -> st.SearchStrategy[Filter]:
    return st.builds(Filter.parse, topic_filters(), selectors(names))
