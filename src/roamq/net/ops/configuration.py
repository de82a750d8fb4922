"""A network in TOML: brokers, listeners, links, scheme, limits, access, storage. Errors name the file, line and field.

One file describes the whole network and is given to every broker; `server_options` picks one broker's part.
"""

import dataclasses
import itertools
import json
import math
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from roamq.config import Source, bind, parse_toml, read_toml, suggestion
from roamq.core.choices import choose_from
from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.core.filters import Filter
from roamq.net.broker_names import NAMED_WITH, names_broker
from roamq.net.clients.access import MARK, claims_in
from roamq.net.clients.passwords import parse_hash
from roamq.net.clients.tokens import TokenOptions, read_tokens
from roamq.net.ops import processes
from roamq.net.ops.addresses import is_loopback, is_open_to_anonymous
from roamq.net.ops.advertising import fault_of
from roamq.net.ops.client_classes import check_classes, option_of, read_classes
from roamq.net.ops.options import (
    CertificateName,
    Durability,
    Listener,
    NeighbourOptions,
    Recording,
    ServerOptions,
    Storage,
)
from roamq.net.ops.ports import clash, wanted_ports
from roamq.net.ops.settings import ANONYMOUS, ANYBODY, AccessRules, Rule, Settings
from roamq.net.ops.tables import TABLES, BrokerTable, ListenerTable
from roamq.net.ops.wiring import Pair, Paths, fault_in, linked, paths_of
from roamq.overlay.topology import Topology
from roamq.schemes.table import scheme_named

TOKEN_CHARACTERS_MIN: Final = 16
RIGHTS: Final = frozenset({"publish", "subscribe"})


class NetworkConfig:
    """A checked network. Relative paths start at the file's folder."""

    def __init__(
        self, data: dict[str, Any], source: Source, folder: Path, *, files_exist: bool = True
    ) -> None:
        """`files_exist`: `server_options` refuses a broker whose listeners name certificates that are not there. A host
        needs those of its own brokers alone, and `roamq keys` is about to make them."""
        self.source = source
        self._files_exist = files_exist
        self.folder = folder
        known = {*TABLES, "brokers"}
        for name in data:
            if name not in known:
                raise self._error(name, "unknown table" + suggestion(name, known))
        self.network = self._table("network", data)
        self.access = self._table("access", data)
        self.storage = self._table("storage", data)
        self.records = self._table("records", data) if "records" in data else None
        self.console = self._table("console", data) if "console" in data else None
        self.operation = self._table("operation", data)
        self.bounds = self._table("bounds", data)
        self.quotas = self._table("quotas", data)
        self.mqtt = self._table("mqtt", data)
        brokers = data.get("brokers")
        if not isinstance(brokers, dict) or not brokers:
            raise self._error("brokers", "name at least one broker, as a table [brokers.NAME]")
        tables: dict[str, BrokerTable] = {
            name: bind(BrokerTable, table, f"brokers.{name}", source) for name, table in brokers.items()
        }
        self.edges = {
            name: tuple(BrokerId(one) for one in table.at) for name, table in tables.items() if table.at
        }
        """Broker that joined later -> the brokers of the core that it is linked with."""
        self._check_edges(tables)
        self._expand(tables)
        self.rules = AccessRules(rules=self._rules(), renamed=self.access.renamed)
        self._check()

    def _expand(self, tables: dict[str, BrokerTable]) -> None:
        """Makes a broker of several processes into as many brokers."""
        for name, table in tables.items():
            if not names_broker(name):
                raise self._error(f"brokers.{name}", f"{name!r} is no name for a broker: {NAMED_WITH}")
            if not 1 <= table.processes <= processes.PROCESSES_MAX:
                reason = f"{table.processes} is not between 1 and {processes.PROCESSES_MAX}"
                raise self._error(f"brokers.{name}.processes", reason)
        self.processes = {name: table.processes for name, table in tables.items()}
        """Broker of the file -> its number of processes."""
        self.mates = processes.mates(self.processes)
        try:
            self.brokers: dict[str, BrokerTable] = processes.expanded(tables, _mate, tables)
        except ConfigError as error:
            field, _, reason = str(error).partition(": ")
            raise self._error(field, reason) from error

    @property
    def core(self) -> list[str]:
        """The brokers of the first configuration, the first process of each."""
        return [name for name in self.processes if name not in self.edges]

    @property
    def connections(self) -> tuple[Pair, ...]:
        """Which brokers can call each other."""
        if self.network.links == "mesh":
            return tuple(itertools.combinations(self.core, 2))
        return tuple((a, b) for a, b in self.network.links)

    @cached_property
    def paths(self) -> Paths:
        wanted, detours = self.network.paths, self.network.detours
        return paths_of(wanted, self.network.overlay, self.core, self.connections, detours=detours)

    @cached_property
    def links(self) -> tuple[Pair, ...]:
        return (*linked(self.paths, self.core, self.connections), *processes.links_of(self.processes))

    @property
    def ports(self) -> set[int]:
        """All ports that brokers of the file listen on, whether they run or not."""
        return {wanted.port for wanted in wanted_ports(self.brokers, self.processes)}

    @property
    def keys_folder(self) -> Path | None:
        return self._path(self.network.keys)

    def server_options(self, broker: str) -> ServerOptions:
        """Returns the options that one broker is run with."""
        table = self.brokers.get(broker)
        if table is None:
            raise ConfigError(f"{self.source.name}: no broker {broker!r}{suggestion(broker, self.brokers)}")
        if table.gone:
            raise self._error(
                f"brokers.{broker}.gone", f"{broker!r} has left the network, and starts no more"
            )
        if self._files_exist:
            self._check_files(broker, table)
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
            anonymous=self.access.anonymous,
            users=self.access.users,
            tokens=self._tokens(),
            bounds=self.bounds,
            storage=Storage(
                durability=Durability(self.storage.durability),
                folder=self.folder / folder / broker if folder is not None else None,
                snapshot_bytes=self.storage.snapshot_bytes,
            ),
            recording=recording,
            metrics_port=table.metrics_port,
            shares_ports=table.processes > 1,
            console_token=self.console.token if self.console is not None else None,
            token=self._token(),
        )

    def settings(self, broker: str) -> Settings:
        return Settings(
            me=BrokerId(broker),
            brokers=tuple(BrokerId(name) for name in self.brokers if name not in self.edges),
            at=self.edges.get(broker, ()),
            links=self.links,
            overlay=self.network.overlay,
            scheme=self.network.scheme,
            scheme_options=self._scheme_options(self.network.scheme, self.network.options),
            classes=self.classes,
            limits=self.mqtt,
            quotas=self.quotas,
            access=self.rules,
            publishes={
                name: tuple(table.publishes)
                for name, table in self.brokers.items()
                if table.publishes is not None and (name == broker or name not in self.edges)
            },
            handoff_timeout_s=self.network.handoff_timeout_s,
            subscribe_timeout_s=self.network.subscribe_timeout_s,
            late_after_s=self.network.late_after_s,
            records_steps=self.records is not None and self.records.steps,
            positions={name: table.position for name, table in self.brokers.items() if table.position},
            references={name: self._reference(table) for name, table in self.brokers.items()},
            mates=tuple(BrokerId(name) for name in self.mates[broker] if name != broker),
        )

    # --- parts -------------------------------------------------------------------------------------------------

    def _table(self, name: str, data: dict[str, Any]) -> Any:
        kind = TABLES[name]
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
                if key not in ("claims", "user", "may", "topics"):
                    raise self._error(f"{field}.{key}", "unknown field; known are claims, may, topics, user")
            rule = bind(Rule, table, field, self.source)
            if unknown := sorted(rule.may - RIGHTS):
                raise self._error(
                    f"{field}.may", f"{unknown[0]!r} is no right" + choose_from(unknown[0], sorted(RIGHTS))
                )
            for topic in rule.topics:
                try:
                    Filter(topic)
                except ConfigError as error:
                    raise self._error(f"{field}.topics", str(error)) from error
                if "%{" in MARK.sub("", topic):
                    raise self._error(f"{field}.topics", f"{topic!r}: a claim is written %{{NAME}}")
            if self.access.jwt is None and (rule.claims or any(map(claims_in, rule.topics))):
                raise self._error(field, "only tokens have claims: [access.jwt] says whose are believed")
            rules.append(rule)
        return tuple(rules)

    def _scheme_options(self, scheme: str, options: dict[str, Any]) -> dict[str, Any]:
        """Completes the options of a scheme: one that uses the map gets the brokers' positions for `areas`.

        `polygons` may be the name of a GeoJSON file.
        """
        if isinstance(options.get("polygons"), str):
            options = {**options, "polygons": self._polygons(options["polygons"])}
        positions = {name: table.position for name, table in self.brokers.items() if table.position}
        known = {field.name for field in dataclasses.fields(scheme_named(scheme).options_type)}
        if not positions or {"areas", "polygons"} & options.keys() or "areas" not in known:
            return options
        return {**options, "areas": positions}

    def _polygons(self, name: str) -> dict[str, Any]:
        field = "network.options.polygons"
        try:
            found = json.loads((self.folder / name).read_text())
        except OSError as error:
            raise self._error(field, f"{name} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise self._error(field, f"{name} is not JSON: {error}") from error
        try:
            owners = {feature["properties"]["broker"] for feature in found["features"]}
        except (TypeError, KeyError, IndexError) as error:
            reason = f"{name} is no GeoJSON FeatureCollection whose features have a property 'broker'"
            raise self._error(field, reason) from error
        if unknown := sorted(str(owner) for owner in owners - set(self.brokers)):
            raise self._error(field, f"{name} has an area of {unknown[0]!r}, and no broker has this name")
        return dict(found)

    def _listener(self, number: int, table: ListenerTable) -> Listener:
        return Listener(
            name=f"{number}:{table.kind}",
            host=table.host,
            port=table.port,
            websocket=table.kind in ("ws", "wss"),
            path=table.path,
            certificate=self._path(table.certificate),
            key=self._path(table.key),
            client_ca=self._path(table.client_ca),
            certificate_user=CertificateName(table.certificate_user) if table.certificate_user else None,
            anonymous=is_open_to_anonymous(table.host, self.access.anonymous),
        )

    def _link_options(self, broker: str) -> NeighbourOptions:
        table = self.brokers[broker]
        mates = self.mates[broker]
        neighbours = [b if a == broker else a for a, b in self.links if broker in (a, b)]
        neighbours += self.edges.get(broker, ())
        neighbours = [name for name in neighbours if name not in mates and not self.brokers[name].gone]
        called = {b if a == broker else a for a, b in self.connections if broker in (a, b)}
        called.update(table.calls or self.edges.get(broker, ()))
        run = processes.run_folder(self.network.name, self.folder) if len(mates) > 1 else None
        keys = self.keys_folder
        return NeighbourOptions(
            network=self.network.name,
            me=BrokerId(broker),
            host=table.host,
            port=table.link_port,
            peers={
                name: (self.brokers[name].host, self.brokers[name].link_port)
                for name in neighbours
                if name in called
            },
            carried=tuple(name for name in neighbours if name not in called),
            mates=tuple(name for name in mates if name != broker),
            always_calls=broker in self.edges,
            run_folder=run,
            detour_after_s=self.network.detour_after_s if self.network.detours else None,
            secret=self.network.secret.encode() if self.network.secret is not None else None,
            certificate=keys / f"{broker}.pem" if keys else None,
            key=keys / f"{broker}.key" if keys else None,
            authority=keys / "ca.pem" if keys else None,
        )

    def _tokens(self) -> TokenOptions | None:
        if self.access.jwt is None:
            return None
        try:
            return read_tokens(self.access.jwt, self.folder)
        except ConfigError as error:
            field, _, reason = str(error).partition(": ")
            raise self._error(f"access.jwt.{field}", reason) from error

    def _token(self) -> str | None:
        operation = self.operation
        if operation.token is not None and operation.token_file is not None:
            raise self._error("operation.token_file", "give a file or a token, not both")
        token: str | None = operation.token
        if operation.token_file is not None:
            path = self.folder / operation.token_file
            try:
                token = path.read_text().strip()
            except (OSError, UnicodeDecodeError) as error:
                raise self._error("operation.token_file", f"{path} cannot be read: {error}") from error
        if token is not None and len(token) < TOKEN_CHARACTERS_MIN:
            raise self._error(
                "operation.token_file" if operation.token_file else "operation.token",
                f"a token has at least {TOKEN_CHARACTERS_MIN} characters",
            )
        return token

    def _reference(self, table: BrokerTable) -> str:
        if table.reference is not None or not table.listeners:
            return table.reference or table.host
        return f"{table.listeners[0].host}:{table.listeners[0].port}"

    # --- what fits together ------------------------------------------------------------------------------------

    def _check(self) -> None:
        try:
            options_type = scheme_named(self.network.scheme).options_type
        except ConfigError as error:
            raise self._error("network.scheme", str(error).removeprefix("scheme: ")) from error
        try:
            options = self._scheme_options(self.network.scheme, self.network.options)
            options_type.parse(options)
        except (ConfigError, TypeError) as error:
            raise self._error(*option_of(error, "network.options")) from error
        users = self.access.users if self.access.jwt is None and not self._names_by_certificate() else None
        self.classes = read_classes(self.network.classes, users, self.source, self._scheme_options)
        check_classes(self.network.scheme, options, self.classes, self.source)
        try:
            Topology(self.core, self.connections)
            topology = Topology((name for name in self.brokers if name not in self.edges), self.links)
        except ConfigError as error:
            raise self._error("network.links", str(error)) from error
        if fault := fault_in(self.paths, self.core, self.connections, detours=self.network.detours):
            raise self._error(*fault)
        if self.network.overlay == "hierarchy" and not topology.is_tree:
            raise self._error("network.overlay", "a hierarchy needs links that form a tree")
        without = [name for name in self.processes if self.brokers[name].position is None]
        if 0 < len(without) < len(self.processes):
            reason = "other brokers have one: give all brokers a position, or none"
            raise self._error(f"brokers.{without[0]}.position", reason)
        self._check_links()
        for name, table in self.brokers.items():
            self._check_broker(name, table)
        self._check_ports()
        for user, hashed in self.access.users.items():
            if user in (ANONYMOUS, ANYBODY):
                reason = f"{user!r} stands for other clients in rules; choose another name"
                raise self._error(f"access.users.{user}", reason)
            try:
                parse_hash(hashed)
            except ConfigError as error:
                raise self._error(f"access.users.{user}", str(error)) from error
        if self.console is not None and len(self.console.token) < 16:
            raise self._error("console.token", "is shorter than 16 characters")
        if self.storage.durability != "memory" and self.storage.folder is None:
            raise self._error(
                "storage.folder", f"durability {self.storage.durability!r} needs a folder to write to"
            )

    def _names_by_certificate(self) -> bool:
        """Whether a certificate can make clients users that the file does not name."""
        return any(one.certificate_user for table in self.brokers.values() for one in table.listeners)

    def _check_edges(self, tables: dict[str, BrokerTable]) -> None:
        core = [name for name in tables if name not in self.edges]
        if not core:
            raise self._error("brokers", "every broker has `at`; those of the first configuration have none")
        for name, at in self.edges.items():
            for one in at:
                if one not in core:
                    hint = suggestion(one, core)
                    raise self._error(f"brokers.{name}.at", f"{one!r} is no broker without `at`{hint}")
            if unlinked := [one for one in tables[name].calls if one not in at]:
                raise self._error(f"brokers.{name}.calls", f"{unlinked[0]!r} is not among `at`")
            if tables[name].processes != 1:
                raise self._error(f"brokers.{name}.processes", "a broker that joined later is one process")

    def _check_links(self) -> None:
        if len(self.processes) == 1:
            return
        network = self.network
        if (network.secret is None) == (network.keys is None):
            raise self._error(
                "network.keys", "give `keys` (mutual TLS; `roamq keys` makes them) or, on loopback, `secret`"
            )
        if not 0 <= network.detour_after_s < math.inf:
            reason = "is no time to wait; `detours = false` turns detours off"
            raise self._error("network.detour_after_s", f"{network.detour_after_s} {reason}")
        if network.secret is not None and len(network.secret) < 16:
            raise self._error("network.secret", "is shorter than 16 characters")
        for name in self.processes:
            table = self.brokers[name]
            if not table.link_port and name not in self.edges:
                raise self._error(f"brokers.{name}.link_port", "other brokers need a port to call")
            if network.secret is not None and not is_loopback(table.host):
                raise self._error(
                    "network.secret", f"broker {name!r} is at {table.host}: beyond loopback use `keys`"
                )

    def _check_broker(self, name: str, table: BrokerTable) -> None:
        if table.publishes is not None and (fault := fault_of(table.publishes, self.network.overlay)):
            raise self._error(f"brokers.{name}.publishes", fault)
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
            if listener.certificate_user is not None and listener.client_ca is None:
                reason = "only certificates of `client_ca` say who a client is; give one"
                raise self._error(f"{field}.certificate_user", reason)

    def _check_files(self, name: str, table: BrokerTable) -> None:
        for number, listener in enumerate(table.listeners):
            for file in ("certificate", "key", "client_ca"):
                path = self._path(getattr(listener, file))
                if path is not None and not path.is_file():
                    field = f"brokers.{name}.listeners[{number}].{file}"
                    raise self._error(field, f"{path} is not there; `roamq keys` makes such files")

    def _check_ports(self) -> None:
        if found := clash(wanted_ports(self.brokers, self.processes)):
            one, other = found
            raise self._error(one.field, f"{one.port} is the port of {other.field} as well, on the same host")

    def _path(self, text: str | None) -> Path | None:
        return None if text is None else self.folder / text

    def _error(self, field: str, reason: str) -> ConfigError:
        return ConfigError(f"{self.source.place(field)}: {field}: {reason}")


def _mate(table: BrokerTable, number: int) -> BrokerTable:
    """Returns the table of a broker's process `number`: the same listeners, and the next HTTP port."""
    port = None if table.metrics_port is None else table.metrics_port + number - 1
    return msgspec.structs.replace(table, link_port=0, metrics_port=port, position=None)


def load_network(path: Path, *, files_exist: bool = True, processes: int | None = None) -> NetworkConfig:
    """Reads and checks a network. `processes`: the number for the only broker. `files_exist`: see `NetworkConfig`."""
    data, source = read_toml(path)
    if processes is not None:
        brokers = data.get("brokers", {})
        of_file = {table.get("processes", 1) for table in brokers.values() if isinstance(table, dict)}
        if len(brokers) > 1 and of_file != {processes}:
            raise ConfigError(
                f"{source.name}: brokers: other brokers must know how many processes each has; write "
                f"`processes = {processes}` into the file of all"
            )
        for table in brokers.values():
            table["processes"] = processes
    return NetworkConfig(data, source, path.resolve().parent, files_exist=files_exist)


def parse_network(text: str, name: str = "network", folder: Path | None = None) -> NetworkConfig:
    data, source = parse_toml(text, name)
    return NetworkConfig(data, source, folder or Path())
