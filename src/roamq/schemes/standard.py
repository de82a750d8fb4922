"""The standard algorithm: the context waits at the last broker and is pulled by the new one.

Paper: [DIS] section 3.1; its six steps are in `parts/handover.py`, in the paper's order. [PRO] section 1 calls it
reactive.
Assumes: reliable FIFO links; the client names the broker it was at before.
Departs: as the hand-over does (docs/decisions/0003, 0007).
"""

from roamq.core.context import Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.schemes.base import Scheme, Setup
from roamq.schemes.parts.departed import DepartedBrokers


class Standard(Scheme):
    """One broker's part of the standard algorithm."""

    name = "standard"
    lets_brokers_depart = True
    stands_beside_others = True

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.handover = self.hand_over_by(setup, may_be_late=True)
        self.add(DepartedBrokers(self.handover))

    def on_connect(
        self,
        client: ClientId,
        old_broker: BrokerId | None,
        carried: tuple[Filter, ...] = (),
        ticket: Ticket | None = None,
    ) -> None:
        self.handover.on_connect(client, old_broker, carried)
