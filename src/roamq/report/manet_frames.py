"""Frames of a mobile network: Voronoi regions, bridges, and where the copies of one event are. Drawn as SVG."""

from collections.abc import Mapping, Sequence
from colorsys import hls_to_rgb
from dataclasses import dataclass
from math import hypot

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Voronoi

SIZE = 560.0
LEGEND = 58.0
ROLE_COLORS = {"source": "#c0392b", "carrier": "#e67e22", "destination": "#2471a3", "epidemic": "#8e44ad"}
GOLDEN_ANGLE = 137.508
SATURATION = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class MobileBrokerScene:
    """One moment. Nodes are numbered by their row in `positions`."""

    side_m: float
    positions: Sequence[tuple[float, float]]
    local_broker: Sequence[int | None]
    brokers: Sequence[int]
    bridges: Sequence[tuple[int, int]]
    """Bridge nodes, each with its neighbor in the other region."""
    copies: Mapping[int, str]
    """Brokers that hold the event, and as what."""
    handed: Sequence[tuple[int, int]] = ()
    """Pairs of brokers: the first gave a copy to the second."""
    waiting: Sequence[int]
    """Subscribers that want the event and have not got it."""
    served: Sequence[int]


def frame(scene: MobileBrokerScene) -> str:
    """The scene as one SVG element."""
    scale = SIZE / scene.side_m
    at = [(x * scale, SIZE - y * scale) for x, y in scene.positions]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE:.0f} {SIZE + LEGEND:.0f}" role="img" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{SIZE:.0f}" height="{SIZE + LEGEND:.0f}" fill="#fff"/>',
        *_regions(scene, scale),
        *(_line(at[bridge], at[foreign]) for bridge, foreign in scene.bridges),
        *_nodes(scene, at),
        *_subscribers(scene, at),
        *_handovers(scene, at),
        *_brokers(scene, at),
        *_legend(scene),
        "</svg>",
    ]
    return "".join(parts)


def _regions(scene: MobileBrokerScene, scale: float) -> list[str]:
    """The cell of every broker, cut off at the edge of the field."""
    cells = voronoi_cells(np.array([scene.positions[broker] for broker in scene.brokers]), scene.side_m)
    drawn = []
    for broker, cell in zip(scene.brokers, cells, strict=True):
        points = " ".join(f"{x * scale:.0f},{SIZE - y * scale:.0f}" for x, y in cell)
        drawn.append(f'<polygon points="{points}" fill="{_hue(scene, broker, 93)}" stroke="#bbb"/>')
    return drawn


def voronoi_cells(points: NDArray[np.float64], side: float) -> list[NDArray[np.float64]]:
    """Finite Voronoi cells in the square: mirroring the points at its four sides makes the sides into edges."""
    mirrored = [points]
    for axis in (0, 1):
        for edge in (0.0, side):
            image = points.copy()
            image[:, axis] = 2 * edge - image[:, axis]
            mirrored.append(image)
    diagram = Voronoi(np.concatenate(mirrored))
    cells = []
    for index in range(len(points)):
        corners = diagram.vertices[diagram.regions[diagram.point_region[index]]]
        around = corners - points[index]
        cells.append(np.clip(corners[np.argsort(np.arctan2(around[:, 1], around[:, 0]))], 0.0, side))
    return cells


def _nodes(scene: MobileBrokerScene, at: Sequence[tuple[float, float]]) -> list[str]:
    """A dot for each node, in the color of the region it is attached to; bridges have a dark rim."""
    bridges = {bridge for bridge, _ in scene.bridges}
    drawn = []
    for node, (x, y) in enumerate(at):
        local = scene.local_broker[node]
        color = _hue(scene, local, 45) if local is not None else "#fff"
        rim = ' stroke="#222" stroke-width="1.4"' if node in bridges else ""
        drawn.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="3" fill="{color}"{rim}/>')
    return drawn


def _subscribers(scene: MobileBrokerScene, at: Sequence[tuple[float, float]]) -> list[str]:
    rings = [(node, "#111", ' stroke-dasharray="3 2"') for node in scene.waiting]
    rings += [(node, "#1e8449", "") for node in scene.served]
    return [
        f'<circle cx="{at[node][0]:.0f}" cy="{at[node][1]:.0f}" r="8" fill="none" stroke="{color}" '
        f'stroke-width="2.4"{dash}/>'
        for node, color, dash in rings
    ]


def _handovers(scene: MobileBrokerScene, at: Sequence[tuple[float, float]]) -> list[str]:
    """A band from who gave a copy to who took it, in the color of the taker, narrow at its end."""
    drawn = []
    for giver, taker in scene.handed:
        (x1, y1), (x2, y2) = at[giver], at[taker]
        length = max(1.0, hypot(x2 - x1, y2 - y1))
        across_x, across_y = 5 * (y1 - y2) / length, 5 * (x2 - x1) / length
        points = f"{x1 + across_x:.0f},{y1 + across_y:.0f} {x1 - across_x:.0f},{y1 - across_y:.0f} {x2:.0f},{y2:.0f}"
        color = ROLE_COLORS[scene.copies[taker]]
        drawn.append(f'<polygon points="{points}" fill="{color}" fill-opacity=".45"/>')
    return drawn


def _brokers(scene: MobileBrokerScene, at: Sequence[tuple[float, float]]) -> list[str]:
    drawn = []
    for broker in scene.brokers:
        x, y = at[broker]
        role = scene.copies.get(broker)
        if role is not None:
            color = ROLE_COLORS[role]
            drawn.append(f'<circle cx="{x:.0f}" cy="{y:.0f}" r="12" fill="{color}" fill-opacity=".85"/>')
        drawn.append(f'<rect x="{x - 4:.0f}" y="{y - 4:.0f}" width="8" height="8" fill="#111"/>')
    return drawn


def _legend(scene: MobileBrokerScene) -> list[str]:
    top, below = SIZE + 20, SIZE + 44
    drawn = [
        f'<rect x="10" y="{top - 8}" width="8" height="8" fill="#111"/><text x="24" y="{top}">broker</text>',
        f'<circle cx="84" cy="{top - 4}" r="3" fill="#888" stroke="#222" stroke-width="1.4"/>'
        f'<text x="93" y="{top}">bridge and its link</text>',
        f'<circle cx="218" cy="{top - 4}" r="7" fill="none" stroke="#111" stroke-width="2.4" '
        f'stroke-dasharray="3 2"/><text x="230" y="{top}">subscriber, waiting</text>',
        f'<circle cx="358" cy="{top - 4}" r="7" fill="none" stroke="#1e8449" stroke-width="2.4"/>'
        f'<text x="370" y="{top}">subscriber, has the event</text>',
    ]
    roles = ["epidemic"] if "epidemic" in scene.copies.values() else ["carrier", "destination"]
    for place, role in enumerate(["source", *roles]):
        x = 16 + place * 130
        drawn.append(
            f'<circle cx="{x}" cy="{below - 4}" r="7" fill="{ROLE_COLORS[role]}"/>'
            f'<text x="{x + 12}" y="{below}">copy: {role}</text>'
        )
    if scene.handed:
        x = 16 + (1 + len(roles)) * 130
        drawn.append(
            f'<polygon points="{x - 6},{below - 9} {x - 6},{below + 1} {x + 24},{below - 4}" fill="#888"/>'
            f'<text x="{x + 30}" y="{below}">from, to</text>'
        )
    return drawn


def _line(one: tuple[float, float], other: tuple[float, float]) -> str:
    return (
        f'<line x1="{one[0]:.0f}" y1="{one[1]:.0f}" x2="{other[0]:.0f}" y2="{other[1]:.0f}" '
        'stroke="#222" stroke-width="1.2"/>'
    )


def _hue(scene: MobileBrokerScene, broker: int, lightness: int) -> str:
    """A color for each broker, unlike that of the next in the list; grey for a node that is a broker no more."""
    if broker not in scene.brokers:
        return "#999"
    hue = (list(scene.brokers).index(broker) * GOLDEN_ANGLE) % 360
    return "#" + "".join(
        f"{round(255 * part):02x}" for part in hls_to_rgb(hue / 360, lightness / 100, SATURATION)
    )
