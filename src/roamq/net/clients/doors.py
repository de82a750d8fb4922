"""The sockets that listen for clients, before anybody listens at them."""

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from roamq.core.errors import ConfigError
from roamq.net.ops.options import Listener

AT_ONCE: Final = 4
"""Connections that are taken from one listening socket in a turn of the event loop."""
log = logging.getLogger("roamq.clients")
_HANDSHAKE_FAILED: Final = "SSL handshake failed"
"""How event loops begin to say so."""


def name_failed_handshakes(loop: asyncio.AbstractEventLoop) -> None:
    """A certificate whose names are no text fails in the library that reads it: that is its owner's fault, not ours."""
    before = loop.get_exception_handler()

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if str(context.get("message", "")).startswith(_HANDSHAKE_FAILED) and isinstance(error, UnicodeError):
            log.info("a TLS handshake failed: the names in the certificate are no text")
        elif before is not None:
            before(loop, context)
        else:
            loop.default_exception_handler(context)

    loop.set_exception_handler(handle)


def tls_of(listener: Listener) -> ssl.SSLContext | None:
    """What the listener needs to speak TLS; None if it does not."""
    if listener.certificate is None:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(listener.certificate, listener.key)
    if listener.client_ca is not None:
        context.load_verify_locations(listener.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def bound(what: str, host: str, port: int, *, shared: bool = False) -> list[socket.socket]:
    """Sockets that have their addresses and do not listen yet, one per address of the host; `what` is named if an
    address cannot be had. `shared`: with other processes of this user."""
    doors: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            door = socket.socket(family, kind, protocol)
            doors.append(door)
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            door.bind(address)
            door.setblocking(False)
    except OSError as error:
        for door in doors:
            door.close()
        raise ConfigError(f"{what}: {error.strerror or error}") from error
    return doors


def handles_of(door: socket.socket) -> list[socket.socket]:
    """A listening socket and copies of its handle.

    libuv takes one connection in a turn for each handle that it listens at: with a single one, every client that
    comes would cost a turn of the event loop, with a write to the journal and all else that a turn does.
    """
    return [door, *(door.dup() for _ in range(AT_ONCE - 1))]
