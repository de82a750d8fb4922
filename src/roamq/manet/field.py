"""Who hears whom: a unit disc around every node, through a spatial index.

The index (a k-d tree) is rebuilt every step, N log N for N nodes; within a step the nodes are taken to stand
still, at most 10 m from where they are (20 m/s for half a second) of a range of 120 m.
"""

import numpy as np
from scipy.spatial import cKDTree

from roamq.core.events import Seconds
from roamq.manet.messages import NodeId
from roamq.manet.waypoint import Mobility, Positions


class Field:
    """The neighbors of every node now, with the time a signal takes to each."""

    def __init__(self, mobility: Mobility, *, range_m: float, delay_s_per_m: float) -> None:
        self._mobility = mobility
        self._range_m = range_m
        self._delay_s_per_m = delay_s_per_m
        self.positions: Positions = mobility.positions(0.0)
        self._delays: list[dict[NodeId, Seconds]] = []
        self._absent: set[NodeId] = set()
        self._wall: float | None = None
        self.step(0.0)

    def step(self, now: Seconds) -> None:
        """Move everybody to where they are now, and see who is near whom."""
        self.positions = self._mobility.positions(now)
        pairs = cKDTree(self.positions).query_pairs(self._range_m, output_type="ndarray")
        if self._wall is not None:
            side = self.positions[:, 0] < self._wall
            pairs = pairs[side[pairs[:, 0]] == side[pairs[:, 1]]]
        pairs = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]  # the tree's order is not promised
        gaps = self.positions[pairs[:, 0]] - self.positions[pairs[:, 1]]
        delays = np.hypot(gaps[:, 0], gaps[:, 1]) * self._delay_s_per_m
        table: list[dict[NodeId, Seconds]] = [{} for _ in range(len(self.positions))]
        for a, b, delay in zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), delays.tolist(), strict=True):
            table[a][b] = delay
            table[b][a] = delay
        self._delays = table
        for node in self._absent:
            self._isolate(node)

    def neighbors(self, node: NodeId) -> dict[NodeId, Seconds]:
        """Every node in range, with the delay to it."""
        return self._delays[node]

    def remove(self, node: NodeId) -> None:
        """The node vanishes: switched off, out of battery, gone."""
        self._absent.add(node)
        self._isolate(node)

    def split(self, wall_x_m: float | None) -> None:
        """From the next step no signal crosses the wall at this x; None takes the wall away."""
        self._wall = wall_x_m

    def _isolate(self, node: NodeId) -> None:
        for neighbor in self._delays[node]:
            self._delays[neighbor].pop(node, None)
        self._delays[node] = {}
