"""Clients come, do everything that a client may do, and are gone for good: nothing of them stays but what is bounded.

Every round has names of its own. All containers that three brokers hold are counted before and after some rounds.
"""

from collections import Counter, deque
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import pytest

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.net.clients import confirmations
from roamq.net.clients.mqtt.codec import (
    Connect,
    Disconnect,
    Packet,
    Properties,
    Publish,
    Pubrel,
    Subscribe,
    SubscriptionRequest,
    Unsubscribe,
    Version,
    Will,
    encode,
)
from roamq.net.topics.shared import KEY_CHARACTERS_MAX, GroupPlace, SharedGroups
from tests.net.fleet import Fleet, FleetClient
from tests.support.few import few

BOUNDED: Final = {
    "Directory._ended": "the last 10,000 sessions that ended",
    "Log.log": "`log_size` events",
    "Logging.log": "the same",
    "Event.assigned": "of these events",
    "Whereabouts.gone_to": "the last 100,000 clients that went on",
    "RetainedMessages._cleared": "a share of `retained_bytes_max`",
    "RetainedMessages._clearings": "the same",
    "SharedGroups._ended": "the last 10,000 places that ended",
    "SharedGroups._ended_here": "the same",
    "SharedGroups._handed_on": "the last 10,000 events",
    "ByInterest._routes": "a cache",
    "Contexts._matches": "a cache",
    "SharedGroups._matches": "a cache",
}
"""What is remembered of those who are gone, and how much of it."""
BEFORE, ROUNDS = 12, 24
"""By then each broker has had to do with each."""
SCHEMES: Final = (
    "standard",
    "proactive",
    "prefetching",
    "prehandoff",
    "logging",
    "home-broker",
    "durable",
    "reactive",
)


class Visitor(FleetClient):
    """A client that says what it is told to."""

    def __init__(self, fleet: Fleet, name: str, user: str) -> None:
        super().__init__(fleet, name, user=user)
        self.may_be_refused = True
        self.name, self.user = name, user

    def enter(
        self,
        at: str,
        *,
        clean: bool = False,
        expiry: int = 20,
        will: Will | None = None,
        properties: Properties | None = None,
    ) -> None:
        """Connect, with a session that ends `expiry` seconds after the connection.

        What connection there was breaks; its broker notices later.
        """
        self.vanish()
        fleet = self.fleet
        fleet.connections += 1
        self.number, self.at = fleet.connections, BrokerId(at)
        fleet.machines[self.at].opened(self.number, fleet.clock(self.at), "test", "client")
        fleet.owners[self.at, self.number] = self
        properties = properties or Properties(session_expiry_interval=expiry)
        self.say(
            Connect(
                client_id=self.name, clean_start=clean, user_name=self.user, will=will, properties=properties
            )
        )

    def say(self, packet: Packet) -> None:
        fleet, at = self.fleet, self.at
        if at is not None and fleet.owners.get((at, self.number)) is self:
            fleet.machines[at].received(self.number, encode(packet, Version.V5), fleet.clock(at))
        fleet.settle()

    def leave(self) -> None:
        """The connection breaks."""
        if self.at is not None and self.fleet.owners.pop((self.at, self.number), None) is self:
            self.fleet.machines[self.at].lost(self.number, self.fleet.clock(self.at))
        self.fleet.settle()


def visit(fleet: Fleet, number: int, random: Random, brokers: tuple[str, ...] = ("b1", "b2", "b3")) -> None:
    """A client subscribes in every way, moves, loses its connection and ends; another publishes; a third one steals."""
    first, second, third = (*random.sample(brokers, len(brokers)), brokers[0])[:3]
    client = Visitor(fleet, f"client-{number}", f"user-{number}")
    publisher = Visitor(fleet, f"publisher-{number}", f"user-{number}")
    thief = Visitor(fleet, f"client-{number}", f"thief-{number}")
    delay = Properties(will_delay_interval=2)
    will = Will(topic=f"will/{number}", payload=b"w", qos=1, retain=number % 2 == 0, properties=delay)

    def publish(topic: str, qos: int, packet_id: int, payload: bytes = b"x", **more: Any) -> None:
        publisher.say(Publish(f"{topic}/{number}", payload, qos, packet_id=packet_id, **more))

    client.enter(first, will=will)
    wanted = (f"t/{number}", f"+/{number}/#", f"$share/g{number}/s/{number}", f"retained/{number}")
    client.say(Subscribe(1, tuple(SubscriptionRequest(topic_filter, 2) for topic_filter in wanted)))
    selector = Properties(user_properties=(("filter", f"x > {number}"),))
    client.say(Subscribe(2, (SubscriptionRequest(f"selected/{number}", 1),), selector))
    publisher.enter(second, expiry=0)
    publish("t", 1, 1)
    publish("t", 2, 2)
    publisher.say(Pubrel(2))
    publish("s", 1, 3)
    publish("retained", 1, 4, retain=True)
    client.leave()
    publish("t", 1, 5)
    publish("s", 1, 6)
    client.enter(second)
    publish("t", 1, 7)
    client.enter(third, will=will)
    publish("s", 2, 8)
    client.say(Publish("$roamq/location", b"u33db2m", 1, packet_id=1))
    thief.enter(first)
    thief.enter(second, clean=True)
    client.leave()
    client.enter(first)
    client.say(Unsubscribe(9, (f"t/{number}", f"$share/g{number}/s/{number}")))
    for packet_id, topic in ((9, "retained"), (10, "will")):
        publish(topic, 1, packet_id, b"", retain=True)
    publish("expiring", 1, 11, retain=True, properties=Properties(message_expiry_interval=3))
    if number % 3 == 0:
        client.enter(second, clean=True, expiry=0)
        client.say(Disconnect())
    client.leave()
    publisher.say(Disconnect())
    publisher.leave()
    for _ in range(5):
        fleet.now += 10
        fleet.settle()


def sizes(root: object) -> Counter[str]:
    """How much is in the containers of all objects of ours below `root`, by class and attribute."""
    seen = {id(root)}
    found: Counter[str] = Counter()
    open_: list[tuple[object, str]] = [(root, "")]
    while open_:
        value, label = open_.pop()
        if isinstance(value, dict | list | set | frozenset | deque):
            found[label] += len(value)
        for child, name in _within(value, label):
            if id(child) not in seen and not isinstance(child, str | bytes | int | float | type | None):
                seen.add(id(child))
                open_.append((child, name))
    return found


def _within(value: object, label: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, dict):
        yield from ((key, f"{label} keys") for key in value)
        yield from ((item, f"{label} values") for item in value.values())
    elif isinstance(value, list | set | frozenset | deque | tuple):
        yield from ((item, f"{label} items") for item in value)
    elif type(value).__module__.startswith("roamq."):
        kind = type(value)
        names = {name for base in kind.__mro__ for name in getattr(base, "__slots__", ())}
        names.update(getattr(value, "__dict__", ()), getattr(kind, "__struct_fields__", ()))
        yield from (
            (getattr(value, name), f"{kind.__name__}.{name}") for name in names if hasattr(value, name)
        )


@pytest.mark.parametrize("scheme", few(SCHEMES, 3))
def test_who_is_gone_leaves_nothing_behind_but_what_is_bounded(scheme: str) -> None:
    fleet, random = Fleet(1, scheme), Random(1)
    before: Counter[str] = Counter()
    for number in range(ROUNDS):
        if number == BEFORE:
            before = sizes(list(fleet.machines.values()))
        visit(fleet, number, random)
    after = sizes(list(fleet.machines.values()))

    assert sum(len(machine.broker.contexts.values()) for machine in fleet.machines.values()) == 0
    grown = {label: after[label] - before[label] for label in after if after[label] > before[label]}
    unbounded = {
        label: more
        for label, more in grown.items()
        if more >= (ROUNDS - BEFORE) // 2 and not any(label.startswith(known) for known in BOUNDED)
    }
    assert unbounded == {}
    assert "Directory._ended" in grown, "what stays is seen"


def test_of_groups_with_long_names_little_is_remembered() -> None:
    """A client may begin and end groups for ever, each with a text of 64 kB."""
    groups = SharedGroups()
    long_text = "x" * 60_000
    for number in range(20):
        filter = Filter(f"{number}/{long_text}", None, f"group {number}")
        for connected in (True, None):
            epoch = Epoch(float(number), BrokerId("b1"))
            place = GroupPlace(
                filter=filter, client=ClientId("c"), epoch=epoch, since=1.0, connected=connected
            )
            assert groups.learn(place, is_here=True)

    remembered = [key for table in (groups._ended, groups._ended_here) for key, _ in table]
    assert len(remembered) == 40
    assert max(map(len, remembered)) <= KEY_CHARACTERS_MAX
    assert groups.note_ended_here(filter, ClientId("c")) is not None, "it is found by its digest"


def test_places_that_come_and_go_while_a_broker_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it assigned to them comes here some day; they are waited for, but not for ever more of them."""
    monkeypatch.setattr(confirmations, "LINGERING_MAX", 5)
    fleet = Fleet(1, "standard")
    client = Visitor(fleet, "c", "u")
    client.enter("b1", expiry=1000)
    cut = {frozenset((BrokerId(name), BrokerId("b2"))) for name in ("b1", "b3")}
    fleet.cut |= cut
    machine = fleet.machines[BrokerId("b1")]
    for number in range(12):
        client.say(Subscribe(1, (SubscriptionRequest(f"$share/g/{number}", 1),)))
        client.say(Unsubscribe(2, (f"$share/g/{number}",)))

    assert len(machine.confirmations._lingering) == 5
    assert len(machine.broker.router._here) == 5  # type: ignore[attr-defined]
    fleet.cut -= cut
    fleet.links_come_up(BrokerId("b2"))
    fleet.settle()
    assert machine.confirmations._lingering == []
    assert not machine.broker.router._here  # type: ignore[attr-defined]
