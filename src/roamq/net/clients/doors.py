"""The sockets for clients, bound to their addresses before anybody listens at them."""

import asyncio
import logging
import socket
import ssl
from typing import Any, Final

from roamq.core.errors import ConfigError
from roamq.net.ops.options import Listener

AT_ONCE: Final = 4
"""Most connections that one listening socket takes in a turn of the event loop."""
log = logging.getLogger("roamq.clients")
_HANDSHAKE_FAILED: Final = "SSL handshake failed"
"""The beginning of the message with which event loops report a failed handshake."""


def name_failed_handshakes(loop: asyncio.AbstractEventLoop) -> None:
    """Log a failed handshake whose certificate has names that are no text as the fault of the client, not of the
    broker."""
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
    """The TLS context of the listener; None if it does not speak TLS."""
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
    """Sockets that are bound to their addresses and do not listen yet, one per address of the host.

    The error names `what` if an address cannot be had. If `shared`, other processes of this user may bind the same
    port.
    """
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

    libuv takes one connection in a turn for each handle that it listens at. With a single handle, every new client
    would cost a turn of the event loop, with a write to the journal and all else that a turn does.
    """
    return [door, *(door.dup() for _ in range(AT_ONCE - 1))]
