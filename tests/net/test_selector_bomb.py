"""Selectors, tickets and payloads from clients that mean harm: bounded work, and an answer that says why."""

import json

import pytest

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter
from roamq.core.selectors import DEPTH_MAX, TERMS_MAX, parse_selector
from roamq.net.clients.mqtt.attributes import attributes_of
from roamq.net.clients.mqtt.codec import (
    Connect,
    Decoder,
    Properties,
    ReasonCode,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Version,
    encode,
)
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.machine import Machine
from tests.net.fleet import Fleet
from tests.support.live_world import settings
from tests.support.work import lines_run

LIMITS = Limits()
WORK_MAX = 400_000
"""Lines of code: reading one selector of 8 KiB takes half of them, however many filters a packet has."""


def bomb(terms: int) -> str:
    return " AND ".join(f"a<>{number}" for number in range(terms))


def answer_to(selector: str, filters: int = 1) -> tuple[Suback, int]:
    """The SUBACK of a broker, and the lines of code that it ran for it."""
    machine = Machine(settings("b1", 1, "standard"), 1000.0)
    machine.opened(1, 1000.0, "test", "client")
    machine.received(1, encode(Connect(client_id="c"), Version.V5), 1000.0)
    machine.authenticated(1, None, 1000.0, allowed=True)
    mqtt = machine.mqtt(1)
    assert mqtt is not None
    mqtt.take_output()
    requests = tuple(SubscriptionRequest(f"t/{number}", 1) for number in range(filters))
    packet = Subscribe(1, requests, Properties(user_properties=(("filter", selector),)))
    parse_selector.cache_clear()
    data = encode(packet, Version.V5)
    work = lines_run(lambda: machine.received(1, data, 1000.0))
    (suback,) = Decoder(Version.V5).feed(b"".join(mqtt.take_output()))
    assert isinstance(suback, Suback)
    return suback, work


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (bomb(5400), "longer than"),
        (bomb(TERMS_MAX + 1), "longer than"),
        ("a IN (" + ",".join(map(str, range(1100))) + ")", f"at most {TERMS_MAX} terms"),
        ("(" * (DEPTH_MAX + 1) + "a=1" + ")" * (DEPTH_MAX + 1), f"at most {DEPTH_MAX} parentheses"),
        ("(" * 8000 + "a=1", "parentheses"),
        ("a LIKE '" + "x" * 8000, "never closed"),
        ("a = " + "9" * 8000, "too large"),
    ],
)
def test_a_selector_beyond_its_bounds_is_refused_with_the_reason(selector: str, reason: str) -> None:
    """64 kB of `a<>0 AND a<>1 ...` once took 34.8 s, and again for every filter of the packet."""
    suback, work = answer_to(selector, filters=250)

    assert set(suback.reasons) == {ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR}
    assert reason in (suback.properties.reason_string or "")
    assert work < WORK_MAX


def test_a_selector_at_its_bounds_is_granted_with_little_work_and_parsed_once() -> None:
    selector = bomb(730)
    assert 7500 < len(selector) <= LIMITS.selector_bytes_max

    suback, work = answer_to(selector, filters=250)

    granted = [reason for reason in suback.reasons if not reason.failed]
    assert len(granted) == LIMITS.selectors_bytes_max // len(selector)
    assert set(suback.reasons) == {ReasonCode(1), ReasonCode.QUOTA_EXCEEDED}
    assert work < WORK_MAX


def test_parsing_takes_n_log_n() -> None:
    def work(terms: int) -> int:
        text = bomb(terms)
        return lines_run(lambda: parse_selector.__wrapped__(text))

    assert work(1000) < 15 * work(100), "ten times the terms: ten times the work, and a little"


def test_what_is_read_again_on_other_brokers_fits_the_same_bounds() -> None:
    """A link carries the selector in its canonical form, which may be longer."""
    for selector in (
        "a IN (" + ", ".join(f"{n}e15" for n in range(1, 900)) + ")",
        bomb(TERMS_MAX),
        " AND ".join(f"a{n} > {n}e14" for n in range(600)),
    ):
        found = Filter("t", selector)
        assert Filter("t", found.selector) == found
    with pytest.raises(SelectorError):
        Filter("t", bomb(TERMS_MAX + 1))


@pytest.mark.parametrize("digits", [0, 300, 500, 5000])
@pytest.mark.parametrize("value", [2**63 - 1, 2**63, 2**64, -(2**63) - 1])
def test_a_long_integer_in_a_payload_harms_nobody(value: int, digits: int) -> None:
    text = str(value) + "0" * digits
    fleet = Fleet(1, "standard")
    publisher, reader = fleet.client("publisher"), fleet.client("reader")
    publisher.connect("b1")
    reader.connect("b2")
    reader.subscribe("t", 1)
    fleet.settle()

    payload = b'{"n": ' + text.encode() + b', "ok": 1}'
    properties = Properties(content_type="application/json")
    publisher._say(publisher.device.publish("t", payload, 1, properties=properties))
    fleet.settle()

    assert reader.payloads() == [payload]
    assert publisher.device.unfinished == {}
    if not digits:
        assert json.loads(payload)["n"] == pytest.approx(attributes_of(properties, payload)["n"])


@pytest.mark.parametrize("scheme", ["standard", "proactive", "prefetching"])
@pytest.mark.parametrize(
    "ticket",
    [
        "inf@b2",
        "-inf@b2",
        "nan@b2",
        "1e308@b2",
        "-5@b2",
        "9" * 200 + "@b2",
        "1@nowhere",
        "x@b2",
        "@",
        "1" * 60000,
    ],
)
def test_an_absurd_ticket_is_ignored(scheme: str, ticket: str) -> None:
    fleet = Fleet(2, scheme)
    client, publisher = fleet.client("c", shows_ticket=True), fleet.client("p")
    publisher.connect("b3")
    client.connect("b1")
    client.subscribe("t", 2)
    fleet.settle()
    client.vanish()
    fleet.settle()
    publisher.publish("t", b"kept", 2)
    fleet.settle()

    client.device.ticket = ticket
    client.connect("b3")
    fleet.settle()
    client.connect("b1")
    fleet.settle()

    assert client.present == [False, True, True]
    assert client.payloads() == [b"kept"]
