"""Where a server's clients are (MLT), and at which neighboring servers each is to be expected.

Paper: [PRE] sections 2.3 and 3.1; section 5 for areas chosen "by using the direction and speed".
"""

from collections import deque
from enum import StrEnum
from typing import NamedTuple

from roamq.core.events import BrokerId, ClientId, Seconds
from roamq.geo.cells import Cell, bearing_deg, center, distance_m
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
    """Those that the client heads for and may reach soon: the paper's future work."""


class Sighting(NamedTuple):
    time_s: Seconds
    cell: Cell


class LocationTable:
    """MLT := { <mobile host, cell> }, with the few cells before."""

    def __init__(self) -> None:
        self._sightings: dict[ClientId, deque[Sighting]] = {}

    def __contains__(self, client: ClientId) -> bool:
        return client in self._sightings

    def __len__(self) -> int:
        return len(self._sightings)

    def saw(self, client: ClientId, cell: Cell, now: Seconds) -> None:
        sightings = self._sightings.setdefault(client, deque(maxlen=REMEMBERED))
        if not sightings or sightings[-1].cell != cell:
            sightings.append(Sighting(now, cell))

    def forget(self, client: ClientId) -> None:
        self._sightings.pop(client, None)

    def cell_of(self, client: ClientId) -> Cell | None:
        sightings = self._sightings.get(client)
        return sightings[-1].cell if sightings else None

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


class Expectation:
    """Decides, from a client's place and motion, where it may be next."""

    def __init__(
        self, me: BrokerId, region: Region | None, choice: Choice, *, cone_deg: float, lead_s: Seconds
    ) -> None:
        self.me = me
        self.region = region
        self.choice = choice
        self.cone_deg = cone_deg
        self.lead_s = lead_s

    def servers(self, client: ClientId, table: LocationTable) -> tuple[BrokerId, ...]:
        """E: the servers at which the client is to have a virtual consumer now."""
        cell = table.cell_of(client)
        if self.region is None or cell is None or self.region.areas.broker_of.get(cell) != self.me:
            return ()
        if self.choice is Choice.ALL:
            return self.region.areas.neighbors(self.me)
        beyond = self.region.border_cells(self.me).get(cell, ())
        motion = table.motion(client) if self.choice is Choice.AHEAD else None
        if motion is None:
            return beyond  # E = BCT · cell_MHs · NES
        heading, speed = motion
        return tuple(sorted(self.region.ahead(cell, heading, speed * self.lead_s, self.cone_deg)))
