"""A map of location areas: cells, border cells, streets, servers, and the way of one client. Drawn as SVG."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from roamq.core.events import BrokerId
from roamq.geo.cells import Cell, Place, Plane, center, corners
from roamq.geo.region import Region

WIDTH = 620.0
EDGE = 10.0
LEGEND = 46.0
FILLS = ("#8fbfe0", "#f2b98a", "#9ad3bd", "#dfb3cc", "#f0d080", "#b7b7e0", "#c3d69b")
INK, PATH = "#1d2733", "#a3154f"
SERVES = f'stroke="{INK}" stroke-width="2.4"'
EXPECTS = f'stroke="{PATH}" stroke-width="2.2" stroke-dasharray="5 3"'


@dataclass(frozen=True, slots=True, kw_only=True)
class AreaScene:
    """One moment of one client."""

    region: Region
    servers: Mapping[BrokerId, Place]
    way: Sequence[Place]
    """Where the client has been; it is at the last place."""
    serving: BrokerId | None
    """Where it is connected; None while it is switched off."""
    virtual: frozenset[BrokerId]
    """Where its virtual consumers are."""


def area_map(scene: AreaScene) -> str:
    """The scene as one SVG element."""
    sheet = Sheet(scene.region)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {sheet.height + LEGEND:.0f}" role="img" '
        f'font-family="sans-serif" font-size="12" aria-label="{escape(described(scene))}">',
        f'<rect width="{WIDTH:.0f}" height="{sheet.height + LEGEND:.0f}" fill="#fff"/>',
        *(_area(scene, sheet, number, broker) for number, broker in enumerate(scene.region.areas.brokers)),
        _streets(scene, sheet),
        *(_server(scene, sheet, broker) for broker in scene.region.areas.brokers),
        _way(scene, sheet),
        _legend(sheet),
        "</svg>",
    ]
    return "".join(parts)


def described(scene: AreaScene) -> str:
    where = "switched off" if scene.serving is None else f"at {scene.serving}"
    expected = ", ".join(sorted(scene.virtual)) or "none"
    return f"The client is {where}; virtual consumers: {expected}."


class Sheet:
    """The sheet that the map is drawn on: it turns places into points, with north up."""

    def __init__(self, region: Region) -> None:
        places = [corner for cell in region.areas.broker_of for corner in corners(cell)]
        self.plane = Plane(center(next(iter(sorted(region.areas.broker_of)))))
        points = [self.plane.point(place) for place in places]
        self.left, self.top = min(x for x, _ in points), max(y for _, y in points)
        width, height = max(x for x, _ in points) - self.left, self.top - min(y for _, y in points)
        self.scale = (WIDTH - 2 * EDGE) / width
        self.height = height * self.scale + 2 * EDGE

    def at(self, place: Place) -> tuple[float, float]:
        x, y = self.plane.point(place)
        return EDGE + (x - self.left) * self.scale, EDGE + (self.top - y) * self.scale

    def outline(self, cells: Sequence[Cell]) -> str:
        """The cells as one path, each a closed hexagon."""
        shapes = []
        for cell in cells:
            points = [self.at(corner) for corner in corners(cell)]
            shapes.append("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z")
        return "".join(shapes)


def _area(scene: AreaScene, sheet: Sheet, number: int, broker: BrokerId) -> str:
    cells = scene.region.areas.cells(broker)
    border = [cell for cell in cells if cell in scene.region.border_cells(broker)]
    interior = [cell for cell in cells if cell not in scene.region.border_cells(broker)]
    fill = FILLS[number % len(FILLS)]
    lively = broker == scene.serving or broker in scene.virtual
    opacity = 0.55 if lively else 0.22
    return (
        f'<path d="{sheet.outline(interior)}" fill="{fill}" fill-opacity="{opacity}" stroke="#fff" stroke-width=".8"/>'
        f'<path d="{sheet.outline(border)}" fill="{fill}" fill-opacity="{min(1.0, opacity + 0.4)}" stroke="#fff" '
        'stroke-width=".8"/>'
    )


def _streets(scene: AreaScene, sheet: Sheet) -> str:
    routes = scene.region.routes
    if routes is None:
        return ""
    lines = []
    for a, b in routes.streets:
        (x1, y1), (x2, y2) = sheet.at(routes.junctions[a]), sheet.at(routes.junctions[b])
        lines.append(f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")
    return f'<path d="{"".join(lines)}" fill="none" stroke="{INK}" stroke-opacity=".22" stroke-width=".9"/>'


def _server(scene: AreaScene, sheet: Sheet, broker: BrokerId) -> str:
    x, y = sheet.at(scene.servers[broker])
    look = 'fill-opacity=".85"'
    if broker == scene.serving:
        look = SERVES
    elif broker in scene.virtual:
        look = EXPECTS
    return (
        f'<rect x="{x - 17:.0f}" y="{y - 12:.0f}" width="34" height="23" rx="6" fill="#fff" {look}/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}" text-anchor="middle" font-weight="600" fill="{INK}">{escape(broker)}'
        "</text>"
    )


def _way(scene: AreaScene, sheet: Sheet) -> str:
    points = [sheet.at(place) for place in scene.way]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    x, y = points[-1]
    fill = PATH if scene.serving is not None else "#fff"
    return (
        f'<polyline points="{line}" fill="none" stroke="#fff" stroke-width="5.5" stroke-linejoin="round" '
        f'stroke-opacity=".75"/><polyline points="{line}" fill="none" stroke="{PATH}" stroke-width="2.6" '
        f'stroke-linejoin="round"/><circle cx="{x:.1f}" cy="{y:.1f}" r="6" fill="{fill}" stroke="{PATH}" '
        'stroke-width="2.4"/>'
    )


def _legend(sheet: Sheet) -> str:
    y = sheet.height + 20
    box = f'<rect x="{{x}}" y="{y - 9:.0f}" width="18" height="13" rx="3"'
    items = [
        (f'{box} fill="{FILLS[0]}" fill-opacity=".95"/>', "border cell"),
        (f'{box} fill="{FILLS[0]}" fill-opacity=".4"/>', "interior cell"),
        (f'{box} fill="#fff" {SERVES}/>', "serves the client"),
        (f'{box} fill="#fff" {EXPECTS}/>', "virtual consumer"),
        (f'<rect x="{{x}}" y="{y - 4:.0f}" width="18" height="3" fill="{PATH}"/>', "way of the client"),
    ]
    drawn, x = [], EDGE
    for mark, text in items:
        drawn.append(mark.format(x=f"{x:.0f}"))
        drawn.append(f'<text x="{x + 24:.0f}" y="{y + 2:.0f}" fill="{INK}">{text}</text>')
        x += 34 + 5.9 * len(text)
    return "".join(drawn)
