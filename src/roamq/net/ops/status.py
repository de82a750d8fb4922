"""Figures of one live broker, for observers outside of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from roamq.core.context import Mode
from roamq.core.events import BrokerId
from roamq.net.links.traffic import KindTraffic

if TYPE_CHECKING:
    from roamq.net.machine import Machine


class BrokerStatus(NamedTuple):
    """Figures of one live broker, for metrics, `$SYS` topics, operators and tests."""

    contexts: Mapping[Mode, int]
    """Mode -> number of contexts in this mode."""
    stored_events: int
    """Number of stored events; each counts once, however many clients wait for it."""
    stored_bytes: int
    retained_messages: int
    known_clients: int
    """Number of clients of whom the directory knows which broker serves them."""
    outbox_frames: Mapping[BrokerId, int]
    """Neighbour -> number of frames that it has not acknowledged."""
    outbox_bytes: Mapping[BrokerId, int]
    outbox_messages_bytes: Mapping[BrokerId, int]
    """Neighbour -> bytes of messages for it that it has not acknowledged, without events."""
    link_traffic: Mapping[str, KindTraffic]
    """Kind of traffic -> traffic put on links since the process began."""
    cut_offs: Mapping[BrokerId, int]
    """Neighbour -> how often this broker has cut it off."""
    cut_off: frozenset[BrokerId]
    """Neighbours that this broker has cut off now."""
    awaited: Mapping[BrokerId, int]
    """Broker -> number of sessions here for which that broker still has messages to send."""
    is_draining: bool

    @property
    def sessions(self) -> int:
        """Number of sessions that live here; copies that wait for a client do not count."""
        return self.contexts[Mode.ACTIVE] + self.contexts[Mode.SERVING]


def sessions_of(machine: "Machine") -> int:
    """Counts the sessions that live at a broker, without its other figures."""
    return sum(context.mode is not Mode.PASSIVE for context in machine.broker.contexts.values())


def status_of(machine: "Machine") -> BrokerStatus:
    """Returns the present figures of a broker."""
    contexts, outboxes = machine.broker.contexts, machine.outboxes
    modes = [context.mode for context in contexts.values()]
    return BrokerStatus(
        contexts={mode: modes.count(mode) for mode in Mode},
        stored_events=len(contexts.buffer),
        stored_bytes=contexts.buffer.bytes,
        retained_messages=len(machine.retained),
        known_clients=len(machine.directory),
        outbox_frames={peer: len(frames) for peer, frames in outboxes.frames.items()},
        outbox_bytes=dict(outboxes.bytes),
        outbox_messages_bytes={p: said.cost_bytes + said.kept_bytes for p, said in outboxes.said.items()},
        link_traffic=machine.host.traffic.by_kind(),
        cut_offs={peer: outboxes.cut_offs[peer] for peer in outboxes.frames},
        cut_off=frozenset(filter(outboxes.is_cut_off, outboxes.frames)),
        awaited=machine.broker.scheme.parts.awaited(),
        is_draining=machine.admission.draining,
    )
