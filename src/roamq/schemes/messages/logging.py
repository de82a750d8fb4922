"""The messages of logging ([DIS] section 3.2.2)."""

from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, EventId
from roamq.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIds(Message):
    """Old broker -> new broker: the ids of the events stored for the client, in order."""

    kind: ClassVar[str] = "event_ids"
    carries: ClassVar[str] = "ids"
    client: ClientId
    epoch: Epoch
    ids: tuple[EventId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedIds(Message):
    """New broker -> old broker: I have these events in my log, do not send them."""

    kind: ClassVar[str] = "event_ids"
    carries: ClassVar[str] = "ids"
    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
    ids: tuple[EventId, ...]
