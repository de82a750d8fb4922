"""The numbered frames of a broker's links: what was sent and is not acknowledged, and what was received.

A frame stays in the outbox of a neighbour until the neighbour acknowledges it. All numbers count on from the time of
the broker's birth: a life that remembers no other must not use its numbers again.
"""

from collections import deque
from collections.abc import Iterable
from enum import Enum

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message
from roamq.net.links import wire
from roamq.net.links.protocol import Frame


class Memory(Enum):
    """What two neighbours find out when one says what it has received from the other."""

    SAME = "same"
    THEY_FORGOT = "they forgot"
    """It has less than it had acknowledged: it lost its store."""
    WE_FORGOT = "we forgot"
    """It has more than this broker remembers to have sent: this broker's store is an old one."""


class Outboxes:
    """One outbox for each neighbour."""

    def __init__(self, neighbours: Iterable[BrokerId], born: int, bytes_max: int) -> None:
        self.frames: dict[BrokerId, deque[Frame]] = {neighbour: deque() for neighbour in neighbours}
        """Neighbour -> frames that it has not acknowledged, in order."""
        self.bytes: dict[BrokerId, int] = dict.fromkeys(self.frames, 0)
        self.sent: dict[BrokerId, int] = dict.fromkeys(self.frames, born)
        """Neighbour -> the number of the last frame for it."""
        self.received: dict[BrokerId, int] = dict.fromkeys(self.frames, 0)
        """Neighbour -> the number of the last frame from it."""
        self.bytes_max = bytes_max
        self.acknowledged: dict[BrokerId, int] = dict.fromkeys(self.frames, born)
        """Neighbour -> the last number that it said it has: one that has less lost its store."""
        self._left_out: dict[BrokerId, list[tuple[int, int]]] = {}
        """Neighbour -> the numbers that were left out when the broker started again: above the first, up to the second.

        A neighbour that has one of them was sent it in a life that the store does not remember."""
        self._encoded: tuple[Message | Event | None, bytes] = (None, b"")
        """What was encoded last."""

    def begin(self, neighbour: BrokerId, born: int) -> None:
        """There is a new neighbour."""
        self.frames[neighbour] = deque()
        self.bytes[neighbour] = 0
        self.sent[neighbour] = self.acknowledged[neighbour] = born
        self.received[neighbour] = 0

    def drop(self, neighbour: BrokerId) -> list[Frame]:
        """A neighbour is gone for good; gives what it never acknowledged. Nothing if it was no neighbour."""
        for numbers in (self.bytes, self.sent, self.received, self.acknowledged):
            numbers.pop(neighbour, None)
        self._left_out.pop(neighbour, None)
        return list(self.frames.pop(neighbour, ()))

    def put_first(self, to: BrokerId, message: Message) -> None:
        """A frame ahead of those that wait for a neighbour that begins anew: it has the number of the last one that an
        earlier life acknowledged."""
        frames = self.frames[to]
        if frames:
            data = wire.encode(message)
            frames.appendleft((frames[0][0] - 1, data))
            self.bytes[to] += len(data)
        else:
            self.add(to, message)

    def add(self, to: BrokerId, message: Message | Event) -> Frame | None:
        """The frame to send, or None for an event that has no room: messages are few and cannot be missed."""
        if message is self._encoded[0]:  # one encoding of an event for all neighbours
            data = self._encoded[1]
        else:
            data = wire.encode(message)
            self._encoded = (message, data)
        if self.bytes[to] + len(data) > self.bytes_max and message.__class__ is Event:
            return None
        self.sent[to] = sequence = self.sent[to] + 1
        frame = (sequence, data)
        self.frames[to].append(frame)
        self.bytes[to] += len(data)
        return frame

    def is_news(self, neighbour: BrokerId, sequence: int) -> bool:
        """Whether a frame with this number has not been received before; from now on it has. None of a broker that is
        gone for good is news."""
        if sequence <= self.received.get(neighbour, sequence):
            return False
        self.received[neighbour] = sequence
        return True

    def skip_to(self, number: int) -> None:
        """Count on from `number`: if the store is an old one, the numbers after its last have been used already."""
        for neighbour, sent in self.sent.items():
            if number > sent:
                self.sent[neighbour] = number
                self._left_out.setdefault(neighbour, []).append((sent, number))

    def acknowledge(self, neighbour: BrokerId, sequence: int) -> Memory:
        """The neighbour has all frames up to `sequence`: who has forgotten what, if anybody?"""
        frames = self.frames[neighbour]
        if sequence < self.acknowledged[neighbour]:
            # What it does not have of what waits for it follows; from now on it has what it says.
            self.acknowledged[neighbour] = sequence
            return Memory.THEY_FORGOT
        self.acknowledged[neighbour] = sequence
        while frames and frames[0][0] <= sequence:
            self.bytes[neighbour] -= len(frames.popleft()[1])
        left_out = self._left_out.pop(neighbour, [])
        if later := [(before, skipped) for before, skipped in left_out if skipped > sequence]:
            self._left_out[neighbour] = [(max(before, sequence), skipped) for before, skipped in later]
        is_old = any(before < sequence <= skipped for before, skipped in left_out)
        return Memory.WE_FORGOT if is_old else Memory.SAME
