"""The options of one broker's server: listeners, bounds, storage. `configuration.py` reads them from TOML."""

from enum import Enum
from pathlib import Path
from typing import Final

import msgspec

from roamq.core.events import BrokerId
from roamq.net.clients.tokens import TokenOptions
from roamq.net.ops.settings import MIB, Settings

KIB: Final = 1024


class Durability(Enum):
    """Which failures a message survives; an acknowledgement leaves when the message is as safe as this says."""

    MEMORY = "memory"
    """Nothing is written: a restart begins empty."""
    PROCESS = "process"
    """Handed to the operating system: survives the death of the process."""
    DISK = "disk"
    """On the disk: survives a power failure."""


class CertificateName(Enum):
    """The part of a certificate that names the user."""

    COMMON_NAME = "common-name"
    DNS = "dns"
    EMAIL = "email"
    URI = "uri"


class Listener(msgspec.Struct, frozen=True, kw_only=True):
    """An address at which clients connect."""

    name: str
    host: str = "127.0.0.1"
    port: int = 1883
    websocket: bool = False
    path: str = "/mqtt"
    certificate: Path | None = None
    """The TLS certificate, used with `key`; None: no TLS."""
    key: Path | None = None
    client_ca: Path | None = None
    """The authority whose certificates clients must show; None: clients need no certificate."""
    certificate_user: CertificateName | None = None
    """The part of a client's certificate that is its user name; such a client needs no password."""
    anonymous: bool = False
    """Whether a client without a user name is let in."""

    @property
    def url(self) -> str:
        tls = self.certificate is not None
        scheme = ("wss" if tls else "ws") if self.websocket else ("mqtts" if tls else "mqtt")
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{self.port}{self.path if self.websocket else ''}"


class NeighbourOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where this broker listens for other brokers, where those are, and how brokers prove their identity."""

    network: str
    me: BrokerId
    host: str
    port: int
    peers: dict[str, tuple[str, int]]
    """Neighbour that this broker can call -> its host and port."""
    carried: tuple[str, ...] = ()
    """Neighbours that this broker cannot call: other brokers carry the links with them."""
    always_calls: bool = False
    """Whether this broker calls all its peers: a broker that joined later does, so that nobody has to reach it."""
    mates: tuple[str, ...] = ()
    """Other processes of the same broker, which this one calls over Unix sockets in `run_folder`."""
    run_folder: Path | None = None
    detour_after_s: float | None = 1.0
    """Seconds that a link is down before other brokers carry it; None: brokers carry no links."""
    secret: bytes | None = None
    certificate: Path | None = None
    key: Path | None = None
    authority: Path | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on what connections may take of the server; docs/live.md says what happens at each."""

    connections_max: int = 50_000
    connections_per_address_max: int = 0
    """Connections from one address; 0 for no limit."""
    connect_timeout_s: float = 10.0
    """Seconds from the opened socket until the client is let in."""
    connect_bytes_max: int = 256 * KIB
    """Bytes of one CONNECT, WebSocket frames included."""
    connects_bytes_max: int = 64 * MIB
    """Bytes of all CONNECTs that have not arrived in full."""
    write_buffer_bytes: int = 1 * MIB
    """A client that leaves more than this unread is a slow consumer: its events wait in its session."""
    linger_s: float = 5.0
    """Seconds that a client has to read the last bytes of a connection that the broker closes."""
    logins_waiting_max: int = 1000
    """Logins whose password is being checked; the broker refuses more."""


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    durability: Durability = Durability.PROCESS
    folder: Path | None = None
    snapshot_bytes: int = 64 * MIB
    """Bytes by which the journal grows before the next snapshot; if the last snapshot is larger, by its size."""


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    folder: Path
    run_id: str
    flush_s: float = 1.0
    """Seconds after which a record is in the folder, at most and about."""
    rows_max: int = 50_000
    """Rows of one file."""


class ServerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options that the server of one broker is run with."""

    settings: Settings
    listeners: tuple[Listener, ...]
    links: NeighbourOptions
    anonymous: str = "loopback"
    """The value of `access.anonymous`: which listeners let clients in without a user name."""
    users: dict[str, str] = {}
    tokens: TokenOptions | None = None
    """The tokens that the broker believes; None: only passwords and certificates let clients in."""
    bounds: Bounds = Bounds()
    storage: Storage = Storage()
    recording: Recording | None = None
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = None
    shares_ports: bool = False
    """Whether other processes of this broker listen at the same ports."""
    console_token: str | None = None
    """The token for console and API; None: there is no console, and the API is as open as the metrics."""
    token: str | None = None
    """The token that operators show to act over the metrics port."""

    @property
    def me(self) -> BrokerId:
        return self.settings.me
