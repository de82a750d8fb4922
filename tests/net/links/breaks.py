"""Two ends of a link whose connections break at any moment, in every order: an explorer over the real protocol.

    python -m tests.net.links.breaks [--breaks 2] [--reroutes 1] [--says 2 1] [--states 200000]

A broker that carries the link falls, and what was on its way is lost; each end notices when it does. The caller calls
again, by another way, or hangs up and calls because there is a better one. What each end journals becomes safe later.
Whatever comes first: each frame is taken once and in order, and nobody is taken for one that has forgotten.
"""

import argparse
import logging
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from roamq.core.events import BrokerId
from roamq.net.durable.inputs import InputKind
from roamq.net.links.connection import LinkSocket
from roamq.net.links.outboxes import Memory, Outboxes
from roamq.net.links.sockets import LinkSockets
from roamq.net.ops.options import NeighbourOptions
from roamq.net.ops.settings import Settings
from roamq.schemes.messages.handover import NoContext

A, B = BrokerId("a"), BrokerId("b")
BORN = 1000


class Wire:
    """One end of a connection, as an event loop shows it."""

    def __init__(self, connection: "Connection", end: BrokerId) -> None:
        self.connection, self.end = connection, end

    def write(self, data: bytes) -> None:
        if not self.connection.is_over:
            self.connection.to[B if self.end == A else A].append(data)

    def abort(self) -> None:
        """Who is at the other end may still get what was written, and hears of the end at some time."""
        self.connection.is_over = True
        self.connection.to[self.end].clear()

    close = abort

    def is_closing(self) -> bool:
        return self.connection.is_over or self.end in self.connection.lost

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass
class Connection:
    to: dict[BrokerId, deque[bytes]] = field(default_factory=lambda: {A: deque(), B: deque()})
    is_over: bool = False
    lost: set[BrokerId] = field(default_factory=set)
    """The ends that have noticed."""
    sockets: dict[BrokerId, LinkSocket] = field(default_factory=dict)


class End:
    """One broker's side: its outbox, and what it has taken from the other."""

    def __init__(self, me: BrokerId, world: "Breaks") -> None:
        self.me, self.peer, self.world = me, B if me == A else A, world
        self.outboxes = Outboxes([self.peer], BORN, 1 << 20)
        self.outboxes.received[self.peer] = BORN  # they have met before
        self.taken: list[int] = []
        self.staged: deque[Any] = deque()
        """What is journaled, and not safe yet."""
        settings = Settings(me=me, brokers=(A, B), links=((A, B),))
        self.turns: set[LinkSocket] = set()
        shell: Any = SimpleNamespace(
            now=lambda: float(world.calls),
            feed=self.feed,
            counts={"link_refused": 0},
            turns=self.turns,
            live=SimpleNamespace(
                machine=SimpleNamespace(
                    settings=settings, membership=SimpleNamespace(has_left=False, has_edge_links=False)
                )
            ),
        )
        options = NeighbourOptions(
            network="n",
            me=me,
            host="",
            port=0,
            peers={self.peer: ("", 0)},
            secret=b"s" * 32,
            detour_after_s=None,
        )
        self.links = LinkSockets(shell, self.outboxes, options)

    def feed(self, kind: InputKind, peer: BrokerId, what: Any, *, hurries: bool = True) -> None:
        if kind is InputKind.LINK_FRAMES:
            self.taken += [number for number, _ in what if self.outboxes.is_news(peer, number)]
        else:
            memory = self.outboxes.acknowledge(peer, what)
            assert memory is Memory.SAME, f"{self.me} believes of {peer}: {memory.value}"
        self.staged.append(self.links.stage({}))

    def say(self) -> None:
        frame = self.outboxes.add(self.peer, NoContext(client="c", epoch=(0.0, "a")))  # type: ignore[arg-type]
        assert frame is not None
        self.staged.append(self.links.stage({self.peer: [frame]}))

    @property
    def is_connected(self) -> bool:
        return bool(self.links.up or self.links.strangers)


class Breaks:
    """Both ends, and all connections between them that anybody still knows of."""

    def __init__(self, breaks: int, reroutes: int, says: tuple[int, int]) -> None:
        self.breaks, self.reroutes = breaks, reroutes
        self.calls = 1
        self.left = dict(zip((A, B), says, strict=True))
        self.said = dict(self.left)
        self.ends = {me: End(me, self) for me in (A, B)}
        self.connections: list[Connection] = []
        self._nonces = 0

    def choices(self) -> list[str]:
        found = []
        for number, connection in enumerate(self.connections):
            for end in (A, B):
                if end in connection.lost:
                    continue
                if connection.to[end]:
                    found.append(f"bytes {number} {end}")
                if connection.is_over:
                    found.append(f"notice {number} {end}")
            if not connection.is_over and self.breaks:
                found.append(f"break {number}")
        for me, side in self.ends.items():
            found += [f"safe {me}"] if side.staged else []
            found += [f"turn {me}"] if side.turns else []
            found += [f"say {me}"] if self.left[me] else []
        if not self.ends[A].is_connected:
            found.append("call")
        elif self.reroutes and self.ends[A].links.up:
            found.append("reroute")
        return found

    def step(self, choice: str) -> None:
        what, *where = choice.split()
        match what:
            case "bytes" | "notice":
                connection, end = self.connections[int(where[0])], BrokerId(where[1])
                socket = connection.sockets[end]
                if what == "bytes":
                    socket.data_received(connection.to[end].popleft())
                else:
                    connection.lost.add(end)
                    connection.to[end].clear()
                    self.ends[end].turns.discard(socket)
                    socket.connection_lost(None)
            case "break":
                self.breaks -= 1
                connection = self.connections[int(where[0])]
                connection.is_over = True
                for queue in connection.to.values():
                    queue.clear()
            case "safe":
                side = self.ends[BrokerId(where[0])]
                side.links.release(side.staged.popleft())
            case "turn":
                turns = self.ends[BrokerId(where[0])].turns
                (socket,) = turns
                if not socket.take_turn():
                    turns.discard(socket)
            case "say":
                self.left[BrokerId(where[0])] -= 1
                self.ends[BrokerId(where[0])].say()
            case _:
                self.reroutes -= what == "reroute"
                self._call()

    def _call(self) -> None:
        self.calls += 1
        connection = Connection()
        self.connections.append(connection)
        for me, calls in ((A, B), (B, None)):
            through = (BrokerId("c"),) if calls else ()
            connection.sockets[me] = LinkSocket(self.ends[me].links, calls, through=through)
            connection.sockets[me].connection_made(Wire(connection, me))  # type: ignore[arg-type]

    def nonce(self, size: int) -> bytes:
        """Another one for each session, and the same ones when a way is walked again."""
        self._nonces += 1
        return self._nonces.to_bytes(size, "big")

    def fingerprint(self) -> int:
        parts: list[Any] = [self.breaks, self.reroutes, self.calls, *self.left.values()]
        for number, connection in enumerate(self.connections):
            if connection.lost == {A, B}:
                continue
            parts += [number, connection.is_over, sorted(connection.lost)]
            for end, socket in connection.sockets.items():
                session = socket.session
                state = (session.phase.value, socket.has_resumed, socket.acknowledged, len(socket._inputs))
                parts += [tuple(connection.to[end]), state, bytes(session._buffer)]
        for side in self.ends.values():
            box, links, peer = side.outboxes, side.links, side.peer
            numbers = [number for number, _ in box.frames[peer]]
            up = [self._place(socket) for socket in links.up.values()]
            staged = [([self._place(s) for s, _ in one[0]], tuple(one[1].items())) for one in side.staged]
            parts += [side.taken, numbers, box.acknowledged[peer], up, staged, tuple(links.safe.items())]
            parts += [[repr(list(socket._inputs)) for socket in side.turns]]
        return hash(repr(parts))

    def _place(self, socket: LinkSocket) -> int:
        return next(n for n, one in enumerate(self.connections) if socket in one.sockets.values())

    def broken_now(self) -> str | None:
        for end in self.ends.values():
            if end.taken != [BORN + 1 + n for n in range(len(end.taken))]:
                return f"{end.me} took {end.taken}"
        return None

    def broken_at_rest(self) -> str | None:
        for end in self.ends.values():
            if len(end.taken) != self.said[end.peer]:
                return f"lost: {end.me} took {end.taken} of {self.said[end.peer]}"
            if end.outboxes.frames[end.peer]:
                return f"{end.me} keeps {end.outboxes.frames[end.peer]} that were taken"
        return None


@dataclass
class Found:
    states: int = 0
    ends: int = 0
    complete: bool = True
    what: str | None = None
    way: tuple[str, ...] = ()


def explore(make: Callable[[], Breaks], max_states: int) -> Found:
    """Depth first, each state once. A world is not copied: its way is walked again."""
    found = Found()
    seen: set[int] = set()
    pending: list[tuple[str, ...]] = [()]
    world = make()
    with patch("roamq.net.links.sockets.os.urandom", lambda size: world.nonce(size)):
        while pending:
            way = pending.pop()
            world = make()
            try:
                for choice in way:
                    world.step(choice)
                while (mark := world.fingerprint()) not in seen:
                    seen.add(mark)
                    found.states += 1
                    choices = world.choices()
                    found.ends += not choices
                    what = world.broken_now() or (None if choices else world.broken_at_rest())
                    assert what is None, what
                    if found.states >= max_states:
                        found.complete = False
                        return found
                    if not choices:
                        break
                    first, *others = choices
                    pending += [(*way, other) for other in reversed(others)]
                    way = (*way, first)
                    world.step(first)
            except AssertionError as error:
                found.what, found.way = str(error), way
                return found
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.net.links.breaks", description=__doc__)
    parser.add_argument("--breaks", type=int, default=2)
    parser.add_argument("--reroutes", type=int, default=1)
    parser.add_argument("--says", type=int, nargs=2, default=(2, 1))
    parser.add_argument("--states", type=int, default=200_000)
    options = parser.parse_args()
    says = tuple(options.says)
    logging.disable()
    found = explore(lambda: Breaks(options.breaks, options.reroutes, says), options.states)
    extent = "all" if found.complete else "the first"
    sys.stdout.write(f"{extent} {found.states} states, {found.ends} ends: {found.what or 'nothing found'}\n")
    sys.stdout.write("".join(f"  {step}\n" for step in found.way if found.what))
    return 1 if found.what else 0


if __name__ == "__main__":
    sys.exit(main())
