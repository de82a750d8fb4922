"""The centres of `roamq.sim.queueing` in a run: a queue, a server that is ON or OFF, and the centre that follows."""

import math
from array import array
from collections import deque
from collections.abc import Callable

from roamq.sim.engine import Engine

Draw = Callable[[], float]
"""Each call gives the next random number of a row."""


class EventSink:
    """The end of the path. Events born in the measured span are counted; the others only load the centres."""

    __slots__ = ("births", "expired", "lost", "responses", "until_s", "waiting", "warmup_s")

    def __init__(self, warmup_s: float, until_s: float) -> None:
        self.warmup_s = warmup_s
        self.until_s = until_s
        self.births = array("d")
        self.responses = array("d")
        self.lost = 0
        self.expired = 0
        self.waiting = 0
        """Measured events that are still under way."""

    def arrive(self, now: float, birth: float, _deadline: float) -> None:
        if birth >= self.warmup_s:
            self.waiting -= 1
            self.births.append(birth)
            self.responses.append(now - birth)

    def drop(self, birth: float, *, expired: bool) -> None:
        if birth >= self.warmup_s:
            self.waiting -= 1
            if expired:
                self.expired += 1
            else:
                self.lost += 1


class CentreAtWork:
    """A centre at work: the head of the queue is in service, `remaining` of it still to be done.

    Going through the engine's heap for every event would dominate the cost, so a centre advances the clock
    itself as long as its own next step comes before everything that is scheduled: the order of all steps is
    the one the heap would give. The first centre reads its arrivals from a stream, for the same reason.
    """

    __slots__ = (
        "after",
        "capacity",
        "draw_off",
        "draw_on",
        "draw_other",
        "draw_service",
        "drops_oldest",
        "engine",
        "expires",
        "is_on",
        "lifetime",
        "next_birth",
        "others",
        "pulled",
        "queue",
        "remaining",
        "service_ends",
        "sink",
        "stream",
        "ticket",
    )

    def __init__(
        self, engine: Engine, service: Draw, after: "CentreAtWork | EventSink", sink: EventSink
    ) -> None:
        self.engine = engine
        self.draw_service = service
        self.after = after
        self.sink = sink
        self.capacity = math.inf
        self.drops_oldest = False
        self.expires = False
        """Whether events have a deadline."""
        self.draw_on: Draw | None = None
        self.draw_off: Draw | None = None
        self.draw_other: Draw | None = None
        self.others = 0
        self.pulled = 0
        self.stream: Draw | None = None
        self.lifetime: Draw | None = None
        self.next_birth = math.inf
        self.queue: deque[tuple[float, float]] = deque()
        self.is_on = True
        self.remaining = 0.0
        self.service_ends = math.inf
        self.ticket = 0
        """Grows with each disconnection, so that a step scheduled before it is recognised and skipped."""

    def feed(self, stream: Draw, lifetime: Draw | None) -> None:
        self.stream = stream
        self.lifetime = lifetime
        self.next_birth = stream()
        if self.next_birth < math.inf:
            self.engine.at(self.next_birth, self._step, self.ticket)

    def arrive(self, now: float, birth: float, deadline: float) -> None:
        """Takes an event from the centre before, or of another flow. Never works ahead: the caller is at work."""
        self._admit(now)
        if len(self.queue) >= self.capacity and self._is_full(now) and not self._makes_room():
            self.sink.drop(birth, expired=False)
            return
        queue = self.queue
        queue.append((birth, deadline))
        if len(queue) == 1:
            self.remaining = self.draw_service()
            if self.is_on:
                self.ticket += 1
                self._schedule(now)

    def _admit(self, now: float) -> None:
        """Lets in the stream's events up to now. No event has left meanwhile, so doing it late changes nothing."""
        birth = self.next_birth
        if birth > now:
            return
        assert self.stream is not None
        stream, lifetime, warmup_s = self.stream, self.lifetime, self.sink.warmup_s
        while birth <= now:
            self.pulled += 1
            if birth >= warmup_s:
                self.sink.waiting += 1
            if len(self.queue) >= self.capacity and self._is_full(birth) and not self._makes_room():
                self.sink.drop(birth, expired=False)
            else:
                deadline = math.inf if lifetime is None else birth + lifetime()
                self.queue.append((birth, deadline))
                if len(self.queue) == 1:
                    self.remaining = self.draw_service()
            birth = stream()
        self.next_birth = birth

    def _is_full(self, now: float) -> bool:
        """Whether the buffer is full of live events. In truth expired events leave at once; here they are removed only
        when new events need the room.
        """
        if not self.expires:
            return True
        alive: deque[tuple[float, float]] = deque()
        for event in self.queue:
            if event[1] > now:
                alive.append(event)
            else:
                self.sink.drop(event[0], expired=True)
        if alive and alive[0] is not self.queue[0]:
            self.remaining = self.draw_service()
        self.queue = alive
        return len(alive) >= self.capacity

    def _makes_room(self) -> bool:
        """Drops the oldest event that waits, if there is one and `drops_oldest` says so; returns whether it did."""
        if not self.drops_oldest or len(self.queue) < 2:
            return False
        self.sink.drop(self.queue[1][0], expired=False)
        del self.queue[1]
        return True

    def _schedule(self, now: float) -> None:
        """Puts the end of the service, or the event's deadline if that is first, on the engine's heap."""
        self.service_ends = ends = now + self.remaining
        deadline = self.queue[0][1]
        self.engine.at(ends if ends <= deadline else deadline, self._finish, self.ticket)

    def _finish(self, ticket: int) -> None:
        if ticket == self.ticket:
            now = self.engine.now
            self._end_service(now)
            self._work(now)

    def _step(self, ticket: int) -> None:
        if ticket == self.ticket and self.is_on:
            self._work(self.engine.now)

    def _end_service(self, now: float) -> None:
        if self.next_birth <= now:
            self._admit(now)
        queue = self.queue
        birth, deadline = queue.popleft()
        if now < self.service_ends:
            self.sink.drop(birth, expired=True)
        elif birth >= 0:
            self.after.arrive(now, birth, deadline)
        if queue:
            self.remaining = self.draw_service()
            if queue[0][1] <= now:
                self._drop_expired_heads(now)

    def _drop_expired_heads(self, now: float) -> None:
        queue = self.queue
        while queue and queue[0][1] <= now:
            self.sink.drop(queue.popleft()[0], expired=True)
        if queue:
            self.remaining = self.draw_service()

    def _work(self, now: float) -> None:
        """Serves one event after the other until the engine has something to do first."""
        engine = self.engine
        is_last = self.after is self.sink
        horizon = engine.next_time()
        while True:
            if not self.queue:
                birth = self.next_birth
                if birth >= horizon:
                    if birth < math.inf:
                        engine.at(birth, self._step, self.ticket)
                    return
                if birth > now:
                    engine.now = now = birth
                self._admit(now)
            ends = now + self.remaining
            deadline = self.queue[0][1]
            due = ends if ends <= deadline else deadline
            self.service_ends = ends
            if due >= horizon:
                engine.at(due, self._finish, self.ticket)
                return
            engine.now = now = due
            self._end_service(now)
            if not is_last:  # the event that went on may have made the next centre schedule a step
                horizon = engine.next_time()

    def switch_off(self) -> None:
        assert self.draw_off is not None
        now = self.engine.now
        self._admit(now)
        if self.queue:
            self.remaining = self.service_ends - now
        self.is_on = False
        self.ticket += 1
        self.engine.after(self.draw_off(), self.switch_on)

    def switch_on(self) -> None:
        assert self.draw_on is not None
        now = self.engine.now
        self._admit(now)
        self.is_on = True
        if self.queue and self.queue[0][1] <= now:
            self._drop_expired_heads(now)
        self.ticket += 1
        self.engine.after(self.draw_on(), self.switch_off)
        self._work(now)

    def other(self) -> None:
        """Brings an event of another flow: it is born before all time, so it is served here and goes nowhere."""
        assert self.draw_other is not None
        self.others += 1
        self.arrive(self.engine.now, -1.0, math.inf)
        self.engine.after(self.draw_other(), self.other)
