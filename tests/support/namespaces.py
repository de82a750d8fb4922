"""Hosts on one machine: network namespaces, joined by a switch that delays, loses and cuts off packets.

Each host has one network device, a TAP, whose frames the switch carries. It is a process of its own and does what `tc
netem` would do; a kernel need not have that. Everything is made by whoever uses it, and goes when it is closed.
"""

import contextlib
import ctypes
import fcntl
import heapq
import multiprocessing
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

TUNSETIFF: Final = 0x400454CA
IFF_TAP_WITHOUT_HEADER: Final = 0x0002 | 0x1000
CLONE_NEWNET: Final = 0x40000000
TUN: Final = Path("/dev/net/tun")
FRAME_BYTES: Final = 2048
BROADCAST: Final = b"\xff" * 6


def why_there_can_be_none() -> str | None:
    """Why no namespaces can be made here; None if they can."""
    if os.geteuid() != 0:
        return "network namespaces are made by root"
    if not TUN.exists():
        return f"{TUN} is not there"
    try:
        with Hosts(["probe"]):
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespace can be made: {error}"


class Hosts:
    """Namespaces with one network between them: host n has the address 10.99.0.n, counted from 1."""

    def __init__(
        self, names: Iterable[str], *, delay_s: float = 0.0, loss: float = 0.0, seed: int = 0
    ) -> None:
        self.names = list(names)
        self._prefix = f"rq{os.getpid() % 100_000}"
        self._delay_s, self._loss, self._seed = delay_s, loss, seed
        self._cut: set[tuple[int, int]] = set()
        self._control: Connection | None = None
        self._switch: Any = None
        self._taps: list[int] = []

    def address(self, name: str) -> str:
        return f"10.99.0.{self.names.index(name) + 1}"

    def namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def __enter__(self) -> "Hosts":
        try:
            for number, name in enumerate(self.names):
                self._make(number, name)
            fork = multiprocessing.get_context("fork")
            ours, theirs = fork.Pipe()
            shaped = (self._taps, self._delay_s, self._loss, self._seed)
            self._switch = fork.Process(target=_carry, args=(theirs, *shaped), daemon=True)
            self._switch.start()
            self._control = ours
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make(self, number: int, name: str) -> None:
        space, device = self.namespace(name), f"{self._prefix}t{number}"
        _ip("netns", "add", space)
        tap = os.open(TUN, os.O_RDWR | os.O_NONBLOCK)
        self._taps.append(tap)
        fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TAP_WITHOUT_HEADER))
        _ip("link", "set", "dev", device, "address", f"02:00:00:00:00:{number + 1:02x}", "netns", space)
        for words in (
            ("addr", "add", f"10.99.0.{number + 1}/24", "dev", device),
            ("link", "set", "dev", device, "up"),
            ("link", "set", "dev", "lo", "up"),
        ):
            _ip("-n", space, *words)

    def close(self) -> None:
        if self._switch is not None:
            self._switch.terminate()
            self._switch.join()
            self._switch = None
        for tap in self._taps:
            os.close(tap)
        self._taps.clear()
        for name in self.names:
            subprocess.run(["ip", "netns", "del", self.namespace(name)], capture_output=True, check=False)

    # --- what happens to packets ------------------------------------------------------------------------------

    def part(self, *sides: Iterable[str]) -> None:
        """Nothing passes between hosts of different sides any more; a host that no side has is cut off from nobody."""
        groups = [{self.names.index(name) for name in side} for side in sides]
        self._cut = {
            (a, b) for one in groups for other in groups if one is not other for a in one for b in other
        }
        self._tell()

    def heal(self) -> None:
        self._cut = set()
        self._tell()

    def shape(self, *, delay_s: float, loss: float) -> None:
        """From now on packets take so long, one way, and so many are lost."""
        self._delay_s, self._loss = delay_s, loss
        self._tell()

    def _tell(self) -> None:
        assert self._control is not None
        self._control.send((self._cut, self._delay_s, self._loss))
        self._control.recv()

    # --- what happens on a host --------------------------------------------------------------------------------

    def popen(self, name: str, arguments: list[str], **more: Any) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(["ip", "netns", "exec", self.namespace(name), *arguments], **more)

    def on(self, name: str, act: Callable[[], T]) -> T:
        """Call a function in a thread whose sockets are that host's."""
        done: list[T] = []
        failed: list[BaseException] = []

        def enter() -> None:
            try:
                _enter(self.namespace(name))
                done.append(act())
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=enter)
        thread.start()
        thread.join()
        if failed:
            raise failed[0]
        return done[0]


def _ip(*words: str) -> None:
    made = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if made.returncode:
        raise OSError(f"ip {' '.join(words)}: {made.stderr.strip()}")


def _enter(namespace: str) -> None:
    """This thread is in the namespace from now on."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path(f"/run/netns/{namespace}").open() as file:
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"setns {namespace}")


def _carry(control: Connection, taps: list[int], delay_s: float, loss: float, seed: int) -> None:
    """The switch: a frame reaches the host of its address after the delay, if it is not lost or cut off."""
    chance = random.Random(seed)
    cut: set[tuple[int, int]] = set()
    waiting: list[tuple[float, int, int, bytes]] = []
    count = 0
    with selectors.DefaultSelector() as selector:
        for number, tap in enumerate(taps):
            selector.register(tap, selectors.EVENT_READ, number)
        selector.register(control, selectors.EVENT_READ, None)
        while True:
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, target, frame = heapq.heappop(waiting)
                with contextlib.suppress(OSError):  # a device that is down or full takes nothing, as a wire
                    os.write(taps[target], frame)
            wait_s = max(0.0, waiting[0][0] - now) if waiting else None
            for key, _ in selector.select(wait_s):
                if key.data is None:
                    cut, delay_s, loss = control.recv()
                    control.send(None)
                    continue
                with contextlib.suppress(OSError):
                    while frame := os.read(taps[key.data], FRAME_BYTES):
                        for target in _targets(frame[:6], key.data, len(taps)):
                            if (key.data, target) not in cut and chance.random() >= loss:
                                count += 1
                                due = time.monotonic() + delay_s
                                heapq.heappush(waiting, (due, count, target, frame))


def _targets(address: bytes, source: int, hosts: int) -> list[int]:
    if address[:5] == b"\x02\x00\x00\x00\x00":
        return [address[5] - 1]
    if address == BROADCAST:
        return [number for number in range(hosts) if number != source]
    return []  # what is for groups, such as the neighbours of IPv6, nobody here needs
