"""Which nodes hear each other: those that are not farther apart than the range.

A spatial index (a k-d tree) finds the pairs anew at every step, which takes N log N for N nodes. Between two steps,
half a second, the field treats the nodes as standing still; a node at 20 m/s moves 10 m in this time, of a range of
120 m.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from roamq.core.events import Seconds
from roamq.manet.protocol.messages import NodeId
from roamq.manet.simulation.waypoint import Movement, Positions


class Field:
    """Where the nodes are, which neighbors each of them has, and how long a signal takes to each neighbor."""

    def __init__(self, mobility: Movement, *, range_m: float, delay_s_per_m: float) -> None:
        self._mobility = mobility
        self._range_m = range_m
        self._delay_s_per_m = delay_s_per_m
        self.positions: Positions = mobility.positions(0.0)
        self._others: NDArray[np.intp]
        self._delays: NDArray[np.float64]
        self._begins: list[int]
        self._asked: dict[NodeId, dict[NodeId, Seconds]]
        self._audible: dict[tuple[NodeId, float], list[NodeId]]
        self._absent: set[NodeId] = set()
        self._wall: float | None = None
        self.step(0.0)

    def step(self, now: Seconds) -> None:
        """Move all nodes to their positions at this time, and find the pairs in range."""
        self.positions = self._mobility.positions(now)
        self._tree = cKDTree(self.positions)
        pairs = self._tree.query_pairs(self._range_m, output_type="ndarray")
        if self._wall is not None:
            side = self.positions[:, 0] < self._wall
            pairs = pairs[side[pairs[:, 0]] == side[pairs[:, 1]]]
        gaps = self.positions[pairs[:, 0]] - self.positions[pairs[:, 1]]
        delays = np.hypot(gaps[:, 0], gaps[:, 1]) * self._delay_s_per_m
        # Each pair in both directions, sorted by node: the neighbors of a node are one slice of the arrays.
        one, other = np.concatenate((pairs, pairs[:, ::-1])).T
        order = np.lexsort((other, one))  # the tree returns the pairs in no particular order
        self._others = other[order]
        self._delays = np.concatenate((delays, delays))[order]
        self._begins = np.searchsorted(one[order], np.arange(len(self.positions) + 1)).tolist()
        self._asked = {}
        self._audible = {}

    def neighbors(self, node: NodeId) -> dict[NodeId, Seconds]:
        """The nodes in range of `node`, with the delay to each. The answer is kept until the next step."""
        known = self._asked.get(node)
        if known is None:
            begin, end = self._begins[node : node + 2]
            known = dict(zip(self._others[begin:end].tolist(), self._delays[begin:end].tolist(), strict=True))
            if self._absent:
                gone = known.keys() if node in self._absent else known.keys() & self._absent
                known = {other: delay for other, delay in known.items() if other not in gone}
            self._asked[node] = known
        return known

    def audible(self, node: NodeId, factor: float) -> list[NodeId]:
        """The other nodes within `factor` times the range of `node`. The answer is kept until the next step."""
        known = self._audible.get((node, factor))
        if known is None:
            within = self._tree.query_ball_point(self.positions[node], factor * self._range_m)
            here = self.positions[:, 0] < self._wall if self._wall is not None else None
            known = sorted(
                int(other)
                for other in within
                if other != node and other not in self._absent and (here is None or here[other] == here[node])
            )
            self._audible[node, factor] = known if node not in self._absent else []
        return self._audible[node, factor]

    def remove(self, node: NodeId) -> None:
        """The node vanishes, for example because its battery is empty: nobody hears it any more."""
        self._absent.add(node)
        self._asked = {}
        self._audible = {}

    def restore(self, node: NodeId) -> None:
        """The node is there from now on: others hear it again."""
        self._absent.discard(node)
        self._asked = {}
        self._audible = {}

    def split(self, wall_x_m: float | None) -> None:
        """Build a wall at this x, which no signal crosses from the next step on; None takes the wall away."""
        self._wall = wall_x_m
