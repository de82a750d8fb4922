"""Who hears whom: a unit disc around every node, through a spatial index.

The index (a k-d tree) is rebuilt every step, N log N for N nodes; within a step the nodes are taken to stand
still, at most 10 m from where they are (20 m/s for half a second) of a range of 120 m.
"""

import numpy as np
from numpy.typing import NDArray
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
        self._others: NDArray[np.intp]
        self._delays: NDArray[np.float64]
        self._begins: list[int]
        self._asked: dict[NodeId, dict[NodeId, Seconds]]
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
        gaps = self.positions[pairs[:, 0]] - self.positions[pairs[:, 1]]
        delays = np.hypot(gaps[:, 0], gaps[:, 1]) * self._delay_s_per_m
        # Every pair in both directions, one node's after the other's: who is asked about gets its slice of the arrays.
        one, other = np.concatenate((pairs, pairs[:, ::-1])).T
        order = np.lexsort((other, one))  # the tree's order is not promised
        self._others = other[order]
        self._delays = np.concatenate((delays, delays))[order]
        self._begins = np.searchsorted(one[order], np.arange(len(self.positions) + 1)).tolist()
        self._asked = {}

    def neighbors(self, node: NodeId) -> dict[NodeId, Seconds]:
        """Every node in range, with the delay to it; worked out for those who are asked about, once a step."""
        known = self._asked.get(node)
        if known is None:
            begin, end = self._begins[node : node + 2]
            known = dict(zip(self._others[begin:end].tolist(), self._delays[begin:end].tolist(), strict=True))
            if self._absent:
                gone = known.keys() if node in self._absent else known.keys() & self._absent
                known = {other: delay for other, delay in known.items() if other not in gone}
            self._asked[node] = known
        return known

    def remove(self, node: NodeId) -> None:
        """The node vanishes: switched off, out of battery, gone."""
        self._absent.add(node)
        self._asked = {}

    def split(self, wall_x_m: float | None) -> None:
        """From the next step no signal crosses the wall at this x; None takes the wall away."""
        self._wall = wall_x_m
