"""The ports that brokers of a network listen on."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, NamedTuple

from roamq.net.ops.tables import BrokerTable

EVERY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class WantedPort(NamedTuple):
    """A port that a broker wants for a socket."""

    field: str
    """The field of the configuration that names the port."""
    machine: str
    """The host of the broker: brokers with the same `host` are on one machine."""
    address: str
    port: int

    def clashes_with(self, other: "WantedPort") -> bool:
        is_one_address = self.address == other.address or {self.address, other.address} & EVERY_ADDRESS
        return bool(is_one_address)


def wanted_ports(brokers: Mapping[str, BrokerTable], first: Collection[str]) -> Iterator[WantedPort]:
    """Yields all wanted ports. `first`: the first process of each broker; the others share its listeners."""
    for name, table in brokers.items():
        at, host = f"brokers.{name}", table.host
        if name in first:
            for number, listener in enumerate(table.listeners):
                yield WantedPort(f"{at}.listeners[{number}].port", host, listener.host, listener.port)
            if len(first) > 1:
                yield WantedPort(f"{at}.link_port", host, host, table.link_port)
        yield WantedPort(f"{at}.metrics_port", host, "127.0.0.1", table.metrics_port or 0)


def clash(wanted: Iterator[WantedPort]) -> tuple[WantedPort, WantedPort] | None:
    """Returns two sockets of one machine that want the same port; None if there are none."""
    taken: dict[tuple[str, int], list[WantedPort]] = {}
    for one in wanted:
        others = taken.setdefault((one.machine, one.port), [])
        for other in others if one.port else ():
            if one.clashes_with(other):
                return one, other
        others.append(one)
    return None
