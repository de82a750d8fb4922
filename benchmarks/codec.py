"""Packets a second through the MQTT codec, beside `mqtt5` (Rust, MQTT 5 only) and gmqtt (Python) in the
same run.

    python -m benchmarks.codec [packets]

Decoding is done as a broker does it: a read of 64 KiB at a time. Encoding is measured twice: `encode` of a
packet, and `forward`, which is what a broker does with one it received: make the message and take the bytes
for a receiver. paho-mqtt has no codec apart from its client; amqtt's reads from streams only, and pins its
dependencies so that it cannot be installed beside ours.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import mqtt5
from gmqtt import Message as GmqttMessage
from gmqtt.mqtt.package import PublishPacket as GmqttPublish

from roamq.net.clients.mqtt.codec import Decoder, EncodedMessage, Publish, Version, encode, first_byte

TOPIC: Final = "bench/topic/1"
PAYLOAD: Final = bytes(64)
READ_BYTES: Final = 65536


def rate(count: int, work: Callable[[], object], repeat: int = 5) -> float:
    """Packets a second, the best of a few runs: the others were disturbed."""
    best = float("inf")
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return count / best


def stream(version: Version, qos: int, count: int) -> list[bytes]:
    """The reads that bring `count` packets."""
    data = b"".join(
        encode(Publish(TOPIC, PAYLOAD, qos, packet_id=(number % 65535 + 1) if qos else 0), version)
        for number in range(count)
    )
    return [data[at : at + READ_BYTES] for at in range(0, len(data), READ_BYTES)]


def decode_ours(version: Version, reads: list[bytes]) -> list[Publish]:
    decoder = Decoder(version)
    packets: list[Any] = []
    for read in reads:
        packets += decoder.feed(read)
    return packets


def decode_mqtt5(data: bytes) -> int:
    view = memoryview(data)
    at = count = 0
    while at < len(view):
        _, size = mqtt5.read(view[at:])
        at += size
        count += 1
    return count


def forward(packets: list[Publish], version: Version) -> None:
    v5 = version is Version.V5
    for packet in packets:
        message = EncodedMessage.of(packet, version)
        if packet.qos:
            head, tail = message.around_packet_id(v5, first_byte(packet.qos))
            _ = head + packet.packet_id.to_bytes(2, "big") + tail
        else:
            message.qos_0(v5)


class _Connection:
    """What gmqtt asks of a connection when it builds a packet: a version, and packet ids."""

    proto_ver = 5

    def __init__(self) -> None:
        self.id_generator = self

    def next_id(self) -> int:
        return 1


def encode_gmqtt(qos: int, count: int) -> None:
    connection = _Connection()
    for _ in range(count):
        GmqttPublish.build_package(GmqttMessage(TOPIC, PAYLOAD, qos=qos), connection)


def encode_mqtt5(qos: int, count: int) -> None:
    packet_id = 1 if qos else None
    level = mqtt5.QoS(qos)
    for _ in range(count):
        mqtt5.PublishPacket(TOPIC, PAYLOAD, qos=level, packet_id=packet_id).write()


def encode_ours(version: Version, qos: int, count: int) -> None:
    packet_id = 1 if qos else 0
    for _ in range(count):
        encode(Publish(TOPIC, PAYLOAD, qos, packet_id=packet_id), version)


def main(argv: list[str]) -> dict[str, object]:
    """Measure and give the rates; nothing is printed here."""
    count = int(argv[0]) if argv else 50_000
    results: dict[str, object] = {"packets": count, "payload_bytes": len(PAYLOAD)}
    for qos in (0, 1):
        for version in Version:
            reads = stream(version, qos, count)
            packets = decode_ours(version, reads)
            assert len(packets) == count
            name = f"{version.name} qos {qos}"
            decoded = rate(count, partial(decode_ours, version, reads))
            encoded = rate(count, partial(encode_ours, version, qos, count))
            results[f"{name}: decode"] = round(decoded)
            results[f"{name}: encode"] = round(encoded)
            results[f"{name}: forward"] = round(rate(count, partial(forward, packets, version)))
        # `reads` and the rates are now those of MQTT 5, which the peers speak.
        peers = {
            "decode, ratio to mqtt5": decoded / rate(count, partial(decode_mqtt5, b"".join(reads))),
            "encode, ratio to mqtt5": encoded / rate(count, partial(encode_mqtt5, qos, count)),
            "encode, ratio to gmqtt": encoded / rate(count, partial(encode_gmqtt, qos, count), repeat=2),
        }
        results |= {f"V5 qos {qos}: {name}": round(ratio, 2) for name, ratio in peers.items()}
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:]), indent=2))
