"""Queueing in virtual time: centres in a row, each always on or ON/OFF, to check the closed forms against.

Paper: [TIME] section 4 validates its analysis with a simulator of such networks; this is ours. Beyond it:
any distribution of service and of periods, recorded periods, rates that change by bins, finite buffers and
events that expire. Same seed, same run.
"""

import itertools
import math
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from roamq.sim.engine import Engine

Floats = NDArray[np.float64]
Draw = Callable[[], float]
Sampler = Callable[[np.random.Generator, int], Floats]
"""(generator, size) -> that many durations in seconds."""

_BLOCK_MAX: Final = 1 << 15
"""Random numbers are drawn in blocks that grow up to this: one by one they would cost more than the queue."""


def exponential(mean_s: float) -> Sampler:
    return lambda rng, size: mean_s * rng.standard_exponential(size)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Durations as they were recorded, in their order, again from the start after the last."""

    durations_s: Floats


def recorded(durations_s: Sequence[float] | Floats) -> Recorded:
    """Durations for a centre that repeats a recording. A run keeps nothing for the next: same seed, same run."""
    values = np.asarray(durations_s, dtype=np.float64)
    if not values.size:
        raise ValueError("durations_s: is empty; a recording needs at least one duration")
    return Recorded(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCentre:
    """One server with a first-come-first-served queue; OFF interrupts a service, ON resumes it."""

    service: Sampler | Recorded
    on: Sampler | Recorded | None = None
    """Connected periods; with `off`. Without them the server is always on."""
    off: Sampler | Recorded | None = None
    other_rate: float = 0.0
    """Poisson events of other flows, which are served here and leave."""
    capacity: int | None = None
    """Events that fit in, the one in service included; one that finds the centre full is lost."""
    drops_oldest: bool = False
    """An event that finds the centre full takes the place of the oldest that waits; that one is lost."""


def exponential_centre(
    demand_s: float, *, t_on_s: float = math.inf, t_off_s: float = 0.0, other_rate: float = 0.0
) -> SimulatedCentre:
    """A centre whose service and periods are exponential with these means; without a disconnected period, M/M/1."""
    is_on_off = t_off_s > 0 and math.isfinite(t_on_s)
    return SimulatedCentre(
        service=exponential(demand_s),
        on=exponential(t_on_s) if is_on_off else None,
        off=exponential(t_off_s) if is_on_off else None,
        other_rate=other_rate,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """What happened to the events of the flow under study, in order of their end."""

    births_s: Floats
    responses_s: Floats
    lost: int
    """Found a buffer full."""
    expired: int
    """Outlived their time-to-live on the way, and were dropped."""
    customers: int
    """All that arrived, other flows included: the measure of speed."""

    @property
    def delivered_share(self) -> float:
        delivered = self.responses_s.size
        return delivered / (delivered + self.lost + self.expired)

    def mean_s(self) -> float:
        return float(self.responses_s.mean())

    def half_width_s(self, *, batches: int = 30, confidence: float = 0.95) -> float:
        """Half of the confidence interval of the mean, from the means of batches: neighbouring responses are
        correlated.
        """
        usable = self.responses_s.size // batches * batches
        means = self.responses_s[:usable].reshape(batches, -1).mean(axis=1)
        return float(stats.t.ppf((1 + confidence) / 2, batches - 1) * means.std(ddof=1) / math.sqrt(batches))

    def quantile_s(self, share: float) -> float:
        return float(np.quantile(self.responses_s, share))


def simulate(
    centres: Sequence[SimulatedCentre],
    *,
    seed: int,
    until_s: float,
    rate: float | None = None,
    bin_rates: Sequence[float] = (),
    bin_s: float = 600.0,
    warmup_s: float = 0.0,
    ttl: Sampler | None = None,
) -> Run:
    """Send Poisson events through `centres` in turn; report those born in [warmup_s, until_s].

    The rate is constant, or constant by bins of `bin_s` ([TIME] Eq. 17) which start anew after the last. The run
    goes on until the last of the reported events has left, so that slow ones count too.
    """
    assert (rate is None) != (not bin_rates), "give either rate or bin_rates"
    engine = Engine()
    seeds = iter(np.random.SeedSequence(seed).spawn(3 * len(centres) + 2))
    sink = _Sink(warmup_s, until_s)
    after: _Station | _Sink = sink
    stations: list[_Station] = []
    for centre in reversed(centres):
        after = _make_station(engine, centre, seeds, after, sink)
        after.expires = ttl is not None
        stations.append(after)
    arrivals = _arrivals(next(seeds), until_s, bin_rates or (rate or 0.0,), bin_s)
    lifetime = _draws(ttl, next(seeds)) if ttl is not None else None
    first = stations[-1]
    first.feed(arrivals, lifetime)
    engine.run(until_s)
    while sink.waiting or first.next_birth < math.inf:
        engine.run(engine.now + max(until_s / 50, bin_s))
    customers = first.pulled + sum(station.others for station in stations)
    return Run(np.array(sink.births), np.array(sink.responses), sink.lost, sink.expired, customers)


DEVIATION_MAX: Final = 0.05
"""[TIME] calls an analysis accurate that is "less than 5%" off the simulation."""


@dataclass(frozen=True, slots=True)
class MeanOfRuns:
    """A mean over independent runs with its 95% confidence interval."""

    mean: float
    half_width: float
    half_width_joint: float
    """At 99.9%: many points are judged at once, and one in twenty would leave its 95% interval by chance."""

    def agrees_with(self, value: float, deviation_max: float = DEVIATION_MAX) -> bool:
        """Whether the runs show that their mean is within `deviation_max` of the value: the whole 99.9% interval is.

        Runs whose interval is wider than that agree with nothing.
        """
        return abs(self.mean - value) + self.half_width_joint <= deviation_max * value


def replicate(
    centres: Sequence[SimulatedCentre], *, rate: float, until_s: float, runs: int = 8, first_seed: int = 1
) -> MeanOfRuns:
    """The mean response time over runs that differ in their seed alone.

    Runs from different points must not share seeds, or one unlucky draw shows in all of them.
    """
    means = [
        simulate(centres, seed=first_seed + run, rate=rate, until_s=until_s, warmup_s=until_s / 20).mean_s()
        for run in range(runs)
    ]
    return mean_of_runs(means)


def mean_of_runs(means: Sequence[float]) -> MeanOfRuns:
    """The mean of the runs' means, with the intervals that their spread gives."""
    error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
    t_95, t_joint = (float(stats.t.ppf(share, len(means) - 1)) for share in (0.975, 0.9995))
    return MeanOfRuns(float(np.mean(means)), t_95 * error, t_joint * error)


class _Sink:
    """Where events end. Those born in the measured span are counted; the others only load the centres."""

    __slots__ = ("births", "expired", "lost", "responses", "until_s", "waiting", "warmup_s")

    def __init__(self, warmup_s: float, until_s: float) -> None:
        self.warmup_s = warmup_s
        self.until_s = until_s
        self.births = array("d")
        self.responses = array("d")
        self.lost = 0
        self.expired = 0
        self.waiting = 0
        """Measured events still under way."""

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


class _Station:
    """A centre at work: the head of the queue is in service, `remaining` of it still to be done.

    Going through the engine's heap for every event would dominate the cost, so a station advances the clock
    itself as long as its own next step comes before everything that is scheduled: the order of all steps is
    the one the heap would give. The first station reads its arrivals from a stream, for the same reason.
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

    def __init__(self, engine: Engine, service: Draw, after: "_Station | _Sink", sink: _Sink) -> None:
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
        """An event from the centre before, or of another flow. Never works ahead: the caller is at work."""
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
        """Let in what the stream has up to now; nothing has left since, so doing it late changes nothing."""
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
        """Whether the buffer is full of live events. In truth expired events leave at once; here they are removed
        only when their room is needed.
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
        """Drop the oldest event that waits, if that is the rule and one does."""
        if not self.drops_oldest or len(self.queue) < 2:
            return False
        self.sink.drop(self.queue[1][0], expired=False)
        del self.queue[1]
        return True

    def _schedule(self, now: float) -> None:
        """Put the end of the service under way, or the event's deadline if that is first, on the heap."""
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
        """Serve one event after the other until something else is due first."""
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
            if not is_last:  # the event that went on may have made the next centre schedule something
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
        """An event of another flow: born before all time, so it is served here and goes nowhere."""
        assert self.draw_other is not None
        self.others += 1
        self.arrive(self.engine.now, -1.0, math.inf)
        self.engine.after(self.draw_other(), self.other)


def _make_station(
    engine: Engine,
    centre: SimulatedCentre,
    seeds: Iterator[np.random.SeedSequence],
    after: _Station | _Sink,
    sink: _Sink,
) -> _Station:
    service_seed, connectivity_seed, other_seed = next(seeds), next(seeds), next(seeds)
    station = _Station(engine, _draws(centre.service, service_seed), after, sink)
    station.capacity = math.inf if centre.capacity is None else centre.capacity
    station.drops_oldest = centre.drops_oldest
    if centre.on is not None and centre.off is not None:
        on_seed, off_seed = connectivity_seed.spawn(2)
        station.draw_on, station.draw_off = _draws(centre.on, on_seed), _draws(centre.off, off_seed)
        station.is_on, left_s = _settled(station.draw_on, station.draw_off)
        engine.after(left_s, station.switch_off if station.is_on else station.switch_on)
    if centre.other_rate > 0:
        station.draw_other = _draws(exponential(1 / centre.other_rate), other_seed)
        engine.after(station.draw_other(), station.other)
    return station


def _settled(draw_on: Draw, draw_off: Draw) -> tuple[bool, float]:
    """State and remaining time of periods that began long ago: starting with all peers connected would bias the
    result.
    """
    past_s = 20 * (sum(draw_on() + draw_off() for _ in range(64)) / 64)
    while True:
        past_s -= draw_on()
        if past_s < 0:
            return True, -past_s
        past_s -= draw_off()
        if past_s < 0:
            return False, -past_s


def _block_sizes() -> Iterator[int]:
    size = 64
    while True:
        yield size
        size = min(2 * size, _BLOCK_MAX)


def _draws(sampler: Sampler | Recorded, seed: np.random.SeedSequence) -> Draw:
    """One duration a call, drawn in blocks."""
    if isinstance(sampler, Recorded):
        return itertools.cycle(sampler.durations_s.tolist()).__next__
    rng = np.random.default_rng(seed)
    blocks = (sampler(rng, size).tolist() for size in _block_sizes())
    return itertools.chain.from_iterable(blocks).__next__


def _arrivals(seed: np.random.SeedSequence, until_s: float, rates: Sequence[float], bin_s: float) -> Draw:
    """Poisson arrival times up to `until_s`, then infinity for ever.

    Unit-rate arrivals live on the axis of expected counts; the piecewise linear map from time to expected
    count is inverted, so a bin's end needs no special case.
    """
    bins = math.ceil(until_s / bin_s) if len(rates) > 1 else 1
    ends = np.minimum(np.arange(bins + 1) * bin_s, until_s) if bins > 1 else np.array([0.0, until_s])
    counts = np.concatenate([[0.0], np.cumsum(np.diff(ends) * np.resize(np.asarray(rates), bins))])
    rng = np.random.default_rng(seed)

    def blocks() -> Iterator[list[float]]:
        total = 0.0
        for size in _block_sizes():
            expected = total + np.cumsum(rng.standard_exponential(size))
            total = float(expected[-1])
            inside = expected[expected <= counts[-1]]
            yield np.interp(inside, counts, ends).tolist()
            if total >= counts[-1]:
                return

    return itertools.chain(itertools.chain.from_iterable(blocks()), itertools.repeat(math.inf)).__next__
