"""Writes a first network as files: configuration with users and TLS, keys, a token for the console."""

import secrets
from pathlib import Path
from typing import Final, NamedTuple

from roamq.config import to_toml
from roamq.core.errors import ConfigError
from roamq.net.clients.passwords import hash_password
from roamq.net.ops.addresses import is_loopback
from roamq.net.ops.configuration import load_network
from roamq.net.ops.keys import make_keys

LINK_PORT: Final = 7001
METRICS_PORT: Final = 9001
TLS_PORT: Final = 8883


class Started(NamedTuple):
    """What an operator needs to know of the written network."""

    path: Path
    password: str
    """The user's password; no file contains it."""
    token: str
    files: list[Path]


def start_network(folder: Path, sites: dict[str, str], *, name: str, user: str, scheme: str) -> Started:
    """Writes `network.toml`, `keys/` and the operators' token for these sites (broker -> host). Overwrites nothing.

    The authority's key goes to a folder beside `folder`, which no broker needs.
    """
    path = folder / "network.toml"
    if path.exists():
        raise ConfigError(f"{path}: exists already; remove it, or name another folder")
    folder.mkdir(parents=True, exist_ok=True)
    password, token = secrets.token_urlsafe(12), secrets.token_urlsafe(24)
    hashed = hash_password(password.encode())
    path.write_text(_configuration(sites, name=name, user=user, scheme=scheme, hashed=hashed, token=token))
    path.chmod(0o600)
    acting = folder / "operation.token"
    acting.touch(mode=0o600)
    acting.write_text(secrets.token_urlsafe(24) + "\n")
    authority = folder.with_name(f"{folder.name}-authority")
    network = load_network(path, files_exist=False)
    files = [path, acting, *make_keys(network, folder / "keys", authority)]
    load_network(path)
    return Started(path, password, token, files)


def _configuration(
    sites: dict[str, str], *, name: str, user: str, scheme: str, hashed: str, token: str
) -> str:
    lines = [
        "# Made by `roamq init`. docs/live.md explains every field; `roamq serve network.toml --broker NAME --check`",
        "# checks the file. Every broker gets this file, operation.token, keys/ca.pem, and its own two files of keys/.",
        "[network]",
        f"name = {to_toml(name)}",
        f"scheme = {to_toml(scheme)}",
        'keys = "keys"',
        "",
        "[storage]",
        'durability = "process"        # "disk" survives a power failure as well',
        'folder = "data"',
        "",
        "[records]",
        'folder = "records"',
        "steps = true                  # every step of a message, for `roamq trace`; false on busy brokers",
        "",
        "[console]",
        f"token = {to_toml(token)}",
        "",
        "[operation]",
        'token_file = "operation.token"  # who has it may drain and reload',
        "",
        "[access]",
        'anonymous = "never"',
        "[access.users]",
        f"{to_toml(user)} = {to_toml(hashed)}  # `roamq password` makes more",
        "[[access.rules]]",
        f"user = {to_toml(user)}",
        'topics = ["#"]',
        "",
    ]
    used: dict[str, int] = {}
    for broker, host in sites.items():
        place = used[host] = used.get(host, -1) + 1
        listens = "127.0.0.1" if is_loopback(host) else "0.0.0.0"  # noqa: S104 - the operator named the host
        files = f'certificate = "keys/{broker}.pem", key = "keys/{broker}.key"'
        lines += [
            f"[brokers.{broker}]",
            f"host = {to_toml(host)}",
            f"link_port = {LINK_PORT + place}",
            f"metrics_port = {METRICS_PORT + place}",
            f"reference = {to_toml(f'{host}:{TLS_PORT + place}')}",
            "listeners = [",
            f'  {{ kind = "mqtts", host = "{listens}", port = {TLS_PORT + place}, {files} }},',
            "]",
            "",
        ]
    return "\n".join(lines)
