"""The connections of a live broker: by number, by client, and by the session that a client waits for."""

from collections.abc import Iterator
from typing import Final

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.outputs import Claims

CONNECTION_BYTES: Final = 2500
"""Bytes of memory that a connection takes beside its session; `bounds.connections_max` bounds the connections."""
_NO_EPOCH: Final = Epoch(0.0, BrokerId(""))
"""The epoch of a connection whose client has not been let in."""


class Connection:
    """A connection, and the machine's knowledge of it beyond the protocol."""

    __slots__ = (
        "burst_at",
        "burst_bytes",
        "claims",
        "client",
        "credential",
        "delivers_early",
        "entered_at",
        "epoch",
        "is_blocked",
        "listener",
        "login_ends_at",
        "mqtt",
        "number",
        "peer",
        "previous",
        "rests",
        "user",
        "waits_as",
    )

    def __init__(self, number: int, mqtt: ServerConnection, listener: str, peer: str) -> None:
        self.number = number
        self.mqtt = mqtt
        self.listener = listener
        self.peer = peer
        self.client: ClientId | None = None
        """The client, from the moment it is let in."""
        self.waits_as: ClientId | None = None
        """The client, while its session is on its way and CONNACK waits."""
        self.user: str | None = None
        self.claims: Claims = ()
        """The values that the login states about the user beside the name."""
        self.credential: str | None = None
        """The key or certificate that the login rests on, if a reload may take it away."""
        self.login_ends_at: float | None = None
        """The time at which the login ends; None if it does not end."""
        self.entered_at = 0.0
        """The time at which the broker decided to let the client in; 0 before."""
        self.previous: BrokerId | None = None
        """The broker where the client was before, until the client's first message here has gone out."""
        self.epoch = _NO_EPOCH
        """The epoch of this connection among the client's connections in the whole network."""
        self.is_blocked = False
        """Whether the client does not read as fast as the broker writes."""
        self.burst_at = 0.0
        """The time of the input that `burst_bytes` counts."""
        self.burst_bytes = 0
        """Bytes that this input has sent to the client."""
        self.rests = False
        """Whether the client has had its share of an input, and the rest follows in later ones."""
        self.delivers_early = False
        """Whether the client gets new events while older ones are on their way."""

    @property
    def is_open(self) -> bool:
        return self.mqtt.phase is ConnectionPhase.OPEN


class Connections:
    """All connections of a broker. A client has one at most: the one on which it was let in, or waits."""

    def __init__(self) -> None:
        self.by_number: dict[int, Connection] = {}
        """Number -> connection. Others may only look at this table and the next; the methods below change them."""
        self.by_client: dict[ClientId, Connection] = {}
        self._waiting: dict[ClientId, Connection | None] = {}

    def __iter__(self) -> Iterator[Connection]:
        """Iterate over all connections; they may come and go meanwhile."""
        return iter(list(self.by_number.values()))

    def add(self, connection: Connection) -> None:
        self.by_number[connection.number] = connection

    def remove(self, connection: Connection) -> None:
        """Remove a connection whose socket is closed."""
        self.by_number.pop(connection.number, None)

    # --- clients ------------------------------------------------------------------------------------------

    def belongs_to(self, connection: Connection, client: ClientId) -> bool:
        """Is this the client's connection?"""
        return self.by_client.get(client) is connection

    def assign(self, client: ClientId, connection: Connection) -> None:
        """Note that the client has come on this connection."""
        self.by_client[client] = connection

    def release(self, client: ClientId) -> Connection | None:
        """Take the connection from the client. Return the connection, if there was one."""
        connection = self.by_client.pop(client, None)
        if connection is not None:
            connection.client = None
        return connection

    # --- sessions on their way ----------------------------------------------------------------------------

    def wait(self, client: ClientId, connection: Connection | None) -> None:
        """Note that the client's session is on its way here; the client waits on `connection`, or is not here
        (None)."""
        self._waiting[client] = connection
        if connection is not None:
            connection.waits_as = client

    def is_awaited(self, client: ClientId) -> bool:
        """Is the client's session on its way here?"""
        return client in self._waiting

    def waiting(self, client: ClientId) -> Connection | None:
        """The connection on which the client waits for its session."""
        return self._waiting.get(client)

    def end_wait(self, client: ClientId) -> Connection | None:
        """End the wait for the client's session. Return the connection on which the client waits, if there is one."""
        connection = self._waiting.pop(client, None)
        if connection is not None:
            connection.waits_as = None
        return connection

    def give_up_wait(self, connection: Connection) -> ClientId | None:
        """Take out a connection that is lost before its client was let in. Return that client, whose session is still
        awaited."""
        client = connection.waits_as
        if client is None or self._waiting.get(client) is not connection:
            return None
        connection.waits_as = None
        self._waiting[client] = None
        if self.by_client.get(client) is connection:
            del self.by_client[client]
        return client
