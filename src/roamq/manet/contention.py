"""A channel that is shared: transmissions take time, wait for a free medium, and collide at hidden terminals.

A simple stand-in for the paper's IEEE 802.11: a node listens before it sends and waits a random number of slots
after the medium was busy; a unicast reserves the medium around both ends (RTS and CTS), is acknowledged and
tried again; a broadcast has none of this, and a receiver that hears two senders at once hears neither. No
capture effect, no rate adaption.
"""

from collections import deque
from dataclasses import dataclass, field
from random import Random

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.manet.field import Field
from roamq.manet.messages import Message, NodeId, Packet
from roamq.manet.radio import LinkFailure, Receive, count_transmission
from roamq.sim.engine import Engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The numbers of the channel; the defaults are those of plain 802.11 at its basic rate."""

    bits_per_s: float = 2e6
    overhead_s: Seconds = 500e-6
    """Preamble, interframe spaces and, for a unicast, RTS, CTS and the acknowledgement."""
    slot_s: Seconds = 20e-6
    window_slots: int = 32
    attempts: int = 7
    loss: float = 0.0
    """The share of receptions lost to noise, on top of the collisions."""

    def __post_init__(self) -> None:
        if self.bits_per_s <= 0 or not 0 <= self.loss < 1:
            raise ConfigError(f"a channel needs bits_per_s > 0 and 0 <= loss < 1, got {self}")

    def airtime_s(self, message: Message) -> Seconds:
        return self.overhead_s + 8 * message.size_bytes / self.bits_per_s


@dataclass(slots=True, eq=False)
class Transmission:
    """One message on the air. `spoilt` are the receivers at which it collided."""

    sender: NodeId
    to: NodeId | None
    message: Message
    attempt: int
    ends_at: Seconds = 0.0
    receivers: dict[NodeId, Seconds] = field(default_factory=dict)
    spoilt: set[NodeId] = field(default_factory=set)


class ContendedRadio:
    """Each node sends one message at a time, in order."""

    def __init__(
        self,
        engine: Engine,
        field: Field,
        receive: Receive,
        link_failure: LinkFailure,
        channel: Channel,
        random: Random,
    ) -> None:
        self._engine = engine
        self._field = field
        self._receive = receive
        self._link_failure = link_failure
        self._channel = channel
        self._random = random
        nodes = len(field.positions)
        self._queues: list[deque[Transmission]] = [deque() for _ in range(nodes)]
        self._active = [False] * nodes
        self._busy_until = [0.0] * nodes
        self._sending_until = [0.0] * nodes
        self._hearing: list[Transmission | None] = [None] * nodes
        self.sent: dict[str, tuple[int, int]] = {}

    def broadcast(self, sender: NodeId, message: Message) -> None:
        self._enqueue(Transmission(sender, None, message, 1))

    def unicast(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        self._enqueue(Transmission(sender, to, packet, 1))

    def _enqueue(self, transmission: Transmission) -> None:
        sender = transmission.sender
        self._queues[sender].append(transmission)
        if not self._active[sender]:
            self._active[sender] = True
            self._engine.after(self._backoff(1), self._try_to_send, sender)

    def _try_to_send(self, sender: NodeId) -> None:
        now = self._engine.now
        to = self._queues[sender][0].to
        free_at = self._busy_until[sender]
        if to is not None and to in self._field.neighbors(sender):
            free_at = max(free_at, self._busy_until[to])  # a busy neighbor does not answer an RTS
        if free_at > now:
            self._engine.at(free_at + self._backoff(1), self._try_to_send, sender)
        else:
            self._start(self._queues[sender].popleft(), now)

    def _start(self, transmission: Transmission, now: Seconds) -> None:
        sender, to = transmission.sender, transmission.to
        transmission.receivers = self._field.neighbors(sender)
        answered = to is None or to in transmission.receivers
        airtime_s = self._channel.airtime_s(transmission.message) if answered else self._channel.overhead_s
        transmission.ends_at = ends_at = now + airtime_s
        count_transmission(self.sent, transmission.message)
        self._sending_until[sender] = self._busy_until[sender] = ends_at
        for receiver in transmission.receivers:
            self._reaches(receiver, transmission, now)
        if to is not None and answered:
            for silenced in self._field.neighbors(to):
                self._busy_until[silenced] = max(self._busy_until[silenced], ends_at)
        self._engine.at(ends_at, self._finish, transmission)

    def _reaches(self, receiver: NodeId, transmission: Transmission, now: Seconds) -> None:
        """Two transmissions that overlap at a receiver spoil each other there."""
        ends_at = transmission.ends_at
        other = self._hearing[receiver]
        if other is not None and other.ends_at > now:
            other.spoilt.add(receiver)
            transmission.spoilt.add(receiver)
        if self._sending_until[receiver] > now:
            transmission.spoilt.add(receiver)
        if other is None or other.ends_at < ends_at:
            self._hearing[receiver] = transmission
        self._busy_until[receiver] = max(self._busy_until[receiver], ends_at)

    def _finish(self, transmission: Transmission) -> None:
        sender, to = transmission.sender, transmission.to
        if to is None:
            for receiver, delay in transmission.receivers.items():
                if self._arrives(transmission, receiver):
                    self._engine.after(delay, self._receive, receiver, sender, transmission.message)
        elif to in transmission.receivers and self._arrives(transmission, to):
            self._engine.after(transmission.receivers[to], self._receive, to, sender, transmission.message)
        elif transmission.attempt < self._channel.attempts:
            again = Transmission(sender, to, transmission.message, transmission.attempt + 1)
            self._queues[sender].appendleft(again)
        else:
            assert isinstance(transmission.message, Packet)
            self._link_failure(sender, to, transmission.message)
        self._active[sender] = bool(self._queues[sender])
        if self._active[sender]:
            attempt = self._queues[sender][0].attempt
            self._engine.after(self._backoff(attempt), self._try_to_send, sender)

    def _arrives(self, transmission: Transmission, receiver: NodeId) -> bool:
        if receiver in transmission.spoilt:
            return False
        return self._channel.loss == 0.0 or self._random.random() >= self._channel.loss

    def _backoff(self, attempt: int) -> Seconds:
        """A random number of slots; the window doubles with every attempt."""
        return self._random.randrange(self._channel.window_slots << (attempt - 1)) * self._channel.slot_s
