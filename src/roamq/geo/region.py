"""A region: areas, the streets through them, and the answers that a broker and a moving client ask of both."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from roamq.core.events import BrokerId
from roamq.geo.areas import BorderCellTable, LocationAreas
from roamq.geo.cells import (
    Cell,
    Place,
    adjacent,
    bearing_deg,
    center,
    disk,
    distance_m,
    pitch_m,
    resolution_of,
    turn_deg,
)
from roamq.geo.routes import RouteMap

REACH_RINGS_MAX = 12
"""The largest number of rings for which a client's way is predicted, however fast the client is."""


@dataclass(frozen=True)
class Region:
    """Areas and streets; without `routes`, every edge between two cells can be crossed."""

    areas: LocationAreas
    routes: RouteMap | None = None
    rings: int = 1
    """The most steps that a border cell may be from another area."""
    _tables: dict[BrokerId, BorderCellTable] = field(default_factory=dict, repr=False, compare=False)

    def border_cells(self, broker: BrokerId) -> BorderCellTable:
        """Returns the BCT of an event server: from the route map if there is one, else from adjacent cells."""
        table = self._tables.get(broker)
        if table is None:
            if self.routes is not None and self.rings == 1:
                table = self.routes.border_cell_table(self.areas, broker)
            else:
                table = self.areas.border_cell_table(broker, self.rings)
            self._tables[broker] = table
        return table

    def ahead(self, cell: Cell, heading: float, reach_m: float, cone: float) -> dict[BrokerId, float]:
        """Returns the other areas that lie ahead of a client in `cell`, each with its distance in metres.

        An area lies ahead if the center of one of its cells is within `reach_m` and at most `cone` degrees off the
        client's `heading`. The nearest ring always counts as within reach: a slow client still crosses the next edge.
        """
        here = center(cell)
        mine = self.areas.broker_of.get(cell)
        pitch = pitch_m(resolution_of(cell))
        rings = max(1, min(REACH_RINGS_MAX, round(reach_m / pitch)))
        found: dict[BrokerId, float] = {}
        for other in disk(cell, rings):
            broker = self.areas.broker_of.get(other)
            if broker is None or broker == mine or other == cell:
                continue
            there = center(other)
            if turn_deg(heading, bearing_deg(here, there)) <= cone:
                distance = distance_m(here, there)
                found[broker] = min(distance, found.get(broker, distance))
        return found

    def ways_out(self, befores: Iterable[Cell], cell: Cell, further_m: float) -> dict[BrokerId, float]:
        """Returns the other areas that streets lead to from `cell`, each with the metres of the shortest way to it.

        The way begins where the client came in, from one of `befores`. It leads out of `cell` into the other area, or
        through more cells of the same area, over at most `further_m` metres of them.
        """
        assert self.routes is not None
        found: dict[BrokerId, float] = {}
        for before in befores:
            for there, metres in self.routes.exits(before, cell).items():
                for broker, more_m in self._reached(cell, there, further_m).items():
                    found[broker] = min(metres + more_m, found.get(broker, math.inf))
        return found

    def _reached(self, cell: Cell, there: Cell, within_m: float) -> dict[BrokerId, float]:
        """Returns other areas than that of `cell`, within so many metres by street from the edge between two cells."""
        assert self.routes is not None
        mine = self.areas.broker_of.get(cell)
        found: dict[BrokerId, float] = {}
        ways = [(0.0, cell, there)]
        seen: set[tuple[Cell, Cell]] = set()
        while ways:
            metres, before, here = heappop(ways)
            broker = self.areas.broker_of.get(here)
            if broker is not None and broker != mine:
                found.setdefault(broker, metres)
            elif (before, here) not in seen:
                seen.add((before, here))
                for further, more_m in self.routes.exits(before, here).items():
                    if metres + more_m <= within_m:
                        heappush(ways, (metres + more_m, here, further))
        return found

    def entries(self, cell: Cell, came_from: BrokerId) -> list[Cell]:
        """Returns cells of `came_from` from which a street, or without streets an edge, leads into `cell`."""
        ways = adjacent(cell) if self.routes is None else sorted(self.routes.next_cells.get(cell, ()))
        return [other for other in ways if self.areas.broker_of.get(other) == came_from]

    def entry_heading(self, cell: Cell, came_from: BrokerId) -> float | None:
        """Returns the heading of a client that has just entered `cell` from another area, over the edge between
        them."""
        left = [center(other) for other in self.entries(cell, came_from)]
        if not left:
            return None
        middle = Place(
            sum(place.latitude for place in left) / len(left),
            sum(place.longitude for place in left) / len(left),
        )
        return bearing_deg(middle, center(cell))
