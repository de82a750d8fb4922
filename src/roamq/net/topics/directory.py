"""Which broker serves which client: a broker tells all others when a client connects, and the newest connection wins.

A directory is a hint, not an authority: it lets an unmodified client be found without asking the network while the
client waits, and it lets a broker that still believes in a dead connection give way at once. Correctness rests on
epochs in the contexts themselves (docs/decisions/0003), so a stale entry costs a longer way and nothing else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message
from roamq.core.tuples import new_tuple

ENDED_MAX: Final = 10_000
"""Sessions whose end is remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Message):
    """Serving broker -> all others: the client connected here; older connections give way."""

    client: ClientId
    epoch: Epoch
    home: BrokerId
    """Where the client connected first."""
    previous: BrokerId | None
    """Where its session comes from; None: it has none, and what there may be of an older one is over."""
    owner: str | None = None
    """The user whose session it is; None: of a client that gave no user name."""
    formerly: str | None = None
    """The name by which others know the owner, if an operator has renamed it: they may not have heard of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoServes(Message):
    """Broker that has not heard of a client -> all others: have you? Perhaps the news is on its way."""

    client: ClientId
    asked: Epoch
    """Of the connection on which the client waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known(Message):
    """The answer: the newest connection that the other broker has heard of, the client's home, and its user."""

    client: ClientId
    asked: Epoch
    epoch: Epoch | None
    home: BrokerId | None
    owner: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Message):
    """Any broker -> all others: the client's session is over, whatever is left of it up to this epoch."""

    client: ClientId
    epoch: Epoch
    owner: str | None = None
    """The user whose session it was: nobody else's session ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Message):
    """Broker that is drained -> another: claim this client's context, as if the client had come to you."""

    client: ClientId
    home: BrokerId
    owner: str | None = None


class KnownConnection(NamedTuple):
    """What is known of a client: its newest connection, which names the broker, its home, and whose session it is."""

    epoch: Epoch
    home: BrokerId
    owner: str | None


class Directory:
    """Client -> what is known of its newest connection."""

    def __init__(self) -> None:
        self._entries: dict[ClientId, KnownConnection] = {}
        self._rivals: dict[ClientId, KnownConnection] = {}
        """Later connections of other users with the same client id: they count when the session there is ends."""
        self._ended: dict[ClientId, Epoch] = {}
        """Up to which epoch sessions have ended lately: older news of them is no news."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, client: ClientId) -> KnownConnection | None:
        return self._entries.get(client)

    def learn(self, client: ClientId, epoch: Epoch, home: BrokerId, owner: str | None = None) -> bool:
        """True if this is news."""
        known = self._entries.get(client)
        if known is not None and known.epoch >= epoch:
            return False
        self._entries[client] = new_tuple(KnownConnection, (epoch, home, owner))
        return True

    def note_rival(self, client: ClientId, entry: KnownConnection) -> None:
        """Another user has connected with the client id of a session that is not over, as far as is known here."""
        self._rivals[client] = entry

    def take_rivals(self, may_continue: Callable[[str | None, str | None], bool]) -> None:
        """Later connections of users who may go on with the sessions count from now on."""
        for client, rival in list(self._rivals.items()):
            known = self._entries.get(client)
            if known is None or may_continue(known.owner, rival.owner):
                del self._rivals[client]
                self.learn(client, *rival)

    def has_ended(self, client: ClientId, epoch: Epoch) -> bool:
        """Whether the session of this connection is known to be over."""
        ended = self._ended.get(client)
        return ended is not None and epoch <= ended

    def forget(self, client: ClientId, epoch: Epoch) -> None:
        """The session ended; a newer one stays. The news of one that was not heard of may be on its way."""
        known = self._entries.get(client)
        if known is None:
            self._note_ended(client, epoch)
        elif known.epoch <= epoch:
            del self._entries[client]
            self._note_ended(client, epoch)
            rival = self._rivals.pop(client, None)
            if rival is not None:
                self._entries[client] = rival

    def _note_ended(self, client: ClientId, epoch: Epoch) -> None:
        before = self._ended.pop(client, epoch)
        self._ended[client] = max(before, epoch)
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def forget_rival(self, client: ClientId, owner: str | None) -> None:
        rival = self._rivals.get(client)
        if rival is not None and rival.owner == owner:
            del self._rivals[client]

    def count_at(self, broker: BrokerId) -> int:
        """How many clients are taken for being at a broker."""
        return sum(entry.epoch.broker == broker for entry in self._entries.values())

    def forget_broker(self, broker: BrokerId) -> None:
        """A broker is gone for good: whoever was there is not known any more."""
        for known in (self._entries, self._rivals):
            for client in [client for client, entry in known.items() if entry.epoch.broker == broker]:
                del known[client]

    def ended(self) -> Iterator[tuple[ClientId, Epoch]]:
        """Sessions that have ended lately, and up to which connection."""
        return iter(self._ended.items())

    def items(self) -> Iterator[tuple[ClientId, KnownConnection]]:
        return iter(self._entries.items())

    def clients(self) -> Iterator[ClientId]:
        """Every client whose broker is known."""
        return iter(self._entries)

    def last_epoch(self, client: ClientId) -> Epoch | None:
        known = self._entries.get(client)
        return None if known is None else known.epoch

    def home(self, client: ClientId) -> BrokerId | None:
        """Where the client connected first, as far as is known."""
        known = self._entries.get(client)
        return None if known is None else known.home
