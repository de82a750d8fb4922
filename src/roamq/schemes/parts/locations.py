"""The places of a server's clients (MLT), and the neighboring servers at which each client is to be expected.

Paper: [PRE] sections 2.3 and 3.1; section 5 for areas chosen "by using the direction and speed".
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.geo.cells import Cell, bearing_deg, center, distance_m, pitch_m, resolution_of
from roamq.geo.region import Region
from roamq.schemes.parts.movement_pattern import MovementPattern

REMEMBERED = 5
"""The number of cells kept per client: its speed is that of its fastest crossing among them, since a stop hides it."""

TURNED_OVER = 3
"""The number of cells over which a direction is measured: over one edge it could only be one of six."""

AT_ONCE = 0.0


class Choice(StrEnum):
    """The ways to choose the servers for pre-handoff."""

    BORDER = "border"
    """The servers beyond the border cell that the client is in: the paper's algorithm."""
    ALL = "all"
    """All servers whose area touches this one, wherever the client is: section 3.1 calls this unnecessary."""
    AHEAD = "ahead"
    """The servers that the client can reach by street before it could be seen again: the paper's future work."""
    CONE = "cone"
    """The servers in the direction of the client: for regions without a route map."""
    LEARNED = "learned"
    """The servers beyond the border cell to which clients that came this way went often enough: section 2.3's
    pattern."""


class Sighting(NamedTuple):
    time_s: Seconds
    cell: Cell


class LocationTable:
    """MLT := { <mobile host, cell> }, with the few cells that each client was in before."""

    def __init__(self) -> None:
        self._sightings: dict[ClientId, deque[Sighting]] = {}
        self._came_from: dict[ClientId, BrokerId] = {}
        self._speed_mps: dict[ClientId, float] = {}
        self._out_of_sight: set[ClientId] = set()

    def __contains__(self, client: ClientId) -> bool:
        return client in self._sightings

    def __len__(self) -> int:
        return len(self._sightings)

    def arrived(self, client: ClientId, came_from: BrokerId, speed_mps: float | None) -> None:
        """The client has come from another area: forget its motion here, which is long ago."""
        self.forget(client)
        self._came_from[client] = came_from
        if speed_mps is not None:
            self._speed_mps[client] = speed_mps

    def reappeared(self, client: ClientId, speed_mps: float | None) -> None:
        """The client was switched off for a while: nobody knows how it came to the cell where it is seen next."""
        self._came_from.pop(client, None)
        self._out_of_sight.add(client)
        if speed_mps is not None:
            self._speed_mps[client] = speed_mps

    def saw(self, client: ClientId, cell: Cell, now: Seconds) -> bool:
        """Note where the client is; return whether it was seen elsewhere, or nowhere, before.

        A client that says again in which cell it is has not moved.
        """
        sightings = self._sightings.setdefault(client, deque(maxlen=REMEMBERED))
        if client in self._out_of_sight:
            self._out_of_sight.discard(client)
            sightings.clear()
        if sightings and sightings[-1].cell == cell:
            return False
        sightings.append(Sighting(now, cell))
        return True

    def forget(self, client: ClientId) -> None:
        self._sightings.pop(client, None)
        self._came_from.pop(client, None)
        self._speed_mps.pop(client, None)
        self._out_of_sight.discard(client)

    def came_from(self, client: ClientId) -> BrokerId | None:
        return self._came_from.get(client)

    def cell_of(self, client: ClientId) -> Cell | None:
        sightings = self._sightings.get(client)
        return sightings[-1].cell if sightings else None

    def before(self, client: ClientId) -> Cell | None:
        """The cell from which the client came into the one where it is; None if that was not seen."""
        sightings = self._sightings.get(client)
        is_seen = sightings is not None and len(sightings) > 1 and client not in self._out_of_sight
        return sightings[-2].cell if sightings and is_seen else None

    def sightings(self, client: ClientId) -> Sequence[Sighting]:
        """The cells in which the client was seen in this area, the last one last."""
        return tuple(self._sightings.get(client, ()))

    def speed_before(self, client: ClientId) -> float | None:
        """The client's speed in the area that it came from, in metres per second; None if it is not known."""
        return self._speed_mps.get(client)

    def motion(self, client: ClientId) -> tuple[float, float] | None:
        """Direction in degrees and speed in metres per second, as the crow flies; None for a client that has not moved
        yet."""
        sightings = self.sightings(client)[-TURNED_OVER:]
        if len(sightings) < 2:
            return None
        first, last = center(sightings[0].cell), center(sightings[-1].cell)
        elapsed = sightings[-1].time_s - sightings[0].time_s
        if first == last or elapsed <= 0:  # the client is back where it came from: go by the last edge alone
            first, elapsed = center(sightings[-2].cell), sightings[-1].time_s - sightings[-2].time_s
        if elapsed <= 0:
            return None
        return bearing_deg(first, last), distance_m(first, last) / elapsed


class Expectation:
    """Decides, from a client's place and motion, at which servers it may be next, and from when on."""

    def __init__(
        self,
        me: BrokerId,
        region: Region | None,
        choice: Choice,
        *,
        cone_deg: float,
        lead_s: Seconds,
        haste: float,
        limit_mps: float | None = None,
        pattern: MovementPattern | None = None,
        least_probability: float = 0.0,
    ) -> None:
        self.me = me
        self.region = region
        self.choice = choice
        self.cone_deg = cone_deg
        self.lead_s = lead_s
        self.haste = haste
        self.limit_mps = limit_mps if limit_mps is not None else math.inf
        self.pattern = pattern if pattern is not None else MovementPattern(me)
        self.least_probability = least_probability

    def is_misled_by(self, away_s: Seconds) -> bool:
        """Does this choice of servers go wrong if a client was out of sight for `away_s`?"""
        return self.choice in (Choice.AHEAD, Choice.CONE) and away_s > self.lead_s

    def learn(self, client: ClientId, table: LocationTable) -> None:
        """The client was seen in another cell: the pattern learns this move."""
        cell = table.cell_of(client)
        if self.region is not None and cell is not None:
            is_border = cell in self.region.border_cells(self.me)
            before, came_from = table.before(client), table.came_from(client)
            self.pattern.entered(client, cell, before, came_from, is_border=is_border)

    def due(self, client: ClientId, table: LocationTable) -> Mapping[BrokerId, Seconds]:
        """E: the servers at which the client is to have a virtual consumer, each with the time from which on.

        The answer holds until the client is seen in another cell.
        """
        cell = table.cell_of(client)
        if self.region is None or cell is None or self.region.areas.broker_of.get(cell) != self.me:
            return {}
        if self.choice is Choice.ALL:
            return dict.fromkeys(self.region.areas.neighbors(self.me), AT_ONCE)
        beyond = self.region.border_cells(self.me).get(cell, ())
        if self.choice is Choice.BORDER:
            return dict.fromkeys(beyond, AT_ONCE)  # E = BCT · cell_MHs · NES
        if self.choice is Choice.LEARNED:
            return dict.fromkeys(self.pattern.likely(client, beyond, self.least_probability), AT_ONCE)
        if self.choice is Choice.AHEAD and self.region.routes is not None:
            return self._by_streets(client, table, cell, beyond, self.region)
        return self._by_direction(client, table, cell, beyond, self.region)

    def _by_streets(
        self,
        client: ClientId,
        table: LocationTable,
        cell: Cell,
        beyond: tuple[BrokerId, ...],
        region: Region,
    ) -> dict[BrokerId, Seconds]:
        """Server -> the earliest time at which the client could be there, less the time that a pre-handoff needs."""
        befores = self._befores(client, table, cell, region)
        if not befores:  # the client was switched off, or is new: it may be anywhere in the cell
            return dict.fromkeys(beyond, AT_ONCE)
        seen_mps = self.speed_mps(client, table)
        if seen_mps is None:
            return dict.fromkeys(region.ways_out(befores, cell, 0.0), AT_ONCE)
        fastest_mps = min(self.haste * seen_mps, max(seen_mps, self.limit_mps))
        ways = region.ways_out(befores, cell, fastest_mps * self.lead_s)
        entered_s = table.sightings(client)[-1].time_s
        return {server: entered_s + metres / fastest_mps - self.lead_s for server, metres in ways.items()}

    def _befores(self, client: ClientId, table: LocationTable, cell: Cell, region: Region) -> list[Cell]:
        """The cells from which the client may have come into its present cell, if a street leads from there."""
        before, came_from = table.before(client), table.came_from(client)
        if before is not None:
            assert region.routes is not None
            return [before] if region.routes.exits(before, cell) else []
        return region.entries(cell, came_from) if came_from is not None else []

    def speed_mps(self, client: ClientId, table: LocationTable) -> float | None:
        """The client's speed by street in its fastest crossing of late, in metres per second; None if it is not known
        yet."""
        routes = self.region.routes if self.region is not None else None
        if routes is None:
            motion = table.motion(client)
            return table.speed_before(client) if motion is None else motion[1]
        sightings = table.sightings(client)
        speeds = [speed for speed in [table.speed_before(client)] if speed and len(sightings) < REMEMBERED]
        for before, entered, left in zip(sightings, sightings[1:], sightings[2:], strict=False):
            metres = routes.exits(before.cell, entered.cell).get(left.cell)
            if metres is not None and left.time_s > entered.time_s:
                speeds.append(metres / (left.time_s - entered.time_s))
        return max(speeds, default=None)

    def _by_direction(
        self,
        client: ClientId,
        table: LocationTable,
        cell: Cell,
        beyond: tuple[BrokerId, ...],
        region: Region,
    ) -> dict[BrokerId, Seconds]:
        """The servers beyond the border that lie in the client's direction; for a fast client, further ones too.

        The other servers beyond the border follow when the client has been in the cell for as long as it takes to cross
        it.
        """
        motion, came_from = table.motion(client), table.came_from(client)
        speed = self.speed_mps(client, table)
        heading = motion[0] if motion is not None else None
        if heading is None and came_from is not None:
            heading = region.entry_heading(cell, came_from)
        if heading is None or not speed:
            return dict.fromkeys(beyond, AT_ONCE)
        reach_m = speed * self.lead_s
        pitch = pitch_m(resolution_of(cell))
        seen = region.ahead(cell, heading, reach_m, self.cone_deg)
        if reach_m < 1.5 * pitch:  # no further than the next cell: only over a way out
            seen = {server: metres for server, metres in seen.items() if server in beyond}
        crossed_s = table.sightings(client)[-1].time_s + pitch / (self.haste * speed)
        return dict.fromkeys(beyond, crossed_s) | dict.fromkeys(seen, AT_ONCE)
