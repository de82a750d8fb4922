"""The numbered frames of a broker's links: what was sent and is not acknowledged, and what was received.

A frame stays in the outbox of a neighbour until the neighbour acknowledges it. All numbers count on from the time of
the broker's birth: a life that remembers no other must not use its numbers again.

Events have a bound, and so have messages. A neighbour for which too many messages wait is *cut off*: from then on
messages that can be told again are left out (`left_out.py`), and others wait apart. When the neighbour is back, it gets
what was in the outbox, then what is told instead of what was left out, then what waits apart (`resuming.py`).

An input may have much to tell a neighbour. What is beyond a share waits behind it, as it is, and becomes frames in
turns: whatever is for that neighbour follows in order, events too (`LiveHost.send`, docs/decisions/0188).
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message, MessageSource
from roamq.net.links import wire
from roamq.net.links.protocol import Frame

if TYPE_CHECKING:
    from roamq.net.links.left_out import LeftOut

MESSAGE_BYTES: Final = 300
"""What a message that waits costs of the memory beside its bytes."""
UNBOUNDED: Final = 1 << 60
"""What may be told a neighbour that was cut off, while it is told everything."""
MISSED_MAX: Final = 10_000
"""Of so many topics it is remembered that a neighbour has missed a retained event; of more, all are told."""
MISSED_CHARACTERS_MAX: Final = 256
EVERYTHING: Final = ""
"""Stands for all topics; none is empty ([MQTT-4.7.3-1])."""
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
    """The messages for one neighbour that it has not acknowledged, and what has become of those beyond the bound."""

    numbers: deque[tuple[int, int]] = field(default_factory=deque)
    """Number and cost of each message in the outbox."""
    cost_bytes: int = 0
    """What they cost."""
    beyond_bytes: int = 0
    """What they may cost beyond the bound: the neighbour was told everything, which may be more than that."""
    is_cut_off: bool = False
    kept: deque[bytes] = field(default_factory=deque)
    """While it is cut off: messages that cannot be told again."""
    kept_bytes: int = 0
    """What they cost."""
    news: dict[tuple[BrokerId, BrokerId], None] = field(default_factory=dict)
    """While it is cut off: who told news to whom that was left out."""
    latest: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """While it is cut off: the last message of each kind of which the last is enough; its sender if it is a marker, and
    its bytes."""
    held: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """Markers whose senders have been asked to call their roll: they follow it."""
    asked: set[BrokerId] = field(default_factory=set)
    """Those senders."""
    missed: dict[str, None] = field(default_factory=dict)
    """Topics of retained events that had no room: what is retained is told when there is room again."""
    behind: deque[Message | Event | bytes | MessageSource] = field(default_factory=deque)
    """What is for the neighbour and follows in later turns: bytes are a message that was kept."""
    behind_bytes: int = 0
    """What the events among it cost."""


class Outboxes:
    """One outbox for each neighbour."""

    def __init__(
        self,
        neighbours: Iterable[BrokerId],
        born: int,
        bytes_max: int,
        messages_bytes_max: int = UNBOUNDED,
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
        self.behind: set[BrokerId] = set()
        """Neighbours for which more follows in later turns: what else is for them goes behind it."""
        self.cut_offs: Counter[BrokerId] = Counter()
        """How often each neighbour was cut off."""
        self.begun = 0
        """How often a broker became a neighbour since this one was started."""
        self._sort = left_out
        self._skipped: dict[BrokerId, list[tuple[int, int]]] = {}
        """Neighbour -> the numbers that were left out when the broker started again: above the first, up to the second.

        A neighbour that has one of them was sent it in a life that the store does not remember."""
        self._encoded: tuple[Message | Event | None, bytes] = (None, b"")
        """What was encoded last."""

    def begin(self, neighbour: BrokerId, born: int) -> None:
        """There is a new neighbour."""
        self.begun += 1
        self.frames[neighbour] = deque()
        self.bytes[neighbour] = 0
        self.sent[neighbour] = self.acknowledged[neighbour] = born
        self.received[neighbour] = 0
        self.said[neighbour] = SaidMessages()

    def rewired(self) -> None:
        """The state was read from a snapshot, which may be of the release that counted no messages."""
        for neighbour in self.frames:
            self.said.setdefault(neighbour, SaidMessages())

    def drop(self, neighbour: BrokerId) -> list[bytes]:
        """A neighbour is gone for good; gives what it never acknowledged. Nothing if it was no neighbour."""
        unsent = [data for _, data in self.frames.pop(neighbour, ())]
        if (said := self.said.pop(neighbour, None)) is not None:
            unsent += said.kept
            made = (one for one in said.behind if not isinstance(one, MessageSource))
            unsent += (one if isinstance(one, bytes) else wire.encode(one) for one in made)
        self.behind.discard(neighbour)
        for numbers in (self.bytes, self.sent, self.received, self.acknowledged, self.cut_offs):
            numbers.pop(neighbour, None)
        self._skipped.pop(neighbour, None)
        return unsent

    def put_first(self, to: BrokerId, message: Message) -> None:
        """A frame ahead of those that wait for a neighbour that begins anew: it has the number of the last one that an
        earlier life acknowledged."""
        frames = self.frames[to]
        if frames:
            data, number = wire.encode(message), frames[0][0] - 1
            frames.appendleft((number, data))
            self.bytes[to] += len(data)
            skipped = self._skipped.pop(to, [])
            if left := [(before, up_to - (up_to == number)) for before, up_to in skipped]:
                self._skipped[to] = left  # this number is used now, by this life
        else:
            self.add(to, message)

    def add(self, to: BrokerId, message: Message | Event) -> Frame | None:
        """The frame to send; None for an event that has no room, and for a message that waits, or is told again."""
        data = self._encode(message)
        if message.__class__ is Event:
            if self.bytes[to] + len(data) > self.bytes_max:
                return None
            return self._append(to, data)
        assert isinstance(message, Message)
        said, left_out = self.said[to], self._sort(message)
        if (said.is_cut_off or said.asked) and self._put_aside(said, left_out, data):
            return None
        frame = self._append(to, data)
        if left_out is None or not left_out.is_free:
            cost = len(data) + MESSAGE_BYTES
            said.numbers.append((frame[0], cost))
            said.cost_bytes += cost
            if said.cost_bytes > self.messages_bytes_max + said.beyond_bytes:
                said.is_cut_off = True
                self.cut_offs[to] += 1
        return frame

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

    # --- retained events that were dropped --------------------------------------------------------------------------

    def note_missed(self, neighbour: BrokerId, topic: str) -> None:
        said = self.said[neighbour]
        if EVERYTHING in said.missed or topic in said.missed:
            return
        if len(said.missed) < MISSED_MAX and len(topic) <= MISSED_CHARACTERS_MAX:
            said.missed[topic] = None
        else:
            said.missed = {EVERYTHING: None}

    def take_missed(self, neighbour: BrokerId) -> list[str]:
        """Topics of which the neighbour, and whoever is behind it, has missed a retained event, if there is room."""
        said = self.said[neighbour]
        if not said.missed or self.bytes[neighbour] > self.bytes_max // 2:
            return []
        missed, said.missed = list(said.missed), {}
        return missed

    # --- what follows in later turns --------------------------------------------------------------------------------

    def put_behind(self, to: BrokerId, message: Message | Event | bytes | MessageSource) -> bool:
        """It follows in a later turn; False for an event that has no room."""
        said = self.said[to]
        if isinstance(message, Event):
            if self.bytes[to] + said.behind_bytes + message.cost_bytes > self.bytes_max:
                return False
            said.behind_bytes += message.cost_bytes
        said.behind.append(message)
        self.behind.add(to)
        return True

    def take_behind(self, to: BrokerId) -> Message | Event | MessageSource | None:
        """The next that is due; None if nothing is."""
        said = self.said.get(to)
        if said is None or not said.behind:
            self.behind.discard(to)
            if said is not None and said.beyond_bytes == UNBOUNDED:
                self.resumed(to)
            return None
        message = said.behind.popleft()
        if isinstance(message, bytes):
            return wire.decode(message)
        if isinstance(message, Event):
            said.behind_bytes -= message.cost_bytes
        return message

    # --- a neighbour that is cut off ------------------------------------------------------------------------------

    def _put_aside(self, said: SaidMessages, left_out: "LeftOut | None", data: bytes) -> bool:
        """Leave a message out, or keep it apart; False if it may go to the neighbour now."""
        if left_out is not None and left_out.by in said.asked:
            said.held.pop(left_out.latest or "", None)
            said.held[left_out.latest or ""] = (left_out.by, data)
            return True
        if not said.is_cut_off:
            return False
        if left_out is None or left_out.is_kept:
            said.kept.append(data)
            said.kept_bytes += 0 if left_out is not None and left_out.is_free else len(data) + MESSAGE_BYTES
        elif left_out.latest is not None:
            said.latest.pop(left_out.latest, None)
            said.latest[left_out.latest] = (left_out.by, data)
        elif left_out.news is not None:
            said.news[left_out.news] = None
        return True

    def is_cut_off(self, neighbour: BrokerId) -> bool:
        said = self.said.get(neighbour)
        return said is not None and said.is_cut_off

    def is_crowded(self, neighbour: BrokerId) -> bool:
        """Whether too much waits for a neighbour that cannot be told again: no more exchanges begin."""
        said = self.said.get(neighbour)
        return said is not None and said.kept_bytes > self.messages_bytes_max

    @property
    def choked(self) -> BrokerId | None:
        """A neighbour for which so much of it waits that nobody may cause more."""
        bound = CHOKED * self.messages_bytes_max
        for neighbour, said in self.said.items():
            if said.kept_bytes > bound:
                return neighbour
        return None

    def resume(self, neighbour: BrokerId) -> SaidMessages:
        """A neighbour that was cut off is back; gives what waits apart. Until `resumed`, the bound does not count."""
        said = self.said[neighbour]
        latest = {**said.held, **said.latest}
        waiting = SaidMessages(kept=said.kept, news=said.news, latest=latest, asked=said.asked)
        said.kept, said.news, said.latest, said.held, said.asked = deque(), {}, {}, {}, set()
        said.kept_bytes = 0
        said.is_cut_off = False
        said.beyond_bytes = UNBOUNDED
        return waiting

    def resumed(self, neighbour: BrokerId) -> None:
        """The neighbour has been told all; what comes now has the whole bound to itself. Not before the rest of it has
        become frames."""
        if neighbour not in self.behind:
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
