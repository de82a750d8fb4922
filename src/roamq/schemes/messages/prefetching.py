"""The messages of prefetching ([DIS] section 3.2.1)."""

from dataclasses import dataclass
from typing import ClassVar

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetch(Message):
    """Old broker -> predicted broker: the client may come to you, subscribe for it (step 2, pushed).

    `epoch` is that of the copied context; `targets` are all brokers that get a copy.
    """

    kind: ClassVar[str] = "context"
    carries: ClassVar[str] = "filters"
    client: ClientId
    epoch: Epoch
    filters: tuple[Filter, ...]
    targets: tuple[BrokerId, ...]
    session: object | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prefetched(Message):
    """Old broker -> predicted broker that asks: the copy of `of` that I pushed to you is what you ask for."""

    client: ClientId
    epoch: Epoch
    of: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Discard(Message):
    """Old broker, or the broker to which the client came -> the others: the client came to `new_broker`, forget the
    copies of its context `epoch`."""

    client: ClientId
    epoch: Epoch
    new_broker: BrokerId
