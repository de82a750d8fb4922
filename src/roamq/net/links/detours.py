"""Links that others carry, on sockets: this broker asks neighbours to carry its links, and carries links for them.

The protocol of a link needs a stream of bytes between two brokers and nothing else. While two neighbours cannot reach
each other directly, a broker that can reach both passes the bytes on; with TLS it cannot read them. It keeps no frames:
if bytes are lost with the carrier, the two ends send their frames again, as after any break. Meanwhile the ends go on
calling each other directly, and a call that succeeds ends the detour (`sockets`). Links between brokers that cannot
call each other are always carried, by as few brokers as possible.
"""

import asyncio
import logging
import math
import ssl
from collections.abc import Callable, Collection, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from roamq.core.errors import RemoteProtocolError
from roamq.core.events import BrokerId
from roamq.net.links.callbacks import CallBacks
from roamq.net.links.hosts import notice_soon
from roamq.net.links.linkmap import LinkMap, Path
from roamq.net.links.lives import MICROSECONDS
from roamq.net.links.patience import STEADY_S, Patience
from roamq.net.links.protocol import DETOURS_SINCE, EDGES_SINCE, Carried, LinkedWith, LinkSession, Up

if TYPE_CHECKING:
    from roamq.net.links.connection import LinkSocket
    from roamq.net.links.sockets import LinkSockets

log = logging.getLogger("roamq.links")

CARRIED_MAX: Final = 512
"""Most links that one broker carries for others."""
PIPE_BYTES: Final = 64 * 1024
"""Bytes that may wait for one end of a carried link before the broker stops reading from the other end."""
OPEN_S_MAX: Final = 5.0
"""Most seconds that the opening of a detour may take."""
CLOSE_S_MAX: Final = 5.0
LOOK_AGAIN_S: Final = 0.5
START_S: Final = 3.0
"""Seconds that a broker that has just started waits longer for a neighbour: brokers of a network often start
together."""
BETTER_AFTER_S: Final = 5.0
"""Seconds that a link runs through others before it takes a way through fewer of them."""
_FAILURES: Final = (OSError, TimeoutError, RemoteProtocolError, RuntimeError)
"""The failures of a detour; uvloop raises `RuntimeError` for a connection that has just closed."""


class AskingSocket(asyncio.Protocol):
    """A connection on which this broker asks a neighbour to carry a link, or calls it back because it carries one."""

    def __init__(self, links: "LinkSockets", first: BrokerId, rest: Path = (), token: bytes = b"") -> None:
        """`rest`: the brokers behind the neighbour, to the end of the link. `token`: sent by a neighbour that is called
        back."""
        self._links = links
        self._first = first
        self._rest = rest
        self._token = token
        self._session: LinkSession
        self._transport: asyncio.Transport
        self.carried: asyncio.Future[None] = links.shell.loop.create_future()
        """Done when the bytes that follow are those of the link. A broker that calls back is spoken to first: it stops
        reading until it is ready."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._session = self._links.session_on(transport, calls=self._first, asks=True)
        self._transport.write(self._session.take_output())

    def data_received(self, data: bytes) -> None:
        try:
            for said in self._session.receive(data, self._links.shell.now()):
                if isinstance(said, Up) and self._token:
                    self._transport.pause_reading()
                    self._session.meet(self._token)
                    self._end(None)
                elif isinstance(said, Up):
                    self._session.ask(self._rest)
                elif isinstance(said, Carried):
                    self._end(RemoteProtocolError(said.refusal) if said.refusal else None)
        except RemoteProtocolError as error:
            self._end(error)
            self._transport.abort()
            return
        if not self._transport.is_closing():
            self._transport.write(self._session.take_output())

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(ConnectionResetError(f"{self._first} has closed the connection"))

    def _end(self, error: Exception | None) -> None:
        if self.carried.done():
            return
        if error is None:
            self.carried.set_result(None)
        else:
            self.carried.set_exception(error)


class EarlyBytes(asyncio.Protocol):
    """Keeps bytes that a caller sends behind its part of the TLS handshake, until somebody can read them."""

    def __init__(self) -> None:
        self.data = bytearray()

    def data_received(self, data: bytes) -> None:
        self.data += data


class PipeEnd(asyncio.Protocol):
    """One end of a link that this broker carries: bytes from here go out at the other end, as fast as that end takes
    them."""

    def __init__(self, on_end: Callable[["PipeEnd"], object] = id) -> None:
        self.transport: asyncio.Transport
        self.other: PipeEnd | None = None
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=PIPE_BYTES)
        notice_soon(transport)

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self.transport.abort()  # a broker that is called does not speak first
        elif not self.other.transport.is_closing():
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and not self.other.transport.is_closing():
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Send the bytes that came before the end out at the other end, if it takes them soon."""
        if self.other is not None:
            other, self.other = self.other, None
            other.transport.close()
            asyncio.get_running_loop().call_later(CLOSE_S_MAX, other.transport.abort)
        self._on_end(self)


class Detours:
    """The detours of one broker's links, and the links of others that run through it."""

    def __init__(self, links: "LinkSockets", brokers: Iterable[BrokerId]) -> None:
        """`brokers`: the brokers of the first configuration; no others carry links."""
        self._links = links
        self._brokers = frozenset(brokers)
        self._after_s = links.options.detour_after_s
        self._map = LinkMap(links.identity.me)
        self._down: dict[BrokerId, asyncio.Event] = {}
        self._direct_until: dict[BrokerId, float] = {}
        """Neighbour -> the time when there was a direct link with it last."""
        self._pipes: dict[PipeEnd, tuple[BrokerId, BrokerId]] = {}
        """The end toward the broker that asked -> that broker, and the broker at the other end of the link."""
        self._opening: set[asyncio.Task[None]] = set()
        self.call_backs = CallBacks()

    @property
    def is_on(self) -> bool:
        return self._after_s is not None

    @property
    def carried(self) -> list[tuple[BrokerId, BrokerId]]:
        """The links of others that run through this broker: the broker that asked, and the broker at the other end."""
        return sorted(self._pipes.values())

    def stop(self) -> None:
        for task in self._opening:
            task.cancel()
        for pipe in list(self._pipes):
            pipe.transport.abort()

    # --- who is linked with whom ---------------------------------------------------------------------------------

    def came_up(self, link: "LinkSocket") -> None:
        """Tell a neighbour whose link has come up which brokers are linked; tell the others of the new link."""
        peer = link.session.peer
        assert peer is not None
        if peer in self._down:
            self._down[peer].clear()
        if not link.is_local and self._map.entries:
            link.session.tell_linked(self._map.entries)
        self.look()

    def went_down(self, peer: BrokerId, *, was_direct: bool) -> None:
        if was_direct:
            self._direct_until[peer] = self._links.shell.now()
        if peer in self._down:
            self._down[peer].set()
        self.look()

    def look(self) -> None:
        """Tell the neighbours if this broker can carry links to other brokers than before."""
        options = self._links.options
        if not self.is_on or options.always_calls:
            return
        direct = [peer for peer, link in self._links.up.items() if link.is_direct]
        linked = [peer for peer in direct if peer in options.peers]
        edges = set(self._links.shell.live.machine.membership.edges_in_between).intersection(direct)
        news = self._map.say(linked, int(self._links.shell.now() * MICROSECONDS), edges)
        if news is not None:
            self._tell([news])

    def learn(self, entries: list[LinkedWith]) -> None:
        news = self._map.learn(entries, self._brokers)
        self._tell(news)

    def _tell(self, news: list[LinkedWith]) -> None:
        for peer, link in self._links.up.items() if news else ():
            theirs = [] if link.is_local else self._map.news_for(peer, news)
            if theirs:
                link.session.tell_linked(theirs)
                link.write()

    def apart_without_me(self) -> tuple[BrokerId, BrokerId] | None:
        """Two neighbours that reach each other through this broker alone; None if there are none."""
        mine = [name for name, link in self._links.up.items() if link.is_direct and name in self._brokers]
        return self._map.apart_without_me(mine) if self.is_on else None

    def edges_in_reach(self, calls: Collection[BrokerId]) -> list[BrokerId]:
        """The edge brokers with which a broker that can call `calls` could have links carried.

        Empty while a broker is down, or is of a release that does not know such links: that one would take other paths.
        """
        up = self._links.up
        membership = self._links.shell.live.machine.membership
        others = set(membership.core_others)
        if not self.is_on or len(set(calls)) < 2 or not others.issubset(up):
            return []
        if any(link.session.version < EDGES_SINCE for link in up.values()):
            return []
        return [edge for edge in membership.edges_in_between if self._map.is_reached(edge, calls)]

    # --- links of this broker that others carry ------------------------------------------------------------------

    def way(self, peer: BrokerId, avoid: Iterable[Path] = ()) -> Path | None:
        """The brokers that could carry the link with a neighbour; None if there is no such way."""
        links = self._links
        can = [
            name
            for name, link in links.up.items()
            if link.is_direct and name in links.options.peers and link.session.version >= DETOURS_SINCE
        ]
        return self._map.way(peer, can, frozenset(avoid))

    async def prefer(self, peer: BrokerId, for_s: float) -> None:
        """Wait, at most `for_s` seconds, while a detour carries the link with a neighbour, or may do so in a moment."""
        if self._after_s is None or not for_s:
            return
        now = self._links.shell.now
        until = now() + for_s
        soon = min(until, now() + self._after_s + OPEN_S_MAX)
        while now() < until and (peer in self._links.up or (now() < soon and self.way(peer) is not None)):
            await asyncio.sleep(min(LOOK_AGAIN_S, max(0.0, until - now())))

    async def keep(self, peer: BrokerId) -> None:
        """Have others carry the link with a neighbour whenever it is down for a while; at once if this broker cannot
        call the neighbour at all."""
        assert self._after_s is not None
        links = self._links
        self._down[peer] = asyncio.Event()
        self._down[peer].set()
        if peer in links.options.peers:
            self._direct_until[peer] = links.shell.now() + START_S
        failed: set[Path] = set()
        patience = Patience()
        while not links.is_departed(peer):
            await self._down[peer].wait()
            await links.linger_if_left()
            wait_until = self._direct_until.get(peer, -math.inf) + self._after_s
            await asyncio.sleep(max(0.0, wait_until - links.shell.now()))
            if peer in links.up:
                continue
            way = None if links.is_greeting(peer) else self.way(peer, failed)
            if way is None:
                failed.clear()
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            link = await self._try(peer, way)
            if link is None:
                failed.add(way)
                continue
            last, lasted_s = await self._until_gone(peer, link, patience)
            if lasted_s < STEADY_S:
                failed.add(last.through)
            else:
                failed.clear()

    async def _until_gone(
        self, peer: BrokerId, link: "LinkSocket", patience: Patience
    ) -> tuple["LinkSocket", float]:
        """Wait until a carried link is gone, and move it to a way through fewer brokers when there is one.

        Return the link's last connection, and how many seconds it lasted. A way that breaks soon is not tried again
        soon.
        """
        links = self._links
        began = links.shell.now()
        while True:
            try:
                async with asyncio.timeout(BETTER_AFTER_S + patience.doubt_s):
                    await link.ended.wait()
            except TimeoutError:
                better = self.way(peer)
                if better is None or len(better) >= len(link.through) or links.up.get(peer) is not link:
                    continue
                tried_at = links.shell.now()
                instead = await self._try(peer, better, instead_of=link)
                if instead is None:
                    patience.broken(0.0)
                else:
                    link, began = instead, tried_at
            else:
                lasted_s = links.shell.now() - began
                patience.broken(lasted_s)
                return link, lasted_s

    async def _try(
        self, peer: BrokerId, way: Path, instead_of: "LinkSocket | None" = None
    ) -> "LinkSocket | None":
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                return await self._call(peer, way, instead_of)
        except _FAILURES as error:
            log.info("no detour to %s through %s: %s", peer, ", ".join(way), error or "no answer in time")
            return None

    async def _call(self, peer: BrokerId, way: Path, instead_of: "LinkSocket | None") -> "LinkSocket":
        """Call a neighbour on a connection that others carry, unless there is a connection other than `instead_of`."""
        links = self._links
        carrier = transport = await self._open((*way, peer))
        tls = links.tls(ssl.Purpose.SERVER_AUTH)
        if tls is not None:
            # TLS runs between the two ends: the carriers cannot read the link.
            begun = await links.shell.loop.start_tls(transport, asyncio.Protocol(), tls, server_hostname=peer)
            assert begun is not None
            transport = begun
        if transport.is_closing():
            raise ConnectionResetError("closed by who carries it")
        if links.up.get(peer) is not instead_of or links.is_greeting(peer):
            carrier.abort()
            raise ConnectionAbortedError("there is another connection by now")
        link = links.socket_through(peer, way, carrier)
        transport.set_protocol(link)
        link.connection_made(transport)
        return link

    async def _open(self, path: Path) -> asyncio.Transport:
        """Open a connection whose bytes reach the last broker of the path as if this broker had called it directly."""
        first, *rest = path
        if not rest and first not in self._links.options.peers:
            return await self.call_backs.reach(self._links.up[first])
        if not rest:
            end, _ = await self._links.dial(first, PipeEnd, with_tls=False)
            return end
        transport, asking = await self._links.dial(
            first, partial(AskingSocket, self._links, first, tuple(rest)), with_tls=True
        )
        try:
            await asking.carried
        except BaseException:
            transport.abort()
            raise
        return transport

    # --- links of others that this broker carries ------------------------------------------------------------------

    def carry(self, asker: "LinkSocket", path: Path) -> None:
        """Carry a link from a neighbour that has proved itself to the last broker of the path."""
        refusal = self._refusal(path)
        if refusal:
            self._refuse(asker, path, refusal)
            return
        task = self._open_soon(self._carry(asker, path))

        def done(task: asyncio.Task[None]) -> None:
            if task.cancelled():  # this broker stops
                asker.transport.abort()

        task.add_done_callback(done)

    def _open_soon(self, opening: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._links.shell.loop.create_task(opening)
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        return task

    def call_back(self, carrier: BrokerId, token: bytes) -> None:
        """Call back a neighbour that carries a link to this broker, which cannot be called."""
        if carrier in self._links.options.peers and len(self._opening) < CARRIED_MAX:
            self._open_soon(self._call_back(carrier, token))

    async def _call_back(self, carrier: BrokerId, token: bytes) -> None:
        links = self._links
        early = EarlyBytes()
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                end, asking = await links.dial(
                    carrier, partial(AskingSocket, links, carrier, token=token), with_tls=True
                )
                await asking.carried
                transport, tls = end, links.tls(ssl.Purpose.CLIENT_AUTH)
                if tls is not None:
                    begun = await links.shell.loop.start_tls(end, early, tls, server_side=True)
                    assert begun is not None
                    transport = begun
        except _FAILURES as error:
            log.info("no link through %s, which asked to be called back: %s", carrier, error or "no answer")
            return
        link = links.socket_called(end)
        transport.set_protocol(link)
        link.connection_made(transport)
        if early.data:
            link.data_received(bytes(early.data))
        transport.resume_reading()

    def _refusal(self, path: Path) -> str:
        links = self._links
        me = links.identity.me
        next_one = links.up.get(path[0])
        if not self.is_on or links.options.always_calls:
            return f"{me} carries no links"
        if links.is_leaving:
            return f"{me} stops"
        if me in path:
            return f"a detour through {me} leads back to it"
        if len(self._pipes) + len(self._opening) >= CARRIED_MAX:
            return f"{me} carries {CARRIED_MAX} links of others already"
        if next_one is None or not next_one.is_direct:
            return f"{me} has no direct link with {path[0]}"
        if path[0] not in links.options.peers and (len(path) > 1 or next_one.session.version < EDGES_SINCE):
            return f"{path[0]} carries no links, or is of a release that cannot be asked to call back"
        if len(path) > 1 and next_one.session.version < DETOURS_SINCE:
            return f"{path[0]} is of a release that carries no links"
        return ""

    def _refuse(self, asker: "LinkSocket", path: Path, why: str) -> None:
        log.info("a link from %s to %s is not carried: %s", asker.session.peer, path[-1], why)
        asker.session.answer(why)
        asker.write()
        asker.transport.close()

    async def _carry(self, asker: "LinkSocket", path: Path) -> None:
        try:
            async with asyncio.timeout(OPEN_S_MAX):
                onward = await self._open(path)
        except _FAILURES as error:
            if not asker.transport.is_closing():
                self._refuse(asker, path, str(error) or f"{path[0]} does not answer")
            return
        if asker.transport.is_closing() or onward.is_closing():
            onward.abort()
            asker.transport.abort()
            return
        peer = asker.session.peer
        assert peer is not None
        asker.session.answer()
        asker.write()
        near, far = PipeEnd(self._forget), PipeEnd()
        near.other, far.other = far, near
        for end, transport in ((near, asker.transport), (far, onward)):
            transport.set_protocol(end)
            end.connection_made(transport)
        self._pipes[near] = (peer, path[-1])
        log.info("carries the link from %s to %s", peer, path[-1])

    def _forget(self, near: PipeEnd) -> None:
        asked, to = self._pipes.pop(near)
        log.info("carries the link from %s to %s no more", asked, to)
