"""The sockets that listen for clients, before anybody listens at them."""

import socket
import ssl

from roamq.core.errors import ConfigError
from roamq.net.ops.options import Listener


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
