"""A network is one broker for a client whose every connection lands at another of them (docs/mqtt.md has the table)."""

from collections.abc import Callable
from typing import Any

import pytest

from roamq.net.clients.mqtt.codec import Disconnect, Properties, ReasonCode, Version, Will
from tests.net.network import SCHEMES, Line, Network

DELAYS = [0.0, 0.04]

every_scheme = pytest.mark.parametrize("scheme", SCHEMES)
every_delay = pytest.mark.parametrize("delay", DELAYS)


def will_of(payload: str, delay: int | None = None) -> Will:
    return Will(
        topic="wills", payload=payload.encode(), qos=1, properties=Properties(will_delay_interval=delay)
    )


def watcher_of(network: Network, topic_filter: str) -> Line:
    watcher = network.connect("watcher", "b3")
    watcher.subscribe(topic_filter)
    network.run(1)
    return watcher


def reason_of(line: Line) -> ReasonCode | None:
    return next((p.reason for p in line.packets if isinstance(p, Disconnect)), None)


# --- takeover: [MQTT-3.1.4-3] ----------------------------------------------------------------------------------


@every_scheme
@every_delay
@pytest.mark.parametrize("version", [Version.V5, Version.V311])
@pytest.mark.parametrize("clean", [True, False])
def test_a_takeover_at_another_broker_ends_the_old_connection_alone(
    scheme: str, delay: float, version: Version, clean: bool
) -> None:
    network = Network(scheme, delay)
    lines: list[Line] = []
    for _ in range(6):
        lines.append(network.connect("c", clean=clean, expiry=0, version=version))
        network.run(1)
        assert lines[-1].is_open
        assert not lines[-1].is_present or not clean
        for old in lines[:-1]:
            assert old.is_closed
            assert version is Version.V311 or reason_of(old) is ReasonCode.SESSION_TAKEN_OVER
    assert network.failures == []
    publisher = network.connect("p")
    lines[-1].subscribe("t")
    network.run(1)
    publisher.publish("t", "x")
    network.run(1)
    assert lines[-1].payloads == ["x"]


@every_scheme
@every_delay
def test_disconnect_and_connect_elsewhere_at_once_is_no_end_of_the_new_connection(
    scheme: str, delay: float
) -> None:
    network = Network(scheme, delay)
    for step in range(20):
        line = network.connect("c", clean=True, expiry=0)
        network.run(0.001 if step % 2 else 0.03)
        assert line.is_open
        line.disconnect()
    last = network.connect("c", clean=True, expiry=0)
    network.run(5)
    assert last.is_open
    assert network.failures == []


# --- Clean Start: [MQTT-3.1.2-4] -------------------------------------------------------------------------------


@every_scheme
@every_delay
@pytest.mark.parametrize("away", [True, False])
@pytest.mark.parametrize("version", [Version.V5, Version.V311])
def test_clean_start_ends_the_session_wherever_it_is(
    scheme: str, delay: float, away: bool, version: Version
) -> None:
    network = Network(scheme, delay)
    bystanders = [network.connect(f"bystander-{n}", f"b{n % 3 + 1}") for n in range(6)]
    for bystander in bystanders:
        bystander.subscribe("t")
    network.connect("mover", "b1")  # so that the brokers are neighbors in the graph of moves
    network.run(1)
    network.connect("mover", "b2")
    publisher = network.connect("p", "b3")
    network.run(1)

    for step, broker in enumerate(["b1", "b2", "b3", "b1", "b3", "b2", "b1"]):
        line = network.connect("y", broker, clean=True, expiry=1000, version=version)
        network.run(1)
        assert line.is_open and not line.is_present
        publisher.publish("t", str(step))
        network.run(1)
        assert line.payloads == [], "the old subscription is gone"
        line.subscribe("t")
        network.run(1)
        if away:
            line.drop()
        network.run(1)
        publisher.publish("t", f"{step} stored")
        network.run(1)

    assert network.failures == []
    if version is Version.V5:
        again = network.connect("y", "b3")
        network.run(1)
        assert again.is_present
        assert again.payloads == (["6 stored"] if away else [])
    for bystander in bystanders:
        assert bystander.payloads == [f"{n}{what}" for n in range(7) for what in ("", " stored")]


@every_scheme
def test_clean_start_waits_no_longer_than_others_for_a_broker_that_is_out_of_reach(scheme: str) -> None:
    """What comes later of the old session is dropped: the new one never sees it."""
    slow = 0.0
    network = Network(scheme, lambda: slow)
    publisher = network.connect("p", "b2")
    old = network.connect("c", "b1")
    old.subscribe("t")
    network.run(1)
    old.drop()
    network.run(1)
    publisher.publish("t", "of the old session")
    network.run(1)
    slow = 100.0  # frames that are sent now take that long

    new = network.connect("c", "b2", clean=True)
    network.run(2)
    assert new.is_open and not new.is_present
    new.subscribe("u")
    network.run(500)
    slow = 0.0
    network.run(500)
    publisher.publish("t", "too late")
    publisher.publish("u", "for the new session")
    network.run(10)

    assert new.payloads == ["for the new session"]
    assert network.failures == []
    moved = network.connect("c", "b3")
    network.run(1)
    assert moved.is_present
    publisher.publish("t", "still too late")
    publisher.publish("u", "moved")
    network.run(1)
    assert moved.payloads == ["moved"]


# --- wills: [MQTT-3.1.2-8], [MQTT-3.1.2-10], [MQTT-3.1.3-9] ----------------------------------------------------


@every_scheme
@every_delay
@pytest.mark.parametrize("away", [True, False])
def test_a_delayed_will_is_sent_when_clean_start_ends_its_session_at_another_broker(
    scheme: str, delay: float, away: bool
) -> None:
    network = Network(scheme, delay)
    watcher = watcher_of(network, "wills")
    old = network.connect("c", "b1", will=will_of("gone", 100))
    network.run(1)
    if away:
        old.drop()
        network.run(1)
    new = network.connect("c", "b2", clean=True)
    network.run(1)

    assert watcher.payloads == ["gone"]
    new.disconnect()
    network.run(200)
    assert watcher.payloads == ["gone"]
    assert network.failures == []


@every_scheme
@every_delay
def test_a_delayed_will_is_not_sent_if_the_session_goes_on_in_time_at_another_broker(
    scheme: str, delay: float
) -> None:
    network = Network(scheme, delay)
    watcher = watcher_of(network, "wills")
    line = network.connect("c", "b1", will=will_of("gone", 10))
    for broker in ("b2", "b3", "b1", "b2"):
        network.run(1)
        line.drop()
        network.run(5)
        line = network.connect("c", broker, will=will_of("gone", 10))
    network.run(60)

    assert watcher.payloads == []
    line.drop()
    network.run(60)
    assert watcher.payloads == ["gone"]


@every_scheme
@every_delay
def test_a_will_without_delay_is_sent_once_at_a_takeover_elsewhere(scheme: str, delay: float) -> None:
    network = Network(scheme, delay)
    watcher = watcher_of(network, "wills")
    for number, broker in enumerate(["b1", "b2", "b3", "b2", "b1"]):
        line = network.connect("c", broker, will=will_of(str(number)))
        network.run(5)
        assert watcher.payloads == [str(n) for n in range(number)]
    line.disconnect()
    network.run(5)
    assert watcher.payloads == ["0", "1", "2", "3"], "DISCONNECT takes the will back"


# --- an input that fails ---------------------------------------------------------------------------------------


@every_scheme
@pytest.mark.parametrize("part", ["subscribe", "publish", "let_in", "acknowledge"])
def test_an_input_that_fails_harms_nobody_else_and_leaves_nothing_half_done(
    scheme: str, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(scheme)
    bystanders = [network.connect(f"bystander-{n}", f"b{n % 3 + 1}") for n in range(6)]
    for bystander in bystanders:
        bystander.subscribe("t")
    publisher = network.connect("p", "b1")
    line = network.connect("unlucky", "b2")
    line.subscribe("t")
    network.run(1)
    machine = network.machines[line.broker]
    fail = InjectedError(line.broker)
    if part == "subscribe":
        monkeypatch.setattr(machine.broker, "on_subscribe", fail.on("unlucky", machine.broker.on_subscribe))
    elif part == "publish":
        monkeypatch.setattr(machine.requests, "publish", fail.on("unlucky", machine.requests.publish))
    elif part == "let_in":
        monkeypatch.setattr(machine.admission, "_let_in", fail.on("unlucky", machine.admission._let_in))
    else:
        monkeypatch.setattr(
            machine.broker, "on_acknowledge_all", fail.on("unlucky", machine.broker.on_acknowledge_all)
        )

    publisher.publish("t", "before")
    line.subscribe("u")
    line.publish("t", "from the unlucky one")
    if part == "let_in":
        line.drop()
        line = network.connect("unlucky", "b2")
    network.run(5)
    assert [type(error) for error in network.failures] == [InjectedError]
    assert line.is_closed
    monkeypatch.undo()
    network.failures.clear()

    publisher.publish("t", "after")
    network.run(1)
    for bystander in bystanders:
        assert [p for p in bystander.payloads if p != "from the unlucky one"] == ["before", "after"]
    for broker in ("b2", "b3", "b2", "b1"):
        line = network.connect("unlucky", broker)
        network.run(1)
        assert line.is_present
    publisher.publish("t", "served")
    network.run(1)
    assert line.payloads[-1] == "served"
    assert network.failures == []


class InjectedError(Exception):
    """A fault of our own code, which strikes one client once."""

    def on(self, client: str, function: Callable[..., Any]) -> Callable[..., Any]:
        struck = False

        def strike(*arguments: Any) -> Any:
            nonlocal struck
            first = arguments[0]
            name = getattr(first, "client", first) or getattr(arguments[-1], "client", None)
            if not struck and name == client:
                struck = True
                raise self
            return function(*arguments)

        return strike


# --- a session that began a moment ago -------------------------------------------------------------------------


@every_scheme
@pytest.mark.parametrize("after", [0.001, 0.02, 0.039, 0.05, 0.09])
@pytest.mark.parametrize("goes", ["drops", "stays"])
def test_a_session_begun_a_moment_ago_is_found_at_another_broker(
    scheme: str, after: float, goes: str
) -> None:
    """Flooding stores the first message at once; where events go by interest, none is owed before SUBACK."""
    network = Network(scheme, 0.04, overlay="flooding")
    publisher = network.connect("p", "b3")
    network.run(1)
    first = network.connect("c", "b1")
    first.subscribe("t")
    first.answers = False
    network.run(0.0)
    publisher.publish("t", "queued")
    network.run(after)
    if goes == "drops":
        first.drop()
    second = network.connect("c", "b2")
    network.run(2)
    assert second.is_present
    assert first.is_closed
    assert second.payloads == ["queued"]
    publisher.publish("t", "live")
    network.run(1)
    assert second.payloads == ["queued", "live"]
    assert network.failures == []


@every_scheme
def test_clean_start_ends_a_session_begun_a_moment_ago_at_another_broker(scheme: str) -> None:
    network = Network(scheme, 0.04)
    publisher = network.connect("p", "b3")
    watcher = watcher_of(network, "wills")
    first = network.connect("c", "b1", will=will_of("gone", 100))
    first.subscribe("t")
    network.run(0.01)
    second = network.connect("c", "b2", clean=True)
    network.run(1)
    assert second.is_open and not second.is_present
    assert first.is_closed
    assert watcher.payloads == ["gone"]
    third = network.connect("c", "b3")
    publisher.publish("t", "x")
    network.run(1)
    assert third.is_present and third.payloads == []
    for name, machine in network.machines.items():
        kept = [context for context in machine.held() if context.client == "c" and context.filters]
        assert kept == [], name


def test_a_broker_out_of_reach_delays_a_first_connection_by_a_quarter_of_a_second() -> None:
    network = Network("standard", 100.0)
    line = network.connect("c", "b1", wait=None)
    network.run(0.2)
    assert line.connack is None
    network.run(0.1)
    assert line.is_open


@every_scheme
@every_delay
@pytest.mark.parametrize("back", ["clean", "gone before CONNACK"])
def test_a_will_that_was_sent_is_not_sent_again_by_a_broker_that_holds_a_copy(
    scheme: str, delay: float, back: str
) -> None:
    """[MQTT-3.1.2-10]: the copy was made before the will was due, and has not heard that it was sent."""
    network = Network(scheme, delay)
    watcher = watcher_of(network, "wills")
    for broker in ("b1", "b2", "b3", "b1"):  # the brokers are neighbors, and hold copies for each other
        network.connect("mover", broker)
        network.run(1)
    line = network.connect("c", "b1", will=will_of("gone", 3))
    line.subscribe("t")
    network.run(1)
    line.drop()
    network.run(5)
    assert watcher.payloads == ["gone"]
    if back == "clean":
        network.connect("c", "b2", clean=True)
    else:
        network.connect("c", "b2", wait=None)
        network.run(0.01)
        network.connect("c", "b3")
    network.run(10)
    assert watcher.payloads == ["gone"]
    assert network.failures == []


@every_scheme
def test_a_will_is_sent_where_the_client_once_did_not_wait_for_its_session(scheme: str) -> None:
    """The client connects at b2 and, before its session is there, at b3 again: b2 waits for nothing any more."""
    network = Network(scheme, 0.04)
    watcher = watcher_of(network, "wills")
    network.connect("c", "b3")
    network.run(1)
    network.connect("c", "b2", wait=None)
    network.run(0.01)
    network.connect("c", "b3")
    network.run(1)
    for broker in ("b3", "b2", "b3"):  # under `prefetching`, b2 gets the session when the client leaves b3
        network.connect("c", broker, will=will_of(broker, 3)).drop()
        network.run(20)
    assert watcher.payloads == ["b3", "b2", "b3"]
    assert network.failures == []
