"""A network on this machine, as TOML: free loopback ports, a full mesh, a fresh secret; how to start its brokers."""

import secrets
import socket
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from roamq.config import to_toml

FIRST_PORT: Final = 10_000
LAST_PORT: Final = 32_000


def local_network(
    brokers: int,
    *,
    scheme: str = "proactive",
    overlay: str = "interest",
    durability: str = "process",
    records: Path | None = None,
    steps: bool = False,
    first_port: int = 0,
    name: str = "local",
    scheme_options: dict[str, object] | None = None,
    console_token: str | None = None,
    processes: int = 1,
    names: Sequence[str] = (),
    extra: str = "",
) -> str:
    """Returns a configuration of `brokers` brokers b1, b2, ..., or of brokers `names`; `extra` is appended TOML."""
    assert len(names) in (0, brokers)
    mqtt_ports = range(first_port, first_port + brokers) if first_port else ()
    chosen = free_ports(4 * brokers, but=mqtt_ports)
    taken = {*mqtt_ports, *chosen}
    ports = iter(chosen)
    lines = [
        "[network]",
        f"name = {to_toml(name)}",
        f"scheme = {to_toml(scheme)}",
        f"overlay = {to_toml(overlay)}",
        f"secret = {to_toml(secrets.token_hex(32))}",
        f"options = {to_toml(scheme_options or {})}",
        "",
        "[operation]",
        f"token = {to_toml(secrets.token_hex(32))}",
        "",
        "[storage]",
        f"durability = {to_toml(durability)}",
        'folder = "data"',
        "",
    ]
    if console_token is not None:
        lines += ["[console]", f"token = {to_toml(console_token)}", ""]
    if records is not None:
        lines += ["[records]", f"folder = {to_toml(str(records))}", f"steps = {to_toml(steps)}", ""]
    for number in range(1, brokers + 1):
        mqtt = mqtt_ports[number - 1] if mqtt_ports else next(ports)
        metrics = next(ports) if processes == 1 else free_run(processes, but=taken)
        taken.update(range(metrics, metrics + processes))
        lines += [
            f"[brokers.{to_toml(names[number - 1]) if names else f'b{number}'}]",
            f"link_port = {next(ports)}",
            f"metrics_port = {metrics}",
            *([f"processes = {processes}"] if processes > 1 else []),
            "listeners = [",
            f'  {{ kind = "mqtt", port = {mqtt} }},',
            f'  {{ kind = "ws", port = {next(ports)} }},',
            "]",
            "",
        ]
    return "\n".join(lines) + extra


def serve_command(path: Path, broker: str, log_level: str = "WARNING") -> list[str]:
    """Returns the command that runs a broker for as long as its standard input is open.

    Start it with a pipe there: when the process at the other end is gone, killed or not, the broker stops.
    """
    command = [sys.executable, "-m", "roamq", "serve", str(path), "--broker", broker]
    return [*command, "--log-level", log_level, "--with-parent"]


def free_run(count: int, but: Collection[int] = ()) -> int:
    """Returns the first of `count` free ports in a row, none of them in `but`."""
    while True:
        first = free_ports(1)[0]
        if not set(but).isdisjoint(range(first, first + count)):
            continue
        sockets: list[socket.socket] = []
        try:
            for port in range(first, first + count):
                sockets.append(socket.socket())
                sockets[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for one in sockets:
                one.close()


def free_ports(count: int, but: Collection[int] = ()) -> list[int]:
    """Finds ports that nobody listens on now, below those of outgoing connections, none of them in `but`.

    Another process may take a port before the broker does: a random choice makes that rare, and the broker says so.
    """
    sockets: list[socket.socket] = []
    try:
        while len(sockets) < count:
            port = FIRST_PORT + secrets.randbelow(LAST_PORT - FIRST_PORT)
            if port in but:
                continue
            candidate = socket.socket()
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                candidate.close()
            else:
                sockets.append(candidate)
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
