"""The effects of inputs of the machine: bytes for clients, frames for neighbours, timers, questions, records."""

from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple

from roamq.core.events import BrokerId, ClientId
from roamq.core.ports import TimerKey
from roamq.core.records import Record
from roamq.net.clients.mqtt.session import ServerConnection

Claims = tuple[tuple[str, tuple[str, ...]], ...]
"""The values that a login states about a user beside the name: claim -> its values, sorted by claim."""


_kind_of: Final = itemgetter(0)
_NO_KINDS: Final = Counter[str]()
"""The count of kinds for outputs without records. Nobody adds to it."""


class UserIdentity(NamedTuple):
    """The identity of a client whose login says more than that its user name is right."""

    user: str
    claims: Claims = ()
    expires_at: float | None = None
    """The time at which the login ends; None if it does not end."""
    credential: str | None = None
    """The key or certificate that the login rests on; a reload may take it away."""


class Login(NamedTuple):
    """A client asks to be let in: the shell checks who it is and answers with the input `authenticated`."""

    connection: int
    username: str | None
    password: bytes | None
    client: ClientId
    listener: str
    peer: str = ""
    """The address and port that the connection comes from."""
    certified: str | None = None
    """The user whom the client's certificate names, if the listener asks for one; the shell adds it."""


class Outputs:
    """The effects of all inputs since the shell last took them. The shell lets them out when the inputs are safe."""

    def __init__(self) -> None:
        self.dirty: dict[int, ServerConnection] = {}
        """Connections that may have something to write."""
        self.closing: list[int] = []
        """Connections to close after the bytes that were written."""
        self.logins: list[Login] = []
        self.frames: dict[BrokerId, list[tuple[int, bytes]]] = {}
        """Neighbour -> numbered frames to send."""
        self.timers: dict[TimerKey, float | None] = {}
        """Key -> when the timer is due, or None to cancel it."""
        self.records: list[Record] = []
        self.acknowledged = 0
        """Messages that clients have acknowledged, at QoS 1 or 2."""
        self.notices: list[str] = []
        """Texts for the operators' log: about clients that were refused something that is not theirs, for example."""

    def kinds(self) -> Counter[str]:
        """Count the records by kind, so that a watcher that only counts need not look at each record."""
        return Counter(map(_kind_of, self.records)) if self.records else _NO_KINDS


@dataclass
class Staged:
    """Outputs that leave when the inputs that caused them are safe."""

    writes: list[tuple[int, bytes]] = field(default_factory=list)
    closing: list[int] = field(default_factory=list)
    links: Any = None
    admitted: list[int] = field(default_factory=list)
