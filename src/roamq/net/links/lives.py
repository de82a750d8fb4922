"""Lives of brokers: which neighbour has lost its store, or whether this broker has, and what brokers tell again then.

A broker that begins with an empty folder is a new life. So is a broker that begins with an old copy of its folder, but
it does not know this until a neighbour says what it has received. All numbers of a life are above those of earlier
lives, so that nothing that others hold for an earlier life is taken for this one's.
"""

from typing import TYPE_CHECKING, Final

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId
from roamq.net.host import LiveHost
from roamq.net.links.outboxes import Memory, Outboxes
from roamq.net.links.resuming import Resuming
from roamq.net.topics.retained import RetainedMessages
from roamq.net.topics.tables import Tables

if TYPE_CHECKING:
    from roamq.net.links.membership import Membership

MICROSECONDS: Final = 1_000_000
"""Microseconds of a second: the numbers of a life count on from the microsecond in which it began."""


class Lives:
    """The life of this broker, and the lives of its neighbours."""

    def __init__(
        self,
        host: LiveHost,
        broker: Broker,
        outboxes: Outboxes,
        tables: Tables,
        retained: RetainedMessages,
        membership: "Membership",
    ) -> None:
        self._host = host
        self._broker = broker
        self._outboxes = outboxes
        self._tables = tables
        self._retained = retained
        self._membership = membership
        self.resuming = Resuming(host, broker, outboxes, tables)

    def begin_again(self, now: float) -> None:
        """Start from a store that may be old: an earlier life may have used numbers above the store's last ones."""
        number = int(now * MICROSECONDS)
        self._broker.sequence = max(self._broker.sequence, number)
        self._broker.router.count_on(number)
        self._outboxes.skip_to(number)
        self._broker.router.restarted()

    def acked(self, peer: BrokerId, sequence: int) -> bool:
        """Note that the neighbour has every frame up to `sequence`. Return True if anything was sent because of it."""
        memory = self._outboxes.acknowledge(peer, sequence)
        is_back = self._outboxes.is_cut_off(peer)
        if is_back:
            self.resuming.resume(peer)
        if missed := self._outboxes.take_missed(peer):
            self._tables.tell_retained(missed)
        if memory is Memory.SAME:
            self._broker.router.in_step(peer)
            return is_back or bool(missed)
        if memory is Memory.WE_FORGOT:
            self._notice_old_store(peer)
        else:
            self._membership.tell_first(peer)
        self._broker.router.neighbour_forgot(peer)
        if memory is Memory.THEY_FORGOT:
            self._tables.tell(peer)
        return True

    def _notice_old_store(self, peer: BrokerId) -> None:
        """Say that this store is an old one, and ask all neighbours: they tell again what this broker has forgotten."""
        self._host.out.notices.append(
            f"broker {peer} has received more than this broker remembers to have sent: the data folder is an old one. "
            "What was stored here since is lost; the other brokers tell what they know"
        )
        self._tables.since = self._host.time
        self._retained.clear()
        self._broker.doubt()
        for neighbour in self._outboxes.frames:
            self._tables.ask(neighbour)
