"""Location-dependent subscriptions: `location = 'HERE'` means the area in which the client is.

[PRE] section 5: "the same subscription may match different events in different locations. Hence [...] it is necessary
to qualify location attributes of these subscriptions with respect to possible destination locations." The word is
kept in the client's context and travels with it; each broker puts its own area in its place.
"""

from functools import lru_cache

from roamq.core import constraints
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.core.selectors import print_selector

HERE = "HERE"
LOCATION = "location"
"""The attribute that names the area an event is about: that of the broker which serves the area."""


@lru_cache(maxsize=65_536)
def qualified(filter: Filter, area: BrokerId) -> Filter:
    """The filter as it is meant in `area`; one that does not speak of HERE is the same everywhere."""
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
