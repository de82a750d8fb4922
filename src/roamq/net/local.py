"""A network on this machine, as TOML: free loopback ports, a full mesh, a fresh secret."""

import secrets
import socket
from pathlib import Path
from typing import Final

from roamq.config import to_toml

FIRST_PORT: Final = 10_000
LAST_PORT: Final = 32_000


def local_network(
    brokers: int,
    *,
    scheme: str = "proactive",
    overlay: str = "flooding",
    durability: str = "process",
    records: Path | None = None,
    first_port: int = 0,
    name: str = "local",
    scheme_options: dict[str, object] | None = None,
    extra: str = "",
) -> str:
    """The configuration of `brokers` brokers b1, b2, ...; `extra` is TOML that is appended."""
    ports = iter(free_ports(4 * brokers))
    lines = [
        "[network]",
        f"name = {to_toml(name)}",
        f"scheme = {to_toml(scheme)}",
        f"overlay = {to_toml(overlay)}",
        f"secret = {to_toml(secrets.token_hex(32))}",
        f"options = {to_toml(scheme_options or {})}",
        "",
        "[storage]",
        f"durability = {to_toml(durability)}",
        'folder = "data"',
        "",
    ]
    if records is not None:
        lines += ["[records]", f"folder = {to_toml(str(records))}", ""]
    for number in range(1, brokers + 1):
        mqtt = first_port + number - 1 if first_port else next(ports)
        lines += [
            f"[brokers.b{number}]",
            f"link_port = {next(ports)}",
            f"metrics_port = {next(ports)}",
            "listeners = [",
            f'  {{ kind = "mqtt", port = {mqtt} }},',
            f'  {{ kind = "ws", port = {next(ports)} }},',
            "]",
            "",
        ]
    return "\n".join(lines) + extra


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, below those that systems give to outgoing connections.

    Another process may take one before we do; the choice is random to make that rare, and starting says so.
    """
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            candidate = socket.socket()
            try:
                candidate.bind(("127.0.0.1", FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)))
            except OSError:
                candidate.close()
            else:
                sockets.append(candidate)
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
