"""The numbered frames of a broker's links: what was sent and is not acknowledged, and what was received.

A frame stays in the outbox of a neighbour until the neighbour acknowledges it. All numbers count on from the time of
the broker's birth: a life that remembers no other must not use its numbers again.

Events have a bound, and so have messages. A neighbour for which too many messages wait is *cut off*: those that can be
told again leave the outbox (`left_out.py`), and their numbers are left out. What is told instead when the neighbour is
back is in `resuming.py`.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message
from roamq.net.links import wire
from roamq.net.links.protocol import Frame

if TYPE_CHECKING:
    from roamq.net.links.left_out import LeftOut

MESSAGE_BYTES: Final = 300
"""What a message that waits costs of the memory beside its bytes."""
CHOKED: Final = 4
"""How many times the bound may wait of messages that cannot be told again before clients are refused."""


class Memory(Enum):
    """What two neighbours find out when one says what it has received from the other."""

    SAME = "same"
    THEY_FORGOT = "they forgot"
    """It has less than it had acknowledged: it lost its store."""
    WE_FORGOT = "we forgot"
    """It has more than this broker remembers to have sent: this broker's store is an old one."""


@dataclass(slots=True)
class SaidMessages:
    """The messages for one neighbour that it has not acknowledged, and what was left out of them."""

    numbers: deque[tuple[int, int, bool]] = field(default_factory=deque)
    """Number, cost, and whether it can be told again, of each message in the outbox."""
    cost_bytes: int = 0
    """What they cost."""
    beyond_bytes: int = 0
    """What they may cost beyond the bound: the neighbour was told everything, which may be more than that."""
    news: dict[tuple[BrokerId, BrokerId], None] = field(default_factory=dict)
    """Who told news to whom through this outbox since it was empty."""
    latest: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """The last message of each kind of which the last is enough, since the outbox was empty: its sender if it is a
    marker, and its bytes."""
    is_cut_off: bool = False
    held: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """Markers whose senders have been asked to call their roll: they follow it."""
    asked: set[BrokerId] = field(default_factory=set)
    """Those senders."""


class Outboxes:
    """One outbox for each neighbour."""

    def __init__(
        self,
        neighbours: Iterable[BrokerId],
        born: int,
        bytes_max: int,
        messages_bytes_max: int = 1 << 60,
        left_out: "Callable[[Message], LeftOut | None]" = lambda message: None,
    ) -> None:
        self.frames: dict[BrokerId, deque[Frame]] = {neighbour: deque() for neighbour in neighbours}
        """Neighbour -> frames that it has not acknowledged, in order."""
        self.bytes: dict[BrokerId, int] = dict.fromkeys(self.frames, 0)
        self.sent: dict[BrokerId, int] = dict.fromkeys(self.frames, born)
        """Neighbour -> the number of the last frame for it."""
        self.received: dict[BrokerId, int] = dict.fromkeys(self.frames, 0)
        """Neighbour -> the number of the last frame from it."""
        self.bytes_max = bytes_max
        self.messages_bytes_max = messages_bytes_max
        self.acknowledged: dict[BrokerId, int] = dict.fromkeys(self.frames, born)
        """Neighbour -> the last number that it said it has: one that has less lost its store."""
        self.said: dict[BrokerId, SaidMessages] = {neighbour: SaidMessages() for neighbour in self.frames}
        self.cut_offs: Counter[BrokerId] = Counter()
        """How often each neighbour was cut off."""
        self._sort = left_out
        self._skipped: dict[BrokerId, list[tuple[int, int]]] = {}
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
        self.said[neighbour] = SaidMessages()

    def rewired(self) -> None:
        """The state was read from a snapshot, which may be of the release that counted no messages."""
        for neighbour in self.frames:
            self.said.setdefault(neighbour, SaidMessages())

    def drop(self, neighbour: BrokerId) -> list[Frame]:
        """A neighbour is gone for good; gives what it never acknowledged. Nothing if it was no neighbour."""
        for numbers in (self.bytes, self.sent, self.received, self.acknowledged, self.said, self.cut_offs):
            numbers.pop(neighbour, None)
        self._skipped.pop(neighbour, None)
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
        """The frame to send; None for an event that has no room, and for a message that is told again later."""
        if message.__class__ is Event:
            data = self._encode(message)
            if self.bytes[to] + len(data) > self.bytes_max:
                return None
            return self._append(to, data)
        assert isinstance(message, Message)
        said = self.said[to]
        left_out = self._sort(message)
        if left_out is not None:
            if left_out.news is not None:
                said.news[left_out.news] = None
            if left_out.latest is not None and self._note_latest(said, left_out, message):
                return None
            if said.is_cut_off:
                return None
        return self._say(to, self._encode(message), left_out is not None)

    def _note_latest(self, said: SaidMessages, left_out: "LeftOut", message: Message) -> bool:
        """The last of its kind stands for those before it; True if it is not to be sent now."""
        assert left_out.latest is not None
        is_held = left_out.by in said.asked
        noted = said.held if is_held else said.latest
        noted.pop(left_out.latest, None)
        noted[left_out.latest] = (left_out.by, self._encode(message))
        return is_held

    def _encode(self, message: Message | Event) -> bytes:
        if message is self._encoded[0]:  # one encoding of an event for all neighbours
            return self._encoded[1]
        data = wire.encode(message)
        self._encoded = (message, data)
        return data

    def _append(self, to: BrokerId, data: bytes) -> Frame:
        self.sent[to] = sequence = self.sent[to] + 1
        frame = (sequence, data)
        self.frames[to].append(frame)
        self.bytes[to] += len(data)
        return frame

    def _say(self, to: BrokerId, data: bytes, can_be_told_again: bool) -> Frame | None:
        said = self.said[to]
        frame = self._append(to, data)
        cost = len(data) + MESSAGE_BYTES
        said.numbers.append((frame[0], cost, can_be_told_again))
        said.cost_bytes += cost
        if said.cost_bytes <= self.messages_bytes_max + said.beyond_bytes or said.is_cut_off:
            return frame
        self._cut_off(to)
        return None if can_be_told_again else frame

    # --- a neighbour that is cut off ------------------------------------------------------------------------------

    def _cut_off(self, neighbour: BrokerId) -> None:
        """Take out what can be told again. Some of it may have arrived: whatever is told instead allows for that."""
        said = self.said[neighbour]
        said.is_cut_off = True
        self.cut_offs[neighbour] += 1
        dropped = {number for number, _, can_be_told_again in said.numbers if can_be_told_again}
        frames = self.frames[neighbour]
        self.bytes[neighbour] -= sum(len(data) for number, data in frames if number in dropped)
        self.frames[neighbour] = deque(frame for frame in frames if frame[0] not in dropped)
        said.numbers = deque(entry for entry in said.numbers if not entry[2])
        said.cost_bytes = sum(cost for _, cost, _ in said.numbers)

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        said = self.said.get(neighbour)
        return said is not None and said.is_cut_off

    def is_crowded(self, neighbour: BrokerId) -> bool:
        """Whether more messages wait for a neighbour than should, though it is cut off: no more exchanges begin."""
        said = self.said.get(neighbour)
        return said is not None and said.is_cut_off and said.cost_bytes > self.messages_bytes_max

    @property
    def choked(self) -> BrokerId | None:
        """A neighbour for which so many messages wait that nobody may cause more of them."""
        bound = CHOKED * self.messages_bytes_max
        for neighbour, said in self.said.items():
            if said.is_cut_off and said.cost_bytes > bound:
                return neighbour
        return None

    def resume(self, neighbour: BrokerId) -> SaidMessages:
        """A neighbour that was cut off is back; gives what was left out. Until `resumed`, nothing more is."""
        said = self.said[neighbour]
        was = SaidMessages(news=said.news, latest={**said.held, **said.latest}, asked=said.asked)
        said.news, said.latest, said.held, said.asked = {}, {}, {}, set()
        said.is_cut_off = False
        said.beyond_bytes = 1 << 60
        return was

    def resumed(self, neighbour: BrokerId) -> None:
        """The neighbour has been told all; what comes now has the whole bound to itself."""
        said = self.said[neighbour]
        said.beyond_bytes = said.cost_bytes

    def hold(self, neighbour: BrokerId, asked: Collection[BrokerId]) -> None:
        """Markers of those who were asked to call their roll wait until they have."""
        self.said[neighbour].asked.update(asked)

    def release(self, sender: BrokerId) -> list[tuple[BrokerId, bytes]]:
        """A broker has called its roll, or is gone: the neighbours for which markers of it wait, and these."""
        released: list[tuple[BrokerId, bytes]] = []
        for neighbour, said in self.said.items():
            said.asked.discard(sender)
            keys = [key for key, (by, _) in said.held.items() if by == sender]
            released += [(neighbour, said.held.pop(key)[1]) for key in keys]
        return released

    # --- what neighbours say ----------------------------------------------------------------------------------------

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
                self._skipped.setdefault(neighbour, []).append((sent, number))

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
        said = self.said[neighbour]
        if said.numbers and said.numbers[0][0] <= sequence:
            self._heard(said, sequence)
        skipped = self._skipped.pop(neighbour, [])
        if later := [(before, up_to) for before, up_to in skipped if up_to > sequence]:
            self._skipped[neighbour] = [(max(before, sequence), up_to) for before, up_to in later]
        is_old = any(before < sequence <= up_to for before, up_to in skipped)
        return Memory.WE_FORGOT if is_old else Memory.SAME

    def _heard(self, said: SaidMessages, sequence: int) -> None:
        numbers = said.numbers
        while numbers and numbers[0][0] <= sequence:
            said.cost_bytes -= numbers.popleft()[1]
        if not numbers:
            said.beyond_bytes = 0
            if not said.is_cut_off:
                said.news.clear()
                said.latest.clear()
