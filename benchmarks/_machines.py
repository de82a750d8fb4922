"""Live brokers without sockets: machines that are given MQTT bytes and frames of links, and nothing else.

This file holds all that `benchmarks.before` must know of the inside of `roamq.net`, in either tree: where `Machine` and
`Settings` are, the calls that bring inputs, and the outputs. Packets are written by hand, so no codec is needed.
"""

import importlib
import struct
from typing import Any

PINGREQ = b"\xc0\x00"


def _found(name: str, *modules: str) -> Any:
    """The class `name` from the first of the modules that has it: trees keep it at different places."""
    for module in modules:
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
    raise SystemExit(
        f"roamq has no {name} in {', '.join(modules)}; add its new place to benchmarks/_machines.py"
    )


def _machine(me: str, brokers: tuple[str, ...], scheme: str, overlay: str | None, now: float) -> Any:
    """`overlay`: None for that which live networks of the tree have unless told otherwise."""
    machine = _found("Machine", "roamq.net.machine")
    settings = _found("Settings", "roamq.net.settings", "roamq.net.ops.settings")
    links = tuple((a, b) for place, a in enumerate(brokers) for b in brokers[place + 1 :])
    more = {} if overlay is None else {"overlay": overlay}
    return machine(settings(me=me, brokers=brokers, links=links, scheme=scheme, **more), now)


def _outputs(machine: Any) -> Any:
    """What the machine's inputs have caused since the last look."""
    if hasattr(machine, "take_outputs"):
        return machine.take_outputs()
    out, machine.out = machine.out, type(machine.out)()
    return out


class Machines:
    """Some brokers, all linked with each other, and the clock they share. Links carry frames only in `settle`.

    Brokers that are `silent` belong to the network, but take nothing and say nothing."""

    def __init__(
        self,
        brokers: tuple[str, ...],
        scheme: str,
        silent: tuple[str, ...] = (),
        overlay: str | None = None,
    ) -> None:
        self.now = 1000.0
        up = [name for name in brokers if name not in silent]
        self.machines = {name: _machine(name, brokers, scheme, overlay, self.now) for name in up}
        self._connections = 0
        for name, machine in self.machines.items():
            for peer in up:
                if peer != name:  # as when a link comes up: the neighbour has received nothing yet
                    machine.link_acked(peer, 0, self.now)
        self.settle()

    def connect(
        self, broker: str, client: str, *, previous: str | None = None, clean: bool = False
    ) -> "Client":
        """A client asks to be let in; `settle` lets the broker answer."""
        self._connections += 1
        number = self._connections
        machine = self.machines[broker]
        machine.opened(number, self.now, "0:mqtt", "127.0.0.1:1")
        machine.received(number, connect_packet(client, previous, clean=clean), self.now)
        machine.authenticated(number, None, self.now, allowed=True)
        return Client(self, broker, number)

    def receive(self, client: "Client", data: bytes) -> None:
        self.machines[client.broker].received(client.number, data, self.now)

    def lose(self, client: "Client") -> None:
        self.machines[client.broker].lost(client.number, self.now)

    def settle(self) -> dict[tuple[str, int], bytes]:
        """Carry frames until there are none; give what was written to each connection, by broker and number."""
        written: dict[tuple[str, int], bytes] = {}
        busy = True
        while busy:
            busy = False
            for name, machine in self.machines.items():
                out = _outputs(machine)
                for number, mqtt in out.dirty.items():
                    written[name, number] = written.get((name, number), b"") + b"".join(mqtt.take_output())
                for peer, frames in out.frames.items():
                    if peer not in self.machines:
                        continue
                    busy = True
                    for sequence, frame in frames:
                        self.machines[peer].link_received(name, sequence, frame, self.now)
                    machine.link_acked(peer, frames[-1][0], self.now)
                for key in [key for key, at in out.timers.items() if key[0] == "tell" and at is not None]:
                    busy = True
                    machine.timer(key, self.now)  # more of what a neighbour is told
        return written


class Client:
    """One connection of a client."""

    def __init__(self, machines: Machines, broker: str, number: int) -> None:
        self._machines = machines
        self.broker = broker
        self.number = number

    def send(self, packet: bytes) -> None:
        self._machines.receive(self, packet)

    def lose(self) -> None:
        self._machines.lose(self)


# --- packets of MQTT 5 -------------------------------------------------------------------------------------------


def _text(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _packet(first_byte: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes((first_byte,)) + length + body


def connect_packet(client: str, previous: str | None, *, clean: bool) -> bytes:
    """CONNECT of a client whose session never expires, and that names the broker it was at before."""
    properties = b"\x11\xff\xff\xff\xff"
    if previous is not None:
        properties += b"\x26" + _text("roamq-previous") + _text(previous)
    flags = bytes((5, 2 if clean else 0, 0, 0))
    return _packet(0x10, _text("MQTT") + flags + bytes((len(properties),)) + properties + _text(client))


def subscribe_packet(topic_filter: str) -> bytes:
    return _packet(0x82, b"\x00\x01\x00" + _text(topic_filter) + b"\x01")


def publish_packet(topic: str, packet_id: int, payload: bytes) -> bytes:
    return _packet(0x32, _text(topic) + struct.pack(">H", packet_id) + b"\x00" + payload)


def publish_packet_qos_0(topic: str, payload: bytes) -> bytes:
    return _packet(0x30, _text(topic) + b"\x00" + payload)


def puback_packet(packet_id: int) -> bytes:
    return _packet(0x40, struct.pack(">H", packet_id))


def published_ids(data: bytes) -> list[int]:
    """The packet ids of the QoS 1 PUBLISH packets among those in `data`."""
    found, at = [], 0
    while at < len(data):
        first_byte, length, shift = data[at], 0, 0
        while True:
            at += 1
            length |= (data[at] & 0x7F) << shift
            shift += 7
            if not data[at] & 0x80:
                break
        at += 1
        if first_byte >> 4 == 3:
            topic_bytes = struct.unpack_from(">H", data, at)[0]
            found.append(struct.unpack_from(">H", data, at + 2 + topic_bytes)[0])
        at += length
    return found
