"""Location-dependent subscriptions: `location = 'HERE'` means the area in which the client is.

[PRE] section 5: "the same subscription may match different events in different locations. Hence [...] it is necessary
to qualify location attributes of these subscriptions with respect to possible destination locations." The word is
kept in the client's context and travels with it; each broker puts its own area in its place.
"""

from collections.abc import Iterable
from functools import lru_cache

from roamq.core import constraints
from roamq.core.context import Context
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.selectors import print_selector

HERE = "HERE"
LOCATION = "location"
"""The attribute that names the area of an event, by the broker that serves the area."""


@lru_cache(maxsize=65_536)
def qualified(filter: Filter, area: BrokerId) -> Filter:
    """Returns the filter as it is meant in `area`; a filter without HERE means the same everywhere."""
    if not is_location_dependent(filter):
        return filter
    predicates = tuple(
        (name, _put(constraint, area) if name == LOCATION else constraint)
        for name, constraint in filter.predicates
    )
    return Filter.parse(filter.topic, print_selector(predicates))


def is_location_dependent(filter: Filter) -> bool:
    return any(
        name == LOCATION and isinstance(constraint, constraints.Words) and HERE in constraint.values
        for name, constraint in filter.predicates
    )


def _put(constraint: constraints.Constraint, area: BrokerId) -> constraints.Constraint:
    assert isinstance(constraint, constraints.Words)
    words = constraints.words([area if word == HERE else word for word in constraint.values])
    assert words is not None
    return words


class MeaningHere:
    """The meaning of subscriptions at one broker: `HERE` is the area that the broker serves."""

    def __init__(self, me: BrokerId) -> None:
        self.me = me

    def meant(self, context: Context, filters: Iterable[Filter]) -> list[Filter]:
        """Returns these filters as they are meant in this area, without those that the client's others mean too."""
        listed = dict.fromkeys(filters)
        if not any(map(is_location_dependent, context.filters)) and not any(
            map(is_location_dependent, listed)
        ):
            return list(listed)
        others = {qualified(filter, self.me) for filter in context.filters if filter not in listed}
        return [f for f in dict.fromkeys(qualified(f, self.me) for f in listed) if f not in others]
