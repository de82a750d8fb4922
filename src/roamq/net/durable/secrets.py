"""Removes passwords and tokens from CONNECT packets before the journal gets them, also from unreadable ones."""

from typing import Final

from roamq.net.clients.mqtt.session import ConnectionPhase, ServerConnection
from roamq.net.clients.tokens import without_token
from roamq.net.durable.inputs import InputKind, JournalEntry

NO_CONNECT: Final = b"\x00\x00"
"""Bytes that close a connection, as a CONNECT does that cannot be read."""


def without_password(mqtt: ServerConnection | None, data: bytes, end: int) -> bytes:
    """Returns what the journal gets of a CONNECT that ends at `end`. An unreadable CONNECT closes its connection.
    Nobody knows where its password is, so the journal gets other bytes that close the connection too."""
    connect = getattr(mqtt, "connect", None)
    if mqtt is None or connect is None:
        is_closed = mqtt is None or mqtt.phase is ConnectionPhase.CLOSED
        return NO_CONNECT if is_closed else data
    if connect.properties.authentication_data is not None and mqtt.phase is ConnectionPhase.CLOSED:
        return NO_CONNECT  # an unknown authentication method: its data may be a password
    size = len(connect.password or b"")
    told = data[: end - size] + bytes(size) + data[end:]
    name = (connect.user_name or "").encode()
    if without_token(connect.user_name) == connect.user_name:
        return told
    # Some clients put their token into the place of the user name, which stands before the password.
    at = end - size - (2 if connect.password is not None else 0)
    return told[: at - len(name)] + b"-" * len(name) + told[at:]


def leave_out_second_connect(pending: list[JournalEntry], number: int, mqtt: ServerConnection | None) -> None:
    """Leaves the journal only the beginning of a second CONNECT, or AUTH, which closed the client's connection
    unread."""
    unread = None if mqtt is None else mqtt.unread_connect
    if unread is None or not pending:
        return
    kind, now, sender, data = pending[-1]
    if kind == InputKind.RECEIVED and sender == number:
        begins_here = unread <= len(data)
        kept = data[: len(data) - min(unread, len(data))] + (b"\x10\x00" if begins_here else b"\x00")
        pending[-1] = (kind, now, sender, kept)
