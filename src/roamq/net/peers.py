"""Links on sockets: who calls whom, calling again after a break, and what waits while a link does not take more.

Of two neighbours the one whose name comes first calls. A neighbour that is down costs a call now and then and
the frames kept for it; nobody else waits.
"""

import asyncio
import logging
import os
import secrets
import ssl
from collections import deque
from typing import Final, cast

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.links import (
    NONCE_BYTES,
    PING_EVERY_S,
    Acked,
    Frame,
    Frames,
    Identity,
    LinkSession,
    Phase,
    Up,
)
from roamq.net.node import Kind
from roamq.net.options import LinkOptions
from roamq.net.shell import Shell

log = logging.getLogger("roamq.links")

BACK_OFF_S_MIN: Final = 0.1
BACK_OFF_S_MAX: Final = 3.0
HANDSHAKE_S_MAX: Final = 5.0
WRITE_BUFFER_BYTES: Final = 4 * 1024 * 1024
CHUNK_FRAMES: Final = 1000
_RANDOM: Final = secrets.SystemRandom()


class Link(asyncio.Protocol):
    """One connection to a neighbour."""

    def __init__(self, peers: "Peers", calls: BrokerId | None = None) -> None:
        self.peers = peers
        self.calls = calls
        self.session: LinkSession
        self.transport: asyncio.Transport
        self.backlog: deque[Frame] = deque()
        """Frames that wait for the socket to take more."""
        self.has_resumed = False
        """Whether what the peer missed has been sent: only then may new frames follow."""
        self.acknowledged = 0
        self.sent_at = 0.0
        self.began_at = 0.0
        self._blocked = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self.began_at = self.peers.shell.now()
        self.session = LinkSession(
            self.peers.identity,
            nonce=os.urandom(NONCE_BYTES),
            count=self.peers.count,
            now=self.began_at,
            calls=self.calls,
            vouched_for=_certified_name(transport),
        )
        self.peers.strangers.add(self)
        self.write()

    def data_received(self, data: bytes) -> None:
        try:
            inputs = self.session.receive(data, self.peers.shell.now())
        except RemoteProtocolError as error:
            log.warning("link with %s refused: %s", self.session.peer or "a stranger", error)
            self.peers.shell.counts["link_refused"] += 1
            self.transport.abort()
            return
        shell = self.peers.shell
        for said in inputs:
            if isinstance(said, Frames):
                shell.feed(Kind.LINK_FRAMES, self.session.peer, said.frames)
            elif isinstance(said, Acked):
                shell.feed(Kind.LINK_ACKED, self.session.peer, said.sequence)
            else:
                self.peers.came_up(self, said)
        self.write()

    def connection_lost(self, exc: Exception | None) -> None:
        self.peers.gone(self, exc)

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
        """Write from the backlog as long as the socket takes it."""
        backlog = self.backlog
        while backlog and not self._blocked:
            self.session.send([backlog.popleft() for _ in range(min(len(backlog), CHUNK_FRAMES))])
            self.write()

    def write(self) -> None:
        if self.session.output and not self.transport.is_closing():
            data = self.session.take_output()
            self.sent_at = self.peers.shell.now()
            self.transport.write(data)


_Staged = tuple[list[tuple[Link, list[Frame]]], dict[BrokerId, int]]


class Peers:
    """All links of a broker."""

    def __init__(self, shell: Shell, options: LinkOptions) -> None:
        self.shell = shell
        self.options = options
        me = shell.machine.me
        self.identity = Identity(network=options.network, me=me, secret=options.secret)
        self.links: dict[BrokerId, Link] = {}
        """Those that are up."""
        self.strangers: set[Link] = set()
        """Those that are not up yet."""
        self.safe = dict(shell.machine.received_from)
        """Per neighbour, up to where its frames are safe with us."""
        self._server: asyncio.Server | None = None
        self._callers: list[asyncio.Task[None]] = []
        self._broken: dict[BrokerId, asyncio.Event] = {}
        self._is_paused = False

    async def start(self) -> None:
        options = self.options
        loop = self.shell.loop
        if not options.peers:
            return
        self._server = await loop.create_server(
            lambda: Link(self), options.host, options.port, ssl=self._tls(ssl.Purpose.CLIENT_AUTH)
        )
        for name in options.peers:
            if self.identity.me < name:
                self._callers.append(loop.create_task(self._call(BrokerId(name))))

    async def stop(self) -> None:
        for caller in self._callers:
            caller.cancel()
        await asyncio.gather(*self._callers, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        for link in (*self.links.values(), *self.strangers):
            link.transport.close()

    def count(self, peer: str) -> tuple[int, int] | None:
        """What a HELLO tells: safely received, and sent."""
        sent = self.shell.machine.sent.get(BrokerId(peer))
        return None if sent is None else (self.safe[BrokerId(peer)], sent)

    # --- links come and go -------------------------------------------------------------------------------------

    def came_up(self, link: Link, up: Up) -> None:
        before = self.links.get(up.peer)
        if before is not None:
            before.transport.abort()  # the peer calls anew: it has given that one up
        self.links[up.peer] = link
        self.strangers.discard(link)
        link.acknowledged = self.safe[up.peer]
        log.info("link with %s is up", up.peer)
        self.shell.feed(Kind.LINK_ACKED, up.peer, up.received)

    def gone(self, link: Link, error: Exception | None) -> None:
        self.strangers.discard(link)
        peer = link.session.peer
        if peer is not None and self.links.get(peer) is link:
            del self.links[peer]
            log.warning("link with %s is down%s", peer, f": {error}" if error else "")
        if link.calls is not None:
            self._broken[link.calls].set()

    async def _call(self, peer: BrokerId) -> None:
        """Keep a link to `peer`, for ever; call less and less often while it does not answer."""
        host, port = self.options.peers[peer]
        self._broken[peer] = asyncio.Event()
        wait_s = BACK_OFF_S_MIN
        while True:
            began = self.shell.now()
            self._broken[peer].clear()
            try:
                await asyncio.wait_for(
                    self.shell.loop.create_connection(
                        lambda: Link(self, peer),
                        host,
                        port,
                        ssl=self._tls(ssl.Purpose.SERVER_AUTH),
                        server_hostname=peer if self.options.certificate else None,
                    ),
                    HANDSHAKE_S_MAX,
                )
            except (OSError, TimeoutError) as error:
                log.debug("%s does not answer at %s:%s: %s", peer, host, port, error)
            else:
                await self._broken[peer].wait()
                if self.shell.now() - began > BACK_OFF_S_MAX:
                    wait_s = BACK_OFF_S_MIN
            await asyncio.sleep(wait_s * (0.5 + _RANDOM.random()))
            wait_s = min(wait_s * 2, BACK_OFF_S_MAX)

    def _tls(self, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        options = self.options
        if options.certificate is None:
            return None
        context = ssl.create_default_context(purpose, cafile=str(options.authority))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(options.certificate, options.key)
        return context

    # --- for the shell -----------------------------------------------------------------------------------------

    def stage(self, frames: dict[BrokerId, list[Frame]]) -> _Staged:
        """A link that has just come up gets all of the outbox: it begins where the peer's HELLO ends, and the
        new frames are part of it."""
        machine = self.shell.machine
        sending = []
        for peer, link in self.links.items():
            mine = frames.get(peer, [])
            if not link.has_resumed:
                link.has_resumed = True
                mine = list(machine.outbox[peer])
            if mine:
                sending.append((link, mine))
        return sending, dict(machine.received_from)

    def release(self, staged: _Staged) -> None:
        sending, self.safe = staged
        for link, frames in sending:
            link.send(frames)
        for peer, link in self.links.items():
            if self.safe[peer] > link.acknowledged:
                link.acknowledged = self.safe[peer]
                link.session.acknowledge(link.acknowledged)
            link.write()

    def tick(self, now: float) -> None:
        for link in list(self.links.values()):
            if link.session.is_silent(now) and not self._is_paused:
                log.warning("link with %s: silent", link.session.peer)
                link.transport.abort()
            elif now - link.sent_at >= PING_EVERY_S:
                link.session.ping()
                link.write()
        for link in list(self.strangers):
            if now - link.began_at > HANDSHAKE_S_MAX and link.session.phase is not Phase.UP:
                link.transport.abort()

    def pause(self) -> None:
        self._is_paused = True
        for link in self.links.values():
            link.transport.pause_reading()

    def resume(self) -> None:
        self._is_paused = False
        now = self.shell.now()
        for link in self.links.values():
            link.session.heard_at = now
            if not link.transport.is_closing():
                link.transport.resume_reading()


def _certified_name(transport: asyncio.BaseTransport) -> str | None:
    """The broker's name in the certificate that TLS has checked."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    return names[0] if names else ""
