"""Who serves whom: every broker tells the others when a client connects, and the newest connection wins everywhere.

A directory is a hint, not an authority: it lets an unmodified client be found without asking the network while the
client waits, and it lets a broker that still believes in a dead connection give way at once. Correctness rests on
epochs in the contexts themselves (docs/decisions/0003), so a stale entry costs a detour and nothing else.
"""

from dataclasses import dataclass

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.messages import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving(Message):
    """Serving broker -> all others: the client connected here; older connections give way."""

    client: ClientId
    epoch: Epoch
    home: BrokerId
    """Where the client connected first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(Message):
    """Any broker -> all others: the client's session is over, whatever is left of it up to this epoch."""

    client: ClientId
    epoch: Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopt(Message):
    """Broker that is drained -> another: claim this client's context, as if the client had come to you."""

    client: ClientId
    home: BrokerId


class Directory:
    """Client -> the epoch of its newest known connection, which names the broker, and its home."""

    def __init__(self) -> None:
        self._tickets: dict[ClientId, tuple[Epoch, BrokerId]] = {}

    def __len__(self) -> int:
        return len(self._tickets)

    def learn(self, client: ClientId, epoch: Epoch, home: BrokerId) -> bool:
        """True if this is news."""
        known = self._tickets.get(client)
        if known is not None and known[0] >= epoch:
            return False
        self._tickets[client] = (epoch, home)
        return True

    def forget(self, client: ClientId, epoch: Epoch) -> None:
        """The session ended; a newer one stays."""
        known = self._tickets.get(client)
        if known is not None and known[0] <= epoch:
            del self._tickets[client]

    def last_epoch(self, client: ClientId) -> Epoch | None:
        known = self._tickets.get(client)
        return None if known is None else known[0]

    def home(self, client: ClientId) -> BrokerId | None:
        """Where the client connected first, as far as is known."""
        known = self._tickets.get(client)
        return None if known is None else known[1]
