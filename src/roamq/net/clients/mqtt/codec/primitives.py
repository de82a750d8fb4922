"""The data types of section 1.5: integers, strings and binary data, read from and written to bytes.

A reader takes `(data, position, end)` and returns `(value, position after it)`. `end` is the end of the packet or of
the property list, so a reader never reads bytes of the next one.
"""

from typing import Final

from roamq.net.clients.mqtt.codec.errors import MqttError

VARIABLE_INTEGER_MAX: Final = 268_435_455


def _need(count: int, position: int, end: int) -> int:
    stop = position + count
    if stop > end:
        raise too_short(stop, end)
    return stop


def too_short(stop: int, end: int) -> MqttError:
    return MqttError(f"packet ends {stop - end} bytes too early")


def read_byte(data: bytes, position: int, end: int) -> tuple[int, int]:
    stop = position + 1
    if stop > end:
        raise too_short(stop, end)
    return data[position], stop


def read_u16(data: bytes, position: int, end: int) -> tuple[int, int]:
    stop = position + 2
    if stop > end:
        raise too_short(stop, end)
    return data[position] << 8 | data[position + 1], stop


def read_u32(data: bytes, position: int, end: int) -> tuple[int, int]:
    stop = _need(4, position, end)
    return int.from_bytes(data[position:stop], "big"), stop


def read_variable(data: bytes, position: int, end: int) -> tuple[int, int]:
    """A variable byte integer: seven bits a byte, lowest first, four bytes at most."""
    value = 0
    for shift in (0, 7, 14, 21):
        _need(1, position, end)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # [MQTT-1.5.5-1] the fewest bytes that hold the value.
            if not byte and shift:
                raise MqttError("variable byte integer is longer than needed")
            return value, position
    raise MqttError("variable byte integer of more than four bytes")


def read_binary(data: bytes, position: int, end: int) -> tuple[bytes, int]:
    start = position + 2
    if start > end:
        raise too_short(start, end)
    stop = start + (data[position] << 8 | data[position + 1])
    if stop > end:
        raise too_short(stop, end)
    return data[start:stop], stop


def read_string(data: bytes, position: int, end: int) -> tuple[str, int]:
    raw, position = read_binary(data, position, end)
    return text(raw), position


def text(raw: bytes) -> str:
    """A UTF-8 encoded string. A byte order mark stays where it is ([MQTT-1.5.4-3])."""
    try:
        # [MQTT-1.5.4-1] well-formed; Python's decoder refuses surrogates as well.
        value = raw.decode()
    except UnicodeDecodeError as error:
        raise MqttError(f"string is not UTF-8: {error.reason} at byte {error.start}") from None
    if "\0" in value:
        # [MQTT-1.5.4-2]
        raise MqttError("string contains U+0000")
    return value


def variable(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    if value > VARIABLE_INTEGER_MAX:
        raise OverflowError(f"{value} does not fit a variable byte integer")
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def u16(value: int) -> bytes:
    return value.to_bytes(2, "big")


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def binary(value: bytes) -> bytes:
    return len(value).to_bytes(2, "big") + value


def string(value: str) -> bytes:
    return binary(value.encode())
