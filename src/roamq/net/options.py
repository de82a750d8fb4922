"""What the shell of one broker is run with: listeners, bounds, storage. `config.py` reads it from TOML."""

from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from roamq.core.events import BrokerId
from roamq.net.settings import MIB, Settings

KIB: Final = 1024


class Durability(Enum):
    """What survives what. Acknowledgements leave after their cause is as safe as this says."""

    MEMORY = "memory"
    """Nothing is written: a restart begins empty."""
    PROCESS = "process"
    """Handed to the operating system: survives the death of the process."""
    DISK = "disk"
    """On the disk: survives a power failure."""


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """Where clients connect."""

    name: str
    host: str = "127.0.0.1"
    port: int = 1883
    websocket: bool = False
    path: str = "/mqtt"
    certificate: Path | None = None
    """With `key`: TLS."""
    key: Path | None = None
    client_ca: Path | None = None
    """Clients must show a certificate of this authority."""
    anonymous: bool = False
    """Whether who gives no user name is let in."""

    @property
    def url(self) -> str:
        tls = self.certificate is not None
        scheme = ("wss" if tls else "ws") if self.websocket else ("mqtts" if tls else "mqtt")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.path if self.websocket else ''}"


class LinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where this broker listens for others, where they are, and how they prove who they are."""

    network: str
    host: str
    port: int
    peers: dict[str, tuple[str, int]]
    secret: bytes | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client may take of the shell; docs/live.md says what happens at each bound."""

    connections_max: int = 50_000
    connections_per_address_max: int = 0
    """0 for no bound."""
    connect_timeout_s: float = 10.0
    """From the socket to being let in."""
    connect_bytes_max: int = 256 * KIB
    write_buffer_bytes: int = 1 * MIB
    """A client that leaves more than this unread is a slow consumer: its events wait in its session."""
    linger_s: float = 5.0
    """How long a connection that is closed may take to read the last words."""
    logins_waiting_max: int = 1000
    """Logins whose password is being checked; more are refused."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    durability: Durability = Durability.PROCESS
    folder: Path | None = None
    snapshot_bytes: int = 64 * MIB
    """A snapshot is made when the journal has grown by this, and by the size of the last snapshot."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    run_id: str
    flush_s: float = 1.0
    """A record is in the folder after at most about this time."""
    rows_max: int = 50_000
    """Rows of a file."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One broker's shell."""

    settings: Settings
    listeners: tuple[Listener, ...]
    links: LinkOptions
    users: dict[str, str] = {}
    bounds: Bounds = Bounds()
    storage: Storage = Storage()
    recording: Recording | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None

    @property
    def me(self) -> BrokerId:
        return self.settings.me
