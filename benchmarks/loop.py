"""How long a quiet client waits for PINGRESP while others put everything to its limits, beside an idle run.

    python -m benchmarks loop [--seconds=10] [--only=replay]

A broker runs as a process of its own. One client pings it a hundred times a second from this process; attackers are
processes beside it, with less of a claim to the processor, for they would be on other machines. Each attack goes on for
the time given, or until it is done. The bars are 20 ms at the 99th percentile, and 10 ms at the median while ten
clients publish without a pause. The time includes what other programs take: run it on an idle machine with two cores or
more. The idle run tells whether it was one.
"""

import argparse
import multiprocessing
import os
import random
import socket
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from roamq.net.bench.brokers import ROAMQ_DURABLE, BenchBroker, running
from roamq.net.clients.passwords import hash_password
from roamq.net.ops.configuration import load_network
from roamq.net.ops.local import local_network

BAR_P99_S: Final = 0.020
BAR_MEDIAN_S: Final = 0.010
EVERY_S: Final = 0.01
SUBACK: Final = 0x90
NICE: Final = 5
BUSY_P99_S: Final = 0.005
"""An idle broker on an idle machine answers sooner."""
FOREVER: Final = b"\x11\xff\xff\xff\xff"
Attack = Callable[[int, float], None]


# --- packets of MQTT 5 -------------------------------------------------------------------------------------------


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _packet(first: int, body: bytes) -> bytes:
    length, more = bytearray(), len(body)
    while True:
        more, digit = more >> 7, more & 0x7F
        length.append(digit | (0x80 if more else 0))
        if not more:
            return bytes((first,)) + bytes(length) + body


def _connect(
    client: str, *, clean: bool = True, properties: bytes = b"", password: str | None = None
) -> bytes:
    flags = (2 if clean else 0) | (0xC0 if password is not None else 0)
    body = _text("MQTT") + bytes((5, flags, 0, 0, len(properties))) + properties + _text(client)
    if password is not None:
        body += _text("ann") + _text(password)
    return _packet(0x10, body)


def _publish(topic: str, payload: bytes, qos: int = 0, number: int = 1, *, retain: bool = False) -> bytes:
    packet_id = struct.pack(">H", number) if qos else b""
    return _packet(0x30 | qos << 1 | retain, _text(topic) + packet_id + b"\0" + payload)


def _subscribe(filters: list[str], qos: int = 0, selector: str | None = None) -> bytes:
    properties = b"" if selector is None else b"\x26" + _text("filter") + _text(selector)
    length = len(properties)
    coded = bytes((length & 0x7F | 0x80, length >> 7)) if length > 127 else bytes((length,))
    return _packet(0x82, b"\0\1" + coded + properties + b"".join(_text(f) + bytes((qos,)) for f in filters))


class Peer:
    """A client on a blocking socket."""

    def __init__(self, port: int, client: str, *, clean: bool = True, expiry: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(30)
        self._held = b""
        self.send(_connect(client, clean=clean, properties=FOREVER if expiry else b""))
        first, body = self.read()
        assert first == 0x20 and body[1] == 0, (client, first, body)

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> tuple[int, bytes]:
        """The next packet: its first byte and its body."""
        while True:
            if len(self._held) >= 2:
                length = shift = 0
                for at, byte in enumerate(self._held[1:5], 2):
                    length |= (byte & 0x7F) << shift
                    shift += 7
                    if byte < 0x80:
                        if len(self._held) >= at + length:
                            body, first = self._held[at : at + length], self._held[0]
                            self._held = self._held[at + length :]
                            return first, body
                        break
            more = self.socket.recv(1 << 20)
            if not more:
                raise ConnectionError("the broker has closed the connection")
            self._held += more

    def drain(self, idle_s: float = 0.3) -> int:
        """Read until nothing more comes; how many bytes came."""
        self.socket.settimeout(idle_s)
        total = 0
        try:
            while data := self.socket.recv(1 << 20):
                total += len(data)
        except TimeoutError:
            pass
        self.socket.settimeout(30)
        return total


# --- attacks -----------------------------------------------------------------------------------------------------


def flood(port: int, end: float) -> None:
    """Publish without a pause: one of ten."""
    peer = Peer(port, f"flood-{multiprocessing.current_process().pid}")
    data = _publish("noise", b"x" * 16) * 2000
    while time.time() < end:
        peer.send(data)


def subscriptions(port: int, end: float) -> None:
    """10,000 subscriptions, and the return and the end of a session that has them."""
    while time.time() < end:
        peer = Peer(port, "greedy", expiry=True)
        for first in range(0, 10_000, 250):
            peer.send(_subscribe([f"a/{number}/+/#" for number in range(first, first + 250)]))
            assert peer.read()[0] == SUBACK
        peer.socket.close()
        Peer(port, "greedy", clean=False, expiry=True).socket.close()
        Peer(port, "greedy").socket.close()


def retained(port: int, end: float) -> None:
    """Wildcards over 100,000 retained messages; `prepare_retained` has made them."""
    while time.time() < end:
        peer = Peer(port, "collector")
        peer.send(_subscribe(["#", "r/+", "+/+", *(f"r/{number}/#" for number in range(97))]))
        peer.drain()
        peer.socket.close()


def prepare_retained(port: int) -> None:
    for publisher in range(10):
        peer = Peer(port, f"keeper-{publisher}")
        for first in range(0, 10_000, 500):
            peer.send(
                b"".join(
                    _publish(f"r/{publisher}-{number}", b"x", 1, number % 500 + 1, retain=True)
                    for number in range(first, first + 500)
                )
            )
            for _ in range(500):
                peer.read()
        peer.socket.close()


def selectors(port: int, end: float) -> None:
    """Selectors at their bound, again and again, and events for them."""
    longest = " AND ".join(f"a<>{number}" for number in range(900))[:8190].rsplit(" AND ", 1)[0]
    publisher = Peer(port, "matched")
    while time.time() < end:
        peer = Peer(port, "picky")
        for number in range(7):
            peer.send(_subscribe([f"s/{number}/{level}" for level in range(20)], selector=longest))
            peer.read()
        publisher.send(_publish("s/1/1", b'{"a": 5000}') * 20)
        peer.socket.close()


def logins(port: int, end: float) -> None:
    """1,000 logins that wait, and wrong passwords behind them."""
    waiting: list[socket.socket] = []
    number = 0
    while time.time() < end:
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(_connect(f"guess-{number}", password=f"wrong {number}"))
        waiting.append(one)
        number += 1
        if len(waiting) >= 1000:
            waiting.pop(0).close()
        time.sleep(0.002)


def replay(port: int, end: float, qos: int = 0) -> None:
    """A queue of 64 MiB, stored for a client that is away, and its return."""
    while time.time() < end:
        Peer(port, "sleeper", clean=False, expiry=True).send(_subscribe(["q/#"], qos))
        time.sleep(0.3)
        publisher = Peer(port, "filler")
        for first in range(0, 80_000, 500):
            numbers = range(first, first + 500)
            publisher.send(b"".join(_publish("q/1", b"x" * 64, 1, n % 500 + 1) for n in numbers))
            for _ in numbers:
                publisher.read()
        publisher.socket.close()
        peer = Peer(port, "sleeper", clean=False, expiry=True)
        peer.drain(1.0)
        peer.socket.close()


def large(port: int, end: float) -> None:
    """Packets of the largest size, stored and delivered."""
    subscriber, publisher = Peer(port, "large-s"), Peer(port, "large-p")
    subscriber.send(_subscribe(["big"], 1))
    subscriber.read()
    while time.time() < end:
        publisher.send(_publish("big", bytes(1_000_000), 1))
        publisher.read()
        _, body = subscriber.read()
        subscriber.send(b"\x40\x02" + body[5:7])


def backwards(port: int, end: float) -> None:
    """1,024 messages in flight, acknowledged from the last to the first."""
    publisher = Peer(port, "b-p")
    while time.time() < end:
        subscriber = Peer(port, "b-s")
        subscriber.send(_subscribe(["back"], 1))
        subscriber.read()
        publisher.send(b"".join(_publish("back", b"x", 1, n + 1) for n in range(1000)))
        for _ in range(1000):
            publisher.read()
        numbers: list[bytes] = []
        while len(numbers) < 1000:
            first, body = subscriber.read()
            if first & 0xF0 == 0x30:
                numbers.append(body[6:8])
        subscriber.send(b"".join(b"\x40\x02" + number for number in reversed(numbers)))
        subscriber.socket.close()


def levels(port: int, end: float) -> None:
    """Subscribe to topics of 128 levels in as many ways as allowed, publish to them, leave and come back."""
    choice = random.Random(os.getpid())
    publisher, round_ = Peer(port, f"deep-p{os.getpid()}"), 0
    client = f"deep-{os.getpid()}"
    peer = Peer(port, client, clean=False, expiry=True)
    for _ in range(2000 // 50):
        peer.send(_subscribe(["/".join(choice.choice("+a") for _ in range(128)) for _ in range(50)]))
        peer.read()
    while time.time() < end:
        peer.send(_subscribe(["/".join(["a"] * 126 + [f"{round_}-{number}", "#"]) for number in range(50)]))
        peer.drain(0.05)
        for number in range(20):
            topic = ["a"] * 128
            topic[127] = f"{round_}-{number}"
            publisher.send(_publish("/".join(topic), b"x") + _publish("/".join(["a"] * 128), b"x"))
        peer.drain(0.05)
        peer.socket.close()
        peer = Peer(port, client, clean=False, expiry=True)
        round_ += 1
    peer.socket.close()


ATTACKS: Final[dict[str, tuple[Attack, int]]] = {
    "flood": (flood, 10),
    "subscriptions": (subscriptions, 1),
    "retained": (retained, 1),
    "selectors": (selectors, 1),
    "logins": (logins, 1),
    "replay": (replay, 1),
    "large": (large, 1),
    "backwards": (backwards, 1),
    "levels": (levels, 4),
}
"""What is done, and by how many at once."""


# --- measuring -----------------------------------------------------------------------------------------------------


def pings(port: int, until: Callable[[], bool]) -> list[float]:
    """The seconds that each PINGRESP took, about a hundred a second."""
    peer = Peer(port, "quiet")
    found = []
    while not until():
        began = time.perf_counter()
        peer.send(b"\xc0\x00")
        peer.read()
        took = time.perf_counter() - began
        found.append(took)
        time.sleep(max(0.0, EVERY_S - took))
    peer.socket.close()
    return sorted(found)


def figures(found: list[float]) -> dict[str, float]:
    def at(share: float) -> float:
        return round(1000 * found[min(len(found) - 1, int(share * len(found)))], 2)

    return {
        "pings": len(found),
        "median ms": at(0.5),
        "p99 ms": at(0.99),
        "max ms": round(1000 * found[-1], 2),
    }


def _attack(attack: Attack, port: int, end: float) -> None:
    os.nice(NICE)
    attack(port, end)


def measured(port: int, name: str, seconds: float) -> dict[str, float]:
    """The pings while an attack goes on."""
    attack, count = ATTACKS[name]
    if attack is retained:
        prepare_retained(port)
    end = time.time() + seconds
    arguments = (attack, port, end)
    attackers = [multiprocessing.Process(target=_attack, args=arguments, daemon=True) for _ in range(count)]
    for attacker in attackers:
        attacker.start()
    try:
        found = pings(port, lambda: not any(attacker.is_alive() for attacker in attackers))
        failed = [attacker.exitcode for attacker in attackers if attacker.exitcode]
        assert not failed, f"{name}: an attacker failed"
    finally:
        for attacker in attackers:
            attacker.kill()
    return figures(found)


def _start(folder: Path) -> tuple[list[str], int]:
    command, _ = ROAMQ_DURABLE.start(folder)
    path = folder / "network.toml"
    users = f'\n[access]\nanonymous = "always"\n[access.users]\nann = "{hash_password(b"right")}"\n'
    path.write_text(
        local_network(1, durability="process", scheme="standard", records=folder / "records") + users
    )
    return command, load_network(path).brokers["b1"].listeners[0].port


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks loop")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--only", choices=sorted(ATTACKS), action="append")
    options = parser.parse_args(argv)
    results: dict[str, object] = {}
    late = []
    with tempfile.TemporaryDirectory(prefix="roamq-loop-") as scratch:
        for name in ("idle", *(options.only or ATTACKS)):
            with running(BenchBroker("roamq", _start), Path(scratch) / name) as broker:
                if name == "idle":
                    end = time.time() + options.seconds
                    found = figures(pings(broker.port, lambda end=end: time.time() >= end))  # type: ignore[misc]
                    results["the machine was busy"] = busy = found["p99 ms"] > 1000 * BUSY_P99_S
                    if busy:
                        print(
                            "other programs keep this machine busy: what follows is not the broker's time alone"
                        )
                else:
                    found = measured(broker.port, name, options.seconds)
            results[name] = found
            print(f"{name:15}", ", ".join(f"{what} {value:g}" for what, value in found.items()), flush=True)
            if found["p99 ms"] > 1000 * BAR_P99_S or (
                name == "flood" and found["median ms"] > 1000 * BAR_MEDIAN_S
            ):
                late.append(name)
    results["above the bar"] = late
    print("above the bar:", ", ".join(late) or "none")
    return results
