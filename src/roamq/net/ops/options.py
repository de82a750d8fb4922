"""What one broker's server is run with: listeners, bounds, storage. `configuration.py` reads it from TOML."""

from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.tokens import TokenOptions
from roamq.net.ops.settings import MIB, Settings

KIB: Final = 1024


class Durability(Enum):
    """Which failures a message survives; an acknowledgement leaves when its cause is as safe as this says."""

    MEMORY = "memory"
    """Nothing is written: a restart begins empty."""
    PROCESS = "process"
    """Handed to the operating system: survives the death of the process."""
    DISK = "disk"
    """On the disk: survives a power failure."""


class CertificateName(Enum):
    """What of a certificate names the user."""

    COMMON_NAME = "common-name"
    DNS = "dns"
    EMAIL = "email"
    URI = "uri"


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
    certificate_user: CertificateName | None = None
    """What of a client's certificate is its user name; no password is asked for then."""
    anonymous: bool = False
    """Whether a client without a user name is let in."""

    @property
    def url(self) -> str:
        tls = self.certificate is not None
        scheme = ("wss" if tls else "ws") if self.websocket else ("mqtts" if tls else "mqtt")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.path if self.websocket else ''}"


class NeighbourOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where this broker listens for others, where they are, and how they prove who they are."""

    network: str
    me: BrokerId
    host: str
    port: int
    peers: dict[str, tuple[str, int]]
    """Neighbours that can be called, and where."""
    carried: tuple[str, ...] = ()
    """Neighbours that cannot be called: others carry the links with them."""
    always_calls: bool = False
    """Whether this broker calls all its peers: one that joined later does, so that nobody has to reach it."""
    mates: tuple[str, ...] = ()
    """Other processes of the same broker, which are called by Unix sockets in `run_folder`."""
    run_folder: Path | None = None
    detour_after_s: float | None = 1.0
    """How long a link is down before others carry it; None: nobody carries links."""
    secret: bytes | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds on what connections may take of the server; docs/live.md says what happens at each."""

    connections_max: int = 50_000
    connections_per_address_max: int = 0
    """0 for no bound."""
    connect_timeout_s: float = 10.0
    """From the socket to being let in."""
    connect_bytes_max: int = 256 * KIB
    """Of one CONNECT, WebSocket frames included."""
    connects_bytes_max: int = 64 * MIB
    """Of all CONNECTs that are not whole yet."""
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
    """All that the server of one broker is run with."""

    settings: Settings
    listeners: tuple[Listener, ...]
    links: NeighbourOptions
    anonymous: str = "loopback"
    """`access.anonymous`: which listeners let clients in without a user name."""
    users: dict[str, str] = {}
    tokens: TokenOptions | None = None
    """Whose tokens are believed; None: there are only passwords and certificates."""
    bounds: Bounds = Bounds()
    storage: Storage = Storage()
    recording: Recording | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    shares_ports: bool = False
    """Whether other processes of this broker listen at the same ports."""
    console_token: str | None = None
    """What the console and the API ask for; None: there is no console, and the API is as open as the metrics."""
    token: str | None = None
    """What operators show to act over the metrics port."""

    @property
    def me(self) -> BrokerId:
        return self.settings.me
