"""Queueing in virtual time: centres in a row, each always on or ON/OFF, to check the closed forms against.

Paper: [TIME] section 4 validates its analysis with a simulator of such networks; this is ours. Beyond it:
any distribution of service and of periods, recorded periods, rates that change by bins, finite buffers and
events that expire. Same seed, same run.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # `scipy.stats` has the same, and takes a second to import

from roamq.sim.centres import CentreAtWork, Draw, EventSink
from roamq.sim.engine import Engine

Floats = NDArray[np.float64]
Sampler = Callable[[np.random.Generator, int], Floats]
"""(generator, size) -> that many durations in seconds."""

_BLOCK_MAX: Final = 1 << 15
"""Random numbers are drawn in blocks that grow up to this: one by one they would cost more than the queue."""


def exponential(mean_s: float) -> Sampler:
    return lambda rng, size: mean_s * rng.standard_exponential(size)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Durations as they were recorded, in their order; after the last the first follows again."""

    durations_s: Floats


def recorded(durations_s: Sequence[float] | Floats) -> Recorded:
    """Makes durations that repeat a recording. A run keeps nothing for the next: same seed, same run."""
    values = np.asarray(durations_s, dtype=np.float64)
    if not values.size:
        raise ValueError("durations_s: is empty; a recording needs at least one duration")
    return Recorded(values)


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedCentre:
    """One server with a first-come-first-served queue; OFF interrupts a service, ON resumes it."""

    service: Sampler | Recorded
    on: Sampler | Recorded | None = None
    """Connected periods, given together with `off`; None: the server is always on."""
    off: Sampler | Recorded | None = None
    other_rate: float = 0.0
    """Events per second of other flows (Poisson), which are served here and leave."""
    capacity: int | None = None
    """Number of events that fit in, the one in service included; None: any. A full centre loses events that come."""
    drops_oldest: bool = False
    """Whether an event that finds the centre full takes the place of the oldest that waits, which is lost instead."""


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
    """Events that found a buffer full."""
    expired: int
    """Events that outlived their time-to-live on the way, and were dropped."""
    customers: int
    """All events that arrived, those of other flows included: the measure of speed."""

    @property
    def delivered_share(self) -> float:
        delivered = self.responses_s.size
        return delivered / (delivered + self.lost + self.expired)

    def mean_s(self) -> float:
        return float(self.responses_s.mean())

    def half_width_s(self, *, batches: int = 30, confidence: float = 0.95) -> float:
        """Half the width of the confidence interval of the mean, from means of batches, since neighbouring responses
        are correlated.
        """
        usable = self.responses_s.size // batches * batches
        means = self.responses_s[:usable].reshape(batches, -1).mean(axis=1)
        reach = float(stdtrit(batches - 1, (1 + confidence) / 2))
        return reach * float(means.std(ddof=1)) / math.sqrt(batches)

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
    sink = EventSink(warmup_s, until_s)
    after: CentreAtWork | EventSink = sink
    working: list[CentreAtWork] = []
    for centre in reversed(centres):
        after = _set_to_work(engine, centre, seeds, after, sink)
        after.expires = ttl is not None
        working.append(after)
    arrivals = _arrivals(next(seeds), until_s, bin_rates or (rate or 0.0,), bin_s)
    lifetime = _draws(ttl, next(seeds)) if ttl is not None else None
    first = working[-1]
    first.feed(arrivals, lifetime)
    engine.run(until_s)
    while sink.waiting or first.next_birth < math.inf:
        engine.run(engine.now + max(until_s / 50, bin_s))
    customers = first.pulled + sum(at_work.others for at_work in working)
    return Run(np.array(sink.births), np.array(sink.responses), sink.lost, sink.expired, customers)


DEVIATION_MAX: Final = 0.05
"""Deviation within which values agree: [TIME] calls an analysis accurate that is "less than 5%" off the simulation."""


@dataclass(frozen=True, slots=True)
class MeanOfRuns:
    """A mean over independent runs with its 95% confidence interval."""

    mean: float
    half_width: float
    half_width_joint: float
    """Half the width at 99.9%: of many points judged at once, one in twenty leaves its 95% interval by chance."""

    def agrees_with(self, value: float, deviation_max: float = DEVIATION_MAX) -> bool:
        """Whether the runs show that their mean is within `deviation_max` of the value: their whole 99.9% interval is.

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
    t_95, t_joint = (float(stdtrit(len(means) - 1, share)) for share in (0.975, 0.9995))
    return MeanOfRuns(float(np.mean(means)), t_95 * error, t_joint * error)


def _set_to_work(
    engine: Engine,
    centre: SimulatedCentre,
    seeds: Iterator[np.random.SeedSequence],
    after: CentreAtWork | EventSink,
    sink: EventSink,
) -> CentreAtWork:
    service_seed, connectivity_seed, other_seed = next(seeds), next(seeds), next(seeds)
    at_work = CentreAtWork(engine, _draws(centre.service, service_seed), after, sink)
    at_work.capacity = math.inf if centre.capacity is None else centre.capacity
    at_work.drops_oldest = centre.drops_oldest
    if centre.on is not None and centre.off is not None:
        on_seed, off_seed = connectivity_seed.spawn(2)
        at_work.draw_on, at_work.draw_off = _draws(centre.on, on_seed), _draws(centre.off, off_seed)
        at_work.is_on, left_s = _settled(at_work.draw_on, at_work.draw_off)
        engine.after(left_s, at_work.switch_off if at_work.is_on else at_work.switch_on)
    if centre.other_rate > 0:
        at_work.draw_other = _draws(exponential(1 / centre.other_rate), other_seed)
        engine.after(at_work.draw_other(), at_work.other)
    return at_work


def _settled(draw_on: Draw, draw_off: Draw) -> tuple[bool, float]:
    """Draws state and remaining time of periods that began long ago: to start with all peers connected would bias the
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
    """Draws in blocks, and gives one duration per call."""
    if isinstance(sampler, Recorded):
        return itertools.cycle(sampler.durations_s.tolist()).__next__
    rng = np.random.default_rng(seed)
    blocks = (sampler(rng, size).tolist() for size in _block_sizes())
    return itertools.chain.from_iterable(blocks).__next__


def _arrivals(seed: np.random.SeedSequence, until_s: float, rates: Sequence[float], bin_s: float) -> Draw:
    """Gives Poisson arrival times up to `until_s`, then infinity for ever.

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
