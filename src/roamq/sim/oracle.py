"""What the simulator knows of the future, for schemes that may ask ([DIS] section 5.2.2: "perfect prediction")."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roamq.core.events import BrokerId, ClientId

if TYPE_CHECKING:
    from roamq.sim.clients import SimClient


class PlannedMoves:
    """Reads the plans of the simulated clients; implements `schemes.prediction.Oracle`."""

    def __init__(self, clients: Mapping[ClientId, "SimClient"], leaves: Sequence[BrokerId]) -> None:
        self._clients = clients
        self._leaves = leaves

    def next_broker(self, client: ClientId) -> BrokerId | None:
        """Where the client is already, as a broker that notices late finds it, or where it will be."""
        planned = self._clients[client]
        if planned.host is not None:
            return planned.host.me
        return None if planned.next_step is None else planned.next_step.broker

    def other_broker(self, client: ClientId) -> BrokerId | None:
        """Half the city away from where the client goes; not where it was either."""
        right = self.next_broker(client)
        if right is None:
            return None
        start = self._leaves.index(right) + len(self._leaves) // 2
        turned = (self._leaves[(start + i) % len(self._leaves)] for i in range(len(self._leaves)))
        return next((b for b in turned if b not in (right, self._clients[client].last_broker)), None)
