"""A client's socket: bytes in, bytes out, over TCP or TLS, bare or inside WebSocket.

The socket knows nothing of MQTT but the length of the first packet. It gathers CONNECT until CONNECT is whole: a
stranger can make the broker hold no more, and the journal can leave the password out (`Shell.connect`).
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from roamq.net.clients.certificates import user_of
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.clients.turns import NOTHING_WAITS, Slices
from roamq.net.durable.inputs import InputKind
from roamq.net.ops.options import Bounds, Listener
from roamq.net.shell import Shell

log = logging.getLogger("roamq.clients")

CONNECT_FIRST_BYTE: Final = 0x10
FRAME_BYTES_MIN: Final = 64 * 1024
"""Bytes that a WebSocket message of a client that was let in may always have, even if packets must be smaller."""
HANDSHAKE_BYTES: Final = 16 * 1024
"""Bytes that the request to open a WebSocket may take beside a CONNECT."""
TURN: Final = "turn"
"""The reason to pause reading from a connection while bytes that it has sent wait for their turn."""
_ONLY_TURN: Final = frozenset({TURN})
_NOT_PAUSED: Final[frozenset[str]] = frozenset()
SUBPROTOCOLS: Final = [Subprotocol("mqtt"), Subprotocol("mqttv3.1")]
"""[MQTT-6.0.0-3]; the second is a name that some 3.1.1 clients still use."""


class Doorkeeper:
    """The common part of a broker's connections: the shell, the bounds, and counts of connections and bytes."""

    def __init__(
        self,
        shell: Shell,
        bounds: Bounds,
        publish_rate_max: float = 0.0,
        packet_bytes_max: int = Limits().maximum_packet_size,
    ) -> None:
        self.shell = shell
        self.packet_bytes_max = packet_bytes_max
        self.bounds = bounds
        self.publish_rate_max = publish_rate_max
        self.by_address: dict[str, int] = {}
        """Address -> the number of its connections."""
        self.gathered_bytes = 0
        """Bytes that the broker holds for connections that are not let in, all together."""
        self.is_open = True
        self.turns = shell.turns

    def admits(self, address: str) -> str | None:
        """The reason why a new connection is not taken, or None if it is taken."""
        bounds = self.bounds
        if not self.is_open or self.shell.stalled is not None:
            return "closed"
        if len(self.shell.clients) >= bounds.connections_max:
            return "connections_max"
        if 0 < bounds.connections_per_address_max <= self.by_address.get(address, 0):
            return "connections_per_address_max"
        return None


class ClientSocket(asyncio.Protocol):
    """MQTT directly on the socket."""

    __slots__ = (
        "__weakref__",
        "_address",
        "_allowance",
        "_allowance_at",
        "_closing_at",
        "_expected_bytes",
        "_first",
        "_gathered",
        "_has_turn",
        "_is_through",
        "_login_bytes",
        "_mqtt",
        "_opened_at",
        "_paused",
        "_slices",
        "certified_user",
        "door",
        "listener",
        "number",
        "received_bytes",
        "sent_bytes",
        "shell",
        "transport",
        "waits_for_login",
    )

    def __init__(self, door: Doorkeeper, listener: Listener) -> None:
        self.door = door
        self.shell = door.shell
        self.listener = listener
        self.number = 0
        self.waits_for_login = False
        self.certified_user: str | None = None
        self.received_bytes = 0
        self.sent_bytes = 0
        self.transport: asyncio.Transport
        self._address = ""
        self._opened_at = 0.0
        self._closing_at: float | None = None
        self._paused: frozenset[str] = _NOT_PAUSED
        """The reasons why the connection is not read from."""
        self._first: bytearray | None = None
        """The bytes that have come of a CONNECT that is not whole."""
        self._slices = NOTHING_WAITS
        """Bytes that were read and not looked at."""
        self._mqtt = NOTHING_WAITS
        """Bytes that were looked at and are not with the machine: behind CONNECT, or in a long WebSocket frame."""
        self._has_turn = False
        """Whether the connection is in the queue of those that take turns."""
        self._gathered = 0
        self._expected_bytes = 0
        """The length that the header of the first packet states, while that packet is not whole."""
        self._login_bytes = 0
        """The length of CONNECT, while the client is not let in: the machine and the login desk hold it."""
        self._allowance = door.publish_rate_max
        self._allowance_at = 0.0
        self._is_through = False
        """Whether CONNECT went to the machine.

        This is a flag, not a method kept in the object: a connection that ends must free its memory at once, and a
        cycle would wait for the collector, which seldom runs.
        """

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
        by_address = self.door.by_address
        by_address[self._address] = by_address.get(self._address, 0) + 1
        self.transport.set_write_buffer_limits(high=self.door.bounds.write_buffer_bytes)
        self._opened_at = self.shell.now()
        if self.listener.certificate_user is not None:
            certificate = transport.get_extra_info("peercert")
            self.certified_user = user_of(certificate, self.listener.certificate_user)
        port = peer[1] if isinstance(peer, tuple) else 0
        self.number = self.shell.opened(self, self.listener.name, f"{self._address}:{port}")
        self.shell.watch(self.number, self._opened_at + self.door.bounds.connect_timeout_s)

    def data_received(self, data: bytes) -> None:
        """Handle a read that fits a slice at once, and a larger one in slices when it is this connection's turn."""
        self.received_bytes += len(data)
        slices = self._slices
        if not slices.waits and len(data) <= slices.size and not self._paused:
            if self.door.turns:
                told = self.shell.told
                size = slices.handle(data, self._take)
                self.shell.hurry(self.number, told)
            else:
                size = slices.handle(data, self._take)
            if size != slices.size:
                self._own_slices().size = size
        else:
            self._own_slices().add(data)
            self._wait_for_turn()
        if not self._is_in:
            self._note_gathered()

    def take_turn(self) -> bool:
        """Handle one slice. Return whether more may be handled now."""
        if self._may_go_on():
            slices, act = (self._mqtt, self._pass_on) if self._mqtt.waits else (self._slices, self._take)
            slices.size = slices.handle(slices.next(), act)
            if not self._is_through or self.waits_for_login:
                self._note_gathered()
        self._has_turn = self._may_go_on()
        if not self._has_turn and not self._waits:
            self.resume(TURN)
        return self._has_turn

    def _own_slices(self) -> Slices:
        """The connection's own `_slices`, which may be changed."""
        if self._slices is NOTHING_WAITS:
            self._slices = Slices()
        return self._slices

    def _keep(self, data: bytes) -> None:
        """Keep bytes that were looked at until the machine may have them."""
        if self._mqtt is NOTHING_WAITS:
            self._mqtt = Slices()
        self._mqtt.add(data)
        self._wait_for_turn()

    def _may_go_on(self) -> bool:
        is_paused = not self._paused <= _ONLY_TURN
        return self._waits and not is_paused and not self.transport.is_closing()

    @property
    def _waits(self) -> bool:
        """Whether some bytes that were read are not handled yet."""
        return self._mqtt.waits or self._slices.waits

    def _wait_for_turn(self) -> None:
        self.pause(TURN)
        if not self._has_turn and self._may_go_on():
            self._has_turn = True
            self.door.turns.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_read()
        if self.number:
            counts = self.shell.counts
            counts["received_bytes"] += self.received_bytes
            counts["sent_bytes"] += self.sent_bytes
            by_address = self.door.by_address
            by_address[self._address] -= 1
            if not by_address[self._address]:
                del by_address[self._address]
            self.shell.lost(self.number)

    def pause_writing(self) -> None:
        self.shell.counts["slow_consumer"] += 1
        self.shell.feed(InputKind.BLOCKED, self.number, True)

    def resume_writing(self) -> None:
        if self.number in self.shell.clients:
            self.shell.feed(InputKind.BLOCKED, self.number, False)

    # --- MQTT bytes --------------------------------------------------------------------------------------------

    @property
    def _is_in(self) -> bool:
        """Whether the client was let in: from now on it pays for its own bytes."""
        return self._is_through and not self.waits_for_login

    def _take_mqtt(self, data: bytes) -> None:
        """Handle a slice of MQTT bytes."""
        if not self._is_through:
            self._take_first(data)
        elif self.waits_for_login or self._mqtt.waits:
            self._keep(data)
        else:
            self._pass_on(data)

    _take = _take_mqtt
    """Handles a slice of the bytes that were read."""

    def _pass_on(self, data: bytes) -> None:
        if self.door.publish_rate_max:
            self._take_limited(data)
        else:
            self.shell.received(self.number, data)

    def _take_first(self, data: bytes) -> None:
        """Gather CONNECT. Bytes that are no CONNECT go to the machine as they are, which knows the answer."""
        first: bytes | bytearray = data
        if self._first is not None:
            self._first += data
            first = self._first
        end = connect_end(first)
        if end is None or end > len(first):
            if self._first is None:
                self._first = bytearray(data)
            self._expected_bytes = end or 0
            return
        whole = bytes(first)
        self._forget_first()
        self._is_through = True
        self.shell.connect(self.number, whole[:end] if end else whole, end)
        if not end:
            return
        mqtt = self.shell.mqtt(self.number)
        if mqtt is not None and mqtt.reading_paused:
            self.waits_for_login = True
            self._login_bytes = end
            self.pause("login")
        elif mqtt is not None:
            self._watch_keep_alive(mqtt)
        if len(whole) > end:
            self._keep(whole[end:])

    def _watch_keep_alive(self, mqtt: ServerConnection) -> None:
        """Watch the keep alive of a client that was let in. The shell will check it when its CONNECT had to be whole; a
        client with a shorter keep alive is checked before."""
        deadline = mqtt.keep_alive_deadline()
        if deadline is not None and deadline < self._opened_at + self.door.bounds.connect_timeout_s:
            self.shell.watch(self.number, deadline)

    def _gathering_bytes(self) -> int:
        """Bytes that are held of a CONNECT that is not whole."""
        return 0 if self._first is None else len(self._first)

    def _note_gathered(self) -> None:
        """Count the bytes held for a client that is not let in, and cut it above its own bound or that of all such."""
        door, bounds = self.door, self.door.bounds
        connect_bytes = 0 if self._is_through else self._gathering_bytes()
        held_bytes = connect_bytes + self._login_bytes + len(self._mqtt) + len(self._slices)
        door.gathered_bytes += held_bytes - self._gathered
        self._gathered = held_bytes
        bound = None
        if max(connect_bytes, self._expected_bytes) > bounds.connect_bytes_max:
            bound = "connect_bytes_max"
        elif door.gathered_bytes > bounds.connects_bytes_max:
            bound = "connects_bytes_max"
        if bound is not None:
            self.shell.counts[f"refused {bound}"] += 1
            self._forget_read()
            self.abort()

    def _forget_read(self) -> None:
        self._slices = self._mqtt = NOTHING_WAITS
        self._forget_first()

    def _forget_first(self) -> None:
        self.door.gathered_bytes -= self._gathered
        self._gathered = 0
        self._expected_bytes = self._login_bytes = 0
        self._first = None

    def _take_limited(self, data: bytes) -> None:
        """Count published messages. A client above the rate is not read from until it is below again."""
        live = self.shell.live
        before = live.published
        self.shell.received(self.number, data)
        rate = self.door.publish_rate_max
        now = self.shell.now()
        self._allowance = min(rate, self._allowance + (now - self._allowance_at) * rate)
        self._allowance_at = now
        self._allowance -= live.published - before
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
        self._paused |= {why}

    def resume(self, why: str) -> None:
        if why in self._paused:
            self._paused = self._paused - {why} or _NOT_PAUSED
            if why == "login" and self._gathered:
                self._forget_first()
            if self._paused == {TURN}:
                self._wait_for_turn()  # some bytes wait that may be handled now
            elif not self._paused and not self.transport.is_closing():
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
        if mqtt.phase in (ConnectionPhase.NEW, ConnectionPhase.PENDING):
            if self.shell.live.machine.has_logged_in(self.number):
                return (
                    now + bounds.connect_timeout_s
                )  # the client waits for its session, and the machine answers it in time
            if now >= self._opened_at + bounds.connect_timeout_s:
                self.shell.counts["refused connect_timeout_s"] += 1
                self.abort()
                return None
            return self._opened_at + bounds.connect_timeout_s
        deadline = mqtt.keep_alive_deadline()
        if deadline is not None and now >= deadline and not self._paused and not self._waits:
            self.shell.feed(InputKind.KEEP_ALIVE, self.number)
            return now + bounds.linger_s
        return deadline


class ClientWebSocket(ClientSocket):
    """MQTT inside binary WebSocket messages; packets may straddle them ([MQTT-6.0.0-2])."""

    def __init__(self, door: Doorkeeper, listener: Listener) -> None:
        super().__init__(door, listener)
        size_max = max(FRAME_BYTES_MIN, door.packet_bytes_max)
        self._protocol = ServerProtocol(subprotocols=SUBPROTOCOLS, max_size=size_max)
        self._taken_bytes = 0

    def _take(self, data: bytes) -> None:
        self._taken_bytes += len(data)
        protocol = self._protocol
        protocol.receive_data(data)
        for event in protocol.events_received():
            if isinstance(event, Request):
                self._answer(event)
            elif not isinstance(event, Frame):
                continue
            elif event.opcode in (Opcode.BINARY, Opcode.CONT):
                self._take_frame(bytes(event.data))
            elif event.opcode is Opcode.TEXT:
                # [MQTT-6.0.0-1]
                protocol.fail(1003, "MQTT is binary")
        self._flush()

    def _take_frame(self, data: bytes) -> None:
        """Take a frame. One longer than a slice is cut into slices of its own."""
        if self._is_through and len(data) > self._mqtt.size:
            self._keep(data)
        else:
            self._take_mqtt(data)

    def _gathering_bytes(self) -> int:
        """Frames count as well, whole or not: a stranger could send them without end."""
        return max(super()._gathering_bytes(), self._taken_bytes - HANDSHAKE_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # The parser is a generator that holds the protocol, and with it all bytes that have come of a frame.
        self._protocol.parser.close()
        self._protocol.reader.discard()
        self._protocol.parser_exc = self._protocol.handshake_exc = None

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
        if self._protocol.eof_sent:
            return  # bytes behind the request cannot be read: the connection is closed already
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
    """The end of the first packet; None if it is not known yet. Bytes that are no CONNECT end where they begin."""
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
    kind = ClientWebSocket if listener.websocket else ClientSocket
    return lambda: kind(door, listener)
