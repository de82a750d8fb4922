"""The options of location-based pre-handoff, and the region that they may describe ([PRE] section 2)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, Seconds
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Place
from roamq.geo.region import Region
from roamq.schemes.base import SchemeOptions
from roamq.schemes.parts.locations import Choice
from roamq.schemes.parts.movement_pattern import Row, rows_of
from roamq.schemes.parts.virtual_consumers import LEASE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class PreHandoffOptions(SchemeOptions):
    """Parameters of pre-handoff."""

    areas: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Positions of the servers (latitude, longitude), where the host does not bring a map of the region."""
    polygons: Mapping[str, Any] | None = None
    """Areas as polygons instead: a GeoJSON FeatureCollection whose features have a property `broker`."""
    resolution: int = 9
    """Size of the cells of these areas."""
    border_rings: int = 1
    """The depth of the border of these areas, in cells."""
    choose: str = "border"
    """Servers for pre-handoff: 'border' (the paper), 'all' neighbors, 'ahead' by street, in a 'cone' ahead, or
    'learned' (the likely ones)."""
    moving_s: Seconds = 120.0
    """T: a client that stays longer in a cell is not moving."""
    hysteresis_s: Seconds = 0.0
    """Seconds that a virtual consumer stays after its client has left the border; 0: not at all, as in the paper."""
    literal: bool = False
    """Run Fig. 3 as it is printed, which loses and repeats events: to see the effect of our messages."""
    lease_s: Seconds = LEASE_S
    """Seconds without news after which a virtual consumer asks whether its client is still expected; without an answer
    it ends."""
    cone_deg: float = 90.0
    """With 'cone': the angle, in degrees, by which a client may turn off its direction."""
    lead_s: Seconds = 2.0
    """With 'ahead' and 'cone': seconds that a pre-handoff begins before the client can be there; its set-up must fit
    in."""
    haste: float = 2.0
    """With 'ahead' and 'cone': the factor by which a client may become faster than it was seen to be."""
    limit_mps: float | None = None
    """With 'ahead': the speed limit, in metres per second; a client that was not seen to be faster will not become
    so."""
    least_probability: float = 0.05
    """With 'learned': a server beyond the border that clients go to less often than this gets no virtual consumer."""
    warm_start: tuple[Row, ...] = ()
    """With 'learned': moves that are known from the beginning: rows of (from, to, moves, last seen), or of (before,
    from, to, moves, last seen)."""

    def __post_init__(self) -> None:
        if self.choose not in list(Choice):
            raise ConfigError(
                f"scheme.choose: {self.choose!r} is no choice{choose_from(self.choose, Choice)}"
            )
        if self.choose == Choice.AHEAD and (self.areas or self.polygons is not None):
            raise ConfigError("scheme.choose: 'ahead' goes by streets, and these areas have none; use 'cone'")
        if self.polygons is not None:
            areas_of(self)
        if not self.hysteresis_s >= 0:
            raise ConfigError(f"scheme.hysteresis_s: {self.hysteresis_s} is below 0")
        if not self.lease_s > 0:
            raise ConfigError(f"scheme.lease_s: {self.lease_s} is not above 0")
        if self.limit_mps is not None and not self.limit_mps > 0:
            raise ConfigError(f"scheme.limit_mps: {self.limit_mps} is not above 0")
        if not self.haste > 0:
            raise ConfigError(f"scheme.haste: {self.haste} is not above 0; 1 means never faster than seen")
        if not 0 <= self.least_probability <= 1:
            raise ConfigError(f"scheme.least_probability: {self.least_probability} is not from 0 to 1")
        object.__setattr__(self, "warm_start", rows_of(self.warm_start))


def region_from(options: PreHandoffOptions) -> Region | None:
    """The region as the options describe it: areas around positions, and a way across every edge."""
    if not options.areas and options.polygons is None:
        return None
    return Region(areas_of(options), None, options.border_rings)


def areas_of(options: PreHandoffOptions) -> LocationAreas:
    """The areas of the options: the polygons, if there are any; else each cell belongs to the nearest server."""
    if options.polygons is not None:
        try:
            return LocationAreas.from_geojson(options.polygons, options.resolution)
        except ConfigError as error:
            raise ConfigError(f"scheme.polygons: {error}") from None
    places = {BrokerId(name): Place(*position) for name, position in options.areas.items()}
    return LocationAreas.voronoi(places, options.resolution)
