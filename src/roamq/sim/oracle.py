"""Tells schemes what the simulator knows of the future ([DIS] section 5.2.2: "perfect prediction")."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from roamq.core.events import BrokerId, ClientId

if TYPE_CHECKING:
    from roamq.sim.clients import SimClient


class PlannedMoves:
    """Reads the plans of the simulated clients; implements `schemes.parts.prediction.Oracle`."""

    def __init__(
        self,
        clients: Mapping[ClientId, "SimClient"],
        leaves: Sequence[BrokerId],
        brokers: Sequence[BrokerId],
    ) -> None:
        """`leaves` serve the clients in most scenarios; where each broker has an area, all `brokers` do."""
        self._clients = clients
        self._leaves = leaves
        self._brokers = brokers

    def next_broker(self, client: ClientId) -> BrokerId | None:
        """Returns the client's present broker, for a broker that notices its move late, or else its next one."""
        planned = self._clients[client]
        if planned.host is not None:
            return planned.host.me
        return None if planned.next_step is None else planned.next_step.broker

    def other_broker(self, client: ClientId) -> BrokerId | None:
        """Returns a wrong prediction: a broker half the city away from the next one, and not the client's last one."""
        right = self.next_broker(client)
        if right is None:
            return None
        places = self._leaves if right in self._leaves else self._brokers
        start = places.index(right) + len(places) // 2
        turned = (places[(start + i) % len(places)] for i in range(len(places)))
        return next((b for b in turned if b not in (right, self._clients[client].last_broker)), None)
