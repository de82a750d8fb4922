"""Links on sockets: a broker calls its neighbours, calls again after a break, sends frames and acknowledges them.

Of two neighbours the one whose name comes first calls. A neighbour that is down costs a call now and then and the
frames kept for it; nobody else waits. While it cannot be called directly, others may carry the link (`detours`).
"""

import asyncio
import logging
import os
import secrets
import ssl
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar
from zlib import crc32

import msgspec

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.net.durable.inputs import InputKind
from roamq.net.links.connection import LinkSocket
from roamq.net.links.detours import Detours
from roamq.net.links.hosts import notice_soon
from roamq.net.links.lives import MICROSECONDS
from roamq.net.links.outboxes import Outboxes
from roamq.net.links.patience import Patience
from roamq.net.links.protocol import (
    EDGES_SINCE,
    NONCE_BYTES,
    OLDEST,
    PING_EVERY_S,
    Frame,
    Identity,
    LinkPhase,
    LinkSession,
    Up,
)
from roamq.net.ops import processes
from roamq.net.ops.options import NeighbourOptions
from roamq.net.ops.settings import Settings
from roamq.net.shell import Shell
from roamq.schemes.table import scheme_named

log = logging.getLogger("roamq.links")

P = TypeVar("P", bound=asyncio.Protocol)

HANDSHAKE_S_MAX: Final = 5.0
LINGER_S: Final = 1.0
TURNED_AWAY: Final = (
    "it closed the connection before the link was up, and its log says why: perhaps this broker was forgotten, or "
    "never admitted (`roamq join`)"
)
_RANDOM: Final = secrets.SystemRandom()


_Staged = tuple[list[tuple[LinkSocket, list[Frame]]], dict[BrokerId, int]]


class LinkSockets:
    """All links of a broker."""

    def __init__(self, shell: Shell, outboxes: Outboxes, options: NeighbourOptions) -> None:
        self.shell = shell
        self.options = options
        self.identity = Identity(
            network=options.network,
            me=options.me,
            secret=options.secret,
            description=described(shell.live.machine.settings),
        )
        self.refused: dict[str, str] = {}
        """Neighbour -> the reason why the last link with it was refused, while no link with it is up."""
        self.local_identity = self.identity
        """The identity that this broker shows to other processes of the same broker."""
        self.up: dict[BrokerId, LinkSocket] = {}
        """Neighbour -> the link with it that is up."""
        self.strangers: set[LinkSocket] = set()
        """Links that are not up yet."""
        self.safe = dict(outboxes.received)
        """Neighbour -> the number up to which its frames are safe with us."""
        self._outboxes = outboxes
        self._servers: list[asyncio.Server] = []
        self._callers: dict[tuple[str, BrokerId], asyncio.Task[None]] = {}
        """Task's kind and the neighbour at the other end -> the task."""
        self.detours = Detours(self, shell.live.machine.settings.brokers)
        self.is_paused = False
        self.is_leaving = False
        """Whether the broker stops: it reads nothing new, and waits until its neighbours have everything that it
        sent."""

        self.has_stopped = False
        """Whether no link may come up any more."""
        self._begun = outboxes.begun
        """How many neighbours had come since the broker's start when it last began calls."""

    def take_no_more(self) -> None:
        """From now on heed only acknowledgements: the neighbours keep their frames for the broker's next life."""
        self.is_leaving = True

    @property
    def has_unconfirmed(self) -> bool:
        """Whether a neighbour whose link is up has not acknowledged everything."""
        return any(self._outboxes.frames.get(peer) or peer in self._outboxes.behind for peer in self.up)

    @property
    def through(self) -> dict[str, list[str]]:
        """Neighbour whose link runs through others -> these brokers, in order from this one."""
        return {peer: list(link.through) for peer, link in self.up.items() if link.through}

    @property
    def detoured(self) -> dict[str, list[str]]:
        """The part of `through` whose neighbours could call or be called directly; a broker that joined reports its own
        links."""
        return {peer: carriers for peer, carriers in self.through.items() if peer in self.options.peers}

    @property
    def carried(self) -> list[tuple[BrokerId, BrokerId]]:
        """The links of others that run through this broker: the broker that asked, and the broker at the other end."""
        return self.detours.carried

    async def start(self) -> None:
        options = self.options
        loop = self.shell.loop
        if options.port and not options.always_calls and (options.secret or options.certificate):
            tls = self.tls(ssl.Purpose.CLIENT_AUTH)
            try:
                self._servers.append(
                    await loop.create_server(lambda: LinkSocket(self), options.host, options.port, ssl=tls)
                )
            except OSError as error:
                field = f"brokers.{options.me}.link_port"
                where = f"{options.host}:{options.port}"
                raise ConfigError(f"{field}: {where}: {error.strerror or error}") from error
        if options.mates:
            await self._listen_for_mates()
        self._begin_calls()

    def _begin_calls(self) -> None:
        """Call the neighbours that this broker is to call and does not call yet."""
        options = self.options
        for name in map(BrokerId, (*options.peers, *options.mates, *options.carried)):
            if options.always_calls or self.identity.me < name:
                if name not in options.carried:
                    self._begin("call", name, self._call)
                if name not in options.mates and self.detours.is_on:
                    self._begin("keep", name, self.detours.keep)
        for name in self._other_edges() if self.detours.is_on else ():
            if self.identity.me < name:
                self._begin("keep", name, self.detours.keep)

    def _other_edges(self) -> list[BrokerId]:
        """If this broker joined later: the other brokers that joined later and are linked with this one."""
        options = self.options
        named = {*options.peers, *options.mates, *options.carried}
        return [name for name in self._outboxes.sent if name not in named] if options.always_calls else []

    def _begin(self, what: str, peer: BrokerId, run: Callable[[BrokerId], Coroutine[Any, Any, None]]) -> None:
        caller = self._callers.get((what, peer))
        if caller is None or caller.done():
            self._callers[what, peer] = self.shell.loop.create_task(run(peer))

    def rewire(self, wires: NeighbourOptions) -> None:
        """Call other neighbours than before, or at other addresses. Frames go on where they were, on the links that
        there are now."""
        gone = self.options.peers.keys() - wires.peers.keys()
        self.options = msgspec.structs.replace(self.options, peers=wires.peers, carried=wires.carried)
        for peer in map(BrokerId, sorted(gone)):
            if (caller := self._callers.pop(("call", peer), None)) is not None:
                caller.cancel()
            link = self.up.get(peer)
            if link is not None and link.is_direct:
                link.abort()
        self._begin_calls()
        self.detours.look()

    async def _listen_for_mates(self) -> None:
        folder = self.options.run_folder
        assert folder is not None
        secret = processes.enter(folder)
        self.local_identity = Identity(network=self.options.network, me=self.options.me, secret=secret)
        path = folder / self.options.me
        path.unlink(missing_ok=True)  # left by a process that fell; the data folder's lock keeps others out
        try:
            self._servers.append(
                await self.shell.loop.create_unix_server(
                    lambda: LinkSocket(self, is_local=True), str(path), backlog=processes.PROCESSES_MAX
                )
            )
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror or error}") from error

    async def stop(self) -> None:
        self.has_stopped = True
        for caller in self._callers.values():
            caller.cancel()
        await asyncio.gather(*self._callers.values(), return_exceptions=True)
        for server in self._servers:
            server.close()
        self.detours.stop()
        for link in (*self.up.values(), *self.strangers):
            link.close()

    def count(self, peer: str) -> tuple[int, int] | None:
        """The counts that a HELLO tells: frames safely received from the peer, and sent to it; None if it is no
        neighbour."""
        sent = self._outboxes.sent.get(BrokerId(peer))
        return None if sent is None else (self.safe.get(BrokerId(peer), 0), sent)

    def is_departed(self, peer: BrokerId) -> bool:
        """Whether a broker has left for good and is no neighbour any more: nobody calls it."""
        return peer not in self._outboxes.sent

    def session_on(
        self,
        transport: asyncio.BaseTransport,
        *,
        calls: BrokerId | None = None,
        is_local: bool = False,
        through: tuple[BrokerId, ...] = (),
        asks: bool = False,
    ) -> LinkSession:
        """The protocol for a new connection."""
        if not is_local:
            notice_soon(transport)
        return LinkSession(
            self.local_identity if is_local else self.identity,
            nonce=os.urandom(NONCE_BYTES),
            count=self.count,
            now=self.shell.now(),
            calls=calls,
            vouched_for=_certified_name(transport),
            call=int(self.shell.now() * MICROSECONDS),
            through=through,
            asks=asks,
            oldest=self._oldest,
        )

    @property
    def _oldest(self) -> int:
        """The oldest version that a neighbour may speak: a release without links between edge brokers takes other
        paths."""
        return EDGES_SINCE if self.shell.live.machine.membership.has_edge_links else OLDEST

    def socket_called(self, carrier: asyncio.Transport) -> LinkSocket:
        """The socket for a call to this broker that others carry, on a connection that this broker opened itself."""
        return LinkSocket(self, carrier=carrier)

    def socket_through(
        self, peer: BrokerId, carriers: tuple[BrokerId, ...], carrier: asyncio.Transport
    ) -> LinkSocket:
        """The socket for a call by this broker that others carry."""
        return LinkSocket(self, peer, through=carriers, carrier=carrier)

    # --- links come and go -------------------------------------------------------------------------------------

    def came_up(self, link: LinkSocket, up: Up) -> None:
        before = self.up.get(up.peer)
        if before is not None and 0 < link.session.call < before.session.call:
            link.abort()  # the peer hung up and called again before this link came up
            return
        if before is not None:
            before.abort()  # the peer calls again: it has given up the connection before
        self.up[up.peer] = link
        self.strangers.discard(link)
        link.acknowledged = link.session.told_received
        self.refused.pop(up.peer, None)
        if link.through:
            level = logging.WARNING if up.peer in self.options.peers else logging.INFO
            log.log(level, "link with %s is up, through %s", up.peer, ", ".join(link.through))
        else:
            log.info("link with %s is up", up.peer)
        self.shell.feed(InputKind.LINK_ACKED, up.peer, up.received)
        self.detours.came_up(link)

    def gone(self, link: LinkSocket, error: Exception | None) -> None:
        self.strangers.discard(link)
        link.ended.set()
        peer = link.session.peer
        if peer is not None and self.up.get(peer) is link:
            level = logging.INFO if self._has_left else logging.WARNING
            log.log(level, "link with %s is down%s", peer, f": {error}" if error else "")
            self._take_down(peer, link)
        is_direct_call = link.calls is not None and not link.through and not self._has_left
        if is_direct_call and link.session.phase is not LinkPhase.UP and link.calls not in self.refused:
            assert link.calls is not None
            self._note_refused(link.calls, TURNED_AWAY)

    @property
    def _has_left(self) -> bool:
        """Whether this broker has left the network or was forgotten: its neighbours close their links with it."""
        return self.shell.live.machine.membership.has_left

    async def linger_if_left(self) -> None:
        """Wait a moment if this broker has left: it stops as soon as one neighbour has its last word, and calls again
        if none has."""
        if self._has_left:
            await asyncio.sleep(LINGER_S)

    def hang_up(self, peer: BrokerId) -> bool:
        """Close older connections with a neighbour before it is called (again): nothing that comes on them is heard any
        more.

        Otherwise HELLO would count less than the two have said on the older connection by the time it arrives. True if
        one of them worked.
        """
        for link in [link for link in self.strangers if link.calls == peer]:
            link.abort()
        link_before = self.up.get(peer)
        if link_before is None:
            return False
        log.info("link with %s goes from %s to another connection", peer, ", ".join(link_before.through))
        link_before.abort()
        self._take_down(peer, link_before)
        return True

    def _take_down(self, peer: BrokerId, link: LinkSocket) -> None:
        del self.up[peer]
        self.detours.went_down(peer, was_direct=not link.through)

    def is_greeting(self, peer: BrokerId) -> bool:
        """Whether the neighbour has answered a direct call that is not refused."""
        return any(link.calls == peer and not link.through for link in self.strangers)

    def _note_refused(self, peer: BrokerId, why: str) -> None:
        """Tell operators, once and not with every call, that a neighbour is there and refuses the link."""
        if self.refused.get(peer) != why:
            self.refused[peer] = why
            log.warning("link with %s refused: %s", peer, why)

    async def _call(self, peer: BrokerId) -> None:
        """Keep up a direct link with `peer`; call less and less often while it does not answer."""
        patience = Patience()
        while not self.is_departed(peer):
            began = self.shell.now()
            try:
                # `wait_for` would swallow a cancellation that comes in the moment in which the call succeeds.
                async with asyncio.timeout(HANDSHAKE_S_MAX):
                    link = await self._connect(peer)
            except ssl.SSLError as error:
                self._note_refused(peer, f"TLS: {error.reason or error}; see network.keys")
                patience.unanswered()
            except (OSError, TimeoutError) as error:
                log.debug("%s does not answer: %s", peer, error)
                patience.unanswered()
            else:
                await link.ended.wait()
                if link.session.phase is LinkPhase.UP or link.interrupts:
                    patience.broken(self.shell.now() - began)
                else:
                    patience.unanswered()
            await asyncio.sleep(patience.wait_s * (0.5 + _RANDOM.random()))
            await self.linger_if_left()
            await self.detours.prefer(peer, patience.doubt_s)

    async def _connect(self, peer: BrokerId) -> LinkSocket:
        if peer in self.options.mates:
            assert self.options.run_folder is not None
            path = str(self.options.run_folder / peer)
            _, link = await self.shell.loop.create_unix_connection(
                lambda: LinkSocket(self, peer, is_local=True), path
            )
        else:
            _, link = await self.dial(peer, lambda: LinkSocket(self, peer), with_tls=True)
        return link

    async def dial(
        self, peer: BrokerId, make: Callable[[], P], *, with_tls: bool
    ) -> tuple[asyncio.Transport, P]:
        """Open a connection to a neighbour's port; without TLS if the bytes are those of a link of others."""
        host, port = self.options.peers[peer]
        tls = self.tls(ssl.Purpose.SERVER_AUTH) if with_tls else None
        name = peer if tls is not None else None
        return await self.shell.loop.create_connection(make, host, port, ssl=tls, server_hostname=name)

    def tls(self, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        options = self.options
        if options.certificate is None:
            return None
        context = ssl.create_default_context(purpose, cafile=str(options.authority))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(options.certificate, options.key)
        return context

    # --- for the shell -----------------------------------------------------------------------------------------

    def stage(self, frames: dict[BrokerId, list[Frame]]) -> _Staged:
        """Take the frames to send. A link that has just come up gets the whole outbox: it begins where the peer's HELLO
        ends, and the new frames are part of it."""
        sending = []
        for peer, link in self.up.items():
            mine = frames.get(peer, [])
            if not link.has_resumed:
                link.has_resumed = True
                mine = list(self._outboxes.frames.get(peer, ()))
            if mine:
                sending.append((link, mine))
        return sending, dict(self._outboxes.received)

    def release(self, staged: _Staged) -> None:
        sending, self.safe = staged
        for link, frames in sending:
            link.send(frames)
        if self._begun != self._outboxes.begun:
            self._begun = self._outboxes.begun
            self._begin_calls()
        for peer, link in list(self.up.items()):
            if peer not in self.safe:
                self._part(link)
                continue
            if self.safe[peer] > link.acknowledged:
                link.acknowledged = self.safe[peer]
                link.session.acknowledge(link.acknowledged)
            link.write()

    def _part(self, link: LinkSocket) -> None:
        """Tell a neighbour that has departed that its last word was heard, and end the link."""
        if link.last_received > link.acknowledged:
            link.acknowledged = link.last_received
            link.session.acknowledge(link.acknowledged)
        link.write()
        link.close()

    def tick(self, now: float) -> None:
        oldest = self._oldest
        for link in list(self.up.values()):
            if link.session.version < oldest:
                log.warning("link with %s ends: it is of an older release; upgrade it", link.session.peer)
                link.abort()
            elif link.session.is_silent(now) and not self.is_paused:
                log.warning("link with %s: silent", link.session.peer)
                link.abort()
            elif now - link.sent_at >= PING_EVERY_S:
                link.session.ping()
                link.write()
        for link in list(self.strangers):
            if now - link.began_at > HANDSHAKE_S_MAX:
                link.abort()

    def pause(self) -> None:
        self.is_paused = True
        for link in self.up.values():
            link.transport.pause_reading()

    def resume(self) -> None:
        self.is_paused = False
        now = self.shell.now()
        for link in self.up.values():
            link.session.heard_at = now
            if not link.transport.is_closing():
                link.transport.resume_reading()


def described(settings: Settings) -> dict[str, str]:
    """A checksum of each fact that all brokers of a network must be told alike: they all route events by it.

    Brokers may disagree for a while about schemes that can be changed while they run; not about a scheme that stands
    alone.
    """
    scheme = scheme_named(settings.scheme)
    is_alone = scheme.name != scheme.scheme.name or not scheme.scheme.stands_beside_others
    publishes = sorted(
        (name, topics) for name, topics in settings.publishes.items() if name in settings.brokers
    )
    said: dict[str, object] = {
        # A release that knows no lists would accept publications outside them: it must not agree.
        "brokers": (sorted(settings.brokers), publishes) if publishes else sorted(settings.brokers),
        "brokers.NAME.publishes": publishes,
        "network.links": sorted(tuple(sorted(link)) for link in settings.links),
        "network.overlay": settings.overlay,
        "network.scheme, which stands alone": settings.scheme if is_alone else None,
    }
    if is_alone:
        said["network.scheme"] = settings.scheme  # the release before compares this entry
    return {name: f"{crc32(repr(value).encode()):08x}" for name, value in said.items()}


def _certified_name(transport: asyncio.BaseTransport) -> str | None:
    """The broker's name in the certificate that TLS has checked."""
    certificate = transport.get_extra_info("peercert")
    if not certificate:
        return None
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    return names[0] if names else ""
