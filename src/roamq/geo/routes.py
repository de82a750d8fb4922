"""The regional route map: junctions, the streets between them, and the cells that each street leads through.

[PRE] section 1: "a physical route map of a small neighborhood of the locations of mobile hosts". The map tells which
border cells have a way out, and where a client on a street will be next.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from heapq import heappop, heappush
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.areas import BorderCellTable, LocationAreas
from roamq.geo.cells import Cell, Place, cell_at, distance_m, pitch_m

Junction = int
SAMPLES_PER_CELL = 24
"""Points per cell at which a street is probed for the cells on it; a corner that is cut shorter is missed."""


class Passage(NamedTuple):
    """A street enters `cell` at `at_m` from its beginning."""

    at_m: float
    cell: Cell


class RouteMap:
    """An undirected graph of streets. Streets are straight; a bent one has junctions in its bends."""

    def __init__(
        self, junctions: Sequence[Place], streets: Sequence[tuple[Junction, Junction]], resolution: int
    ) -> None:
        self.junctions = tuple(junctions)
        self.resolution = resolution
        by_junction: dict[Junction, set[Junction]] = {number: set() for number in range(len(junctions))}
        for a, b in streets:
            if a == b or a not in by_junction or b not in by_junction:
                raise ConfigError(f"street {a}-{b} does not join two different junctions of the map")
            by_junction[a].add(b)
            by_junction[b].add(a)
        self.neighbors = {number: tuple(sorted(others)) for number, others in by_junction.items()}
        self._passages: dict[tuple[Junction, Junction], tuple[Passage, ...]] = {}
        self._exits: dict[tuple[Cell, Cell], Mapping[Cell, float]] = {}
        if junctions and connected_components(self._lengths, directed=False)[0] > 1:
            raise ConfigError("the streets leave a part of the map unconnected; add a street to it")

    @property
    def streets(self) -> list[tuple[Junction, Junction]]:
        return [(a, b) for a, others in self.neighbors.items() for b in others if a < b]

    def length_m(self, a: Junction, b: Junction) -> float:
        return distance_m(self.junctions[a], self.junctions[b])

    def point(self, a: Junction, b: Junction, share: float) -> Place:
        """Returns the place at `share` of the street from `a` to `b`."""
        start, end = self.junctions[a], self.junctions[b]
        return Place(
            start.latitude + share * (end.latitude - start.latitude),
            start.longitude + share * (end.longitude - start.longitude),
        )

    def passages(self, a: Junction, b: Junction) -> tuple[Passage, ...]:
        """Returns the cells on the way from `a` to `b`, in order; the first is that of `a`, at 0 m."""
        known = self._passages.get((a, b))
        if known is None:
            known = self._passages[a, b] = self._probe(a, b)
        return known

    def _probe(self, a: Junction, b: Junction) -> tuple[Passage, ...]:
        length = self.length_m(a, b)
        samples = max(2, math.ceil(length / pitch_m(self.resolution) * SAMPLES_PER_CELL))
        passages = [Passage(0.0, cell_at(self.junctions[a], self.resolution))]
        for sample in range(1, samples + 1):
            cell = cell_at(self.point(a, b, sample / samples), self.resolution)
            if cell != passages[-1].cell:
                passages.append(Passage((sample - 0.5) / samples * length, cell))
        return tuple(passages)

    # --- ways ---------------------------------------------------------------------------------------------

    @cached_property
    def _lengths(self) -> "csr_array":
        pairs = [(a, b) for a, others in self.neighbors.items() for b in others]
        rows, columns = zip(*pairs, strict=True) if pairs else ((), ())
        lengths = [self.length_m(a, b) for a, b in pairs]
        size = len(self.junctions)
        return csr_array((lengths, (rows, columns)), shape=(size, size))

    @cached_property
    def _before(self) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
        """Row a, column b: the junction before b on the shortest way from a."""
        _, before = shortest_path(self._lengths, method="D", directed=False, return_predecessors=True)
        return np.asarray(before, dtype=np.int32)

    def way(self, a: Junction, b: Junction) -> list[Junction]:
        """Returns the shortest way from `a` to `b`, both included."""
        way = [b]
        while way[-1] != a:
            way.append(int(self._before[a, way[-1]]))
        return way[::-1]

    # --- cells --------------------------------------------------------------------------------------------

    @cached_property
    def next_cells(self) -> Mapping[Cell, frozenset[Cell]]:
        """Cell -> the cells that a street leads into directly from it."""
        found: dict[Cell, set[Cell]] = {}
        for a, b in self.streets:
            cells = [passage.cell for passage in self.passages(a, b)]
            for one, other in pairwise(cells):
                found.setdefault(one, set()).add(other)
                found.setdefault(other, set()).add(one)
        return {cell: frozenset(others) for cell, others in found.items()}

    @cached_property
    def _entries(self) -> Mapping[tuple[Cell, Cell], list[tuple[Junction, Junction, int]]]:
        """Edge between two cells -> the streets that lead over it, and the place of the second cell in each."""
        found: dict[tuple[Cell, Cell], list[tuple[Junction, Junction, int]]] = {}
        for a, others in self.neighbors.items():
            for b in others:
                passages = self.passages(a, b)
                for place in range(1, len(passages)):
                    edge = passages[place - 1].cell, passages[place].cell
                    found.setdefault(edge, []).append((a, b, place))
        return found

    def exits(self, before: Cell, cell: Cell) -> Mapping[Cell, float]:
        """Returns the cells that a traveller from `before` can enter next from `cell`, each with the metres to it.

        A traveller turns only at a junction, and turns back only there: a cell without a junction is crossed.
        """
        known = self._exits.get((before, cell))
        if known is None:
            known = self._exits[before, cell] = self._measure(before, cell)
        return known

    def _measure(self, before: Cell, cell: Cell) -> dict[Cell, float]:
        """Runs Dijkstra's algorithm over the streets inside `cell`, from all places where they enter from `before`."""
        found: dict[Cell, float] = {}
        turns: list[tuple[float, Junction]] = []

        def follow(a: Junction, b: Junction, place: int, metres: float) -> None:
            """Follows a street from where it enters the cell to where it leaves the cell or meets other streets."""
            passages = self.passages(a, b)
            if place + 1 < len(passages):
                out = passages[place + 1]
                metres += out.at_m - passages[place].at_m
                found[out.cell] = min(metres, found.get(out.cell, metres))
            else:
                heappush(turns, (metres + self.length_m(a, b) - passages[place].at_m, b))

        for a, b, place in self._entries.get((before, cell), ()):
            follow(a, b, place, 0.0)
        reached: set[Junction] = set()
        while turns:
            metres, at = heappop(turns)
            if at not in reached:
                reached.add(at)
                for c in self.neighbors[at]:
                    follow(at, c, 0, metres)
        return found

    def border_cell_table(self, areas: LocationAreas, broker: BrokerId) -> BorderCellTable:
        """Finds the BCT "statically from the regional route map" ([PRE] section 2.3): border cells with a way out."""
        table: dict[Cell, tuple[BrokerId, ...]] = {}
        for cell in areas.cells(broker):
            into = {areas.broker_of[c] for c in self.next_cells.get(cell, ()) if c in areas.broker_of}
            if beyond := into - {broker}:
                table[cell] = tuple(sorted(beyond))
        return table
