"""The inputs that wait for a simulated broker, and what one input cost the broker.

Two kinds of broker are modelled. In the plain one all inputs wait in one line. The broker of [PRO]'s testbed has a
line for control of its own (`service.control_first`): requests, acknowledgements and timers do not wait behind events
and the messages that carry events. Control may then overtake events of the same sender. Messages that carry events
(and the closing word behind them) keep their order among themselves in both.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from roamq.core.events import BrokerId, Event
from roamq.core.messages import Message, Routed
from roamq.sim.options import ServiceOptions, Work

REFUSABLE = frozenset({"event", "stored_event"})
"""Kinds of input that a full queue refuses; control messages always get in."""


class Input(NamedTuple):
    """An input that waits for a broker: its kind and size, and the action to call."""

    kind: str
    size: int
    action: Callable[..., Any]
    args: tuple[Any, ...]


def message_of(args: tuple[Any, ...]) -> Message | None:
    """Returns the message between brokers that an input brings or sends, without its envelope."""
    last = args[-1] if args else None
    if isinstance(last, Routed):
        return last.message
    return last if isinstance(last, Message) else None


def is_content(waiting: Input) -> bool:
    """Whether the input is an event, a message that carries events, or the last of a row of such messages."""
    if waiting.kind == "event":
        return True
    message = message_of(waiting.args)
    return message is not None and message.carries == "events"


class InputQueue:
    """The inputs that wait for one broker, in the order in which it takes them."""

    def __init__(self, *, limit_bytes: int | None = None, control_first: bool = False) -> None:
        self.limit_bytes = limit_bytes
        self.bytes = 0
        """Bytes of all waiting inputs."""
        self.events = 0
        """Number of waiting events; messages that carry events do not count."""
        self._content: deque[Input] = deque()
        self._control: deque[Input] = deque() if control_first else self._content

    def __len__(self) -> int:
        return len(self._content) + (len(self._control) if self._control is not self._content else 0)

    def refuses(self, kind: str, size: int) -> bool:
        """Whether the queue has no room for an input of this kind and size."""
        return kind in REFUSABLE and self.limit_bytes is not None and self.bytes + size > self.limit_bytes

    @property
    def has_room(self) -> bool:
        return self.limit_bytes is None or self.bytes < self.limit_bytes

    def append(self, waiting: Input) -> None:
        self.events += waiting.kind == "event"
        self.bytes += waiting.size
        if self._control is self._content or is_content(waiting):
            self._content.append(waiting)
        else:
            self._control.append(waiting)

    def popleft(self) -> Input:
        taken = (self._control or self._content).popleft()
        self.bytes -= taken.size
        self.events -= taken.kind == "event"
        return taken

    def keep(self, actions: Iterable[Callable[..., Any]]) -> None:
        """Forgets all waiting inputs but those of these actions."""
        kept = tuple(actions)
        waiting = [self.popleft() for _ in range(len(self))]
        for one in waiting:
            if one.action in kept:
                self.append(one)


# --- what an input costs -------------------------------------------------------------------------------------


def takes_its_turn(service: ServiceOptions, message: Message | Event, sender: BrokerId) -> bool:
    """Whether a message that `sender` itself sends waits among its inputs, because sending it takes time.

    Stored events leave one by one, and other inputs are served in between.
    """
    if not isinstance(message, Routed) or message.sender != sender:
        return False
    priced_as = message.message.priced_as
    return bool(priced_as and service.message_s) or bool(priced_as == "transfer" and service.transfer_s)


def events_in(message: Message) -> int:
    return sum(isinstance(carried, Event) for carried in message.carried)


def work_of(
    taken: Input,
    *,
    me: BrokerId,
    sent: Iterable[tuple[Any, ...]],
    deliveries: int,
    sends: int,
    changes: int,
    buffered: int,
) -> Work:
    """Returns the work of one input at broker `me`: `sent` are the arguments of its effects, `changes` counts those of
    the subscriptions, `buffered` the contexts that stored its event."""
    routed = (args[0] for args in sent if args[0].__class__ is Routed)
    handed_on = [one.message for one in routed if one.sender == me]
    last = taken.args[-1] if taken.args else None
    if last.__class__ is Routed and last.to == me:
        handed_on.append(last.message)
    transferred = sum(events_in(m) for m in handed_on if m.priced_as == "transfer")
    forwarded = sum(events_in(m) for m in handed_on if m.priced_as == "forward")
    return Work(taken.kind, deliveries, sends, transferred, forwarded, changes, buffered)
