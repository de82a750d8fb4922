"""Consumers that acknowledge: a broker sends a client the next message when an earlier one was acknowledged.

`last_hop.in_flight` bounds the messages on their way to a client. An acknowledgement travels back over the last hop. If
messages wait for the client, the acknowledgement is an input of its own at the broker: it takes the broker the time of
the deliveries that it lets out. With `last_hop.redelivers = false` a broker keeps nothing of what it has sent: messages
on their way to a client are lost when the client vanishes.
"""

from itertools import islice
from typing import TYPE_CHECKING

from roamq.core.context import Mode
from roamq.core.events import ClientId, EventId

if TYPE_CHECKING:
    from roamq.sim.network import SimHost

ACKNOWLEDGEMENT = "ack"
"""The kind under which inputs and processing times of acknowledgements are counted."""


def acknowledge(host: "SimHost", client: ClientId, connection: int, event_id: EventId) -> None:
    """An acknowledgement has come back to the broker, which ignores it if the connection is gone."""
    if not _is_connected(host, client, connection):
        return
    context = host.broker.contexts.get(client)
    if context is not None and len(context.stored) > context.in_flight:
        host.enqueue(ACKNOWLEDGEMENT, 0, _take, host, client, connection, event_id)
    else:
        host.broker.on_acknowledge(client, event_id)


def _take(host: "SimHost", client: ClientId, connection: int, event_id: EventId) -> None:
    if _is_connected(host, client, connection):
        host.broker.on_acknowledge(client, event_id)


def _is_connected(host: "SimHost", client: ClientId, connection: int) -> bool:
    return host.alive and client in host.clients and host.connections[client] == connection


def count_as_consumed(host: "SimHost", client: ClientId) -> None:
    """Counts the messages on their way to a client that is gone as consumed, unless the broker sends them again."""
    if host.network.last_hop.redelivers:
        return
    context = host.broker.contexts.get(client)
    if context is None or context.mode is not Mode.SERVING:
        return
    context.window = 0  # nothing more is sent to a client that is gone
    for event_id in [held.event.id for held in islice(context.stored, context.in_flight)]:
        host.broker.on_acknowledge(client, event_id)
