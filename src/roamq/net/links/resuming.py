"""A neighbour that was cut off is back: this broker tells it in another way what was left out of its outbox.

Subscriptions go first. The kept messages follow: some of them say that their sender has subscribed, and so do markers
(docs/interest.md). A marker says besides that all earlier news of its sender is known, so it follows the roll call of
its sender.
"""

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId
from roamq.net.host import LiveHost
from roamq.net.links.outboxes import Outboxes
from roamq.net.topics.tables import Tables, TablesWanted
from roamq.overlay.interest import ByInterest


class Resuming:
    """Tells neighbours of one broker the news that they have missed."""

    def __init__(self, host: LiveHost, broker: Broker, outboxes: Outboxes, tables: Tables) -> None:
        self._host = host
        self._broker = broker
        self._outboxes = outboxes
        self._tables = tables

    def resume(self, neighbour: BrokerId) -> None:
        """Tell a neighbour that is back the subscriptions, the kept messages and the roll, and have others call their
        roll."""
        router, me = self._broker.router, self._host.me
        waiting = self._outboxes.resume(neighbour)
        if isinstance(router, ByInterest):
            router.tell_again(neighbour)
        for data in waiting.kept:
            self._host.send_kept(neighbour, data)
        asked: dict[BrokerId, list[BrokerId]] = {}
        for sender, to in waiting.news:
            if sender == me:
                self._tables.call_roll(to)
            elif not router.is_departed(sender):
                asked.setdefault(sender, []).append(to)
        self._outboxes.hold(neighbour, {*asked, *waiting.asked})
        for sender, others in asked.items():
            self._broker.unicast(sender, TablesWanted(roll_for=tuple(others)))
        for _, data in waiting.latest.values():
            self._host.send_kept(neighbour, data)
        self._outboxes.resumed(neighbour)
        self._host.out.notices.append(
            f"broker {neighbour} is back, which was cut off: it is told what it has missed"
        )

    def called(self, sender: BrokerId) -> None:
        """Send the markers of a broker that has called its roll for brokers behind neighbours of this one."""
        for neighbour, data in self._outboxes.release(sender):
            self._host.send_kept(neighbour, data)
