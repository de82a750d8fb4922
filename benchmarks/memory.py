"""What clients cost of a broker's memory, beside what they are charged.

    python -m benchmarks memory

The broker has no sockets here, so that nothing else grows: `tracemalloc` counts what the machine keeps for a thousand
of each (of the last selectors: for all fifty, by a thousand; of readers: for a hundred, by a thousand). What is charged
must be within a factor of two of it.
"""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Final

from roamq.core.events import BrokerId
from roamq.net.clients.connections import CONNECTION_BYTES
from roamq.net.clients.mqtt.codec import (
    Connect,
    Properties,
    Publish,
    Subscribe,
    SubscriptionRequest,
    Version,
    Will,
)
from roamq.net.clients.mqtt.codec import encode as _encode
from roamq.net.clients.mqtt.subscriptions import INDEXED_AT_ONCE, REMEMBERED_TOPICS_MAX
from roamq.net.durable.inputs import InputKind, LiveBroker
from roamq.net.ops.settings import Settings

COUNT: Final = 1000
NOW: Final = 1000.0
FACTOR: Final = 2.0


class Broker:
    """One broker, and what clients do to it."""

    def __init__(self) -> None:
        me = BrokerId("b1")
        self.live = LiveBroker(Settings(me=me, brokers=(me,), links=(), scheme="standard"), NOW)

    def settle(self) -> None:
        for connection in self.live.take().dirty.values():
            connection.output.clear()

    def connect(self, number: int, will: Will | None = None) -> None:
        self.live.apply((int(InputKind.OPENED), NOW, number, "0:mqtt", "127.0.0.1:50000"))
        properties = Properties(session_expiry_interval=10_000)
        connect = Connect(client_id=f"client-{number}", clean_start=False, will=will, properties=properties)
        self.live.received(NOW, number, _encode(connect, Version.V5))
        self.live.take()
        self.live.apply((int(InputKind.AUTHENTICATED), NOW, number, f"user-{number}", True))
        self.settle()

    def lose(self, number: int) -> None:
        self.live.apply((int(InputKind.LOST), NOW, number))
        self.settle()

    def subscribe(self, number: int, topic_filter: str, selector: str | None = None) -> None:
        told = Properties(user_properties=(("filter", selector),)) if selector else Properties()
        packet = Subscribe(1, (SubscriptionRequest(topic_filter, 1),), properties=told)
        self.live.received(NOW, number, _encode(packet, Version.V5))
        self.settle()

    def publish(self, number: int, topic: str, payload: bytes, *, retain: bool = False) -> None:
        packet = Publish(topic, payload, 1, retain=retain, packet_id=1)
        self.live.received(NOW, number, _encode(packet, Version.V5))
        self.settle()


def sessions(broker: Broker) -> int:
    for number in range(1, COUNT + 1):
        broker.connect(number)
        broker.lose(number)
    return broker.live.machine.quota.weigh()


def wills(broker: Broker) -> int:
    delay = Properties(will_delay_interval=5000)
    for number in range(1, COUNT + 1):
        payload = b"%06d" % number * 200
        broker.connect(
            number, Will(topic=f"wills/{number}", payload=payload, qos=1, retain=False, properties=delay)
        )
        broker.lose(number)
    return broker.live.machine.quota.weigh()


def connections(broker: Broker) -> int:
    for number in range(1, COUNT + 1):
        broker.connect(number)
    return broker.live.machine.quota.weigh() + CONNECTION_BYTES * COUNT


def readers(broker: Broker) -> int:
    """What a connection remembers of topics is part of what it costs."""
    for number in range(1, COUNT // 10 + 1):
        broker.connect(number)
        broker.subscribe(number, "#")
    for topic in range(REMEMBERED_TOPICS_MAX):
        packet = Publish(f"sensors/{topic}", b"x")
        broker.live.received(NOW + topic, 1, _encode(packet, Version.V5))
        broker.settle()
    return broker.live.machine.quota.weigh() + CONNECTION_BYTES * COUNT // 10


def subscriptions(broker: Broker, pattern: str = "a/{}/+/#") -> int:
    return _subscribed(broker, pattern.format)


def _subscribed(broker: Broker, topic_filter: Callable[[int], str]) -> int:
    """One client subscribes; events for it make the session's own index, in steps."""
    broker.connect(1)
    for number in range(COUNT):
        broker.subscribe(1, topic_filter(number))
    for number in range(COUNT // INDEXED_AT_ONCE + 1):
        topic = topic_filter(number).replace("+", "x").replace("#", "x")
        broker.live.received(NOW, 1, _encode(Publish(topic, b""), Version.V5))
        broker.settle()
    return broker.live.machine.quota.weigh() + CONNECTION_BYTES


def long_subscriptions(broker: Broker) -> int:
    return subscriptions(broker, "x" * 2000 + "/{}")


def plain_subscriptions(broker: Broker) -> int:
    return subscriptions(broker, "site/{}/state")


def deep_subscriptions(broker: Broker) -> int:
    return subscriptions(broker, "b/" * 100 + "{}")


def deep_wildcards(broker: Broker) -> int:
    return subscriptions(broker, "b/+/" + "b/" * 98 + "{}/#")


def _own_levels(number: int) -> str:
    return "/".join(f"level-{place}-{number}" for place in range(100))


def deep_own_subscriptions(broker: Broker) -> int:
    return _subscribed(broker, _own_levels)


def deep_own_wildcards(broker: Broker) -> int:
    return _subscribed(broker, lambda number: f"+/+/{_own_levels(number)}/#")


def selectors(broker: Broker) -> int:
    for number in range(1, COUNT // 20 + 1):
        broker.connect(number)
        for place in range(20):
            broker.subscribe(
                number, f"a/{number}/{place}", f"speed > {number} AND road = 'A{place}' AND lane <> 3"
            )
    return broker.live.machine.quota.weigh() + CONNECTION_BYTES * COUNT // 20


def long_selectors(broker: Broker) -> int:
    for number in range(1, 6):
        broker.connect(number)
        for place in range(10):
            terms = (f"a<>{1000 * number + 50 * place + value}" for value in range(200))
            broker.subscribe(number, f"a/{place}", " AND ".join(terms))
    return broker.live.machine.quota.weigh() + 5 * CONNECTION_BYTES


def stored(broker: Broker) -> int:
    broker.connect(1)
    broker.subscribe(1, "t")
    broker.lose(1)
    broker.connect(2)
    for number in range(COUNT):
        broker.publish(2, "t", b"%06d" % number * 20)
    status = broker.live.status()
    return status.stored_bytes + broker.live.machine.quota.weigh() + CONNECTION_BYTES


def retained(broker: Broker, topic: Callable[[int], str] = "r/{}".format) -> int:
    broker.connect(1)
    for number in range(COUNT):
        broker.publish(1, topic(number), b"%06d" % number * 20, retain=True)
    return broker.live.machine.retained.bytes + broker.live.machine.quota.weigh() + CONNECTION_BYTES


def deep_retained(broker: Broker) -> int:
    return retained(broker, _own_levels)


def deep_alike_retained(broker: Broker) -> int:
    return retained(broker, ("{}/" + "b/" * 98 + "b").format)


def cleared(broker: Broker) -> int:
    broker.connect(1)
    for number in range(COUNT):
        broker.publish(1, f"r/{number}", b"", retain=True)
    return broker.live.machine.retained.cleared_bytes + broker.live.machine.quota.weigh() + CONNECTION_BYTES


KINDS: Final[dict[str, Callable[[Broker], int]]] = {
    "sessions of absent clients": sessions,
    "the same with wills of 1,200 bytes": wills,
    "connections with their sessions": connections,
    "a hundred that have got 128 topics": readers,
    "subscriptions": subscriptions,
    "subscriptions without a wildcard": plain_subscriptions,
    "subscriptions of 2,000 characters": long_subscriptions,
    "subscriptions of 100 levels": deep_subscriptions,
    "the same with wildcards": deep_wildcards,
    "subscriptions of 100 levels of their own": deep_own_subscriptions,
    "such with wildcards": deep_own_wildcards,
    "subscriptions with selectors": selectors,
    "fifty selectors of 200 terms": long_selectors,
    "stored messages of 120 bytes": stored,
    "retained messages of 120 bytes": retained,
    "the same with topics of 100 levels": deep_retained,
    "of 100 levels that are alike": deep_alike_retained,
    "topics that were cleared": cleared,
}


def measured(act: Callable[[Broker], int]) -> tuple[int, int]:
    """Bytes charged, and bytes that the process grew by."""
    warm = Broker()
    warm.connect(1)
    broker = Broker()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    charged = act(broker)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return charged, grown


def main(argv: list[str]) -> dict[str, object]:
    results: dict[str, object] = {}
    for name, act in KINDS.items():
        charged, grown = measured(act)
        results[name] = {
            "charged": charged // COUNT,
            "grown": grown // COUNT,
            "ratio": round(charged / grown, 2),
        }
        is_fair = 1 / FACTOR < charged / grown < FACTOR
        print(
            f"{name:38} charged {charged / COUNT:7.0f} grown {grown / COUNT:7.0f} ratio {charged / grown:5.2f}"
            + ("" if is_fair else "  BEYOND A FACTOR OF TWO"),
            flush=True,
        )
    return results
