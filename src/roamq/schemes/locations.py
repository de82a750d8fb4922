"""Where a server's clients are (MLT), and at which neighboring servers each is to be expected.

Paper: [PRE] sections 2.3 and 3.1; section 5 for areas chosen "by using the direction and speed".
"""

from collections import deque
from enum import StrEnum
from typing import NamedTuple

from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.geo.cells import Cell, bearing_deg, center, distance_m, pitch_m, resolution_of
from roamq.geo.region import Region

REMEMBERED = 3
"""How many cells back a client's direction is measured: over one edge it could only be one of six."""


class Choice(StrEnum):
    """How the servers for pre-handoff are chosen."""

    BORDER = "border"
    """Those beyond the border cell that the client is in: the paper's algorithm."""
    ALL = "all"
    """All whose area touches this one, wherever the client is: what section 3.1 calls unnecessary."""
    AHEAD = "ahead"
    """Those that streets lead to without turning back, sooner for who is fast: the paper's future work."""
    CONE = "cone"
    """Those in the direction of the client: the same where there is no route map."""


class Sighting(NamedTuple):
    time_s: Seconds
    cell: Cell


class LocationTable:
    """MLT := { <mobile host, cell> }, with the few cells before."""

    def __init__(self) -> None:
        self._sightings: dict[ClientId, deque[Sighting]] = {}
        self._came_from: dict[ClientId, BrokerId] = {}
        self._speed_mps: dict[ClientId, float] = {}
        self.lingering: set[ClientId] = set()
        """Clients that have been in their cell for longer than it takes to cross it."""

    def __contains__(self, client: ClientId) -> bool:
        return client in self._sightings

    def __len__(self) -> int:
        return len(self._sightings)

    def arrived(self, client: ClientId, came_from: BrokerId, speed_mps: float | None) -> None:
        """The client has come from another area: what was known of its motion here is long ago."""
        self.forget(client)
        self._came_from[client] = came_from
        if speed_mps is not None:
            self._speed_mps[client] = speed_mps

    def saw(self, client: ClientId, cell: Cell, now: Seconds) -> None:
        sightings = self._sightings.setdefault(client, deque(maxlen=REMEMBERED))
        if not sightings or sightings[-1].cell != cell:
            sightings.append(Sighting(now, cell))
            self.lingering.discard(client)

    def forget(self, client: ClientId) -> None:
        self._sightings.pop(client, None)
        self._came_from.pop(client, None)
        self._speed_mps.pop(client, None)
        self.lingering.discard(client)

    def came_from(self, client: ClientId) -> BrokerId | None:
        return self._came_from.get(client)

    def cell_of(self, client: ClientId) -> Cell | None:
        sightings = self._sightings.get(client)
        return sightings[-1].cell if sightings else None

    def before(self, client: ClientId) -> Cell | None:
        """The cell from which the client came into the one where it is."""
        sightings = self._sightings.get(client)
        return sightings[-2].cell if sightings and len(sightings) > 1 else None

    def motion(self, client: ClientId) -> tuple[float, float] | None:
        """Direction in degrees and speed in metres per second; None for who has not moved yet."""
        sightings = self._sightings.get(client)
        if not sightings or len(sightings) < 2:
            return None
        first, last = center(sightings[0].cell), center(sightings[-1].cell)
        elapsed = sightings[-1].time_s - sightings[0].time_s
        if first == last or elapsed <= 0:  # back where it came from: go by the last edge alone
            first, elapsed = center(sightings[-2].cell), sightings[-1].time_s - sightings[-2].time_s
        if elapsed <= 0:
            return None
        return bearing_deg(first, last), distance_m(first, last) / elapsed

    def speed_mps(self, client: ClientId) -> float | None:
        """How fast the client is; as long as it has not moved here, how fast it came."""
        motion = self.motion(client)
        return self._speed_mps.get(client) if motion is None else motion[1]


class Expectation:
    """Decides, from a client's place and motion, where it may be next."""

    def __init__(
        self,
        me: BrokerId,
        region: Region | None,
        choice: Choice,
        *,
        cone_deg: float,
        lead_s: Seconds,
        patience: float,
    ) -> None:
        self.me = me
        self.region = region
        self.choice = choice
        self.cone_deg = cone_deg
        self.lead_s = lead_s
        self.patience = patience

    def until_lingering_s(self, client: ClientId, table: LocationTable) -> Seconds | None:
        """How long the client may stay in its cell and still be believed to go straight on; None: for ever."""
        cell, speed = table.cell_of(client), table.speed_mps(client)
        if self.choice not in (Choice.AHEAD, Choice.CONE) or cell is None or not speed:
            return None
        return self.patience * pitch_m(resolution_of(cell)) / speed

    def servers(self, client: ClientId, table: LocationTable) -> tuple[BrokerId, ...]:
        """E: the servers at which the client is to have a virtual consumer now."""
        cell = table.cell_of(client)
        if self.region is None or cell is None or self.region.areas.broker_of.get(cell) != self.me:
            return ()
        if self.choice is Choice.ALL:
            return self.region.areas.neighbors(self.me)
        beyond = self.region.border_cells(self.me).get(cell, ())
        if self.choice is Choice.BORDER or client in table.lingering:
            return beyond  # E = BCT · cell_MHs · NES
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
    ) -> tuple[BrokerId, ...]:
        before, came_from = table.before(client), table.came_from(client)
        befores = [before] if before is not None else []
        if before is None and came_from is not None:
            befores = region.entries(cell, came_from)
        motion = table.motion(client)
        if not befores:
            return beyond
        crossings = 1 if motion is None else 1 + int(motion[1] * self.lead_s / pitch_m(resolution_of(cell)))
        return tuple(sorted(region.onward(befores, cell, crossings)))

    def _by_direction(
        self,
        client: ClientId,
        table: LocationTable,
        cell: Cell,
        beyond: tuple[BrokerId, ...],
        region: Region,
    ) -> tuple[BrokerId, ...]:
        """Of the servers beyond the border those in the client's direction; of a fast client, further ones too."""
        motion, came_from = table.motion(client), table.came_from(client)
        if motion is None and came_from is not None:
            heading = region.entry_heading(cell, came_from)
            motion = None if heading is None else (heading, 0.0)
        if motion is None:
            return beyond
        heading, speed = motion
        reach_m = speed * self.lead_s
        seen = region.ahead(cell, heading, reach_m, self.cone_deg)
        if reach_m < 1.5 * pitch_m(resolution_of(cell)):  # no further than the next cell: only over a way out
            return tuple(server for server in beyond if server in seen)
        return tuple(sorted(seen))
