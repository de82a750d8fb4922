"""What content filters see of a publication."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roamq.core.events import ClientId, EventId, Value
from roamq.net.clients.mqtt.attributes import FIELDS_MAX, JSON_BYTES_MAX, attributes_of, event_of, typed
from roamq.net.clients.mqtt.codec import NO_PROPERTIES, EncodedMessage, Properties, Publish, Version
from tests.net.clients.mqtt.peer import NOW, ORIGIN


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("1600", 1600),
        ("-7", -7),
        ("2.5", 2.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1e999", "1e999"),
        ("nan", "nan"),
        ("0x10", "0x10"),
        ("1_000", "1_000"),
        ("True", "True"),
        ("IBM", "IBM"),
        ("", ""),
        ("12 ", "12 "),
        ("\u0661", "\u0661"),
    ],
)
def test_text_is_typed_by_its_form(text: str, value: Value) -> None:
    assert typed(text) == value
    assert type(typed(text)) is type(value)


@given(st.text())
def test_any_text_is_typed(text: str) -> None:
    value = typed(text)
    assert isinstance(value, str | bool | int | float)


def json(payload: bytes, content_type: str = "application/json", **user: str) -> dict[str, Value]:
    properties = Properties(content_type=content_type, user_properties=tuple(user.items()))
    return dict(attributes_of(properties, payload))


def test_the_top_level_fields_of_a_json_payload() -> None:
    fields = b'"price": 1500, "brand": "IBM", "open": true, "rate": 0.5'
    payload = b'{%b, "note": null, "deep": {"a": 1}, "list": [1]}' % fields
    assert json(payload) == {"price": 1500, "brand": "IBM", "open": True, "rate": 0.5}
    assert json(payload, "application/json; charset=utf-8")["price"] == 1500
    assert json(payload, "application/cloudevents+json")["price"] == 1500


def test_only_if_the_content_type_says_so() -> None:
    assert json(b'{"price": 1}', "text/plain") == {}
    assert attributes_of(NO_PROPERTIES, b'{"price": 1}') == {}


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"{", b"[1]", b"1", b"\xff", b"[" * 60_000, b'{"a": 1}' + b" " * JSON_BYTES_MAX),
        b"{" + b",".join(b'"%d":1' % field for field in range(FIELDS_MAX + 1)) + b"}",
    ],
)
def test_no_json_object_no_fields(payload: bytes) -> None:
    assert json(payload) == {}


def test_a_user_property_wins_over_a_field() -> None:
    assert json(b'{"price": 1, "brand": "IBM"}', price="2") == {"price": 2, "brand": "IBM"}


@given(st.binary(max_size=30))
def test_any_payload_is_looked_at_without_harm(payload: bytes) -> None:
    json(payload)


def test_a_publish_becomes_an_event() -> None:
    properties = Properties(message_expiry_interval=30, user_properties=(("price", "7"),))
    publish = Publish("t", b"x", 2, True, packet_id=5, properties=properties)
    event = event_of(publish, Version.V5, EventId(ORIGIN, 3), ClientId("p"), NOW)
    assert (event.topic, event.payload, event.qos, event.retain) == ("t", b"x", 2, True)
    assert (event.published_at, event.expires_at, event.publisher) == (NOW, NOW + 30, "p")
    assert event.attributes == {"price": 7}
    assert isinstance(event.properties, EncodedMessage)
