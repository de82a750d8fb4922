"""The load generator: publishers and subscribers that cost almost nothing, so that the broker is what is measured.

All packets of a run have one size, so a whole read is counted, checked and acknowledged by slices with that stride
instead of packet by packet. The loop is closed: no more than `window` messages are on their way, hence no broker is
made to drop any, and what is counted is what was delivered. MQTT 3.1.1, which every broker speaks.

Run as `python -m roamq.net.bench.load`, it reads a `Load` as JSON from standard input and prints a `LoadResult`.
"""

import asyncio
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Final, cast

import msgspec

CONNACK: Final = b"\x20\x02\x00\x00"
PACKET_IDS: Final = 16_384
"""Packets that are encoded ahead and sent in turn; more than any window, so no packet id is used twice at once."""
SETTLE_S_MAX: Final = 5.0


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The load that a broker is put under."""

    port: int
    publishers: int
    subscribers: int
    qos: int
    payload_bytes: int = 64
    window: int = 1000
    """Messages that may be on their way at once, of all publishers together."""
    warm_up_s: float = 1.0
    seconds: float = 3.0
    host: str = "127.0.0.1"


class LoadResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a load measured."""

    delivered: int
    """Messages received by all subscribers in the time measured."""
    seconds: float
    delivered_in_all: int
    """All messages received, those before and after the time measured included."""
    load_cpu_s: float
    """Processor time of the load generator itself, to tell when it is what is measured."""

    @property
    def rate(self) -> float:
        return self.delivered / self.seconds


def connect_packet(client_id: str) -> bytes:
    name = client_id.encode()
    body = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack(">H", len(name)) + name
    return bytes((0x10, len(body))) + body


def subscribe_packet(topic_filter: str, qos: int) -> bytes:
    topic = topic_filter.encode()
    body = b"\x00\x01" + struct.pack(">H", len(topic)) + topic + bytes((qos,))
    return bytes((0x82, len(body))) + body


def publish_packet(topic: str, payload: bytes, qos: int, packet_id: int) -> bytes:
    name = topic.encode()
    body = struct.pack(">H", len(name)) + name
    if qos:
        body += struct.pack(">H", packet_id)
    body += payload
    length = len(body)
    header = bytearray((0x30 | qos << 1,))
    while length > 0x7F:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header) + body


class _Peer(asyncio.Protocol, ABC):
    """A connection that has said CONNECT; `opened` is done when the broker agreed."""

    def __init__(self, client_id: str, on_lost: Callable[[], None]) -> None:
        self.transport: asyncio.Transport
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_lost = on_lost
        self._is_closing = False
        self._hello = connect_packet(client_id)
        self._first = b""
        self._handle: Callable[[bytes], None] = self._answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._hello)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError("the broker closed before it answered"))
        elif not self._is_closing:
            self._on_lost()

    def close(self) -> None:
        """The run is over."""
        self._is_closing = True
        self.transport.close()

    def data_received(self, data: bytes) -> None:
        self._handle(data)

    def _answered(self, data: bytes) -> None:
        self._first += data
        expected = self.expected_answer()
        if len(self._first) < len(expected) or self.opened.done():
            return
        if self._first[:4] != CONNACK:
            self.opened.set_exception(ConnectionError(f"refused: {self._first[:4].hex()}"))
        else:
            self.opened.set_result(None)
            self._handle = self.take
            if len(self._first) > len(expected):
                self.take(self._first[len(expected) :])

    def expected_answer(self) -> bytes:
        return CONNACK

    @abstractmethod
    def take(self, data: bytes) -> None:
        """Bytes that came after the broker agreed."""


class LoadPublisher(_Peer):
    """Sends packets that were encoded ahead; counts the PUBACKs."""

    def __init__(
        self, client_id: str, topic: str, payload: bytes, qos: int, *, on_lost: Callable[[], None]
    ) -> None:
        super().__init__(client_id, on_lost)
        packets = [publish_packet(topic, payload, qos, 1 + number) for number in range(PACKET_IDS)]
        self.size = len(packets[0])
        self._ahead = memoryview(b"".join(packets))
        self._next = 0
        self.sent = 0
        self._acknowledged_bytes = 0

    def send(self, count: int) -> None:
        self.sent += count
        while count:
            part = min(count, PACKET_IDS - self._next)
            self.transport.write(self._ahead[self._next * self.size : (self._next + part) * self.size])
            self._next = (self._next + part) % PACKET_IDS
            count -= part

    @property
    def acknowledged(self) -> int:
        return self._acknowledged_bytes // 4

    def take(self, data: bytes) -> None:
        self._acknowledged_bytes += len(data)


class LoadSubscriber(_Peer):
    """Counts what comes, and acknowledges it at QoS 1."""

    def __init__(
        self,
        client_id: str,
        topic_filter: str,
        qos: int,
        size: int,
        id_at: int,
        *,
        on_received: Callable[[int], None],
        on_lost: Callable[[], None],
    ) -> None:
        super().__init__(client_id, on_lost)
        self._hello += subscribe_packet(topic_filter, qos)
        self.received = 0
        self._on_received = on_received
        self._qos = qos
        self._size = size
        self._id_at = id_at
        self._first_byte = bytes((0x30 | qos << 1,))
        self._rest = b""

    def expected_answer(self) -> bytes:
        return CONNACK + bytes((0x90, 3, 0, 1, self._qos))

    def take(self, data: bytes) -> None:
        if self._rest:
            data = self._rest + data
        size = self._size
        count = len(data) // size
        end = count * size
        self._rest = data[end:]
        if not count:
            return
        if data[0:end:size] != self._first_byte * count:
            raise ValueError("the broker sent something else than the messages of this run")
        if self._qos:
            answers = bytearray(b"\x40\x02\x00\x00" * count)
            at = self._id_at
            answers[2::4] = data[at:end:size]
            answers[3::4] = data[at + 1 : end : size]
            self.transport.write(answers)
        self.received += count
        self._on_received(count)


def _itself(peer: _Peer) -> _Peer:
    return peer


class Generator:
    """A closed loop of publishers and subscribers in one process."""

    def __init__(self, load: Load) -> None:
        self.load = load
        self.publishers: list[LoadPublisher] = []
        self.subscribers: list[LoadSubscriber] = []
        self.received = 0
        self.failure: str | None = None
        self._loop = asyncio.get_running_loop()
        self._scheduled = False
        self._turn = 0
        self._stopped = False

    async def connect(self) -> None:
        load = self.load
        topics = [f"bench/{number:03d}" for number in range(load.publishers)]
        payload = b"x" * load.payload_bytes
        size = len(publish_packet(topics[0], payload, load.qos, 1))
        id_at = size - load.payload_bytes - 2
        for number in range(load.subscribers):
            subscriber = LoadSubscriber(
                f"sub-{number}",
                "bench/+",
                load.qos,
                size,
                id_at,
                on_received=self._on_received,
                on_lost=self._on_lost,
            )
            self.subscribers.append(subscriber)
        for number, topic in enumerate(topics):
            publisher = LoadPublisher(f"pub-{number}", topic, payload, load.qos, on_lost=self._on_lost)
            self.publishers.append(publisher)
        for peer in (*self.subscribers, *self.publishers):
            await self._loop.create_connection(partial(_itself, peer), load.host, load.port)
            await asyncio.wait_for(peer.opened, SETTLE_S_MAX)

    async def run(self) -> LoadResult:
        await self.connect()
        self._pump()
        await asyncio.sleep(self.load.warm_up_s)
        before, began, cpu = self.received, time.perf_counter(), time.process_time()
        await asyncio.sleep(self.load.seconds)
        delivered, took = self.received - before, time.perf_counter() - began
        used = time.process_time() - cpu
        self._stopped = True
        if self.failure is not None:
            raise ConnectionError(self.failure)
        await self._settle()
        return LoadResult(delivered=delivered, seconds=took, delivered_in_all=self.received, load_cpu_s=used)

    async def _settle(self) -> None:
        """Everything that was published has to come: a broker that drops is not fast."""
        expected = sum(publisher.sent for publisher in self.publishers) * self.load.subscribers
        deadline = time.monotonic() + SETTLE_S_MAX
        while self.received < expected:
            if time.monotonic() > deadline:
                raise ConnectionError(f"{expected - self.received} of {expected} deliveries never came")
            await asyncio.sleep(0.02)
        for peer in (*self.subscribers, *self.publishers):
            peer.close()

    def _on_received(self, count: int) -> None:
        self.received += count
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._pump)

    def _on_lost(self) -> None:
        self.failure = "the broker closed a connection"

    def _pump(self) -> None:
        """Publish as much as the window has room for, not by ones: each publisher in turn writes a good part."""
        self._scheduled = False
        if self._stopped:
            return
        load = self.load
        arrived = self.received // load.subscribers
        sent = sum(publisher.sent for publisher in self.publishers)
        room = load.window - (sent - arrived)
        share = max(1, load.window // (2 * load.publishers))
        while room >= share:
            publisher = self.publishers[self._turn]
            self._turn = (self._turn + 1) % load.publishers
            if load.qos and publisher.sent - publisher.acknowledged > 2 * load.window:
                self._loop.call_later(0.001, self._pump)
                return
            publisher.send(share)
            room -= share


def main() -> None:
    load = msgspec.json.decode(sys.stdin.buffer.read(), type=Load)

    async def run() -> LoadResult:
        return await Generator(load).run()

    try:
        import uvloop
    except ImportError:
        measured = asyncio.run(run())
    else:
        measured = uvloop.run(run())
    sys.stdout.buffer.write(msgspec.json.encode(measured))


if __name__ == "__main__":
    main()
