"""What a connection tells the shell: the meaning of what the client said, in the order it was said.

PUBLISH, SUBSCRIBE and UNSUBSCRIBE that passed the checks are handed on as the packets themselves: the hot
path makes no second object. The shell answers them with `published`, `examine` and `subscribed`, and
`unsubscribe`; the others with the method that their docstring names.
"""

import msgspec

from roamq.core.events import ClientId, EventId
from roamq.net.mqtt.codec import Connect, Publish, ReasonCode, Subscribe, Unsubscribe


class ConnectRequested(msgspec.Struct, frozen=True):
    """The client wants in: check who it is, find its session, then `accept`, `refuse` or `challenge`."""

    connect: Connect
    client_id: ClientId
    """The client's own id, or the one it was given."""

    @property
    def previous_broker(self) -> str | None:
        """Where the client says it was served before."""
        return self.connect.properties.user_property("roamq-previous")


class AuthenticationStep(msgspec.Struct, frozen=True):
    """A step of enhanced authentication: answer with `challenge`, `accept`, `reauthenticated`, `refuse` or
    `close`."""

    method: str
    data: bytes
    again: bool
    """The client is connected already and re-authenticates."""


class Acknowledged(msgspec.Struct, frozen=True):
    """The client has the event; its packet id is free again."""

    event_id: EventId
    reason: ReasonCode = ReasonCode.SUCCESS
    """A failure counts as an acknowledgement too ([MQTT-4.4.0-2])."""


class SessionChanged(msgspec.Struct, frozen=True):
    """QoS 2 moved on without an event: what is durable of the session is to be stored before the answer
    leaves."""


class Closed(msgspec.Struct, frozen=True):
    """The connection is over, as seen from the protocol; `state` runs its will and expiry from now on."""

    reason: ReasonCode
    detail: str
    by_client: bool
    """The client said goodbye; otherwise it vanished or we closed."""


Input = (
    Publish
    | ConnectRequested
    | AuthenticationStep
    | Subscribe
    | Unsubscribe
    | Acknowledged
    | SessionChanged
    | Closed
)
