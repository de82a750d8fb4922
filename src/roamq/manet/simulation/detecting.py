"""Which node detects an event that occurs at a place: one of those near it, drawn in proportion to their abilities.

The nodes move, so this is decided when the event occurs. Movements do not depend on the protocol: with one seed the
same nodes detect the same events under every scheme and every choice of brokers.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from roamq.core.events import Event
from roamq.manet.protocol.messages import NodeId
from roamq.manet.simulation.network import AdHocNetwork
from roamq.manet.simulation.waypoint import Area, Positions
from roamq.manet.simulation.workload import NumberInterval, Occurrence, drawn_by_share, event_of

Publish = Callable[[NodeId, Event], None]
"""Called with the node that detects the event, and the event."""


def detector(
    place: NDArray[np.float64], luck: float, ability: Positions, positions: Positions, sensing_m: float
) -> NodeId | None:
    """The node that detects what occurs at `place`; None if no node is within `sensing_m` of it."""
    gaps = positions - place
    near = np.flatnonzero(np.hypot(gaps[:, 0], gaps[:, 1]) <= sensing_m)
    able = ability[near]
    if not able.sum() > 0.0:
        return None
    return int(near[drawn_by_share(np.cumsum(able) / able.sum(), luck)])


class Witnesses:
    """The nodes of a network as witnesses: `occur` finds the one that detects an event, which publishes it."""

    def __init__(
        self,
        network: AdHocNetwork,
        ability: Sequence[float],
        workload: NumberInterval,
        area: Area,
        publish: Publish,
    ) -> None:
        self._network = network
        self._ability = np.array(ability)
        self._workload = workload
        self._area = area
        self._publish = publish
        self._detected = [0] * len(ability)

    def occur(self, occurrence: Occurrence) -> None:
        """Finds a node that detects the occurrence. If no node is near enough, it is no event, and is not counted."""
        ability = self._ability.copy()
        ability[list(self._network.absent)] = 0.0
        node = detector(
            self._area.at(*occurrence.place),
            occurrence.luck,
            ability,
            self._network.field.positions,
            self._workload.sensing_m,
        )
        if node is not None:
            self._detected[node] += 1
            number, time = self._detected[node], occurrence.time_s
            self._publish(node, event_of(node, number, occurrence.value, time, self._workload))
