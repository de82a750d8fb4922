"""The news that the core has told the host during an input: each piece goes to the part whose job it is."""

from roamq.net.clients.admission import Admission, Admitted
from roamq.net.clients.connections import Connections
from roamq.net.clients.sessions import Sessions
from roamq.net.host import (
    Detached,
    Foreign,
    HostNews,
    Joined,
    Kept,
    Over,
    PlacesEnded,
    Ready,
    SharesDue,
    Unwanted,
)
from roamq.net.topics.memberships import Memberships


class NewsDesk:
    """Hands news to the parts of one broker."""

    def __init__(
        self, connections: Connections, admission: Admission, sessions: Sessions, memberships: Memberships
    ) -> None:
        self._connections = connections
        self._admission = admission
        self._sessions = sessions
        self._memberships = memberships

    def heed(self, told: HostNews) -> Admitted | None:
        """Hand one piece of news to its part. Return the client that may come in now, and what it has sent meanwhile,
        if there is one."""
        if isinstance(told, Ready):
            return self._admission.answer(told.client)
        if isinstance(told, Foreign):
            self._admission.on_foreign(told.client, is_taken=told.is_taken)
        elif isinstance(told, Detached):
            self._sessions.on_detached(told.client, told.session, told.will)
        elif isinstance(told, Kept):
            self._sessions.on_kept(told.context)
        elif isinstance(told, Unwanted | SharesDue | PlacesEnded):
            self._memberships.heed(told)
        elif isinstance(told, Over):
            self._sessions.on_over(told)
        else:
            assert isinstance(told, Joined)
            connection = self._connections.by_client.get(told.client)
            if connection is not None and connection.is_open:
                self._memberships.set_all(told.client, connection.mqtt.state, connection.epoch, True)
        return None
