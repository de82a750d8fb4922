"""One connection of a link: inputs are handled in turns, and frames wait until the socket takes more."""

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.durable.inputs import InputKind
from roamq.net.links.protocol import (
    Acked,
    Asked,
    CallBack,
    Frame,
    Frames,
    Linked,
    LinkInput,
    LinkSession,
    Meets,
    Up,
)

if TYPE_CHECKING:
    from roamq.net.links.sockets import LinkSockets

log = logging.getLogger("roamq.links")

WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024
CHUNK_FRAMES: Final = 250
"""Frames that go in one message: the neighbour handles them in one turn, and an event takes up to 50 microseconds."""


class LinkSocket(asyncio.Protocol):
    """One connection to a neighbour."""

    def __init__(
        self,
        links: "LinkSockets",
        calls: BrokerId | None = None,
        *,
        is_local: bool = False,
        through: tuple[BrokerId, ...] = (),
        carrier: asyncio.Transport | None = None,
    ) -> None:
        """`is_local`: the neighbour is a process of the same broker. `through`: the brokers that carry the link for the
        caller, on the connection `carrier`."""
        self.links = links
        self.is_local = is_local
        self.calls = calls
        self._through = through
        self._carrier = carrier
        self.ended = asyncio.Event()
        """An event that is set when the connection is closed."""
        self.session: LinkSession
        self.transport: asyncio.Transport
        self.backlog: deque[Frame] = deque()
        """Frames that wait until the socket takes more."""
        self._inputs: deque[LinkInput] = deque()
        """Inputs of the neighbour that were not handled: all but the first wait for their turn."""
        self._has_turn = False
        self.has_resumed = False
        """Whether the frames that the neighbour missed have been sent: only then may new frames follow."""
        self.acknowledged = 0
        self.last_received = 0
        """The number of the last frame that came on this connection."""
        self.sent_at = 0.0
        self.began_at = 0.0
        self.interrupts = False
        """Whether this broker gave up a working connection for this one."""
        self._blocked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        if self.links.has_stopped:  # the links stopped while TLS was being agreed on
            self.abort()
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.began_at = self.links.shell.now()
        if self.calls is not None:
            self.interrupts = self.links.hang_up(self.calls)
        self.session = self.links.session_on(
            transport, calls=self.calls, is_local=self.is_local, through=self._through
        )
        self.links.strangers.add(self)
        self.write()

    @property
    def _ending(self) -> asyncio.Transport:
        """The transport to end if the connection is to end: Python 3.11 cannot abort TLS within TLS."""
        return self._carrier or self.transport

    def abort(self) -> None:
        """End the connection at once, and forget its inputs: the frames among them were not acknowledged, and come
        again.

        A broker that hangs up to call again must not handle an older acknowledgement behind a newer HELLO.
        """
        self._inputs.clear()
        self._ending.abort()

    def close(self) -> None:
        """End the connection after the bytes that were written."""
        self._ending.close()

    @property
    def through(self) -> tuple[BrokerId, ...]:
        """The brokers that carry the link, in order from this broker."""
        return self.session.through if self.calls is not None else self.session.through[::-1]

    @property
    def is_direct(self) -> bool:
        return not self.session.through and not self.is_local

    def data_received(self, data: bytes) -> None:
        try:
            inputs = self.session.receive(data, self.links.shell.now())
        except RemoteProtocolError as error:
            log.warning("link with %s refused: %s", self.session.peer or "a stranger", error)
            self.links.shell.counts["link_refused"] += 1
            if self.session.peer is not None:
                self.links.refused[self.session.peer] = str(error)
            self.abort()
            return
        self._inputs += inputs
        if not self._has_turn and self.take_turn():
            self._has_turn = True
            self.transport.pause_reading()
            self.links.shell.turns.add(self)
        self.write()

    def take_turn(self) -> bool:
        """Handle one message. Return whether there are more. Clients have their turns between two messages."""
        if self._inputs:
            self._heed(self._inputs.popleft())
        if self._has_turn and not self._inputs:
            self._has_turn = False
            self.write()
            if not self.links.is_paused and not self._ending.is_closing():
                self.transport.resume_reading()
        return bool(self._inputs)

    def _heed(self, said: LinkInput) -> None:
        shell = self.links.shell
        if isinstance(said, Frames):
            if not self.links.is_leaving:
                self.last_received = said.frames[-1][0] if said.frames else self.last_received
                shell.feed(InputKind.LINK_FRAMES, self.session.peer, said.frames)
        elif isinstance(said, Acked):
            shell.feed(InputKind.LINK_ACKED, self.session.peer, said.sequence)
        elif isinstance(said, Linked):
            self.links.detours.learn(said.entries)
        elif isinstance(said, Asked):
            self.links.strangers.discard(self)
            self.links.detours.carry(self, said.path)
        elif isinstance(said, Meets):
            self.links.strangers.discard(self)
            self.links.detours.call_backs.on_meets(self, said.token)
        elif isinstance(said, CallBack):
            assert self.session.peer is not None
            self.links.detours.call_back(self.session.peer, said.token)
        elif isinstance(said, Up) and not self.session.asks:
            self.links.came_up(self, said)

    def connection_lost(self, exc: Exception | None) -> None:
        self._inputs.clear()
        self.links.gone(self, exc)

    def pause_writing(self) -> None:
        self._blocked = True

    def resume_writing(self) -> None:
        self._blocked = False
        self.pump()

    def send(self, frames: list[Frame]) -> None:
        if self.backlog or self._blocked or len(frames) > CHUNK_FRAMES:
            self.backlog.extend(frames)
            self.pump()
        else:
            self.session.send(frames)

    def pump(self) -> None:
        """Write frames from the backlog as long as the socket takes them."""
        backlog = self.backlog
        while backlog and not self._blocked:
            self.session.send([backlog.popleft() for _ in range(min(len(backlog), CHUNK_FRAMES))])
            self.write()

    def write(self) -> None:
        if self.session.output and not self._ending.is_closing():
            data = self.session.take_output()
            self.sent_at = self.links.shell.now()
            self.transport.write(data)
