"""Inputs of the machine from a connection: the meaning of the client's packets, in the order in which they came.

PUBLISH, SUBSCRIBE and UNSUBSCRIBE that passed the checks are handed on as the packets themselves: the hot path makes no
second object. The machine answers PUBLISH with `published`, SUBSCRIBE with `examine` and `subscribed`, UNSUBSCRIBE with
`unsubscribe`, and the other inputs with the method that their docstring names.
"""

import msgspec

from roamq.core.events import ClientId, EventId
from roamq.net.clients.mqtt.codec import Connect, Publish, ReasonCode, Subscribe, Unsubscribe


class ConnectRequested(msgspec.Struct, frozen=True, gc=False):
    """The client asks to be let in: the machine checks the login, finds the session, and calls `accept` or `refuse`."""

    connect: Connect
    client_id: ClientId
    """The client's own id, or the id that the broker gave it."""


class Acknowledged(msgspec.Struct, frozen=True, gc=False):
    """The client has received these events, in this order; their packet ids are free again.

    A failure counts as an acknowledgement too ([MQTT-4.4.0-2]). The acknowledgements of one read are one input if no
    other input comes between them: the next events then follow together.
    """

    event_ids: list[EventId]


class Closed(msgspec.Struct, frozen=True):
    """The connection is over for the protocol; the session's will and expiry run from now on."""

    reason: ReasonCode
    detail: str
    by_client: bool
    """Whether the client said goodbye; otherwise it vanished or the broker closed the connection."""


ClientInput = Publish | ConnectRequested | Subscribe | Unsubscribe | Acknowledged | Closed
