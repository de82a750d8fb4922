"""The host of a node, which is all that a node may ask of the world, and the constants of the protocol."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.core.records import Record
from roamq.manet.protocol.messages import Message, NodeId, Packet


class NodeHost(Protocol):
    """All that a node may ask of the world. Each call returns at once.

    The host gives every message that arrives to `MobileNode.receive`, calls `MobileNode.on_timer` when a timer
    fires, and `MobileNode.on_link_failure` when it could not deliver a unicast.
    """

    def now(self) -> Seconds: ...
    def broadcast(self, message: Message) -> None: ...
    def unicast(self, to: NodeId, packet: Packet) -> None: ...
    def set_timer(self, key: Hashable, after: Seconds) -> None: ...
    def record(self, record: Record) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The numbers that all nodes of a network share: the paper's k, l and m, and those of docs/drip.md, choice 0090."""

    k: int = 20
    """How many nodes are brokers."""
    l: int = 5  # noqa: E741 - the paper's name
    """How many nearest brokers a node keeps; they are the destinations of the events that it subscribed to."""
    m: int = 3
    """To how many carriers the source of an event gives a copy."""
    hello_s: Seconds = 1.0
    beacon_s: Seconds = 4.0
    bootstrap_s: Seconds = 12.0
    register_s: Seconds = 10.0
    """How often a subscriber submits its subscriptions again, with the ids of its nearest brokers at that time."""
    interest_ttl_s: Seconds = 120.0
    """How long a subscription holds if it is not submitted again. Brokers tell each other news of it at contacts."""
    bridge_s: Seconds = 2.0
    gossip_s: Seconds = 4.0
    """A broker tells a peer about changed subscriptions at most this often."""
    contact_timeout_s: Seconds = 1.0
    patience_s: Seconds = 10.0
    """How long a node keeps a packet for which it knows no next hop."""
    orphan_s: Seconds = 20.0
    """Nodes that have heard no broker for this long elect one among themselves."""
    buffer_events: int = 500

    def __post_init__(self) -> None:
        if not (self.l >= 1 and self.m >= 1 and self.l + self.m < self.k):
            raise ConfigError(
                f"DRIP needs l >= 1, m >= 1 and l + m < k; got k={self.k}, l={self.l}, m={self.m}"
            )
        if self.interest_ttl_s <= self.register_s:
            raise ConfigError(
                f"interest_ttl_s must be above register_s, {self.register_s}, or subscriptions end in between; "
                f"got {self.interest_ttl_s}"
            )
        if self.buffer_events < 1:
            raise ConfigError(f"buffer_events must be at least 1, got {self.buffer_events}")

    @property
    def neighbor_ttl_s(self) -> Seconds:
        return 2.5 * self.hello_s

    @property
    def broker_ttl_s(self) -> Seconds:
        """A node forgets a broker after three missed beacons."""
        return 3.25 * self.beacon_s

    @property
    def bridge_ttl_s(self) -> Seconds:
        return 2.5 * self.bridge_s

    @property
    def roster_ttl_s(self) -> Seconds:
        """A broker forgets another broker of which it has had no news for this long; news travels by contacts."""
        return 10.0 * self.gossip_s
