"""Connections whose other host has vanished: the operating system notices this even while the broker is busy."""

import asyncio
import socket
from typing import Final

VANISHED_S_MAX: Final = 5.0
"""Seconds after which a host that acknowledges nothing is out of reach, whatever its broker does."""
PROBE_AFTER_S: Final = 2
"""Seconds of silence after which hosts probe each other."""


def notice_soon(transport: asyncio.BaseTransport) -> None:
    """Have the operating system end the connection if its other host is silent for `VANISHED_S_MAX`."""
    connection = transport.get_extra_info("socket")
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", PROBE_AFTER_S),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", int(VANISHED_S_MAX) - PROBE_AFTER_S),
        ("TCP_USER_TIMEOUT", int(VANISHED_S_MAX * 1000)),
    ):
        if hasattr(socket, name):  # some are missing on systems other than Linux
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
