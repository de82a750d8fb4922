"""A neighbour that was cut off is back: what was left out of its outbox is told in another way.

Order matters for markers alone. A marker says that all that its sender told before it is known (docs/interest.md), so
it follows the roll call of its sender, and what is subscribed to.
"""

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId, Event
from roamq.net.host import LiveHost
from roamq.net.links import wire
from roamq.net.links.others import OtherBrokers
from roamq.net.links.outboxes import Outboxes
from roamq.net.topics.tables import Tables, TablesWanted
from roamq.overlay.interest import ByInterest


class Resuming:
    """Tells neighbours of one broker what they have missed."""

    def __init__(
        self, host: LiveHost, broker: Broker, outboxes: Outboxes, tables: Tables, others: OtherBrokers
    ) -> None:
        self._host = host
        self._broker = broker
        self._outboxes = outboxes
        self._tables = tables
        self._others = others

    def resume(self, neighbour: BrokerId) -> None:
        """The neighbour answers: call the roll for those behind it, have others call theirs, tell what is wanted."""
        router, me = self._broker.router, self._host.me
        left_out = self._outboxes.resume(neighbour)
        asked: dict[BrokerId, list[BrokerId]] = {}
        for sender, to in left_out.news:
            if sender == me:
                self._tables.call_roll(to)
            elif not router.is_departed(sender):
                asked.setdefault(sender, []).append(to)
        waits_for = {*asked, *left_out.asked}
        self._outboxes.hold(neighbour, waits_for)
        for sender, others in asked.items():
            self._others.tell(sender, TablesWanted(roll_for=tuple(others)))
        if isinstance(router, ByInterest):
            router.tell_again(neighbour)
        for _, data in left_out.latest.values():
            self._follow(neighbour, data)
        self._outboxes.resumed(neighbour)
        self._host.out.notices.append(
            f"broker {neighbour} is back, which was cut off: it is told what it has missed"
        )

    def called(self, sender: BrokerId) -> None:
        """A broker has called its roll for those behind neighbours of this one: its markers follow."""
        for neighbour, data in self._outboxes.release(sender):
            self._follow(neighbour, data)

    def _follow(self, neighbour: BrokerId, data: bytes) -> None:
        message = wire.decode(data)
        assert not isinstance(message, Event)
        self._host.send(neighbour, message)
