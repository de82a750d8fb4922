"""Filters: what a subscriber wants, and what a publisher advertises.

A filter is an MQTT topic filter and a conjunction of predicates on attributes (`selectors` has the grammar).
It is a value in canonical form: two filters of one group are equal exactly if they match the same events, and
`matches`, `covers` and `overlaps` are exact for the whole language ([DIS] section 2 defines the last two;
docs/decisions/0010).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from roamq.core import constraints
from roamq.core.events import Event
from roamq.core.selectors import Predicates, parse_selector, print_selector
from roamq.core.topics import (
    Levels,
    parse_topic_filter,
    print_topic_filter,
    topic_covers,
    topic_matches,
    topic_overlaps,
    topic_shape,
)


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False, weakref_slot=True)
class Filter:
    """A topic filter and a selector: `Filter.parse("stocks/#", "brand = 'IBM' AND price < 1600")`."""

    topic: str
    """The topic filter, as MQTT writes it."""
    predicates: Predicates
    """One constraint per attribute, sorted by its name."""
    group: str | None
    """The group that shares the subscription, if one does: each event is for one member of it (`Event.assigned`)."""
    satisfiable: bool
    """Whether there is an event that matches. All filters that nothing matches are equal."""
    levels: Levels = field(repr=False)
    """The topic filter's levels, normalised."""
    has_wildcard: bool = field(repr=False)
    """Whether the topic filter may match more than one topic."""
    shape: str = field(repr=False)
    """Where the topic filter has wildcards, "" if it has none: at most one topic filter of a shape matches a topic."""
    _hash: int = field(repr=False)

    def __init__(self, topic: str = "#", selector: str | None = None, group: str | None = None) -> None:
        levels = parse_topic_filter(topic)
        predicates = parse_selector(selector) if selector and selector.strip() else ()
        if predicates is None:
            levels = ("#",)
        put = object.__setattr__  # the way into a frozen value
        printed = print_topic_filter(levels)
        put(self, "topic", topic if topic == printed else printed)  # one text, where there can be one
        put(self, "predicates", predicates or ())
        put(self, "group", group)
        put(self, "satisfiable", predicates is not None)
        put(self, "levels", levels)
        has_wildcard = levels[-1] == "#" or "+" in levels
        put(self, "has_wildcard", has_wildcard)
        put(self, "shape", topic_shape(levels) if has_wildcard else "")
        put(self, "_hash", hash((levels, predicates, group)))

    @classmethod
    def parse(cls, topic: str, selector: str | None = None) -> "Filter":
        """Read a topic filter and an optional selector; `SelectorError` has the position of a mistake."""
        return cls(topic, selector)

    @property
    def selector(self) -> str | None:
        """The predicates as a selector; `Filter.parse(f.topic, f.selector) == f` for every filter."""
        if not self.satisfiable:
            return "FALSE"
        if not self.predicates:
            return None
        return print_selector(self.predicates) or None

    def matches(self, event: Event) -> bool:
        """Does the subscriber want this event?"""
        if not self.has_wildcard:
            return self.topic == event.topic and self.accepts(event)
        return self.satisfiable and self.accepts(event) and topic_matches(self.levels, event.topic)

    def accepts(self, event: Event) -> bool:
        """Do the event's attributes satisfy the predicates, whatever its topic?"""
        attributes = event.attributes
        for name, constraint in self.predicates:  # noqa: SIM110 - a generator would double the time
            if not constraint.accepts(attributes.get(name)):
                return False
        return True

    def covers(self, other: "Filter") -> bool:
        """Does this filter match every event that `other` matches?"""
        if not other.satisfiable:
            return True
        if not self.satisfiable or not topic_covers(self.levels, other.levels):
            return False
        return self.admits(other)

    def admits(self, other: "Filter") -> bool:
        """Do the predicates accept all attributes that those of `other` accept, whatever the topics?"""
        # No constraint accepts everything, so we must leave free what `other` leaves free.
        theirs = dict(other.predicates)
        return all(
            name in theirs and constraints.covers(constraint, theirs[name])
            for name, constraint in self.predicates
        )

    def overlaps(self, advertisement: "Filter") -> bool:
        """Is there an event that matches both?"""
        if not (self.satisfiable and advertisement.satisfiable):
            return False
        if not topic_overlaps(self.levels, advertisement.levels):
            return False
        theirs = dict(advertisement.predicates)
        return all(
            name not in theirs or constraints.meet(constraint, theirs[name]) is not None
            for name, constraint in self.predicates
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Filter):
            return NotImplemented
        return self is other or (
            self._hash == other._hash
            and self.satisfiable == other.satisfiable
            and self.levels == other.levels
            and self.group == other.group
            and self.predicates == other.predicates
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> "tuple[type[Filter], tuple[str, str | None, str | None]]":
        return (
            Filter,
            (self.topic, self.selector, self.group),
        )  # the hash of a string differs between processes

    def __str__(self) -> str:
        selector = self.selector
        topic = self.topic if self.group is None else f"$share/{self.group}/{self.topic}"
        return f"{topic} WHERE {selector}" if selector else topic

    def __repr__(self) -> str:
        selector = self.selector
        if self.group is not None:
            return f"Filter({self.topic!r}, {selector!r}, {self.group!r})"
        return f"Filter({self.topic!r}, {selector!r})" if selector else f"Filter({self.topic!r})"


def digest_of(filters: Iterable[Filter]) -> str:
    """A name for a set of subscriptions: equal sets have equal names everywhere."""
    text = "\n".join(sorted(map(str, filters)))
    return blake2b(text.encode(), digest_size=8).hexdigest()
