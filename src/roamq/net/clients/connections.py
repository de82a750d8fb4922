"""The connections of a live broker: by number, by client, and who waits for a session."""

from collections.abc import Iterator
from typing import Final

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, ClientId
from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.outputs import Claims

CONNECTION_BYTES: Final = 2500
"""What a connection costs of the memory beside its session; `bounds.connections_max` bounds their number."""
_NO_EPOCH: Final = Epoch(0.0, BrokerId(""))
"""Of a connection whose client has not come in."""


class Connection:
    """A connection, and what the machine knows about it beyond the protocol."""

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
        """What the login says of the user beside the name."""
        self.credential: str | None = None
        """What the login rests on, if a reload may take it away."""
        self.login_ends_at: float | None = None
        """When the client must log in again."""
        self.entered_at = 0.0
        """When the client was found to be allowed in."""
        self.previous: BrokerId | None = None
        """Where the client was before, until its first message here has gone out."""
        self.epoch = _NO_EPOCH
        """Which of the client's connections in the whole network this is."""
        self.is_blocked = False
        """Whether the client does not read as fast as the broker writes."""
        self.burst_at = 0.0
        """Of the input that `burst_bytes` is about."""
        self.burst_bytes = 0
        """What that input has sent."""
        self.rests = False
        """Whether the client has had its share, and the rest follows."""
        self.delivers_early = False
        """Whether the client gets new events while older ones are on their way."""

    @property
    def is_open(self) -> bool:
        return self.mqtt.phase is ConnectionPhase.OPEN


class Connections:
    """All connections of a broker. A client has one: the one it was let in on, or waits on."""

    def __init__(self) -> None:
        self.by_number: dict[int, Connection] = {}
        """To look at, like the next; the methods below change them."""
        self.by_client: dict[ClientId, Connection] = {}
        self._waiting: dict[ClientId, Connection | None] = {}

    def __iter__(self) -> Iterator[Connection]:
        """All of them; they may come and go meanwhile."""
        return iter(list(self.by_number.values()))

    def add(self, connection: Connection) -> None:
        self.by_number[connection.number] = connection

    def remove(self, connection: Connection) -> None:
        """The socket is gone."""
        self.by_number.pop(connection.number, None)

    # --- clients ------------------------------------------------------------------------------------------

    def belongs_to(self, connection: Connection, client: ClientId) -> bool:
        """Is this the client's connection?"""
        return self.by_client.get(client) is connection

    def assign(self, client: ClientId, connection: Connection) -> None:
        """The client has come on this connection."""
        self.by_client[client] = connection

    def release(self, client: ClientId) -> Connection | None:
        """The client has no connection any more; gives the one it had."""
        connection = self.by_client.pop(client, None)
        if connection is not None:
            connection.client = None
        return connection

    # --- sessions on their way ----------------------------------------------------------------------------

    def wait(self, client: ClientId, connection: Connection | None) -> None:
        """The client's session is on its way here; the client waits on `connection`, or is not here (None)."""
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
        """The wait is over; gives the connection on which the client waited, if it is still there."""
        connection = self._waiting.pop(client, None)
        if connection is not None:
            connection.waits_as = None
        return connection

    def give_up_wait(self, connection: Connection) -> ClientId | None:
        """The connection is gone before its client was let in; gives that client, whose session is still awaited."""
        client = connection.waits_as
        if client is None or self._waiting.get(client) is not connection:
            return None
        connection.waits_as = None
        self._waiting[client] = None
        if self.by_client.get(client) is connection:
            del self.by_client[client]
        return client
