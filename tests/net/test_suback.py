"""What SUBACK promises (docs/interest.md): whatever is published anywhere in reach after it was sent reaches the
subscriber, and the client waits for it no longer than is said there."""

from collections.abc import Callable

import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Suback
from tests.net.fleet import Fleet, FleetClient
from tests.net.network import SCHEMES, Network

TIMEOUT_S = 1.0
"""`network.subscribe_timeout_s`, unless the file says otherwise."""
STEPS_S = 0.1
"""What the steps of a few messages take in a fleet."""

every_overlay = pytest.mark.parametrize("overlay", ["flooding", "hierarchy", "interest"])


class Waits:
    """A fleet, and how long its clients wait for SUBACK."""

    def __init__(self, seed: int) -> None:
        self.fleet = Fleet(seed, "standard")
        self._began: dict[str, float] = {}
        """Topic filter -> when it was subscribed to."""

    def client(self, name: str) -> FleetClient:
        client = self.fleet.client(name)
        client.connect("b1")
        self.fleet.settle()
        return client

    def cut(self, name: str) -> None:
        self.fleet.cut |= {frozenset(pair) for pair in self.fleet.links if BrokerId(name) in pair}

    def subscribe(self, client: FleetClient, topic_filter: str) -> None:
        client.subscribe(topic_filter, 1)
        self._began[topic_filter] = self.fleet.now

    def waited(self, client: FleetClient) -> float:
        """Let the network go on until the client has the SUBACK of its last SUBSCRIBE."""
        self.go_on(lambda: client.device.is_subscribed)
        request, _ = client.device.subscriptions[-1]
        return self.fleet.now - self._began[request.topic_filter]

    def go_on(self, until: Callable[[], bool]) -> None:
        """One thing after the other happens; timers when their time comes."""
        while not until():
            if not self.fleet.step():
                self.fleet.now = max(self.fleet.now, min(self.fleet.later(30)))


@pytest.mark.parametrize("seed", range(4))
def test_suback_waits_for_a_silent_broker_so_long_and_then_for_it_no_more(seed: int) -> None:
    waits = Waits(seed)
    client = waits.client("c")
    waits.subscribe(client, "all/well")
    assert waits.waited(client) < STEPS_S

    waits.cut("b3")
    waits.subscribe(client, "first")
    assert TIMEOUT_S <= waits.waited(client) < TIMEOUT_S + STEPS_S
    waits.subscribe(client, "next")
    assert waits.waited(client) < STEPS_S, "the broker is known to be out of reach"

    waits.fleet.cut.clear()
    waits.fleet.settle()
    waits.cut("b3")
    waits.subscribe(client, "again")
    assert TIMEOUT_S <= waits.waited(client) < TIMEOUT_S + STEPS_S, "the broker had answered since"


@pytest.mark.parametrize("seed", range(4))
def test_a_subscribe_that_comes_while_others_wait_waits_twice_as_long_at_most(seed: int) -> None:
    """A broker falls silent after it has answered the marker before: it is waited for once more."""
    waits = Waits(seed)
    first, second, third = (waits.client(name) for name in ("first", "second", "third"))
    router = waits.fleet.machines[BrokerId("b1")].broker.router

    waits.cut("b3")
    waits.subscribe(first, "first")
    waits.go_on(lambda: not first.up and router.silent(router.confirm()) == {"b3"})
    waits.cut("b2")
    waits.subscribe(second, "second")
    waits.go_on(lambda: not second.up)

    assert TIMEOUT_S <= waits.waited(first) < TIMEOUT_S + STEPS_S
    waits.subscribe(third, "third")
    waited = waits.waited(second)
    assert 2 * TIMEOUT_S - STEPS_S < waited <= 2 * TIMEOUT_S + STEPS_S
    assert waits.waited(third) < TIMEOUT_S + STEPS_S, "both brokers are known to be out of reach"


@every_overlay
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("publishes_at", ["b1", "b3"])
def test_what_is_published_anywhere_after_suback_was_sent_reaches_the_subscriber(
    overlay: str, scheme: str, publishes_at: str
) -> None:
    """The publisher's broker knows of the subscription when SUBACK goes out, and not only soon after."""
    network = Network(scheme, 0.04, overlay=overlay)
    publisher = network.connect("p", publishes_at)
    subscriber = network.connect("s", "b2")
    network.run(1)

    subscriber.subscribe("t/#")
    network.run(1, until=lambda: bool(subscriber.has(Suback)))
    assert subscriber.has(Suback)
    for number in range(20):
        publisher.publish("t/x", str(number))
        network.run(0.005)
    network.run(1)

    assert subscriber.payloads == [str(number) for number in range(20)]
    assert network.failures == []


def test_a_broker_that_is_back_is_waited_for_again() -> None:
    """It answers later than others: SUBACK that did not wait for it would promise too much."""
    network = Network("standard", overlay="interest", link_delays={})
    publisher, subscriber = network.connect("p", "b3"), network.connect("s", "b1")
    far = [("b1", "b3"), ("b3", "b1"), ("b2", "b3"), ("b3", "b2")]
    network.link_delays = dict.fromkeys(far, 5.0)
    subscriber.subscribe("first")
    network.run(2)
    assert subscriber.has(Suback), "it was out of reach"
    network.run(20)
    network.link_delays = dict.fromkeys(far, 0.3)

    subscriber.subscribe("t")
    network.run(2, until=lambda: subscriber.has(Suback) == 2)
    publisher.publish("t", "1")
    network.run(2)

    assert subscriber.payloads == ["1"]
