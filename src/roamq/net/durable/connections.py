"""The part of a client's connection that snapshots store: enough for the journal to go on with the connection.

A connection does not outlive its process, but the journal after a snapshot has bytes that the connection received.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from roamq.net.clients.connections import Connection
from roamq.net.clients.mqtt.codec import (
    Auth,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Pingreq,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
    Version,
)
from roamq.net.clients.mqtt.inbound import Inbound
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.negotiation import Terms
from roamq.net.clients.mqtt.outbound import Outbound
from roamq.net.clients.mqtt.session import ServerConnection
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet
from roamq.net.durable.graph import Form, Packer, Row, Unpacker

_encode: Final = msgspec.msgpack.Encoder().encode
_PACKETS: Final = (
    Connect,
    Publish,
    Puback,
    Pubrec,
    Pubrel,
    Pubcomp,
    Subscribe,
    Unsubscribe,
    Pingreq,
    Disconnect,
    Auth,
)
PACKET_NAMES: Final[dict[type, str]] = {kind: kind.__name__ for kind in _PACKETS}
_PACKETS_BY_NAME: Final[dict[str, msgspec.msgpack.Decoder[Any]]] = {
    name: msgspec.msgpack.Decoder(kind) for kind, name in PACKET_NAMES.items()
}
_CONNECT: Final = msgspec.msgpack.Decoder(Connect)
_TERMS: Final = msgspec.msgpack.Decoder(Terms)
DECODER_FIELDS: Final = ("_connect_seen", "_held", "_held_bytes", "_needed_bytes", "unread_connect")


def _pack(packer: Packer, mqtt: ServerConnection) -> Row:
    assert not mqtt.output, "outputs are taken before a snapshot"
    is_in = getattr(mqtt, "outbound", None) is not None
    return [
        said_and_told(packer, mqtt, list(mqtt.subscriptions.filters), mqtt.inbound)
        if is_in
        else said(packer, mqtt)
    ]


def said(packer: Packer, mqtt: Any) -> dict[str, Any]:
    """Packs what a client has sent before the broker let it in. The password is left out, as in the journal."""
    connect: Connect | None = getattr(mqtt, "connect", None)
    terms: Terms | None = getattr(mqtt, "terms", None)
    decoder = mqtt._decoder
    return {
        "phase": packer.pack(mqtt.phase),
        "received_at": mqtt.received_at,
        "early": [[PACKET_NAMES[packet.__class__], _encode(packet)] for packet in mqtt._early or ()],
        "connect": None if connect is None else _encode(msgspec.structs.replace(connect, password=None)),
        "terms": None if terms is None else _encode(terms),
        "decoder": [packer.pack(getattr(decoder, name)) for name in DECODER_FIELDS],
        "version": None if decoder.version is None else int(decoder.version),
    }


def said_and_told(packer: Packer, mqtt: Any, filters: list[str], inbound: Any) -> dict[str, Any]:
    """Packs what a client has sent, and what the broker has told it, for a client that the broker let in."""
    return said(packer, mqtt) | {
        "state": packer.pack(mqtt.state),
        "subscriptions": filters,
        "plain_qos": mqtt._plain_qos,
        "out_aliases": packer.pack(mqtt.outbound._aliases),
        "out_before": packer.pack(mqtt.outbound.begun),
        "quota": mqtt.outbound.quota,
        "in_aliases": packer.pack(inbound._aliases),
        "in_open": packer.pack(inbound._open),
        "in_unanswered": packer.pack(inbound._unanswered),
    }


def _fill(unpacker: Unpacker, mqtt: ServerConnection, row: Row) -> None:
    plain = row[1]
    machine = unpacker.parts["machine"]
    mqtt.__init__(machine.settings.limits, machine.new_client_id)  # type: ignore[misc]
    mqtt.phase = unpacker.unpack(plain["phase"])
    mqtt.received_at = plain["received_at"]
    mqtt._early = list(_early(plain["early"])) or None
    version = None if plain["version"] is None else Version(plain["version"])
    decoder = mqtt._decoder = Decoder(version, max_packet_size=mqtt.limits.maximum_packet_size)
    for name, value in zip(DECODER_FIELDS, plain["decoder"], strict=True):
        setattr(decoder, name, unpacker.unpack(value))
    if plain["connect"] is not None:
        mqtt.connect = _CONNECT.decode(plain["connect"])
    if plain["terms"] is not None:
        mqtt.terms = _TERMS.decode(plain["terms"])
    if "state" not in plain:
        return
    state = mqtt.state = unpacker.unpack(plain["state"])
    mqtt.subscriptions = SubscriptionSet(state, plain["subscriptions"])
    mqtt._plain_qos = plain["plain_qos"]
    outbound = mqtt.outbound = Outbound(state, mqtt.terms, mqtt.subscriptions, mqtt.output)
    outbound._aliases = unpacker.unpack(plain["out_aliases"])
    outbound.begun = dict(unpacker.unpack(plain["out_before"]))
    outbound.quota = plain["quota"]
    inbound = mqtt._inbound = Inbound(state, mqtt.terms, mqtt.limits)
    inbound._aliases = unpacker.unpack(plain["in_aliases"])
    inbound._open = unpacker.unpack(plain["in_open"])
    inbound._unanswered = unpacker.unpack(plain["in_unanswered"])


def _early(rows: list[tuple[str, bytes]]) -> Iterator[Packet]:
    for name, data in rows:
        yield _PACKETS_BY_NAME[name].decode(data)


_UNUSED: Final = Connection(0, ServerConnection(Limits(), str), "", "")

CONNECTION_FORMS: Final = (
    Form("ServerConnection", ServerConnection, pack=_pack, fill=_fill),
    Form(
        "Connection",
        Connection,
        tuple(sorted(Connection.__slots__)),
        defaults=lambda name: getattr(_UNUSED, name),
    ),
)
