"""What a node may ask of the world, and the constants all nodes of one network agree on."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.core.records import Record
from roamq.manet.messages import Message, NodeId, Packet


class NodeHost(Protocol):
    """Each call returns at once; a unicast that cannot be delivered comes back as `Node.on_link_failure`."""

    def now(self) -> Seconds: ...
    def broadcast(self, message: Message) -> None: ...
    def unicast(self, to: NodeId, packet: Packet) -> None: ...
    def set_timer(self, key: Hashable, after: Seconds) -> None: ...
    def record(self, record: Record) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The protocol's numbers. k, l and m are the paper's; where it names no value ours is chosen in decision 0090."""

    k: int = 20
    """Broker nodes in the network."""
    l: int = 5  # noqa: E741 - the paper's name
    """Nearest brokers every node keeps, and an event's destinations per subscriber."""
    m: int = 3
    """Carriers the source spreads an event to."""
    hello_s: Seconds = 1.0
    beacon_s: Seconds = 4.0
    bootstrap_s: Seconds = 12.0
    register_s: Seconds = 10.0
    """How often a subscriber submits its subscriptions again, with its nearest brokers of the moment."""
    bridge_s: Seconds = 2.0
    gossip_s: Seconds = 4.0
    """How long two brokers that can talk may keep news of subscriptions from each other."""
    contact_timeout_s: Seconds = 1.0
    patience_s: Seconds = 10.0
    """How long a packet without a route waits where it is."""
    orphan_s: Seconds = 20.0
    """After so long without any broker, nodes choose one among themselves."""
    buffer_events: int = 500

    def __post_init__(self) -> None:
        if not (self.l >= 1 and self.m >= 1 and self.l + self.m < self.k):
            raise ConfigError(
                f"DRIP needs l >= 1, m >= 1 and l + m < k; got k={self.k}, l={self.l}, m={self.m}"
            )
        if self.buffer_events < 1:
            raise ConfigError(f"buffer_events must be at least 1, got {self.buffer_events}")

    @property
    def neighbor_ttl_s(self) -> Seconds:
        return 2.5 * self.hello_s

    @property
    def broker_ttl_s(self) -> Seconds:
        """Three beacons missed, and a broker is forgotten."""
        return 3.25 * self.beacon_s

    @property
    def bridge_ttl_s(self) -> Seconds:
        return 2.5 * self.bridge_s

    @property
    def roster_ttl_s(self) -> Seconds:
        """News of a broker travels from contact to contact, hence the longer memory."""
        return 10.0 * self.gossip_s
