"""Clients of a field test: they follow the steps of the simulator's mobility model, on real sockets."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import cast

from roamq.core.records import Record
from roamq.net.clients.requests import LOCATION_TOPIC
from roamq.net.device import Device, ReceivedMessage
from roamq.sim.mobility import Step

Clock = Callable[[], float]


class _Socket(asyncio.Protocol):
    """One connection of a client's device."""

    def __init__(self, device: Device, hello: bytes, on_lost: Callable[["_Socket"], None]) -> None:
        self.device = device
        self.hello = hello
        self.on_lost = on_lost
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self.hello)

    def data_received(self, data: bytes) -> None:
        answer = self.device.hear(data)
        if answer and not self.transport.is_closing():
            self.transport.write(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.on_lost(self)


class RoamingClient:
    """A device that can be at one broker at a time."""

    def __init__(self, device: Device, ports: dict[str, int], clock: Clock) -> None:
        self.device = device
        self.ports = ports
        self.clock = clock
        self.at: str | None = None
        self.last: str | None = None
        self.records: list[Record] = []
        self._socket: _Socket | None = None
        self._asked_at: float | None = None
        self._came_from: str | None = None

    async def connect(self, broker: str, *, clean: bool = False, cell: str | None = None) -> bool:
        """Connects to a broker, from a cell if one is known; returns whether the broker accepted the connection."""
        self.vanish()
        asked_at = self.clock()
        hello = self.device.connect(clean=clean, previous=self.last, cell=cell)
        try:
            _, protocol = await asyncio.get_running_loop().create_connection(
                lambda: _Socket(self.device, hello, self._lost), "127.0.0.1", self.ports[broker]
            )
        except OSError:
            return False
        self._socket = protocol
        self._asked_at, self._came_from = asked_at, self.last
        self.at = self.last = broker
        self.records.append(Record("connected", asked_at, broker, self.device.name, peer=self._came_from))
        return True

    def vanish(self) -> None:
        """Drops the connection without an MQTT DISCONNECT."""
        if self._socket is not None:
            self._socket.transport.abort()
            self._forget()

    def _lost(self, socket: _Socket) -> None:
        if socket is self._socket:
            self._forget()

    def _forget(self) -> None:
        self._socket = None
        self._asked_at = None
        self.device.lost()
        self.records.append(
            Record("disconnected", self.clock(), self.at, self.device.name, detail="vanished")
        )
        self.at = None

    def send(self, data: bytes) -> None:
        if data and self._socket is not None and not self._socket.transport.is_closing():
            self._socket.transport.write(data)

    def first_message(self, now: float, published_at: float) -> None:
        """Records how long the client waited for its first message after a reconnect, and whether it was stored."""
        if self._asked_at is not None:
            if self._came_from is not None:
                waited = now - self._asked_at
                how = "stored" if published_at < self._asked_at else "live"
                self.records.append(
                    Record(
                        "handoff",
                        now,
                        self.at,
                        self.device.name,
                        peer=self._came_from,
                        detail=how,
                        duration_s=waited,
                    )
                )
            self._asked_at = None


class RoamingSubscriber(RoamingClient):
    """A roaming client that records what it receives; (publisher, number) in the payload identify the event."""

    def __init__(
        self, name: str, ports: dict[str, int], clock: Clock, qos: int, *, shows_ticket: bool
    ) -> None:
        device = Device(name, self._take, shows_ticket=shows_ticket)
        super().__init__(device, ports, clock)
        self.qos = qos
        self.got: dict[str, int] = {}
        """Publisher -> the highest number received."""
        self.seen: set[tuple[str, int]] = set()
        self.reordered = 0
        self.unflagged = 0
        """Messages received twice: at QoS 1 without the DUP flag, at QoS 2 in any case."""

    def _take(self, message: ReceivedMessage) -> None:
        now = self.clock()
        publisher, number, published_at = message.payload.split(b";")[:3]
        self.first_message(now, float(published_at))
        key = (publisher.decode(), int(number))
        if key in self.seen:
            if message.dup and message.qos == 1:
                return  # MQTT allows this redelivery: it was unacknowledged before, and is marked DUP
            self.unflagged += 1
        elif key[1] < self.got.get(key[0], 0):
            self.reordered += 1
        self.seen.add(key)
        self.got[key[0]] = max(key[1], self.got.get(key[0], 0))
        self.records.append(
            Record("delivered", now, self.at, self.device.name, *key, duration_s=now - float(published_at))
        )

    async def follow(self, steps: Iterator[Step], until_s: float) -> None:
        """Connects, reports cells and vanishes as the mobility model says, until the field test ends."""
        for step in steps:
            if step.time_s >= until_s:
                return
            await asyncio.sleep(max(0.0, step.time_s - self.clock()))
            if step.broker is None:
                self.vanish()
            elif step.broker != self.at:
                await self.connect(step.broker, cell=step.cell)
            elif step.cell is not None:
                self.send(self.device.publish(LOCATION_TOPIC, step.cell.encode(), qos=0))

    async def settle(self, brokers: list[str]) -> None:
        """Connects to any broker at the end of the test, so that it can deliver the events that are still owed."""
        for broker in [self.last, *brokers]:
            if self.at is not None:
                return
            if broker is not None:
                with suppress(OSError):
                    await self.connect(broker)
