"""What the fuzzer begins with: inputs of each target that a broker understands, and some that it must not."""

import struct
from typing import Final

import msgspec

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId, Event, EventId
from roamq.net.clients.mqtt.codec import Connect, Properties, Version, encode
from roamq.net.clients.mqtt.codec.packets import Publish, Subscribe, SubscriptionRequest, Will
from roamq.net.durable.inputs import InputKind
from roamq.net.durable.journal import MAGIC
from roamq.net.links import wire
from roamq.net.links.protocol import OLDEST
from roamq.net.topics.directory import Serving
from tests.fuzz.targets import NOW, REQUEST, V5, V311


def _packets(version: Version) -> list[bytes]:
    v5 = version is V5
    publish = Publish(
        "a/b", b'{"a": 1}', 1, packet_id=1, properties=Properties(topic_alias=1) if v5 else Properties()
    )
    subscribe = Subscribe(
        2,
        (SubscriptionRequest("$share/g/a/+", 2), SubscriptionRequest("secret/#", 0)),
        properties=Properties(user_properties=(("filter", "a > 1 AND b LIKE 'x%'"),)) if v5 else Properties(),
    )
    will = Will(topic="w", payload=b"gone", qos=2, retain=True)
    return [
        encode(Connect(version=version, client_id="c", will=will, user_name="u", password=b"p"), version),
        encode(publish, version),
        encode(subscribe, version),
        b"\x34\x08\x00\x01a\x00\x02" + (b"\x00xx" if v5 else b"xxx") + b"\x62\x02\x00\x02",
        b"\xc0\x00\xe0\x00",
    ]


_CONNECTS: Final = {V5: 4 | 8 | 0x80 | 32, V311: 4 | 0x80 | 32}
"""A step of `mqtt` that connects with a will."""


def _scenario(version: Version) -> bytes:
    connect = _CONNECTS[version]
    steps = [bytes((connect, 0))]
    steps += [bytes((0, len(packet))) + packet for packet in _packets(version)[1:]]
    steps += [bytes((5, 0, connect, 0, 6 | 0xF0, 0))]
    return b"".join(steps)


def _frame(payload: bytes, first: int = 0x82) -> bytes:
    return bytes((first, 0x80 | len(payload))) + b"\0\0\0\0" + payload


_SERVING: Final = Serving(
    client=ClientId("c"), epoch=Epoch(1.0, BrokerId("b2")), home=BrokerId("b2"), previous=None, owner="u"
)
_EVENT: Final = Event(id=EventId(BrokerId("b2"), 1), topic="a/b", payload=b"x", published_at=NOW, qos=1)
_CONFIGURATION: Final = b"""[network]
scheme = "standard"
secret = "0123456789abcdef"
[storage]
durability = "memory"
[mqtt]
maximum_packet_size = 1000
[quotas]
sessions_max = 5
[bounds]
linger_s = 1.0
[access.users]
ann = "scrypt$16384$8$1$c2FsdA==$aGFzaA=="
[[access.rules]]
user = "*"
may = ["publish"]
topics = ["a/%u/#"]
[brokers.b1]
link_port = 1
position = [1.0, 2.0]
listeners = [{ kind = "ws", port = 2, path = "/mqtt" }]
[brokers.b2]
link_port = 3
position = [1.0, 2.0]
"""
_ENTRIES: Final = msgspec.msgpack.encode(
    [
        (int(InputKind.OPENED), NOW, 1, "0:mqtt", "127.0.0.1:1"),
        (int(InputKind.RECEIVED), NOW, 1, encode(Connect(client_id="c"), V5)),
        (int(InputKind.AUTHENTICATED), NOW, 1, None, True),
        (int(InputKind.TIMER), NOW, ("session", "c")),
        (int(InputKind.LOST), NOW, 1),
        (int(InputKind.STATUS), NOW, {"version": "1"}),
    ]
)

_CLIENTS: Final = [
    _scenario(V5),
    _scenario(V311),
    *(
        bytes((_CONNECTS[version], len(packet))) + packet
        for version in _CONNECTS
        for packet in _packets(version)[1:]
    ),
    bytes((0, len(_packets(V5)[0]))) + _packets(V5)[0],
]

SEEDS: Final[dict[str, list[bytes]]] = {
    "codec": [
        bytes((number,)) + data
        for version, number in ((V311, 1), (V5, 2), (V5, 101))
        for data in [*_packets(version), b"".join(_packets(version)[1:])]
    ]
    + [b"\xf0" + _packets(V5)[0], b"\xf0" + _packets(V311)[0]],
    "session": _CLIENTS,
    "mqtt": _CLIENTS,
    "websocket": [
        b"\xff" + _frame(_packets(V5)[0]) + _frame(_packets(V5)[1]),
        b"\x03"
        + _frame(b"\x10", 0x02)
        + _frame(b"\xff", 0x80)
        + _frame(b"ping", 0x89)
        + _frame(b"\x03\xe8", 0x88),
        b"\xfe" + REQUEST,
        b"\x01" + _frame(b"text", 0x81),
    ],
    "links": [
        bytes((kind,)) + struct.pack(">IB", len(hello), 1) + hello
        for hello in [msgspec.msgpack.encode([OLDEST, "n", "b2", "b1", b"m" * 32, 5, 5])]
        for kind in range(4)
    ],
    "frames": [wire.encode(_EVENT), wire.encode(_SERVING)],
    "selectors": [
        b"a/+/#\na > 1 AND b LIKE 'x%' AND NOT c IS NULL",
        b"#\na IN ('x', 'y') AND b BETWEEN 1 AND 2.5e3 AND (c = TRUE OR a <> 5)",
        b"a\n",
    ],
    "tickets": [b"1000.5@b2", b"inf@b2", b"1e400@b1", b"-1@x", b"nan@b2"],
    "tokens": [
        b"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm4iLCJleHAiOjk5OTk5OTk5OTl9.AAAA",
        b"eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4iLCJleHAiOjk5OTk5OTk5OTl9.",
    ],
    "configuration": [_CONFIGURATION],
    "journal": [b"\x01" + _ENTRIES, b"\x00" + _ENTRIES, b"\x03" + _ENTRIES, b"\x02" + MAGIC],
    "http": [
        b"GET /api/where/x%20?after=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer y\r\nCookie: roamq=z\r\n\r\n"
    ],
}
