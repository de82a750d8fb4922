"""The index of overlapping topic filters finds what `topic_overlaps` says of each."""

from hypothesis import example, given
from hypothesis import strategies as st

from roamq.core.overlapping import OverlapIndex
from roamq.core.topics import parse_topic_filter, topic_overlaps

LEVELS = st.sampled_from(["a", "b", "+", "", "$SYS", "$x"])


@st.composite
def topic_filters(draw: st.DrawFn) -> str:
    levels = draw(st.lists(LEVELS, max_size=4))
    if not levels or draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "a"


@given(st.lists(topic_filters(), max_size=8), topic_filters())
@example(["a"], "a/#")
@example(["a/#"], "a")
@example(["#", "+", "+/b"], "$SYS/b")
@example(["$SYS/b", "$SYS"], "+/b")
@example(["$SYS/b", "a"], "#")
@example(["/#"], "+")
def test_the_index_finds_what_overlaps_and_nothing_else(texts: list[str], wanted: str) -> None:
    index = OverlapIndex()
    for number, text in enumerate(texts):
        index.add(parse_topic_filter(text), 1 << number)
    asked = parse_topic_filter(wanted)

    expected = sum(
        1 << number for number, text in enumerate(texts) if topic_overlaps(asked, parse_topic_filter(text))
    )
    assert index.overlapping(asked) == expected
