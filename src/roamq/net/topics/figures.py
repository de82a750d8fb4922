"""The broker's own figures as retained `$SYS` topics."""

from collections.abc import Mapping

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId, Event, EventId
from roamq.net.host import LiveHost
from roamq.net.topics.intake import EventIntake


class Figures:
    """Publishes the figures of one broker; they concern its own clients alone, and no other broker sees them."""

    def __init__(self, host: LiveHost, broker: Broker, intake: EventIntake, first_number: int) -> None:
        self.number = first_number
        """The number of the last event."""
        self._host = host
        self._broker = broker
        self._intake = intake

    def publish(self, values: Mapping[str, str]) -> None:
        for name, value in values.items():
            self.number += 1
            event = Event(
                id=EventId(BrokerId(f"$SYS@{self._host.me}"), self.number),
                topic=f"$SYS/broker/{name}",
                payload=value.encode(),
                published_at=self._host.time,
                qos=0,
                retain=True,
            )
            self._broker.scheme.on_event(event)
            self._intake.arrived(event)
