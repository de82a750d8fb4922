"""What a connection tells the machine: the meaning of what the client said, in the order it was said.

PUBLISH, SUBSCRIBE and UNSUBSCRIBE that passed the checks are handed on as the packets themselves: the hot
path makes no second object. The machine answers them with `published`, `examine` and `subscribed`, and
`unsubscribe`; the others with the method that their docstring names.
"""

import msgspec

from roamq.core.events import ClientId, EventId
from roamq.net.clients.mqtt.codec import Connect, Publish, ReasonCode, Subscribe, Unsubscribe


class ConnectRequested(msgspec.Struct, frozen=True, gc=False):
    """The client wants in: the machine finds out who it is, finds its session, and calls `accept` or `refuse`."""

    connect: Connect
    client_id: ClientId
    """The client's own id, or the one it was given."""


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """The client has these events, in this order; their packet ids are free again.

    A failure counts as an acknowledgement too ([MQTT-4.4.0-2]). What a client acknowledges in one read is one input if
    nothing else that it says comes between: the next events follow together.
    """

    event_ids: list[EventId]


class Closed(msgspec.Struct, frozen=True):
    """The connection is over, as seen from the protocol; `state` runs its will and expiry from now on."""

    reason: ReasonCode
    detail: str
    by_client: bool
    """The client said goodbye; otherwise it vanished or we closed."""


ClientInput = Publish | ConnectRequested | Subscribe | Unsubscribe | Acknowledged | Closed
