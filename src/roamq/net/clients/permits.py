"""Permits to be here: clients whose login is no longer valid are sent away, and their sessions go on."""

from collections.abc import Collection
from typing import Final

from roamq.core.ports import TimerKey
from roamq.net.clients.connections import Connection, Connections
from roamq.net.clients.mqtt.codec import ReasonCode
from roamq.net.clients.sessions import Sessions
from roamq.net.host import LiveHost
from roamq.net.outputs import UserIdentity

LOGIN_TIMER: Final = "login"
"""The timer for the end of a token or certificate."""


class Permits:
    """Grants logins, ends them, and withdraws those that the rules no longer allow."""

    def __init__(self, host: LiveHost, connections: Connections, sessions: Sessions) -> None:
        self._host = host
        self._connections = connections
        self._sessions = sessions

    def grant(self, connection: Connection, user: str | None, told: UserIdentity | None) -> None:
        """Note a login that was right; `told` is the identity that a token or certificate gave."""
        connection.user = user
        if told is None:
            return
        connection.claims, connection.credential = told.claims, told.credential
        if told.expires_at is not None:
            connection.login_ends_at = told.expires_at
            self._host.set_timer(_key(connection), max(0.0, told.expires_at - self._host.time))

    def forget(self, connection: Connection) -> None:
        """Cancel the timer of a connection that is closed."""
        if connection.login_ends_at is not None:
            self._host.cancel_timer(_key(connection))

    def end_login(self, number: int) -> None:
        """End a connection whose token or certificate has expired. Section 3.14.2.1: 0xA0."""
        connection = self._connections.by_number.get(number)
        if connection is not None and connection.login_ends_at is not None:
            reason = ReasonCode.MAXIMUM_CONNECT_TIME
            self._sessions.end_connection(connection, reason, "the token or certificate has expired")

    def withdraw(
        self, gone: Collection[str], closed_to_anonymous: Collection[str], withdrawn: Collection[str]
    ) -> None:
        """Cut users who are no more or must log in again, anonymous clients of listeners that do not take them any
        more, and clients whose credential is no longer valid (`UserIdentity.credential`)."""
        for connection in self._connections:
            is_in = connection.client is not None or connection.waits_as is not None
            is_gone = (
                connection.listener in closed_to_anonymous
                if connection.user is None
                else connection.user in gone
            )
            if is_in and (is_gone or connection.credential in withdrawn):
                why = "this user may not be here any more"
                self._sessions.end_connection(connection, ReasonCode.NOT_AUTHORIZED, why)


def _key(connection: Connection) -> TimerKey:
    return (LOGIN_TIMER, str(connection.number))
