"""A centre behind a peer that reconnects: the burst that the peer releases.

An ON/OFF centre stores events while its peer is away and releases them as fast as it can at the reconnection. [TIME]
takes its departures as Poisson, which understates the queue of every centre behind it. Here the departures are a
Markovian arrival process (MAP): its phase is the connectivity of the peer and the backlog, and the centre behind it is
solved as a quasi-birth-death process. A small backlog is counted event by event, and the answer is exact. A large one
is counted in lumps of several events: it grows while the peer is away and shrinks, at the mean speed, once it is back.
Lumps make the backlog too variable, in proportion to their size; so two sizes are solved, and the line through both
answers is followed to lumps of one event.

The stretch of service by interruptions follows the breakdown-queue literature (White and Christie 1958; Avi-Itzhak and
Naor 1963), to which Theorem 2 of [TIME] belongs as well.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roamq.models.intermittent import IntermittentQueue, first_passage_down, left_null_vector
from roamq.models.phase_type import MatrixExponential, exponential, with_moments
from roamq.models.queueing import Centre

Floats = NDArray[np.float64]

LUMPS_PER_MEAN: Final = (3, 6)
"""The backlog is counted in lumps, so many to its mean."""

BACKLOG_MAX: Final = 9
"""The backlog is followed to so many times its mean: an exponential one is longer once in 8,000 times."""

EXACT_MAX: Final = 54
"""A backlog that is hardly ever longer is counted event by event."""

SCV_MIN: Final = 0.05

NEGLIGIBLE: Final = 0.005
"""A burst that cannot change the response time of a path by more than this share is not computed."""

LEVELS_MAX: Final = 20_000
"""Events present, at most, at a centre whose connected periods have phases."""

SHARE_MIN: Final = 0.01
"""Times away are found to this share of the peer's."""

STATES_MAX: Final = 460
"""A larger chain takes longer than a second. Periods that are not exponential have phases; see `_by_variability`."""

REGULAR_SCV: Final = 0.5
"""The variability of periods of two phases: the least that is solved where the chain is too large."""


@dataclass(frozen=True, slots=True)
class BurstyResponse:
    """The response time at one centre, of the events that come in bursts."""

    mean_s: float
    variance_s2: float

    @property
    def scv(self) -> float:
        return self.variance_s2 / self.mean_s**2


@dataclass(frozen=True, kw_only=True)
class Departures:
    """The events that leave an ON/OFF centre, as a Markovian arrival process."""

    source: IntermittentQueue
    lumps_per_mean: int = LUMPS_PER_MEAN[-1]

    @cached_property
    def lump(self) -> float:
        """Events to a lump of the backlog."""
        lump = self.source.mean_present() / self.lumps_per_mean
        return 1.0 if lump <= 1 or self.source.present_above(EXACT_MAX) < 1e-5 else lump

    @cached_property
    def released(self) -> Floats:
        """Rates between phases with which an event leaves."""
        lumps, leaving = self._lumps, 1 / self.source.service.mean()
        if self.lump > 1:
            # A backlog leaves at full speed; what arrives without a backlog goes straight on.
            while_on = np.diag(np.where(np.arange(lumps) > 0, leaving, self.source.rate))
        else:
            while_on = leaving * np.eye(lumps, k=-1)
        return np.asarray(np.kron(np.diag(self.source.is_on), while_on), dtype=np.float64)

    @cached_property
    def hidden(self) -> Floats:
        """Rates between phases without an event that leaves: connectivity, and changes of the backlog."""
        lumps, arriving, leaving = self._lumps, self.source.rate, 1 / self.source.service.mean()
        grow = np.eye(lumps, k=1) * arriving / self.lump
        while_on = np.eye(lumps, k=-1) * (leaving - arriving) / self.lump if self.lump > 1 else grow
        is_on = self.source.is_on
        rates = (
            np.kron(self.source.connectivity, np.eye(lumps))
            + np.kron(np.diag(is_on), while_on)
            + np.kron(np.diag(1 - is_on), grow)
        )
        np.fill_diagonal(rates, 0.0)
        np.fill_diagonal(rates, -(rates.sum(axis=1) + self.released.sum(axis=1)))
        return np.asarray(rates, dtype=np.float64)

    @cached_property
    def _lumps(self) -> int:
        if self.lump > 1:
            return BACKLOG_MAX * self.lumps_per_mean + 1
        # Lumps of one event: as many as the centre ever holds but once in a hundred thousand times.
        levels = 8
        while levels < EXACT_MAX and self.source.present_above(levels) > 1e-5:
            levels += 8
        return levels + 1


def behind(
    source: IntermittentQueue, centre: IntermittentQueue, *, other_rate: float = 0.0
) -> BurstyResponse:
    """The response time that the events from `source` find at `centre`, which Poisson events of `other_rate` share.

    `centre.rate` is the total rate; the service of both must be exponential.
    """
    if _is_too_large(source, centre):
        return _by_variability(source, centre, other_rate)
    return _by_size(source, centre, other_rate)


def _by_size(source: IntermittentQueue, centre: IntermittentQueue, other_rate: float) -> BurstyResponse:
    """Two sizes of lumps, and the line through both answers."""
    coarse, fine = (Departures(source=source, lumps_per_mean=lumps) for lumps in LUMPS_PER_MEAN)
    finest = behind_departures(fine, centre, other_rate=other_rate)
    if fine.lump == 1:
        return finest
    coarser = behind_departures(coarse, centre, other_rate=other_rate)
    # Linear in the size of a lump, and wanted for lumps of one event.
    further = (fine.lump - 1) / (coarse.lump - fine.lump)
    mean_s = finest.mean_s + further * (finest.mean_s - coarser.mean_s)
    variance_s2 = finest.variance_s2 + further * (finest.variance_s2 - coarser.variance_s2)
    return BurstyResponse(mean_s, max(variance_s2, SCV_MIN * mean_s**2))


def _is_too_large(source: IntermittentQueue, centre: IntermittentQueue) -> bool:
    backlog = BACKLOG_MAX * LUMPS_PER_MEAN[-1] + 1
    has_phases = any(law.phases > 1 for law in _laws(source, centre).values())
    return has_phases and backlog * source.phases * centre.phases > STATES_MAX


def _by_variability(
    source: IntermittentQueue, centre: IntermittentQueue, other_rate: float
) -> BurstyResponse:
    """What bursts add where the periods have too many phases together.

    The variabilities of the periods act on a queue by their sum, the more exactly the busier it is, so each is changed
    for itself, from exponential to its own; and one that hardly varies from exponential to two phases, and on along
    that line. What the centre takes without bursts is known.
    """
    laws = {place: law for place, law in _laws(source, centre).items() if law.phases > 1}
    usual = {place: exponential(law.mean()) for place, law in laws.items()}
    base, base_scv = _added(source, centre, usual, other_rate)
    added, scv = base, base_scv
    for place, law in laws.items():
        solved = law if law.phases == 2 else with_moments(law.mean(), REGULAR_SCV)
        there, scv_there = _added(source, centre, {**usual, place: solved}, other_rate)
        further = (1 - _scv(law)) / (1 - _scv(solved))
        added += further * (there - base)
        scv += further * (scv_there - base_scv)
    mean_s = max(added, 0.0) + centre.mean_response_s()
    return BurstyResponse(mean_s, max(scv, SCV_MIN) * mean_s**2)


def _added(
    source: IntermittentQueue,
    centre: IntermittentQueue,
    laws: Mapping[tuple[int, str], MatrixExponential],
    other_rate: float,
) -> tuple[float, float]:
    """What bursts add to the mean with these periods in place of others, and the variability with them."""
    queues = [
        replace(queue, on=laws.get((place, "on"), queue.on), off=laws.get((place, "off"), queue.off))
        for place, queue in enumerate((source, centre))
    ]
    bursty = _by_size(queues[0], queues[1], other_rate)
    return bursty.mean_s - queues[1].mean_response_s(), bursty.scv


def _laws(*queues: IntermittentQueue) -> dict[tuple[int, str], MatrixExponential]:
    """(which queue, "on" or "off") -> its periods."""
    return {
        (place, name): law
        for place, queue in enumerate(queues)
        for name, law in (("on", queue.on), ("off", queue.off))
        if law is not None
    }


def _scv(law: MatrixExponential) -> float:
    return law.variance() / law.mean() ** 2


def behind_departures(
    departures: Departures, centre: IntermittentQueue, *, other_rate: float = 0.0
) -> BurstyResponse:
    """The same for lumps of one size."""
    if centre.utilisation >= 1:
        raise ValueError(f"saturated: utilisation is {centre.utilisation:.3g}, so there is no steady state")
    phases, behind_phases = departures.hidden.shape[0], centre.phases
    own: Floats = np.kron(departures.released, np.eye(behind_phases)).astype(np.float64)
    size = own.shape[0]
    up = own + other_rate * np.eye(size)
    down: Floats = np.kron(np.eye(phases), centre.completions).astype(np.float64)
    moves = np.kron(departures.hidden, np.eye(behind_phases)) + np.kron(np.eye(phases), centre.idle)
    local_empty = moves - other_rate * np.eye(size)
    local = local_empty - np.diag(down.sum(axis=1))
    passage = first_passage_down(up, local, down)
    r = up @ np.linalg.inv(-(local + up @ passage))
    empty = left_null_vector(local_empty + r @ down, normal=np.ones(size))
    complement = np.eye(size) - r
    total = np.linalg.solve(complement.T, empty)
    scale = float(total.sum())
    if centre.on is not None and centre.on.phases > 1:
        return _response_by_level(centre, empty / scale, r, own)
    # What an event of the burst finds: sums over the levels of 1, n and n^2 times the probability of level n.
    first = np.linalg.solve(complement.T, total @ r)
    second = np.linalg.solve(complement.T, first + first @ r)
    sums = [
        np.reshape(level @ own, (phases, behind_phases)).sum(axis=0) / scale
        for level in (total, first, second)
    ]
    return _response(centre, *(part / float(sums[0].sum()) for part in sums))


def _response_by_level(centre: IntermittentQueue, level: Floats, r: Floats, own: Floats) -> BurstyResponse:
    """The same where connected periods have phases: how long one service takes tells of the next.

    Level by level: an event that finds n others leaves after n + 1 services, whose first two moments follow from those
    of n services by the phase that the first one ends in.
    """
    one_s = np.linalg.solve(-centre.busy, np.ones(centre.phases))
    square = 2 * np.linalg.solve(-centre.busy, one_s)
    following = np.linalg.solve(-centre.busy, centre.completions)
    timed = np.linalg.solve(-centre.busy, following)
    once, twice = one_s, square
    share = mean = second = 0.0
    for _ in range(LEVELS_MAX):
        arriving = np.reshape(level @ own, (-1, centre.phases)).sum(axis=0)
        share += float(arriving.sum())
        mean += float(arriving @ once)
        second += float(arriving @ twice)
        if float(arriving @ twice) < 1e-9 * second:
            break
        once, twice = one_s + following @ once, square + 2 * timed @ once + following @ twice
        level = level @ r
    mean, second = mean / share, second / share
    return BurstyResponse(mean, max(second - mean**2, SCV_MIN * mean**2))


def _response(centre: IntermittentQueue, share: Floats, ahead: Floats, ahead_2: Floats) -> BurstyResponse:
    """The law of n + 1 services, one after the other, of which only the first may begin disconnected: those that follow
    are alike, for connected periods are exponential.

    By phase of the centre: the share of arrivals, the mean number found times the share, and the mean square.
    """
    one_s = np.linalg.solve(-centre.busy, np.ones(centre.phases))
    square = 2 * np.linalg.solve(-centre.busy, one_s)
    following = np.linalg.solve(-centre.busy, centre.completions)
    generator = following - np.eye(centre.phases)
    at_service = left_null_vector(generator, normal=np.ones(centre.phases))
    next_s = float(at_service @ one_s)
    next_variance = float(at_service @ square) - next_s**2
    first_s, first_2 = float(share @ one_s), float(share @ square)
    count, count_2 = float(ahead.sum()), float(ahead_2.sum())
    mean = first_s + count * next_s
    second = first_2 + 2 * next_s * float(ahead @ one_s) + count * next_variance + count_2 * next_s**2
    return BurstyResponse(mean, max(second - mean**2, SCV_MIN * mean**2))


@dataclass(frozen=True, slots=True)
class SolvedCentre:
    """A centre of a path with the law of its response time; both laws are None if the centre is saturated."""

    centre: Centre
    queue: IntermittentQueue | None
    """The exact model of an ON/OFF centre."""
    law: MatrixExponential | None
    poisson_mean_s: float | None
    """The mean response time if events came as a Poisson process, as [TIME] assumes."""
    source: IntermittentQueue | None = None
    """All before it that stores events while a peer is away, as one ON/OFF centre; None if events come as they are
    published."""

    @property
    def burst_s(self) -> float:
        """What the bursts of the centres before it add to the mean response time."""
        if self.law is None or self.poisson_mean_s is None:
            return 0.0
        return self.law.mean() - self.poisson_mean_s

    @property
    def burst_bound_s(self) -> float:
        """What they may add at most, roughly."""
        if self.source is None:
            return 0.0
        return _burst_bound_s(self.source, queue_of(self.centre, 1.0, 1.0))


def solve_path(centres: Sequence[Centre], *, on_scv: float = 1.0, off_scv: float = 1.0) -> list[SolvedCentre]:
    """The response time at every centre of a path, with the bursts that ON/OFF centres release to those behind them.

    A burst leaves an ON/OFF centre at the speed of that centre, or of the slowest centre that it has passed since; see
    `_as_one`. A centre where the burst cannot change the path's mean by more than `NEGLIGIBLE` is left as it is.
    """
    solved: list[SolvedCentre] = []
    queues = [queue_of(centre, on_scv, off_scv) for centre in centres]
    if any(centre.is_saturated for centre in centres):
        return _saturated(centres, queues)
    total_s = sum(queue.mean_response_s() for queue in queues)
    known: dict[tuple[float, ...], BurstyResponse] = {}
    source: IntermittentQueue | None = None
    for centre, queue in zip(centres, queues, strict=True):
        here = replace(_alone(centre, queue), source=source)
        if source is not None and _burst_bound_s(source, queue) > NEGLIGIBLE * total_s:
            key = (id(source), centre.demand_s, centre.other_rate, centre.t_on_s, centre.t_off_s)
            if key not in known:
                known[key] = behind(source, queue, other_rate=centre.other_rate)
            here = replace(here, law=with_moments(known[key].mean_s, known[key].scv))
        solved.append(here)
        assert here.law is not None
        if centre.is_on_off:
            source = _released_by(replace(queue, rate=centre.rate), here.law.mean() / queue.mean_response_s())
        elif source is not None:
            source = _as_one(source, centre, here.law.mean())
    return solved


def _saturated(centres: Sequence[Centre], queues: Sequence[IntermittentQueue]) -> list[SolvedCentre]:
    """No response times along the path; a finite buffer still asks which ON/OFF centre is before it."""
    solved, source = [], None
    for centre, queue in zip(centres, queues, strict=True):
        solved.append(replace(_alone(centre, queue), source=source))
        if centre.is_on_off:
            source = replace(queue, rate=centre.rate)
    return solved


def _as_one(source: IntermittentQueue, centre: Centre, response_s: float) -> IntermittentQueue:
    """A source and the always connected centre behind it, as one ON/OFF centre.

    It releases events at the speed that the slower of the two has for them. A centre that is always connected goes on
    with what it has when the peer is away, so together they are away for a shorter time: as long as makes them hold
    as many events as they do.
    """
    alone_s = centre.demand_s / (1 - centre.other_rate * centre.demand_s)
    if alone_s <= source.service.mean() or source.on is None or source.off is None:
        return source
    on, off, service = source.on, source.off, exponential(alone_s)
    cycle_s = on.mean() + off.mean()

    def away(share: float) -> IntermittentQueue:
        off_s = share * off.mean()
        return replace(
            source,
            service=service,
            on=_scaled(on, (cycle_s - off_s) / on.mean()),
            off=_scaled(off, share),
        )

    held_s = source.mean_response_s() + response_s
    low, high = SHARE_MIN, 1.0
    while high - low > SHARE_MIN:
        middle = (low + high) / 2
        tried = away(middle)
        if tried.utilisation >= 1 or tried.mean_response_s() > held_s:
            high = middle
        else:
            low = middle
    return away(low)


def _released_by(queue: IntermittentQueue, longer: float) -> IntermittentQueue:
    """An ON/OFF centre that itself gets bursts holds so many times as many events: as with longer periods."""
    if longer <= 1 or queue.on is None or queue.off is None:
        return queue
    return replace(queue, on=_scaled(queue.on, longer), off=_scaled(queue.off, longer))


def _scaled(law: MatrixExponential, times: float) -> MatrixExponential:
    """The law of so many times the duration."""
    return replace(law, generator=law.generator / times)


def law_of(solved: Sequence[SolvedCentre]) -> MatrixExponential | None:
    """The law of the whole path; None if a centre is saturated."""
    laws = [solution.law for solution in solved if solution.law is not None]
    if len(laws) < len(solved):
        return None
    return reduce(MatrixExponential.then, laws)


def _alone(centre: Centre, queue: IntermittentQueue) -> SolvedCentre:
    """The centre as if its events came as a Poisson process."""
    law = None if centre.is_saturated else queue.response_distribution()
    return SolvedCentre(centre, queue if centre.is_on_off else None, law, law.mean() if law else None)


def queue_of(centre: Centre, on_scv: float, off_scv: float) -> IntermittentQueue:
    """The model of a centre, with periods of such variability."""
    return IntermittentQueue(
        rate=centre.rate + centre.other_rate,
        service=exponential(centre.demand_s),
        on=with_moments(centre.t_on_s, on_scv) if centre.is_on_off else None,
        off=with_moments(centre.t_off_s, off_scv) if centre.is_on_off else None,
    )


def _burst_bound_s(source: IntermittentQueue, centre: IntermittentQueue) -> float:
    """What a burst adds at most, roughly: the queue that grows while it arrives."""
    backlog = source.mean_present()
    slower_s = max(0.0, centre.service.mean() - source.service.mean())
    return (backlog * slower_s + math.sqrt(backlog) * centre.service.mean()) / centre.share_on
