"""A radio whose nodes share a channel: IEEE 802.11 with DSSS and the distributed coordination function (DCF).

A node that has something to send waits until the channel has been free for a DIFS, then counts a random number of slots
down; while it senses a carrier, the count stands still. A unicast begins with RTS and CTS and is acknowledged; without
an answer the sender tries again with a window twice as large. A broadcast is sent once. A carrier is sensed farther
than a frame is understood. Frames that overlap at a receiver are lost there. Long messages are sent in several frames,
and a node whose queue is full sends no more. `models/saturation.py` has the textbook's answer for stations that always
send; a test compares the two. There is no capture effect and no rate adaption.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from roamq.core.errors import ConfigError
from roamq.core.events import Seconds
from roamq.manet.protocol.codec import size_of
from roamq.manet.protocol.messages import Message, NodeId, Packet
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.radio import LinkFailure, Receive, count_transmission
from roamq.sim.engine import Engine

SAME_TIME_S = 1e-9
"""Nodes whose counts end within this time begin together: none of them has sensed the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """The channel's speed and timing; the defaults are those of 802.11 DSSS at 2 Mbit/s with long preambles."""

    bits_per_s: float = 2e6
    basic_bits_per_s: float = 1e6
    """Bits per second of RTS, CTS and acknowledgements."""
    preamble_s: Seconds = 192e-6
    """Preamble and header of the physical layer, before every frame."""
    header_bytes: int = 28
    """Header and checksum of a data frame."""
    sifs_s: Seconds = 10e-6
    difs_s: Seconds = 50e-6
    slot_s: Seconds = 20e-6
    window_slots: int = 32
    window_slots_max: int = 1024
    attempts: int = 7
    frame_bytes_max: int = 1500
    queue_max: int = 50
    """Messages that a node keeps while it waits for the channel."""
    sense: float = 2.2
    """How much farther a carrier is sensed than a frame is understood, as a factor."""
    loss: float = 0.0
    """The share of messages that noise destroys at a receiver, besides those that collide."""

    def __post_init__(self) -> None:
        if self.bits_per_s <= 0 or self.basic_bits_per_s <= 0 or not 0 <= self.loss < 1:
            raise ConfigError(f"a channel needs bits per second above 0 and 0 <= loss < 1, got {self}")
        if self.frame_bytes_max < 1 or self.queue_max < 1 or self.sense < 1:
            raise ConfigError(
                f"a channel needs frame_bytes_max, queue_max and sense of 1 or more, got {self}"
            )

    def _control_s(self, size_bytes: int) -> Seconds:
        return self.preamble_s + 8 * size_bytes / self.basic_bits_per_s

    @property
    def rts_s(self) -> Seconds:
        return self._control_s(20)

    @property
    def cts_s(self) -> Seconds:
        return self._control_s(14)

    @property
    def ack_s(self) -> Seconds:
        return self._control_s(14)

    def frames(self, size_bytes: int) -> int:
        return max(1, math.ceil(size_bytes / self.frame_bytes_max))

    def _data_s(self, size_bytes: int) -> Seconds:
        frames = self.frames(size_bytes)
        return frames * self.preamble_s + 8 * (size_bytes + frames * self.header_bytes) / self.bits_per_s

    def broadcast_s(self, size_bytes: int) -> Seconds:
        """How long a broadcast of this size occupies the channel."""
        return self._data_s(size_bytes) + (self.frames(size_bytes) - 1) * self.sifs_s

    def exchange_s(self, size_bytes: int) -> Seconds:
        """Returns the seconds after the end of RTS: CTS, the data, and an acknowledgement of each frame."""
        frames = self.frames(size_bytes)
        return self.sifs_s + self.cts_s + self._data_s(size_bytes) + frames * (2 * self.sifs_s + self.ack_s)


@dataclass(slots=True, eq=False)
class Transmission:
    """A message that waits or is sent. `spoilt` are the receivers at which it overlaps with another message."""

    sender: NodeId
    to: NodeId | None
    message: Message
    size_bytes: int
    attempt: int = 1
    ends_at: Seconds = 0.0
    receivers: dict[NodeId, Seconds] = field(default_factory=dict)
    spoilt: set[NodeId] = field(default_factory=set)


@dataclass(slots=True)
class Sender:
    """One node's side of the channel."""

    node: NodeId
    queue: deque[Transmission] = field(default_factory=deque)
    slots: int = 0
    """Slots left to count down before the next attempt."""
    counts_from: Seconds | None = None
    fires_at: Seconds = 0.0
    ticket: int = 0
    """Grows when a planned step is void."""
    busy_until: Seconds = 0.0
    """Until then this node senses a carrier, or the channel is reserved."""
    reserved_until: Seconds = 0.0
    """Until then this node answers no RTS, because it has heard of another exchange."""
    sends_until: Seconds = 0.0
    hears: Transmission | None = None


class ContendedRadio:
    """A radio with one channel for all nodes."""

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
        self._rts_s = channel.rts_s
        self._unanswered_s = channel.sifs_s + channel.cts_s
        """Seconds that a sender waits for a CTS."""
        self._random = random
        self._stations = [Sender(node) for node in range(len(field.positions))]
        self.sent: dict[str, tuple[int, int]] = {}
        self.dropped = 0
        """Messages that found a full queue."""

    def broadcast(self, sender: NodeId, message: Message) -> None:
        self._enqueue(Transmission(sender, None, message, size_of(message)))

    def unicast(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        self._enqueue(Transmission(sender, to, packet, size_of(packet)))

    def _enqueue(self, transmission: Transmission) -> None:
        station = self._stations[transmission.sender]
        if len(station.queue) >= self._channel.queue_max:
            self.dropped += 1
            if transmission.to is not None:
                assert isinstance(transmission.message, Packet)
                self._engine.after(
                    0.0, self._link_failure, transmission.sender, transmission.to, transmission.message
                )
            return
        station.queue.append(transmission)
        if len(station.queue) == 1:
            self._contend(transmission.sender)

    # --- waiting for the channel ----------------------------------------------------------------------------

    def _contend(self, node: NodeId) -> None:
        """Draws a number of slots for the first message of the queue, and counts them down."""
        station = self._stations[node]
        window = min(
            self._channel.window_slots << (station.queue[0].attempt - 1), self._channel.window_slots_max
        )
        station.slots = self._random.randrange(window)
        station.ticket += 1
        self._count(station)

    def _count(self, station: Sender) -> None:
        """Counts down from now on, or looks again when the channel is free."""
        now = self._engine.now
        if station.busy_until > now:
            self._engine.at(station.busy_until, self._count_on, [(station, station.ticket)])
            return
        station.counts_from = now + self._channel.difs_s
        station.fires_at = station.counts_from + station.slots * self._channel.slot_s
        self._engine.at(station.fires_at, self._fire, station, station.ticket)

    def _count_on(self, waiting: list[tuple[Sender, int]]) -> None:
        """Goes on counting: the carrier that these stations sensed has ended; each has the ticket that it had then."""
        for station, ticket in waiting:
            if ticket == station.ticket:
                self._count(station)

    def _sense(self, nodes: Iterable[NodeId], until: Seconds) -> None:
        """Marks the channel as busy at these nodes: their counts stand still, unless they end at this very time.

        A run spends more time here than anywhere else, so one loop serves all nodes, and those that wait go on in one
        step of the engine.
        """
        stations, ending = self._stations, self._engine.now + SAME_TIME_S
        waiting = []
        for node in nodes:
            station = stations[node]
            if station.busy_until < until:
                station.busy_until = until
                if station.counts_from is not None and station.fires_at > ending:
                    self._stand_still(station)
                    waiting.append((station, station.ticket))
        if waiting:
            self._engine.at(until, self._count_on, waiting)

    def _stand_still(self, station: Sender) -> None:
        assert station.counts_from is not None
        counted = int((self._engine.now - station.counts_from) / self._channel.slot_s + SAME_TIME_S)
        station.slots -= max(0, min(counted, station.slots))
        station.counts_from = None
        station.ticket += 1

    def _fire(self, station: Sender, ticket: int) -> None:
        if ticket != station.ticket:
            return
        station.counts_from = None
        transmission = station.queue[0]
        count_transmission(self.sent, transmission.message.kind, transmission.size_bytes)
        if transmission.to is None:
            self._occupy(transmission, self._channel.broadcast_s(transmission.size_bytes))
            self._engine.at(transmission.ends_at, self._end_broadcast, transmission)
        else:
            self._occupy(transmission, self._rts_s)
            self._engine.at(transmission.ends_at, self._after_rts, transmission)

    # --- on the air -----------------------------------------------------------------------------------------

    def _occupy(self, transmission: Transmission, airtime_s: Seconds) -> None:
        now, sender = self._engine.now, transmission.sender
        station = self._stations[sender]
        transmission.ends_at = ends_at = now + airtime_s
        transmission.receivers = self._field.neighbors(sender)
        transmission.spoilt = set()
        if station.hears is not None and station.hears.ends_at > now:
            station.hears.spoilt.add(sender)  # a node that sends hears nothing
        station.sends_until = ends_at
        station.busy_until = max(station.busy_until, ends_at)
        self._sense(self._field.audible(sender, self._channel.sense), ends_at)
        self._reach(transmission, now)

    def _reach(self, transmission: Transmission, now: Seconds) -> None:
        """Begins the transmission at its receivers. If a receiver hears another one, both are spoilt there."""
        stations, spoilt, ends_at = self._stations, transmission.spoilt, transmission.ends_at
        for receiver in transmission.receivers:
            station = stations[receiver]
            other = station.hears
            if other is None:
                station.hears = transmission
            else:
                if other is not transmission and other.ends_at > now:
                    other.spoilt.add(receiver)
                    spoilt.add(receiver)
                if other.ends_at < ends_at:
                    station.hears = transmission
            if station.sends_until > now:
                spoilt.add(receiver)

    def _after_rts(self, transmission: Transmission) -> None:
        sender, to, now = transmission.sender, transmission.to, self._engine.now
        assert to is not None
        is_answered = (
            to in transmission.receivers
            and to not in transmission.spoilt
            and self._stations[to].reserved_until <= now
        )
        if not is_answered:
            self._engine.after(self._unanswered_s, self._try_again, transmission)
            return
        self._occupy(transmission, self._channel.exchange_s(transmission.size_bytes))
        around, ends_at = self._field.neighbors(sender), transmission.ends_at
        self._sense(self._field.audible(to, self._channel.sense), ends_at)
        self._sense([node for node in around if node != to], ends_at)
        for node in (*self._field.neighbors(to), *around):
            station = self._stations[node]
            if station.reserved_until < ends_at:
                station.reserved_until = ends_at
        self._engine.at(transmission.ends_at, self._after_data, transmission)

    def _after_data(self, transmission: Transmission) -> None:
        sender, to = transmission.sender, transmission.to
        assert to is not None
        if self._arrives(transmission, to):
            self._next(sender)
            self._receive(to, sender, transmission.message)
        else:
            self._try_again(transmission)

    def _try_again(self, transmission: Transmission) -> None:
        sender, to = transmission.sender, transmission.to
        if transmission.attempt < self._channel.attempts:
            transmission.attempt += 1
            self._contend(sender)
            return
        assert to is not None and isinstance(transmission.message, Packet)
        self._next(sender)
        self._link_failure(sender, to, transmission.message)

    def _end_broadcast(self, transmission: Transmission) -> None:
        self._next(transmission.sender)
        for receiver in transmission.receivers:
            if self._arrives(transmission, receiver):
                self._receive(receiver, transmission.sender, transmission.message)

    def _next(self, node: NodeId) -> None:
        """Goes on to the next message of the queue: the first one is done with."""
        queue = self._stations[node].queue
        queue.popleft()
        if queue:
            self._contend(node)

    def _arrives(self, transmission: Transmission, receiver: NodeId) -> bool:
        if receiver in transmission.spoilt:
            return False
        return self._channel.loss == 0.0 or self._random.random() >= self._channel.loss
