"""The numbered frames of a broker's links: frames that were sent and are not acknowledged, and the last ones received.

A frame stays in the outbox of a neighbour until the neighbour acknowledges it. All numbers count on from the time of
the broker's birth: a life that does not remember an earlier one must not use its numbers again.

Events have a bound, and so have messages. A neighbour for which too many messages wait is *cut off*: from then on
messages that can be told again are left out (`left_out.py`), and others wait apart. When the neighbour is back, it gets
the frames in the outbox, then what is told instead of the messages left out, then the messages that wait apart
(`resuming.py`).

An input may have much to tell a neighbour. Messages beyond a share wait behind the outbox, as they are, and become
frames in turns: everything for that neighbour follows in order, events too (`LiveHost.send`, docs/decisions/0188).
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
"""Bytes of memory that a waiting message takes beside its own bytes."""
UNBOUNDED: Final = 1 << 60
"""The bound of messages for a neighbour that was cut off, while it is told everything."""
MISSED_MAX: Final = 10_000
"""Topics for which an outbox notes that the neighbour has missed a retained event; of more, it is told all topics."""
MISSED_CHARACTERS_MAX: Final = 256
EVERYTHING: Final = ""
"""The name for all topics; no topic is empty ([MQTT-4.7.3-1])."""
CHOKED: Final = 4
"""How many times the bound may wait of messages that cannot be told again, before clients are refused."""


class Memory(Enum):
    """What two neighbours find out when one of them says what it has received from the other."""

    SAME = "same"
    THEY_FORGOT = "they forgot"
    """The neighbour has less than it had acknowledged: it lost its store."""
    WE_FORGOT = "we forgot"
    """The neighbour has more than this broker remembers to have sent: this broker's store is an old one."""


@dataclass(slots=True)
class SaidMessages:
    """The messages that one neighbour has not acknowledged, and the state of those beyond the bound."""

    numbers: deque[tuple[int, int]] = field(default_factory=deque)
    """Number and cost of each message in the outbox."""
    cost_bytes: int = 0
    """Bytes that these messages cost."""
    beyond_bytes: int = 0
    """Bytes that the messages may cost beyond the bound: the neighbour was told everything, which may be more than
    that."""
    is_cut_off: bool = False
    kept: deque[bytes] = field(default_factory=deque)
    """While the neighbour is cut off: messages that cannot be told again."""
    kept_bytes: int = 0
    """Bytes that the kept messages cost."""
    news: dict[tuple[BrokerId, BrokerId], None] = field(default_factory=dict)
    """While the neighbour is cut off: sender and receiver of news that was left out."""
    latest: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """While the neighbour is cut off: the last message of each series of which the last suffices. Its sender, if it is
    a marker, and its bytes."""
    held: dict[str, tuple[BrokerId | None, bytes]] = field(default_factory=dict)
    """Markers whose senders were asked to call their roll: the markers follow the roll."""
    asked: set[BrokerId] = field(default_factory=set)
    """The brokers that were asked to call their roll."""
    missed: dict[str, None] = field(default_factory=dict)
    """Topics of retained events that had no room: the neighbour is told the retained events when there is room
    again."""
    behind: deque[Message | Event | bytes | MessageSource] = field(default_factory=deque)
    """Messages for the neighbour that follow in later turns; bytes are a message that was kept."""
    behind_bytes: int = 0
    """Bytes that the events in `behind` cost."""


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
        """Neighbour -> the last number that it said it has. A neighbour that then says less has lost its store."""
        self.said: dict[BrokerId, SaidMessages] = {neighbour: SaidMessages() for neighbour in self.frames}
        self.behind: set[BrokerId] = set()
        """Neighbours for which messages wait until later turns: further messages for these go behind them."""
        self.cut_offs: Counter[BrokerId] = Counter()
        """How often each neighbour was cut off."""
        self.begun = 0
        """How often a broker became a neighbour since this broker was started."""
        self._sort = left_out
        self._skipped: dict[BrokerId, list[tuple[int, int]]] = {}
        """Neighbour -> the numbers that were left out when this broker started again: above the first, up to the
        second.

        If a neighbour has one of these numbers, it was sent the frame in a life that the store does not remember.
        """
        self._encoded: tuple[Message | Event | None, bytes] = (None, b"")
        """The last message that was encoded, and its bytes."""

    def begin(self, neighbour: BrokerId, born: int) -> None:
        """Begin the outbox of a new neighbour."""
        self.begun += 1
        self.frames[neighbour] = deque()
        self.bytes[neighbour] = 0
        self.sent[neighbour] = self.acknowledged[neighbour] = born
        self.received[neighbour] = 0
        self.said[neighbour] = SaidMessages()

    def rewired(self) -> None:
        """The state was read from a snapshot: add what is missing, if it is of a release that counted no messages."""
        for neighbour in self.frames:
            self.said.setdefault(neighbour, SaidMessages())

    def drop(self, neighbour: BrokerId) -> list[bytes]:
        """Drop a neighbour that is gone for good. Return the messages that it never acknowledged; none if it was no
        neighbour."""
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
        """Put a frame ahead of those that wait for a neighbour that begins anew. It has the number of the last frame
        that an earlier life of the neighbour acknowledged."""
        frames = self.frames[to]
        if frames:
            data, number = wire.encode(message), frames[0][0] - 1
            frames.appendleft((number, data))
            self.bytes[to] += len(data)
            skipped = self._skipped.pop(to, [])
            if left := [(before, up_to - (up_to == number)) for before, up_to in skipped]:
                self._skipped[to] = left  # this life uses the number now
        else:
            self.add(to, message)

    def add(self, to: BrokerId, message: Message | Event) -> Frame | None:
        """Put a message into the outbox. Return the frame to send; None for an event that has no room, and for a
        message that waits apart or is left out."""
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
        """Take the topics of which the neighbour, or a broker behind it, has missed a retained event; none without
        room."""
        said = self.said[neighbour]
        if not said.missed or self.bytes[neighbour] > self.bytes_max // 2:
            return []
        missed, said.missed = list(said.missed), {}
        return missed

    # --- what follows in later turns --------------------------------------------------------------------------------

    def put_behind(self, to: BrokerId, message: Message | Event | bytes | MessageSource) -> bool:
        """Put a message behind the outbox, for a later turn. False for an event that has no room."""
        said = self.said[to]
        if isinstance(message, Event):
            if self.bytes[to] + said.behind_bytes + message.cost_bytes > self.bytes_max:
                return False
            said.behind_bytes += message.cost_bytes
        said.behind.append(message)
        self.behind.add(to)
        return True

    def take_behind(self, to: BrokerId) -> Message | Event | MessageSource | None:
        """Take the next message that is due; None if there is none."""
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
        """Leave a message out, or keep it apart. False if it may go to the neighbour now."""
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
        """Whether too many messages that cannot be told again wait for the neighbour: no more exchanges begin."""
        said = self.said.get(neighbour)
        return said is not None and said.kept_bytes > self.messages_bytes_max

    @property
    def choked(self) -> BrokerId | None:
        """A neighbour for which too many messages wait that cannot be told again: clients may cause no more."""
        bound = CHOKED * self.messages_bytes_max
        for neighbour, said in self.said.items():
            if said.kept_bytes > bound:
                return neighbour
        return None

    def resume(self, neighbour: BrokerId) -> SaidMessages:
        """Begin to tell a neighbour that was cut off and is back. Return the messages that wait apart. The bound does
        not count until `resumed`."""
        said = self.said[neighbour]
        latest = {**said.held, **said.latest}
        waiting = SaidMessages(kept=said.kept, news=said.news, latest=latest, asked=said.asked)
        said.kept, said.news, said.latest, said.held, said.asked = deque(), {}, {}, {}, set()
        said.kept_bytes = 0
        said.is_cut_off = False
        said.beyond_bytes = UNBOUNDED
        return waiting

    def resumed(self, neighbour: BrokerId) -> None:
        """End what `resume` began, when everything for the neighbour has become frames: later messages have the whole
        bound to themselves."""
        if neighbour not in self.behind:
            said = self.said[neighbour]
            said.beyond_bytes = said.cost_bytes

    def hold(self, neighbour: BrokerId, asked: Collection[BrokerId]) -> None:
        """Keep the markers of brokers that were asked to call their roll until they have called it."""
        self.said[neighbour].asked.update(asked)

    def release(self, sender: BrokerId) -> list[tuple[BrokerId, bytes]]:
        """A broker has called its roll, or is gone: take its markers, each with the neighbour for which it waits."""
        released: list[tuple[BrokerId, bytes]] = []
        for neighbour, said in self.said.items():
            said.asked.discard(sender)
            keys = [key for key, (by, _) in said.held.items() if by == sender]
            released += [(neighbour, said.held.pop(key)[1]) for key in keys]
        return released

    # --- what neighbours say ----------------------------------------------------------------------------------------

    def is_news(self, neighbour: BrokerId, sequence: int) -> bool:
        """Whether a frame with this number is received for the first time; from now on it is received. No frame of a
        broker that is gone for good is new."""
        if sequence <= self.received.get(neighbour, sequence):
            return False
        self.received[neighbour] = sequence
        return True

    def skip_to(self, number: int) -> None:
        """Count on from `number`: if the store is an old one, an earlier life has used the numbers after its last."""
        for neighbour, sent in self.sent.items():
            if number > sent:
                self.sent[neighbour] = number
                self._skipped.setdefault(neighbour, []).append((sent, number))

    def acknowledge(self, neighbour: BrokerId, sequence: int) -> Memory:
        """Drop the frames up to `sequence`, which the neighbour has. Return whether one of the two brokers has
        forgotten."""
        frames = self.frames[neighbour]
        if sequence < self.acknowledged[neighbour]:
            # Waiting frames that the neighbour lacks follow; from now on its own word counts.
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
