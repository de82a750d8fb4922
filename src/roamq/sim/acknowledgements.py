"""Consumers that acknowledge: a broker sends a client the next message when an earlier one was acknowledged.

`last_hop.in_flight` bounds what is on its way to a client. An acknowledgement travels back over the last hop. If
messages wait for the client, the acknowledgement is an input of its own at the broker: it takes the broker the time of
the deliveries that it lets out. `last_hop.redelivers = false` is a broker that keeps nothing of what it has sent: what
was on its way when the client vanished is lost.
"""

from itertools import islice
from typing import TYPE_CHECKING

from roamq.core.context import Mode
from roamq.core.events import ClientId, EventId

if TYPE_CHECKING:
    from roamq.sim.network import SimHost

ACKNOWLEDGEMENT = "ack"
"""The kind of input, and of processing, that an acknowledgement is."""


def acknowledge(host: "SimHost", client: ClientId, connection: int, event_id: EventId) -> None:
    """An acknowledgement has come back to the broker; on a connection that is gone, it says nothing any more."""
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
    """The broker finds its client gone: where it does not send again, what was on its way counts as consumed."""
    if host.network.last_hop.redelivers:
        return
    context = host.broker.contexts.get(client)
    if context is None or context.mode is not Mode.SERVING:
        return
    context.window = 0  # nothing more is sent to a client that is gone
    for event_id in [held.event.id for held in islice(context.stored, context.in_flight)]:
        host.broker.on_acknowledge(client, event_id)
