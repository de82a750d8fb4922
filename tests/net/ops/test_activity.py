"""What operators read in the log: connects, handoffs, takeovers, denials, drains; and not too much of it."""

import asyncio
import json
import logging
from pathlib import Path

import pytest

from roamq.core.records import Record
from roamq.net.clients.passwords import hash_password
from roamq.net.machine import Machine
from roamq.net.ops.activity import LINES_PER_S, Activity, DelayCounts, explain
from roamq.net.ops.local import local_network
from roamq.net.ops.metrics import JsonLines
from roamq.net.ops.settings import AccessRules, Rule, Settings
from roamq.net.outputs import Outputs
from tests.net.live import PlainClient, port_of, running, write_network
from tests.support.waiting import eventually

HASH = hash_password(b"sesame", salt=bytes(16))


def lines(caplog: pytest.LogCaptureFixture, word: str) -> list[str]:
    return [line for line in caplog.messages if line.startswith(word)]


@pytest.mark.live
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_handoff_is_told_with_both_brokers_its_time_and_its_messages(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, scheme: str
) -> None:
    async def ride() -> None:
        network = write_network(tmp_path, local_network(2, scheme=scheme))
        async with running(network) as servers:
            car, shop = PlainClient("car"), PlainClient("shop")
            await car.connect(port_of(network, "b1"))
            await car.subscribe("news/#", 1)
            await car.disconnect()
            await shop.connect(port_of(network, "b1"))
            for number in range(3):
                shop.publish("news/x", b"%d" % number, 1)
            await eventually(lambda: len(shop.acknowledged) == 3)
            await car.connect(port_of(network, "b2"))
            await eventually(lambda: len(car.received) == 3)
            metrics = (
                servers["b2"]
                .observatory.answer("GET /metrics HTTP/1.1", b"", {"host": "localhost"})[2]
                .decode()
            )
            assert f'roamq_handoff_seconds_count{{scheme="{scheme}"}} 1.0' in metrics
            assert f'roamq_handoff_first_message_seconds_bucket{{le="+Inf",scheme="{scheme}"}} 1.0' in metrics
            again, elsewhere = PlainClient("shop"), PlainClient("shop")
            await again.connect(port_of(network, "b1"))
            await elsewhere.connect(port_of(network, "b2"))
            await eventually(lambda: again.closed)
            elsewhere.drop()
            car.drop()

    with caplog.at_level(logging.INFO, "roamq"):
        asyncio.run(ride())
    (handoff,) = lines(caplog, "handoff: client 'car'")
    assert "from b1 to b2 in 0." in handoff and handoff.endswith("3 messages")
    assert len(lines(caplog, "connect: client 'car'")) == 2
    assert lines(caplog, "connect: client 'car'")[1].endswith("was at b1")
    assert lines(caplog, "disconnect: client 'car': closed")
    assert lines(caplog, "takeover: client 'shop' is connected here; its older connection was closed")
    assert lines(caplog, "takeover: client 'shop' is connected at b2; its older connection was closed")
    told = next(record for record in caplog.records if record.getMessage() == handoff)
    line = json.loads(JsonLines("b2").format(told))
    expected = {"broker": "b2", "event": "handoff", "client": "car", "previous": "b1", "messages": 3}
    assert line | expected == line


@pytest.mark.live
@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_denial_names_the_rule_and_a_drain_says_where_sessions_went(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, scheme: str
) -> None:
    rules = """
[[access.rules]]
may = []
topics = ["secret/#"]
[[access.rules]]
topics = ["news/#"]
"""

    async def ride() -> None:
        network = write_network(tmp_path, local_network(2, scheme=scheme, extra=rules))
        async with running(network) as servers:
            car = PlainClient("car")
            await car.connect(port_of(network, "b1"))
            await car.subscribe("#", 1)
            await car.subscribe("news/#", 1)
            car.publish("other/x", b"1", 1)
            await car.ping()
            await car.disconnect()
            assert servers["b1"].drain() == {"sessions": 1}
            await eventually(lambda: servers["b1"].health()["sessions"] == 0)
            assert servers["b1"].health()["handed_to"] == {"b2": 1}
            await eventually(lambda: bool(lines(caplog, "drained")))

    with caplog.at_level(logging.INFO, "roamq"):
        asyncio.run(ride())
    assert lines(caplog, "denied") == [
        "denied: client 'car', user None, may not subscribe '#': rule 1 forbids it (user '*', topics secret/#)",
        "denied: client 'car', user None, may not publish 'other/x': no rule allows it",
    ]
    assert lines(caplog, "handed over: session of 'car' to b2, 0 messages")
    assert lines(caplog, "drain") == [
        "drain: 1 session to be moved to other brokers",
        "drained: no session is left; 1 to b2",
    ]


def test_many_lines_of_a_kind_become_one_that_counts_them(caplog: pytest.LogCaptureFixture) -> None:
    activity = Activity(Machine(Settings(me="b1", brokers=("b1",), links=())))  # type: ignore[arg-type]
    out = Outputs()
    out.records = [Record("refused", 7.5, "b1", f"c{n}", detail="sessions_max") for n in range(500)]

    with caplog.at_level(logging.INFO, "roamq"):
        activity.take(out, out.kinds())
        activity.tick(8.1)

    assert len(lines(caplog, "refused: client")) == LINES_PER_S
    assert lines(caplog, "refused: 480 more in that second")
    assert len(activity.since(0)) == 500 and activity.since(499)[0].client == "c499"


def test_delays_are_counted_by_their_upper_bound() -> None:
    delays = DelayCounts()
    for seconds in (0.0005, 0.001, 0.3, 100.0):
        delays.add(seconds)

    found = dict(delays.cumulative())

    assert (found["0.001"], found["0.25"], found["0.5"], found["30.0"], found["+Inf"]) == (2, 2, 3, 3, 4)


def test_the_rule_that_forbids_is_explained() -> None:
    rules = AccessRules(
        rules=(Rule(user="ann", topics=("a/#",)), Rule(user="bob", may=frozenset()), Rule(topics=("b/#",)))
    )
    assert explain(rules, "publish", "bob", "c", "b/x") == "rule 2 forbids it (user 'bob', topics #)"
    assert explain(rules, "publish", "ann", "c", "c/x") == "no rule allows it"
    assert explain(rules, "publish", "ann", "c", "$SYS/x").startswith("topics that begin with $")
