"""The other brokers of the network, as the parts of a live broker talk to them."""

from collections.abc import Collection, Mapping
from zlib import crc32

from roamq.broker.broker import Broker
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.core.messages import Message
from roamq.net.links.members import Member
from roamq.overlay.advertised import is_within
from roamq.overlay.topology import Topology


class OtherBrokers:
    """All brokers of the network but this one."""

    def __init__(
        self,
        broker: Broker,
        topology: Topology,
        references: Mapping[str, str],
        mates: Collection[BrokerId] = (),
    ) -> None:
        self.references = references
        """Broker -> host:port, told to clients that are sent to that broker (Server Reference)."""
        self._broker = broker
        self._topology = topology
        self._mates = frozenset(mates)
        self.leaving: set[BrokerId] = set()
        """Brokers that are about to leave: no session goes to them."""
        self._joined: dict[BrokerId, str] = {}
        """Edge broker -> the Server Reference for clients that are sent to it."""
        self.renew({})

    def renew(self, members: Mapping[BrokerId, Member]) -> None:
        """Take over which brokers there are, after some have come or gone."""
        brokers, me = self._topology.brokers, self._broker.me
        self._names = tuple(name for name in brokers if name != me)
        self._known = frozenset(brokers)
        self.leaving &= self._known
        self._choose_successors()
        self._joined = {name: member.reference for name, member in members.items() if member.reference}

    def mates_of(self, broker: BrokerId) -> list[BrokerId]:
        """The other processes of a broker, if it is this broker or one of its mates."""
        together = self._mates | {self._broker.me}
        return sorted(together - {broker}) if broker in together else []

    def spare(self, broker: BrokerId) -> None:
        """Note that a broker is about to leave: choose no successor there."""
        self.leaving.add(broker)
        self._choose_successors()

    def _choose_successors(self) -> None:
        apart = self._mates | self.leaving
        others = tuple(name for name in self._names if name not in self._mates)
        self._successors = tuple(name for name in others if name not in apart) or others

    @property
    def names(self) -> tuple[BrokerId, ...]:
        return self._names

    @property
    def is_core(self) -> bool:
        """Whether this broker is of the core."""
        return self._broker.me in self._topology.core

    @property
    def neighbours_of_core(self) -> frozenset[BrokerId]:
        """The brokers of the core that this one is linked with."""
        topology = self._topology
        return topology.core.intersection(topology.neighbours[self._broker.me])

    def tell(self, to: BrokerId, message: Message) -> None:
        self._broker.unicast(to, message)

    def tell_all(self, message: Message) -> None:
        for name in self._names:
            self._broker.unicast(name, message)

    def named(self, name: str | None) -> BrokerId | None:
        """The broker of this name, possibly this one; None if the network has none."""
        return BrokerId(name) if name in self._known else None

    def taking(self, topic: str) -> BrokerId | None:
        """A broker at which the topic may be published, preferably one that stays; None if there is none."""
        declared, asked = self._topology.publishes, Filter(topic)
        takes = [name for name in self._names if is_within(declared.get(name), asked)]
        return next((name for name in takes if name not in self.leaving), takes[0] if takes else None)

    def successor_for(self, client: ClientId) -> tuple[BrokerId, str | None]:
        """The broker that gets this client when this broker goes, and its address. All other brokers get a share of the
        clients."""
        chosen = self._successors[crc32(client.encode()) % len(self._successors)]
        return chosen, self.references.get(chosen) or self._joined.get(chosen)
