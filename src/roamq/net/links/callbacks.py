"""Links with brokers that call others and cannot be called: a broker that carries such a link asks them to call back.

A broker that joined later has no port for links. The last carrier of a link to that broker has a link with it, over a
connection that the joined broker opened. On this connection the carrier sends a token. The joined broker opens another
connection, says the token, and is the called end of the link that is carried there.
"""

import asyncio
import logging
import secrets
from typing import TYPE_CHECKING, Final

from roamq.core.events import BrokerId

if TYPE_CHECKING:
    from roamq.net.links.connection import LinkSocket

log = logging.getLogger("roamq.links")

TOKEN_BYTES: Final = 16


class CallBacks:
    """Brokers that this one has asked to call back, because it carries links to them."""

    def __init__(self) -> None:
        self._awaited: dict[bytes, tuple[BrokerId, asyncio.Future[LinkSocket]]] = {}

    async def reach(self, link: "LinkSocket") -> asyncio.Transport:
        """Ask the broker at the other end of a link that is up to call back. Return the new connection."""
        peer = link.session.peer
        assert peer is not None
        token = secrets.token_bytes(TOKEN_BYTES)
        called: asyncio.Future[LinkSocket] = asyncio.get_running_loop().create_future()
        self._awaited[token] = (peer, called)
        link.session.call_back(token)
        link.write()
        try:
            return (await called).transport
        finally:
            del self._awaited[token]

    def on_meets(self, socket: "LinkSocket", token: bytes) -> None:
        """Take a broker that has called back; cut it if its token is unknown, or if it comes too late."""
        peer, called = self._awaited.get(token, (None, None))
        if called is None or called.done() or socket.session.peer != peer:
            log.info("%s calls back, and nobody waits for it", socket.session.peer)
            socket.abort()
        else:
            called.set_result(socket)
