"""A client's socket: bytes in, bytes out, over TCP or TLS, bare or inside WebSocket.

Of MQTT it knows the length of the first packet. CONNECT is gathered here until it is whole: a stranger can make the
broker hold no more than that, and the journal can leave the password out (`Shell.connect`).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from roamq.net.mqtt.session import Phase
from roamq.net.node import Kind
from roamq.net.options import Bounds, Listener
from roamq.net.shell import Shell

log = logging.getLogger("roamq.clients")

CONNECT_FIRST_BYTE: Final = 0x10
FRAME_BYTES_MAX: Final = 256 * 1024 * 1024 + 5
SUBPROTOCOLS: Final = [Subprotocol("mqtt"), Subprotocol("mqttv3.1")]
"""[MQTT-6.0.0-3]; the second is what some 3.1.1 clients still say."""


class Doorkeeper:
    """What the connections of a broker share: the shell, the bounds, and who is in."""

    def __init__(self, shell: Shell, bounds: Bounds, publish_rate_max: float = 0.0) -> None:
        self.shell = shell
        self.bounds = bounds
        self.publish_rate_max = publish_rate_max
        self.by_address: Counter[str] = Counter()
        self.is_open = True

    def admits(self, address: str) -> str | None:
        """Why a new connection is not taken, or None if it is."""
        bounds = self.bounds
        if not self.is_open or self.shell.stalled is not None:
            return "closed"
        if len(self.shell.clients) >= bounds.connections_max:
            return "connections_max"
        if 0 < bounds.connections_per_address_max <= self.by_address[address]:
            return "connections_per_address_max"
        return None


class ClientConnection(asyncio.Protocol):
    """MQTT straight on the socket."""

    def __init__(self, door: Doorkeeper, listener: Listener) -> None:
        self.door = door
        self.shell = door.shell
        self.listener = listener
        self.number = 0
        self.waits_for_login = False
        self.received_bytes = 0
        self.sent_bytes = 0
        self.transport: asyncio.Transport
        self._address = ""
        self._opened_at = 0.0
        self._closing_at: float | None = None
        self._paused: set[str] = set()
        self._first = bytearray()
        self._allowance = door.publish_rate_max
        self._allowance_at = 0.0
        self.take: Callable[[bytes], None] = self._take_first
        """What to do with MQTT bytes; another function once CONNECT is through."""

    # --- the socket's side -------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._address = str(peer[0]) if isinstance(peer, tuple) else "local"
        refusal = self.door.admits(self._address)
        if refusal is not None:
            self.shell.counts[f"refused {refusal}"] += 1
            self.transport.abort()
            return
        self.door.by_address[self._address] += 1
        self.transport.set_write_buffer_limits(high=self.door.bounds.write_buffer_bytes)
        self._opened_at = self.shell.now()
        port = peer[1] if isinstance(peer, tuple) else 0
        self.number = self.shell.opened(self, self.listener.name, f"{self._address}:{port}")
        self.shell.watch(self.number, self._opened_at + self.door.bounds.connect_timeout_s)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        self.take(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.number:
            counts = self.shell.counts
            counts["received_bytes"] += self.received_bytes
            counts["sent_bytes"] += self.sent_bytes
            self.door.by_address[self._address] -= 1
            if not self.door.by_address[self._address]:
                del self.door.by_address[self._address]
            self.shell.lost(self.number)

    def pause_writing(self) -> None:
        self.shell.counts["slow_consumer"] += 1
        self.shell.feed(Kind.BLOCKED, self.number, True)

    def resume_writing(self) -> None:
        if self.number in self.shell.clients:
            self.shell.feed(Kind.BLOCKED, self.number, False)

    # --- MQTT bytes --------------------------------------------------------------------------------------------

    def _take_first(self, data: bytes) -> None:
        """Gather CONNECT. What is none goes to the machine as it is, which knows what to say."""
        self._first += data
        end = connect_end(self._first)
        if end is None or end > len(self._first):
            if max(len(self._first), end or 0) > self.door.bounds.connect_bytes_max:
                self.shell.counts["refused connect_bytes_max"] += 1
                self.abort()
            return
        whole, self._first = bytes(self._first), bytearray()
        self.take = self._take_limited if self.door.publish_rate_max else self._take
        self.shell.connect(self.number, whole, end)
        mqtt = self.shell.mqtt(self.number)
        if mqtt is not None and mqtt.reading_paused:
            self.waits_for_login = True
            self.pause("login")

    def _take(self, data: bytes) -> None:
        self.shell.received(self.number, data)

    def _take_limited(self, data: bytes) -> None:
        """Count what was published; who is over the rate is not read from until it is within again."""
        broker = self.shell.machine.broker
        before = broker.sequence
        self.shell.received(self.number, data)
        rate = self.door.publish_rate_max
        now = self.shell.now()
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        self._allowance -= broker.sequence - before
        if self._allowance < 0:
            self.shell.counts["rate_limited"] += 1
            self.pause("rate")
            self.shell.loop.call_later(-self._allowance / rate, self.resume, "rate")

    # --- the shell's side --------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        self.sent_bytes += len(data)
        self.transport.write(data)

    def close(self) -> None:
        if self._closing_at is None:
            self._closing_at = self.shell.now()
            self.shell.watch(self.number, self._closing_at + self.door.bounds.linger_s)
            self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def pause(self, why: str) -> None:
        if not self._paused and not self.transport.is_closing():
            self.transport.pause_reading()
        self._paused.add(why)

    def resume(self, why: str) -> None:
        if why in self._paused:
            self._paused.remove(why)
            if not self._paused and not self.transport.is_closing():
                self.transport.resume_reading()

    def check(self, now: float) -> float | None:
        bounds = self.door.bounds
        if self._closing_at is not None:
            if now >= self._closing_at + bounds.linger_s:
                self.abort()
                return None
            return self._closing_at + bounds.linger_s
        mqtt = self.shell.mqtt(self.number)
        if mqtt is None:
            return None
        if mqtt.phase in (Phase.NEW, Phase.PENDING):
            if now >= self._opened_at + bounds.connect_timeout_s:
                self.shell.counts["refused connect_timeout_s"] += 1
                self.abort()
                return None
            return self._opened_at + bounds.connect_timeout_s
        deadline = mqtt.keep_alive_deadline()
        if deadline is not None and now >= deadline and not self._paused:
            self.shell.feed(Kind.KEEP_ALIVE, self.number)
            return now + bounds.linger_s
        return deadline


class WebSocketConnection(ClientConnection):
    """MQTT inside binary WebSocket messages; packets may straddle them ([MQTT-6.0.0-2])."""

    def __init__(self, door: Doorkeeper, listener: Listener) -> None:
        super().__init__(door, listener)
        self._protocol = ServerProtocol(subprotocols=SUBPROTOCOLS, max_size=FRAME_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif not isinstance(event, Frame):
                continue
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                self.take(bytes(event.data))
            elif event.opcode is Opcode.TEXT:
                # [MQTT-6.0.0-1]
                protocol.fail(1003, "MQTT is binary")
        self._flush()

    def send(self, data: bytes) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_binary(data)
            self._flush()

    def close(self) -> None:
        if self._protocol.state is State.OPEN:
            self._protocol.send_close(1000)
            self._flush()
        super().close()

    def eof_received(self) -> None:
        self._protocol.receive_eof()

    def _answer(self, request: Request) -> None:
        if request.path.partition("?")[0] != self.listener.path:
            self._protocol.send_response(self._protocol.reject(404, f"MQTT is at {self.listener.path}\n"))
            return
        response = self._protocol.accept(request)
        self._protocol.send_response(response)

    def _flush(self) -> None:
        for data in self._protocol.data_to_send():
            if data:
                self.sent_bytes += len(data)
                self.transport.write(data)
            else:
                self.transport.close()


def connect_end(data: bytes | bytearray) -> int | None:
    """Where the first packet ends, None if that cannot be told yet. What is no CONNECT ends where it begins."""
    if not data:
        return None
    if data[0] != CONNECT_FIRST_BYTE:
        return 0
    length = shift = 0
    for at, byte in enumerate(data[1:5], 2):
        length |= (byte & 0x7F) << shift
        if byte < 0x80:
            return at + length
        shift += 7
    return None if len(data) < 5 else 0


def make_connection(door: Doorkeeper, listener: Listener) -> Callable[[], Any]:
    kind = WebSocketConnection if listener.websocket else ClientConnection
    return lambda: kind(door, listener)
