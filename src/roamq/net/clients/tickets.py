"""Tickets: the proof that a client may show of its last connection."""

from typing import Final

from roamq.core.context import Epoch
from roamq.core.events import BrokerId, Seconds
from roamq.net.clients.mqtt.codec import Connect

TICKET_PROPERTY: Final = "roamq-ticket"
"""The user property of CONNECT and CONNACK with the epoch of a connection; an empty one in CONNECT asks for it."""
TICKET_CHARACTERS_MAX: Final = 32
AHEAD_S_MAX: Final = 86_400.0
"""Most seconds by which clocks of brokers differ: a ticket of a later time is no broker's."""


def shown_epoch(connect: Connect, now: Seconds) -> Epoch | None:
    """The epoch of the client's last connection, if the client shows the ticket that our CONNACK gave it.

    A client may show anything: text that no broker of the network can have said is no ticket.
    """
    shown = connect.properties.user_property(TICKET_PROPERTY)
    when, _, broker = (shown or "").partition("@")
    if not broker or len(when) > TICKET_CHARACTERS_MAX:
        return None
    try:
        connected_at = float(when)
    except ValueError:
        return None
    return Epoch(connected_at, BrokerId(broker)) if 0 <= connected_at <= now + AHEAD_S_MAX else None
