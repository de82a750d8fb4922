"""A small data folder with something of everything in it, written as a broker of this release writes it.

    python -m tests.support.stored_world FOLDER

makes the fixture of the release before for the release after: `stopped` was stopped (a snapshot, and a journal without
inputs of clients), `killed` was killed (a snapshot, and a journal that goes on).
"""

import sys
from pathlib import Path

import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import (
    Connect,
    Packet,
    Properties,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
    encode,
)
from roamq.net.durable import snapshot
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.durable.journal import Journal
from roamq.net.ops.settings import Settings

BORN = 1_700_000_000.0
"""When the stored broker began; its last input is within the minute after."""


def settings(scheme: str = "proactive", overlay: str = "flooding") -> Settings:
    brokers = (BrokerId("north"), BrokerId("south"))
    return Settings(
        me=BrokerId("north"), brokers=brokers, links=(("north", "south"),), scheme=scheme, overlay=overlay
    )


class StoredBroker:
    """A live broker whose inputs go into a journal, as the shell has it."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.live = LiveBroker(settings, BORN)
        self.journal = Journal(folder, 1)
        self.now = BORN
        self.number = 0
        self.feed(InputKind.SETTINGS, msgspec.msgpack.encode(settings))

    def feed(self, kind: InputKind, *details: object) -> None:
        self.now += 0.001
        entry = (int(kind), self.now, *details)
        self.journal.pending.append(entry)
        error = self.live.apply(entry)
        assert error is None, error
        for mqtt in self.live.take().dirty.values():
            mqtt.output.clear()

    def connect(self, name: str, *, expiry: int = 100_000_000, will: Will | None = None) -> int:
        self.number += 1
        self.feed(InputKind.OPENED, self.number, "0:mqtt", "127.0.0.1:1")
        properties = Properties(session_expiry_interval=expiry)
        self.say(self.number, Connect(client_id=name, clean_start=False, will=will, properties=properties))
        self.feed(InputKind.AUTHENTICATED, self.number, None, True)
        self.now += 0.5  # a broker that does not answer is not waited for longer than that
        for key in [key for key, at in self.live.timers.items() if at <= self.now]:
            self.feed(InputKind.TIMER, key)
        return self.number

    def say(self, number: int, packet: Packet) -> None:
        self.feed(InputKind.RECEIVED, number, encode(packet, Version.V5))

    def subscribe(self, number: int, *filters: str) -> None:
        requests = tuple(SubscriptionRequest(filter, 2) for filter in filters)
        self.say(number, Subscribe(1, requests))

    def publish(self, number: int, topic: str, text: str, *, qos: int = 1, retain: bool = False) -> None:
        self.packet_id = getattr(self, "packet_id", 0) + 1
        packet_id = self.packet_id if qos else 0
        self.say(number, Publish(topic, text.encode(), qos, retain=retain, packet_id=packet_id))


def first_half(broker: StoredBroker) -> None:
    """Sessions with messages under way and stored, retained messages, a shared group, a will that waits."""
    publisher = broker.connect("publisher")
    away = broker.connect("away")
    broker.subscribe(away, "news/#", "alarms/+")
    here = broker.connect("here")
    broker.subscribe(here, "news/#")
    for name in ("worker-1", "worker-2"):
        broker.subscribe(broker.connect(name), "$share/workers/jobs")
    delayed = Properties(will_delay_interval=50_000_000)
    left = broker.connect("left", will=Will(topic="wills/left", payload=b"gone", qos=1, properties=delayed))
    broker.publish(publisher, "news/1", "sent and not acknowledged")
    broker.feed(InputKind.LOST, away)
    broker.feed(InputKind.LOST, left)
    broker.publish(publisher, "news/2", "stored", qos=2)
    broker.publish(publisher, "alarms/fire", "stored and retained", retain=True)
    broker.publish(publisher, "jobs", "for a worker")


def second_half(broker: StoredBroker) -> None:
    """More of it, and a packet of which half has come."""
    publisher = broker.connect("publisher")
    broker.publish(publisher, "news/3", "stored later")
    broker.publish(publisher, "alarms/flood", "retained later", retain=True)
    whole = encode(Publish("news/4", b"never whole", 1, packet_id=9), Version.V5)
    broker.feed(InputKind.RECEIVED, publisher, whole[:7])


def main(target: Path) -> None:
    for name in ("stopped", "killed"):
        folder = target / name
        folder.mkdir(parents=True)
        broker = StoredBroker(folder, settings())
        first_half(broker)
        if name == "stopped":
            second_half(broker)
            broker.feed(InputKind.SHUTDOWN)
        broker.journal.write()
        segment = broker.journal.rotate()
        snapshot.write(broker.live, folder, segment)
        broker.journal.discard_before(segment)
        if name == "killed":
            second_half(broker)
        broker.journal.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
