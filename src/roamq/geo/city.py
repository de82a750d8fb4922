"""A synthetic city: event servers in a grid, and streets in jittered blocks, some of them closed.

The numbers come from the caller's random stream: this package draws none of its own.
"""

import math
from collections.abc import Callable, Iterable

from roamq.core.events import BrokerId
from roamq.geo.cells import Place, Plane
from roamq.geo.routes import Junction, RouteMap

CENTER = Place(48.2, 16.37)
"""The place of a city that is given none; cells are nearly regular there."""

Random = Callable[[], float]
"""The next number of a random stream, from 0 to 1."""


def site_grid(
    rows: int, columns: int, spacing_m: float, *, center: Place = CENTER, prefix: str = "b"
) -> dict[BrokerId, Place]:
    """Positions of `rows` x `columns` brokers, every other row shifted by half, as cells of a network are."""
    plane = Plane(center)
    sites: dict[BrokerId, Place] = {}
    for row in range(rows):
        for column in range(columns):
            x = (column - (columns - 1) / 2 + (row % 2) / 2 - 0.25) * spacing_m
            y = (row - (rows - 1) / 2) * spacing_m * math.sqrt(3) / 2
            name = BrokerId(f"{prefix}{row * columns + column + 1}")
            sites[name] = Place(*(round(degrees, 6) for degrees in plane.place(x, y)))
    return sites


def block_streets(
    places: Iterable[Place],
    resolution: int,
    random: Random,
    *,
    block_m: float,
    margin_m: float,
    jitter: float = 0.2,
    closed: float = 0.15,
) -> RouteMap:
    """Streets in blocks of `block_m` over the extent of `places`; a share of them is closed, no place cut off."""
    listed = list(places)
    middle = Place(
        sum(p.latitude for p in listed) / len(listed), sum(p.longitude for p in listed) / len(listed)
    )
    plane = Plane(middle)
    points = [plane.point(place) for place in listed]
    left, right = min(x for x, _ in points) - margin_m, max(x for x, _ in points) + margin_m
    bottom, top = min(y for _, y in points) - margin_m, max(y for _, y in points) + margin_m
    columns = max(2, round((right - left) / block_m) + 1)
    rows = max(2, round((top - bottom) / block_m) + 1)
    junctions = []
    for row in range(rows):
        for column in range(columns):
            x = left + (right - left) * column / (columns - 1) + (random() - 0.5) * 2 * jitter * block_m
            y = bottom + (top - bottom) * row / (rows - 1) + (random() - 0.5) * 2 * jitter * block_m
            junctions.append(plane.place(x, y))
    streets = [(number, number + 1) for number in range(rows * columns) if (number + 1) % columns]
    streets += [(number, number + columns) for number in range((rows - 1) * columns)]
    return RouteMap(junctions, _close_some(len(junctions), streets, random, closed), resolution)


def _close_some(
    size: int, streets: list[tuple[Junction, Junction]], random: Random, closed: float
) -> list[tuple[Junction, Junction]]:
    """Closes a share of the streets, but never the last way to a junction (Kruskal's spanning tree stays open)."""
    order = sorted(streets, key=lambda _: random())
    leader = list(range(size))

    def leader_of(junction: Junction) -> Junction:
        while leader[junction] != junction:
            leader[junction] = leader[leader[junction]]
            junction = leader[junction]
        return junction

    kept = []
    for a, b in order:
        joins = leader_of(a) != leader_of(b)
        leader[leader_of(a)] = leader_of(b)
        if joins or random() >= closed:
            kept.append((a, b))
    return sorted(kept)
