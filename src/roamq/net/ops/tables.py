"""The tables of a network's TOML file, with the fields as an operator writes them."""

from typing import Any, Final, Literal

import msgspec

from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.tokens import TokenTable
from roamq.net.ops.options import Bounds
from roamq.net.ops.settings import Quotas
from roamq.net.ops.wiring import Paths


class NetworkTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = "roamq"
    scheme: str = "proactive"
    options: dict[str, Any] = {}
    """Options of the scheme."""
    classes: list[dict[str, Any]] = []
    """Classes of clients that have a scheme of their own (`ClientClass`): the first class whose rule fits decides."""
    overlay: Literal["interest", "flooding", "hierarchy"] = "interest"
    links: Literal["mesh"] | list[tuple[str, str]] = "mesh"
    """Which brokers can call each other."""
    paths: Paths | None = None
    """`direct`: each broker is linked with each, and other brokers carry the links of two that cannot call each other.
    `links`: events between two brokers go from link to link. Without a value: `direct` where it can lead around a
    broker (`wiring`)."""
    secret: str | None = None
    """The secret that the brokers share; enough on loopback only."""
    keys: str | None = None
    """The folder that `roamq keys` made: mutual TLS between brokers."""
    handoff_timeout_s: float = 5.0
    subscribe_timeout_s: float = 1.0
    late_after_s: float = 1.0
    detours: bool = True
    """Whether brokers carry each other's links around connections that are down."""
    detour_after_s: float = 1.0


class ListenerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["mqtt", "mqtts", "ws", "wss"] = "mqtt"
    host: str = "127.0.0.1"
    port: int = 1883
    path: str = "/mqtt"
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None
    certificate_user: Literal["common-name", "dns", "email", "uri"] | None = None
    """The part of a client's certificate that is its user name."""


class BrokerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    """The address at which other brokers find this one."""
    link_port: int = 0
    listeners: list[ListenerTable] = []
    metrics_port: int | None = None
    reference: str | None = None
    """The address that clients sent here are told (Server Reference); the first listener unless given."""
    at: list[str] = []
    """For a broker that joined later (`roamq join`): the brokers of the first configuration that it is linked with."""
    calls: list[str] = []
    """The brokers of `at` that it can call; other brokers carry its links with the rest. Without a value: all of
    `at`."""
    gone: bool = False
    """Whether this broker of the first configuration has left for good: its name stays, and nobody calls it."""
    processes: int = 1
    """How many processes share its listeners, each a broker of the network (`processes.py`)."""
    publishes: list[str] | None = None
    """Topic filters of all that may be published there; without a value, anything."""
    position: tuple[float, float] | None = None
    """Latitude and longitude; they serve a scheme with the option `areas`, unless `areas` is given."""


class AccessTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    users: dict[str, str] = {}
    """Name -> hash, as `roamq password` prints it."""
    rules: list[dict[str, Any]] = []
    jwt: TokenTable | None = None
    """Tokens that let clients in."""
    renamed: dict[str, str] = {}
    """Former user -> the user who has its sessions now; `anonymous` and `*` as in docs/security.md."""


class ConsoleTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str
    """The token that operators enter to see the console, and that programs show to use the API."""


class StorageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    durability: Literal["memory", "process", "disk"] = "process"
    folder: str | None = None
    snapshot_bytes: int = 64 * 1024 * 1024


class RecordsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: str
    """The folder to which records are written, as Parquet."""
    run_id: str | None = None
    """The name under which the records are kept; the network's name unless given."""
    flush_s: float = 1.0
    """Seconds after which a record is in the folder, at most and about."""
    rows_max: int = 50_000
    """Rows of one file."""
    steps: bool = False
    """Whether every step of a message is recorded (routed, stored, acknowledged), for `roamq trace`."""


class OperationTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    token: str | None = None
    """The operators' token for actions over the metrics port; enough on one machine only: every broker has the file."""
    token_file: str | None = None
    """A file with the token."""


TABLES: Final[dict[str, Any]] = {
    "network": NetworkTable,
    "access": AccessTable,
    "storage": StorageTable,
    "records": RecordsTable,
    "console": ConsoleTable,
    "operation": OperationTable,
    "bounds": Bounds,
    "quotas": Quotas,
    "mqtt": Limits,
}
