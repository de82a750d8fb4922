"""The description of a network as data: the brokers of the first configuration, and the later changes.

The brokers of the configuration are the *core*. An *edge* broker joins later, linked with brokers of the core, leaves,
or is forgotten. A broker of the core may leave or be forgotten, for good, if nothing between others goes through it.
Brokers that come and go carry nothing for others, so that changes to two of them do not depend on each other: brokers
may hear of them in any order. Of two changes to one broker the later one holds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message

MemberState = Literal["joined", "left", "forgotten"]
_RANKS: Final[dict[MemberState, int]] = {"joined": 0, "left": 1, "forgotten": 2}


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """An edge broker, as the network knows it, or a broker of the core that has gone."""

    name: BrokerId
    life: int
    """The time in microseconds at which the broker was admitted, which names its life in the network. 0 for the
    core."""
    at: tuple[BrokerId, ...]
    """The brokers of the core that this broker is linked with."""
    state: MemberState = "joined"
    reference: str = ""
    """The Server Reference for clients that are sent to this broker."""
    position: tuple[float, float] | None = None
    changes: int = 1
    """How often the broker of this name has changed its state."""
    publishes: tuple[str, ...] | None = None
    """Topic filters of all that is published at the broker, or was in an earlier life; None for anything."""
    beside: tuple[str, ...] = ()
    """Marks of the edge brokers that the broker found when it was admitted, and with which it is linked."""

    @property
    def mark(self) -> str:
        """The name of this life of the broker."""
        return f"{self.name}@{self.life}"

    @property
    def is_gone(self) -> bool:
        return self.state != "joined"

    def is_linked_with(self, other: "Member") -> bool:
        """Whether two edge brokers have a link: the one that came later was told of the other when it was admitted."""
        return other.mark in self.beside or self.mark in other.beside

    def is_later_than(self, other: "Member") -> bool:
        return (self.life, _RANKS[self.state]) > (other.life, _RANKS[other.state])


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkTold(Message):
    """Broker -> neighbour, ahead of all that is about these brokers: they have joined, left or are forgotten."""

    members: bytes

    @classmethod
    def of(cls, members: Iterable[Member]) -> "NetworkTold":
        return cls(members=msgspec.msgpack.encode(list(members)))

    def read(self) -> list[Member]:
        return msgspec.msgpack.decode(self.members, type=list[Member])


@dataclass(frozen=True, slots=True, kw_only=True)
class Farewell(Message):
    """Leaving broker -> each other broker, behind all that it had to say: have you heard where its sessions are?"""

    went: dict[ClientId, Epoch] = field(default_factory=dict)
    """Client -> the connection to which its context went: other brokers send claims there, not to the leaving
    broker."""
    number: int = 0
    """The number of this farewell. All that was sent ahead of it has come when it is answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FarewellHeard(Message):
    """The answer to a farewell; `sessions` is how many the other broker still believes to be at the leaving broker."""

    sessions: int
    number: int = 0
    """The number of the farewell that is answered; 0 from a broker of the release before, which does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned(Message):
    """Any broker -> the sender of `message`: the broker `to` has departed, and will never receive it."""

    to: BrokerId
    message: Message


def published_ever(known: Member | None, publishes: Iterable[str] | None) -> tuple[str, ...] | None:
    """The topic filters of all that is published at a broker that joins, or was published in an earlier life: such
    events may still be under way.

    Raises ValueError if anything could be published then, and cannot any more.
    """
    if publishes is None:
        return None
    if known is not None and known.publishes is None:
        raise ValueError(
            f"{known.name!r} was in the network before, and anything could be published there: some of it may be under "
            "way. Choose another name, or join without `publishes`"
        )
    return tuple(sorted({*publishes, *(known.publishes or () if known is not None else ())}))


def version_of(members: Mapping[BrokerId, Member]) -> int:
    """How many changes there were since the first configuration; equal descriptions have equal versions."""
    return sum(member.changes for member in members.values())
