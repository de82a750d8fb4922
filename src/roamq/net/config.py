"""A network in TOML: brokers, listeners, links, scheme, limits, access, storage. Errors name the file, line and field.

One file describes the whole network and is given to every broker; `server_options` picks one broker's part.
"""

import ipaddress
import itertools
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from roamq.config import Source, bind, parse_toml, read_toml, suggestion
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.net.mqtt.limits import Limits
from roamq.net.options import (
    Bounds,
    Durability,
    LinkOptions,
    Listener,
    Recording,
    ServerOptions,
    Storage,
)
from roamq.net.passwords import parse_hash
from roamq.net.settings import AccessRules, Quotas, Rule, Settings
from roamq.overlay.topology import Topology
from roamq.schemes import scheme_by_name

RIGHTS: Final = frozenset({"publish", "subscribe"})


class NetworkTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str = "roamq"
    scheme: str = "proactive"
    options: dict[str, Any] = {}
    """Of the scheme."""
    overlay: Literal["flooding", "hierarchy"] = "flooding"
    links: Literal["mesh"] | list[tuple[str, str]] = "mesh"
    secret: str | None = None
    """Shared by the brokers; enough on loopback only."""
    keys: str | None = None
    """The folder that `roamq keys` made: mutual TLS between brokers."""
    handoff_timeout_s: float = 1.0


class ListenerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    kind: Literal["mqtt", "mqtts", "ws", "wss"] = "mqtt"
    host: str = "127.0.0.1"
    port: int = 1883
    path: str = "/mqtt"
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None


class BrokerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    host: str = "127.0.0.1"
    """Where the other brokers find it."""
    link_port: int = 0
    listeners: list[ListenerTable] = []
    metrics_port: int | None = None
    reference: str | None = None
    """What clients that are sent here are told (Server Reference); the first listener unless given."""
    position: tuple[float, float] | None = None
    """Where it stands, for maps and for schemes that look at the ground."""


class AccessTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    anonymous: Literal["loopback", "always", "never"] = "loopback"
    users: dict[str, str] = {}
    """Name -> hash, as `roamq password` prints it."""
    rules: list[dict[str, Any]] = []


class StorageTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    durability: Literal["memory", "process", "disk"] = "process"
    folder: str | None = None
    snapshot_bytes: int = 64 * 1024 * 1024


class RecordsTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: str
    run_id: str | None = None
    flush_s: float = 1.0
    rows_max: int = 50_000


TABLES: Final[dict[str, Any]] = {
    "network": NetworkTable,
    "access": AccessTable,
    "storage": StorageTable,
    "records": RecordsTable,
    "bounds": Bounds,
    "quotas": Quotas,
    "mqtt": Limits,
}


class Network:
    """A checked network. Relative paths start at the file's folder."""

    def __init__(self, data: dict[str, Any], source: Source, folder: Path) -> None:
        self.source = source
        self.folder = folder
        known = {*TABLES, "brokers"}
        for name in data:
            if name not in known:
                raise self._error(name, "unknown table" + suggestion(name, known))
        self.network = self._table("network", NetworkTable, data)
        self.access = self._table("access", AccessTable, data)
        self.storage = self._table("storage", StorageTable, data)
        self.records = self._table("records", RecordsTable, data) if "records" in data else None
        self.bounds = self._table("bounds", Bounds, data)
        self.quotas = self._table("quotas", Quotas, data)
        self.mqtt = self._table("mqtt", Limits, data)
        brokers = data.get("brokers")
        if not isinstance(brokers, dict) or not brokers:
            raise self._error("brokers", "name at least one broker, as a table [brokers.NAME]")
        self.brokers: dict[str, BrokerTable] = {
            name: bind(BrokerTable, table, f"brokers.{name}", source) for name, table in brokers.items()
        }
        self.rules = AccessRules(rules=self._rules(), anonymous=self.access.anonymous != "never")
        self._check()

    @property
    def links(self) -> tuple[tuple[str, str], ...]:
        if self.network.links == "mesh":
            return tuple(itertools.combinations(self.brokers, 2))
        return tuple((a, b) for a, b in self.network.links)

    def server_options(self, broker: str) -> ServerOptions:
        """What one broker is run with."""
        table = self.brokers.get(broker)
        if table is None:
            raise ConfigError(f"{self.source.name}: no broker {broker!r}{suggestion(broker, self.brokers)}")
        listeners = tuple(self._listener(number, entry) for number, entry in enumerate(table.listeners))
        recording = self.records and Recording(
            folder=self.folder / self.records.folder,
            run_id=self.records.run_id or self.network.name,
            flush_s=self.records.flush_s,
            rows_max=self.records.rows_max,
        )
        folder = self.storage.folder
        return ServerOptions(
            settings=self.settings(broker),
            listeners=listeners,
            links=self._link_options(broker),
            users=self.access.users,
            bounds=self.bounds,
            storage=Storage(
                durability=Durability(self.storage.durability),
                folder=self.folder / folder / broker if folder is not None else None,
                snapshot_bytes=self.storage.snapshot_bytes,
            ),
            recording=recording,
            metrics_port=table.metrics_port,
        )

    def settings(self, broker: str) -> Settings:
        return Settings(
            me=BrokerId(broker),
            brokers=tuple(BrokerId(name) for name in self.brokers),
            links=self.links,
            overlay=self.network.overlay,
            scheme=self.network.scheme,
            scheme_options=self.network.options,
            limits=self.mqtt,
            quotas=self.quotas,
            access=self.rules,
            handoff_timeout_s=self.network.handoff_timeout_s,
            references={name: self._reference(table) for name, table in self.brokers.items()},
        )

    # --- parts -------------------------------------------------------------------------------------------------

    def _table(self, name: str, kind: Any, data: dict[str, Any]) -> Any:
        table = data.get(name, {})
        if isinstance(table, dict):
            names = [field.name for field in msgspec.structs.fields(kind)]
            for key in table:
                if key not in names:
                    raise self._error(f"{name}.{key}", "unknown field" + suggestion(key, names))
        return bind(kind, table, name, self.source)

    def _rules(self) -> tuple[Rule, ...]:
        if not self.access.rules:
            return (Rule(),)
        rules = []
        for number, table in enumerate(self.access.rules):
            field = f"access.rules[{number}]"
            for key in table:
                if key not in ("user", "may", "topics"):
                    raise self._error(f"{field}.{key}", "unknown field; known are may, topics, user")
            rule = bind(Rule, table, field, self.source)
            if unknown := sorted(rule.may - RIGHTS):
                raise self._error(
                    f"{field}.may", f"{unknown[0]!r} is no right" + suggestion(unknown[0], RIGHTS)
                )
            for topic in rule.topics:
                try:
                    Filter(topic)
                except ConfigError as error:
                    raise self._error(f"{field}.topics", str(error)) from error
            rules.append(rule)
        return tuple(rules)

    def _listener(self, number: int, table: ListenerTable) -> Listener:
        open_to = {"always": True, "never": False, "loopback": is_loopback(table.host)}
        return Listener(
            name=f"{number}:{table.kind}",
            host=table.host,
            port=table.port,
            websocket=table.kind in ("ws", "wss"),
            path=table.path,
            certificate=self._path(table.certificate),
            key=self._path(table.key),
            client_ca=self._path(table.client_ca),
            anonymous=open_to[self.access.anonymous],
        )

    def _link_options(self, broker: str) -> LinkOptions:
        table = self.brokers[broker]
        neighbours = [b if a == broker else a for a, b in self.links if broker in (a, b)]
        keys = None if self.network.keys is None else self.folder / self.network.keys
        return LinkOptions(
            network=self.network.name,
            host=table.host,
            port=table.link_port,
            peers={name: (self.brokers[name].host, self.brokers[name].link_port) for name in neighbours},
            secret=self.network.secret.encode() if self.network.secret is not None else None,
            certificate=keys / f"{broker}.pem" if keys else None,
            key=keys / f"{broker}.key" if keys else None,
            authority=keys / "ca.pem" if keys else None,
        )

    def _reference(self, table: BrokerTable) -> str:
        if table.reference is not None or not table.listeners:
            return table.reference or table.host
        return f"{table.listeners[0].host}:{table.listeners[0].port}"

    # --- what fits together ------------------------------------------------------------------------------------

    def _check(self) -> None:
        try:
            options_type = scheme_by_name(self.network.scheme).options_type
        except ConfigError as error:
            raise self._error("network.scheme", str(error).removeprefix("scheme: ")) from error
        try:
            options_type.parse(self.network.options)
        except ConfigError as error:
            raise self._error("network.options", str(error)) from error
        try:
            topology = Topology(self.brokers, self.links)
        except ConfigError as error:
            raise self._error("network.links", str(error)) from error
        if self.network.overlay == "hierarchy" and not topology.is_tree:
            raise self._error("network.overlay", "a hierarchy needs links that form a tree")
        self._check_links()
        for name, table in self.brokers.items():
            self._check_broker(name, table)
        for user, hashed in self.access.users.items():
            try:
                parse_hash(hashed)
            except ConfigError as error:
                raise self._error(f"access.users.{user}", str(error)) from error
        if self.storage.durability != "memory" and self.storage.folder is None:
            raise self._error(
                "storage.folder", f"durability {self.storage.durability!r} needs a folder to write to"
            )

    def _check_links(self) -> None:
        if len(self.brokers) == 1:
            return
        network = self.network
        if (network.secret is None) == (network.keys is None):
            raise self._error(
                "network.keys", "give `keys` (mutual TLS; `roamq keys` makes them) or, on loopback, `secret`"
            )
        if network.secret is not None and len(network.secret) < 16:
            raise self._error("network.secret", "is shorter than 16 characters")
        for name, table in self.brokers.items():
            if not table.link_port:
                raise self._error(f"brokers.{name}.link_port", "other brokers need a port to call")
            if network.secret is not None and not is_loopback(table.host):
                raise self._error(
                    "network.secret", f"broker {name!r} is at {table.host}: beyond loopback use `keys`"
                )

    def _check_broker(self, name: str, table: BrokerTable) -> None:
        for number, listener in enumerate(table.listeners):
            field = f"brokers.{name}.listeners[{number}]"
            if not 0 <= listener.port <= 65535:
                raise self._error(f"{field}.port", f"{listener.port} is no port")
            if listener.kind in ("mqtts", "wss"):
                for file in ("certificate", "key"):
                    if getattr(listener, file) is None:
                        raise self._error(
                            f"{field}.{file}", f"a listener of kind {listener.kind!r} needs one"
                        )
            elif listener.certificate is not None:
                raise self._error(f"{field}.certificate", f"kind {listener.kind!r} has no TLS")
            for file in ("certificate", "key", "client_ca"):
                path = self._path(getattr(listener, file))
                if path is not None and not path.is_file():
                    raise self._error(f"{field}.{file}", f"{path} is not there")

    def _path(self, text: str | None) -> Path | None:
        return None if text is None else self.folder / text

    def _error(self, field: str, reason: str) -> ConfigError:
        return ConfigError(f"{self.source.place(field)}: {field}: {reason}")


def load_network(path: Path) -> Network:
    data, source = read_toml(path)
    return Network(data, source, path.resolve().parent)


def parse_network(text: str, name: str = "network", folder: Path | None = None) -> Network:
    data, source = parse_toml(text, name)
    return Network(data, source, folder or Path())


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
