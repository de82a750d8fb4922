"""The message of the neighbor graph ([PRO] section 4.2)."""

from dataclasses import dataclass
from typing import ClassVar

from roamq.core.events import BrokerId
from roamq.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighborList(Message):
    """Broker -> its neighbors: these are my neighbors now (section 4.1, case 4)."""

    carries: ClassVar[str] = "neighbors"
    neighbors: tuple[BrokerId, ...]
