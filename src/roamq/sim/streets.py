"""Clients on the streets of a region: they travel between junctions, stop, turn back, and switch off for a while.

The region is a city around the brokers' positions (`network.areas`), or over areas drawn as polygons
(`network.polygons`), described by the scenario's group `map`. A client reports every cell it enters, and connects to
the broker in whose area the cell lies; between the areas it is not connected.
"""

import json
import random
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from msgspec import Meta

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, Place, Plane, center, pitch_m
from roamq.geo.city import block_streets
from roamq.geo.region import Region
from roamq.geo.routes import Junction, RouteMap
from roamq.sim.mobility import Mobility, Step, World, mobility_model
from roamq.sim.options import Options, Seconds, doc

Fraction = Annotated[float, Meta(ge=0, le=1)]


class MapOptions(Options, frozen=True):
    """The ground: cells, areas by the nearest broker, and streets in blocks."""

    resolution: Annotated[
        int, Meta(ge=5, le=12), doc("size of the cells: H3 resolution, 9 is 350 m across")
    ] = 9
    block_m: Annotated[float, Meta(gt=0), doc("length of a block between two streets")] = 400.0
    jitter: Annotated[Fraction, doc("how far junctions stray from a perfect grid, in blocks")] = 0.2
    closed: Annotated[Fraction, doc("share of the streets that are closed")] = 0.15
    seed: Annotated[int, doc("which city of this kind; the same in all runs of a scenario")] = 1
    border_rings: Annotated[int, Meta(ge=1), doc("how many cells deep a border is; 1: with a way out")] = 1


def region_of(
    areas: Mapping[str, tuple[float, float]], options: MapOptions, polygons: Mapping[str, Any] | None = None
) -> Region:
    """Returns the region of a scenario, made once for brokers and clients. Polygons, if given, are the areas."""
    if polygons is not None:
        return _drawn(json.dumps(polygons, sort_keys=True), options)
    if not areas:
        raise ConfigError("network.areas: a map needs the positions of the brokers (latitude, longitude)")
    return _region(tuple(sorted(areas.items())), options)


@lru_cache(maxsize=8)
def _region(positions: tuple[tuple[str, tuple[float, float]], ...], options: MapOptions) -> Region:
    places = {BrokerId(broker): Place(*position) for broker, position in positions}
    return _with_streets(LocationAreas.voronoi(places, options.resolution), options)


@lru_cache(maxsize=8)
def _drawn(polygons: str, options: MapOptions) -> Region:
    try:
        areas = LocationAreas.from_geojson(json.loads(polygons), options.resolution)
    except ConfigError as error:
        raise ConfigError(f"network.polygons: {error}") from None
    region = _with_streets(areas, options)
    assert region.routes is not None
    if not any(_start(region.routes, at) in areas.broker_of for at in range(len(region.routes.junctions))):
        raise ConfigError("network.polygons: no junction lies in an area; make map.block_m smaller")
    return region


def _start(routes: RouteMap, at: Junction) -> Cell:
    """Returns the cell of a client that begins at a junction."""
    return routes.passages(at, routes.neighbors[at][0])[0].cell


def _with_streets(areas: LocationAreas, options: MapOptions) -> Region:
    streets = block_streets(
        _ground(areas, options),
        options.resolution,
        random.Random(options.seed).random,
        block_m=options.block_m,
        margin_m=0.0,
        jitter=options.jitter,
        closed=options.closed,
    )
    return Region(areas, streets, options.border_rings)


def _ground(areas: LocationAreas, options: MapOptions) -> list[Place]:
    """Returns two opposite corners of the ground, inside the outermost cells, so that every street has a broker."""
    centers = [center(cell) for cell in areas.broker_of]
    low = Place(min(p.latitude for p in centers), min(p.longitude for p in centers))
    high = Place(max(p.latitude for p in centers), max(p.longitude for p in centers))
    inset = options.jitter * options.block_m + pitch_m(options.resolution)
    return [Plane(low).place(inset, inset), Plane(high).place(-inset, -inset)]


class JourneyPoint(NamedTuple):
    """A client enters `cell` at `time_s`, at `place`."""

    time_s: float
    cell: Cell
    place: Place


@mobility_model("streets")
class Streets(Mobility, frozen=True):
    """From junction to junction by the shortest way, each trip at a speed of its own."""

    speed_mps: Annotated[tuple[float, float], doc("slowest and fastest trip, metres per second")] = (
        8.0,
        16.0,
    )
    stop: Annotated[Fraction, doc("probability of a stop at a junction")] = 0.05
    stop_s: Annotated[Seconds, doc("mean duration of a stop")] = 60.0
    turn_back: Annotated[
        Fraction, doc("probability, at a junction, of giving up the trip and going back")
    ] = 0.01
    off: Annotated[Fraction, doc("probability, at a junction, of switching off while travelling on")] = 0.01
    off_s: Annotated[Seconds, doc("mean time switched off")] = 60.0
    gap_s: Annotated[Seconds, doc("between leaving one area's broker and reaching the next one's")] = 0.0
    ways: Annotated[
        list[list[int]], doc("fixed trips (junctions), client by client, instead of random ones")
    ] = []

    def steps(self, client: int, world: World, rng: random.Random) -> Iterator[Step]:
        broker_of = self.region(world).areas.broker_of
        here: BrokerId | None = None
        cell: Cell | None = None
        away_until: float | None = None
        for place, off_s in self.journey(client, world, rng):
            if away_until is not None and away_until <= place.time_s and cell is not None:
                here = broker_of.get(cell)
                yield Step(away_until, here, cell)
                away_until = None
            if off_s:
                if away_until is None:
                    yield Step(place.time_s, None)
                away_until = max(away_until or 0.0, place.time_s + off_s)
                continue
            cell = place.cell
            if away_until is None and here not in (None, broker_of.get(cell)) and self.gap_s:
                yield Step(place.time_s, None)
                away_until = place.time_s + self.gap_s
            if away_until is None:
                here = broker_of.get(cell)
                yield Step(place.time_s, here, cell)
        if away_until is not None and cell is not None:
            yield Step(away_until, broker_of.get(cell), cell)

    def journey(self, client: int, world: World, rng: random.Random) -> Iterator[tuple[JourneyPoint, float]]:
        """Yields each cell that the client enters, with the seconds that it switches off there; 0 for not at all."""
        routes = self.routes(world)
        junctions = len(routes.junctions)
        at = self.ways[client % len(self.ways)][0] if self.ways else rng.randrange(junctions)
        time = rng.random()
        cell = _start(routes, at)
        served = self.region(world).areas.broker_of
        while not self.ways and cell not in served:  # a client begins where a broker serves the cell
            at = rng.randrange(junctions)
            cell = _start(routes, at)
        yield JourneyPoint(time, cell, routes.junctions[at]), 0.0
        while True:
            origin = at
            way = self._way(client, at, routes, rng)
            speed = rng.uniform(*self.speed_mps)
            reached = 1
            while reached < len(way):
                to = way[reached]
                for at_m, entered in routes.passages(at, to):
                    if entered != cell:
                        cell = entered
                        crossing = routes.point(at, to, at_m / routes.length_m(at, to))
                        yield JourneyPoint(time + at_m / speed, cell, crossing), 0.0
                time += routes.length_m(at, to) / speed
                at = to
                reached += 1
                if rng.random() < self.stop:
                    time += rng.expovariate(1 / self.stop_s) if self.stop_s else 0.0
                if self.off and rng.random() < self.off:
                    yield JourneyPoint(time, cell, routes.junctions[at]), rng.expovariate(1 / self.off_s)
                if at != origin and rng.random() < self.turn_back:
                    way, reached, origin = routes.way(at, origin), 1, at
            if self.ways:
                return

    def _way(self, client: int, at: Junction, routes: RouteMap, rng: random.Random) -> list[Junction]:
        if self.ways:
            return self.ways[client % len(self.ways)]
        target = rng.randrange(len(routes.junctions) - 1)
        return routes.way(at, target if target < at else target + 1)

    def region(self, world: World) -> Region:
        if world.region is None:
            raise ConfigError("mobility.model = 'streets' needs the group [map] and network.areas")
        return world.region

    def routes(self, world: World) -> RouteMap:
        routes = self.region(world).routes
        assert routes is not None
        return routes
