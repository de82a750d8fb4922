"""The directory: which broker serves which client. A broker tells all others when a client connects; the newest wins.

A directory is a hint, not an authority: by it a broker finds the context of an unmodified client without asking the
network while the client waits, and a broker that still believes in a dead connection gives way at once. Correctness
rests on epochs in the contexts themselves (docs/decisions/0003), so a stale entry costs a longer way and nothing else.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message
from roamq.core.tuples import new_tuple

ENDED_MAX: Final = 10_000
"""The number of ended sessions that a broker remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Message):
    """Serving broker -> all others: the client connected here; older connections give way."""

    client: ClientId
    epoch: Epoch
    home: BrokerId
    """The broker to which the client connected first."""
    previous: BrokerId | None
    """The broker from which the client's session comes; None: the client has no session, and any older one is over."""
    owner: str | None = None
    """The user whose session it is; None: the client gave no user name."""
    formerly: str | None = None
    """The owner's name before an operator renamed it: other brokers may not have heard of the new name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhoServes(Message):
    """Broker that has not heard of a client -> all others: have you heard of it? Perhaps the news is on its way."""

    client: ClientId
    asked: Epoch
    """The epoch of the connection on which the client waits."""


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
    """Any broker -> all others: the client's session is over, with all that is left of it up to this epoch."""

    client: ClientId
    epoch: Epoch
    owner: str | None = None
    """The user whose session it was: no other user's session ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Message):
    """Broker that is drained -> another: claim this client's context, as if the client had come to you."""

    client: ClientId
    home: BrokerId
    owner: str | None = None


class KnownConnection(NamedTuple):
    """An entry of the directory: the client's newest connection, which names the broker, its home, and its user."""

    epoch: Epoch
    home: BrokerId
    owner: str | None


class Directory:
    """One broker's table: client -> its newest connection, as far as this broker knows."""

    def __init__(self) -> None:
        self._entries: dict[ClientId, KnownConnection] = {}
        self._rivals: dict[ClientId, KnownConnection] = {}
        """Client id -> the later connection of another user with that id: it counts when the session there ends."""
        self._ended: dict[ClientId, Epoch] = {}
        """Client -> the epoch up to which its sessions have ended lately: the directory ignores older news of them."""

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, client: ClientId) -> KnownConnection | None:
        return self._entries.get(client)

    def learn(self, client: ClientId, epoch: Epoch, home: BrokerId, owner: str | None = None) -> bool:
        """Enter a connection. Returns whether it is news."""
        known = self._entries.get(client)
        if known is not None and known.epoch >= epoch:
            return False
        self._entries[client] = new_tuple(KnownConnection, (epoch, home, owner))
        return True

    def note_rival(self, client: ClientId, entry: KnownConnection) -> None:
        """Another user has connected with the client id of a session that is not over, as far as this broker knows."""
        self._rivals[client] = entry

    def take_rivals(self, may_continue: Callable[[str | None, str | None], bool]) -> None:
        """Enter the later connections of users who may go on with the sessions."""
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
        """The session ended; a newer one stays. If this broker had not heard of it, the news of it may still be on its
        way."""
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
        """The number of clients that this broker believes to be at `broker`."""
        return sum(entry.epoch.broker == broker for entry in self._entries.values())

    def forget_broker(self, broker: BrokerId) -> None:
        """A broker is gone for good: forget the clients that were there."""
        for known in (self._entries, self._rivals):
            for client in [client for client, entry in known.items() if entry.epoch.broker == broker]:
                del known[client]

    def ended(self) -> Iterator[tuple[ClientId, Epoch]]:
        """The clients whose sessions have ended lately, and up to which connection."""
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
        """The broker to which the client connected first, as far as this broker knows."""
        known = self._entries.get(client)
        return None if known is None else known.home
