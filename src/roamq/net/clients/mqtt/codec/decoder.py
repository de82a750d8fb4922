"""Bytes as they come -> whole packets.

`feed` parses all bytes of a read in one go and keeps the rest. A large packet that arrives in many reads is gathered in
a list and joined once, so that its cost stays linear.
"""

from typing import Final

from roamq.net.clients.mqtt.codec import decode
from roamq.net.clients.mqtt.codec.errors import MqttError
from roamq.net.clients.mqtt.codec.packets import V5, Connect, Packet, Puback, Version
from roamq.net.clients.mqtt.codec.primitives import VARIABLE_INTEGER_MAX
from roamq.net.clients.mqtt.codec.reason_codes import ReasonCode

PACKET_SIZE_MAX: Final = VARIABLE_INTEGER_MAX + 5
"""Bytes of the largest packet that MQTT can express, with its fixed header."""


class Decoder:
    """Reads the packets of one connection.

    A server's decoder starts without a version and learns it from CONNECT, which must come first. After an error the
    decoder is of no more use: the connection must be closed.
    """

    __slots__ = (
        "_connect_seen",
        "_held",
        "_held_bytes",
        "_needed_bytes",
        "_v5",
        "max_packet_size",
        "unread_connect",
        "version",
    )

    def __init__(self, version: Version | None = None, *, max_packet_size: int = PACKET_SIZE_MAX) -> None:
        self.version = version
        self.max_packet_size = max_packet_size
        self._v5 = version is V5
        self._connect_seen = False
        self._held: list[bytes] | None = None
        """The bytes that have come of a packet that is not whole."""
        self._held_bytes = 0
        self.unread_connect: int | None = None
        """How many bytes at the end of the last read begin with a second CONNECT, or with AUTH: they are not parsed,
        because they may hold a password."""
        self._needed_bytes = 0
        """The decoder parses nothing before it holds this many bytes."""

    def feed(self, data: bytes) -> list[Packet]:
        """The packets completed by `data`, in order. Raises `MqttError` and nothing else."""
        if self._held:
            self._held.append(data)
            self._held_bytes += len(data)
            if self._held_bytes < self._needed_bytes:
                return []
            data = b"".join(self._held)
            self._held = None
        packets: list[Packet] = []
        try:
            rest, self._needed_bytes = self._parse(data, packets)
        except MqttError as error:
            error.decoded = packets
            raise
        if rest < len(data):
            self._held = [data[rest:] if rest else data]
            self._held_bytes = len(data) - rest
        return packets

    def _parse(self, data: bytes, packets: list[Packet]) -> tuple[int, int]:
        """Append whole packets. Return where the incomplete packet begins and how many bytes it needs before parsing
        goes on."""
        begin = 0
        size = len(data)
        v5 = self._v5
        publish = decode.publish
        append = packets.append
        size_max = self.max_packet_size
        while size - begin >= 2:
            first = data[begin]
            if (first == 0x10 or first == 0xF0) and self._connect_seen:
                # [MQTT-3.1.0-2], [MQTT-4.12.0-7], known before the packet has come
                self.unread_connect = size - begin
                what = "second CONNECT" if first == 0x10 else "AUTH without an authentication method"
                raise MqttError(what, ReasonCode.PROTOCOL_ERROR)
            length = data[begin + 1]
            start = begin + 2
            if length > 0x7F:
                length &= 0x7F
                shift = 7
                while True:
                    if start == size:
                        return begin, start - begin + 1
                    byte = data[start]
                    start += 1
                    length |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
                    if shift > 21:
                        raise MqttError(
                            "remaining length of more than four bytes"
                        )  # table 2-4 of section 1.5.5
                if not byte:
                    # [MQTT-1.5.5-1]
                    raise MqttError("remaining length is longer than needed")
            stop = start + length
            if stop - begin > size_max:
                # [MQTT-3.2.2-15], known before the packet has come
                raise MqttError(
                    f"packet of {stop - begin} bytes, allowed {size_max}", ReasonCode.PACKET_TOO_LARGE
                )
            if stop > size:
                if self.version is None and first != 0x10:
                    raise _not_connect()
                return begin, stop - begin
            if first & 0xF0 == 0x30 and self.version:
                append(publish(data, begin, start, stop, v5))
            elif first == 0x40 and length == 2 and self.version and (data[start] or data[start + 1]):
                append(Puback(data[start] << 8 | data[start + 1]))
            else:
                append(self._other(data, first, start, stop))
                v5 = self._v5
            begin = stop
        return begin, 2

    def _other(self, data: bytes, first: int, start: int, stop: int) -> Packet:
        if self.version is None and first != 0x10:
            raise _not_connect()
        body = decode.BODIES.get(first)
        if body is None:
            # [MQTT-2.1.3-1] reserved packet type 0, or reserved flags
            raise MqttError(f"first byte 0x{first:02X} begins no packet")
        packet = body(data, start, stop, self._v5)
        if self.version is None and isinstance(packet, Connect):
            self.version = packet.version
            self._connect_seen = True
            self._v5 = packet.version is V5
        return packet


def _not_connect() -> MqttError:
    # [MQTT-3.1.0-1]
    return MqttError("the first packet is not CONNECT", ReasonCode.PROTOCOL_ERROR)
