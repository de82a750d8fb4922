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

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, reduce
from pathlib import Path
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

SOURCE_UTILISATION_MAX: Final = 0.98

STATES_MAX: Final = 460
"""A larger chain takes longer than a second. Periods that hardly vary have many phases: they are then taken as a little
more variable, for the bursts alone."""

RARE: Final = 3.0
"""A peer that is connected so many times as long as it is away is rarely away. Few events are in a burst then, and two
moments do not tell how long these take."""

RARE_BURST: Final = 0.05
"""What bursts add is told as a share of the path's mean from here on."""

ERRORS_FILE: Final = Path(__file__).with_name("burst_errors.json")
"""The map of errors against simulation, which `python -m benchmarks.bursts --write` makes."""

ERROR_MAX: Final = 0.1
"""An error of the mean, or of the 95th percentile, beyond this is told."""


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
    phases = phases_for_bursts(source, centre)
    if phases is not None:
        rough = _with_phases(centre, phases)
        bursty = behind(_with_phases(source, phases), rough, other_rate=other_rate)
        # What bursts add is taken over; what the centre takes without them is known.
        mean_s = max(bursty.mean_s - rough.mean_response_s(), 0.0) + centre.mean_response_s()
        return BurstyResponse(mean_s, bursty.scv * mean_s**2)
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


def phases_for_bursts(source: IntermittentQueue, centre: IntermittentQueue) -> int | None:
    """How many phases the periods of both may have; None if they have no more than that already."""
    most = max(law.phases for law in (source.on, source.off, centre.on, centre.off) if law is not None)
    backlog = BACKLOG_MAX * LUMPS_PER_MEAN[-1] + 1

    def states(phases: int) -> int:
        kept = [
            sum(min(law.phases, max(phases, 2)) for law in (queue.on, queue.off) if law is not None) or 1
            for queue in (source, centre)
        ]
        return backlog * kept[0] * kept[1]

    allowed = next((phases for phases in range(most, 1, -1) if states(phases) <= STATES_MAX), 2)
    return None if allowed >= most or most <= 2 else allowed


def _with_phases(queue: IntermittentQueue, phases: int) -> IntermittentQueue:
    """The same centre with periods that are as regular as so many phases allow."""
    if queue.on is None or queue.off is None:
        return queue
    on, off = (
        law if law.phases <= phases else with_moments(law.mean(), max(_scv(law), 1 / phases))
        for law in (queue.on, queue.off)
    )
    return replace(queue, on=on, off=off)


def _scv(law: MatrixExponential) -> float:
    return law.variance() / law.mean() ** 2


def behind_departures(
    departures: Departures, centre: IntermittentQueue, *, other_rate: float = 0.0
) -> BurstyResponse:
    """The same for lumps of one size."""
    if centre.utilisation >= 1:
        raise ValueError(f"saturated: utilisation is {centre.utilisation:.3g}, so there is no steady state")
    phases, behind_phases = departures.hidden.shape[0], centre.phases
    own = np.kron(departures.released, np.eye(behind_phases))
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
    # What an event of the burst finds: sums over the levels of 1, n and n^2 times the probability of level n.
    first = np.linalg.solve(complement.T, total @ r)
    second = np.linalg.solve(complement.T, first + first @ r)
    sums = [
        np.reshape(level @ own, (phases, behind_phases)).sum(axis=0) / scale
        for level in (total, first, second)
    ]
    return _response(centre, *(part / float(sums[0].sum()) for part in sums))


def _response(centre: IntermittentQueue, share: Floats, ahead: Floats, ahead_2: Floats) -> BurstyResponse:
    """The law of n + 1 services, one after the other, of which only the first may begin disconnected.

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

    @property
    def burst_s(self) -> float:
        """What the bursts of the centres before it add to the mean response time."""
        if self.law is None or self.poisson_mean_s is None:
            return 0.0
        return self.law.mean() - self.poisson_mean_s


def solve_path(centres: Sequence[Centre], *, on_scv: float = 1.0, off_scv: float = 1.0) -> list[SolvedCentre]:
    """The response time at every centre of a path, with the bursts that ON/OFF centres release to those behind them.

    A burst leaves an ON/OFF centre at the speed of that centre, or of the slowest centre that it has passed since. A
    centre where the burst cannot change the path's mean by more than `NEGLIGIBLE` is left as it is.
    """
    solved: list[SolvedCentre] = []
    queues = [_queue(centre, on_scv, off_scv) for centre in centres]
    if any(centre.is_saturated for centre in centres):
        return [_alone(centre, queue) for centre, queue in zip(centres, queues, strict=True)]
    total_s = sum(queue.mean_response_s() for queue in queues)
    known: dict[tuple[float, ...], BurstyResponse] = {}
    source: IntermittentQueue | None = None
    for centre, queue in zip(centres, queues, strict=True):
        here = _alone(centre, queue)
        if source is not None and _burst_bound_s(source, queue) > NEGLIGIBLE * total_s:
            key = (id(source), centre.demand_s, centre.other_rate, centre.t_on_s, centre.t_off_s)
            if key not in known:
                known[key] = behind(source, queue, other_rate=centre.other_rate)
            here = replace(here, law=with_moments(known[key].mean_s, known[key].scv))
        solved.append(here)
        if centre.is_on_off:
            source = replace(queue, rate=centre.rate)
        elif source is not None and centre.demand_s > source.service.mean():
            slower = replace(source, service=exponential(centre.demand_s))
            source = slower if slower.utilisation < SOURCE_UTILISATION_MAX else source
    return solved


def law_of(solved: Sequence[SolvedCentre]) -> MatrixExponential | None:
    """The law of the whole path; None if a centre is saturated."""
    laws = [solution.law for solution in solved if solution.law is not None]
    if len(laws) < len(solved):
        return None
    return reduce(MatrixExponential.then, laws)


def doubts(solved: Sequence[SolvedCentre]) -> list[str]:
    """Where bursts make the answer an approximation that is not good, in words; empty where it is.

    The map of errors (`ERRORS_FILE`, docs/models.md) covers one centre behind an uplink whose peer is away for half of
    the time. Beyond the map: several centres in a row where bursts queue, more than two peers that disconnect, a peer
    that is rarely away, and utilisations above the highest that was tried.
    """
    words = []
    slowed = [
        part.centre.name for part in solved if part.poisson_mean_s and part.burst_s > part.poisson_mean_s
    ]
    if len(slowed) > 1:
        words.append(f"bursts queue at {len(slowed)} centres in a row ({', '.join(slowed)})")
    on_off = [part.centre.name for part in solved if part.centre.is_on_off]
    if len(on_off) > 2:
        words.append(f"{len(on_off)} peers on the way disconnect ({', '.join(on_off)})")
    total_s = sum(part.law.mean() for part in solved if part.law is not None)
    source: SolvedCentre | None = None
    for part in solved:
        if source is not None and part.burst_s > 0:
            words += _doubts_at(source, part)
            if part.burst_s > RARE_BURST * total_s and source.centre.t_on_s > RARE * source.centre.t_off_s:
                words.append(
                    f"{source.centre.name} is rarely away: percentiles may be a quarter too small at {part.centre.name}"
                )
        if part.centre.is_on_off:
            source = part
    return words


def _doubts_at(source: SolvedCentre, part: SolvedCentre) -> list[str]:
    name, utilisation = part.centre.name, part.centre.utilisation
    rough = _rough(source, part)
    if utilisation > max(cell["utilisation"] for cell in error_map()):
        return [*rough, f"{name} gets bursts at a utilisation of {utilisation:.2f}, which was not tried"]
    nearest = nearest_error(source.centre, utilisation)
    measure = max(("mean", "p95"), key=lambda key: abs(nearest[key]))
    if abs(nearest[measure]) <= ERROR_MAX:
        return rough
    what = "mean" if measure == "mean" else "95th percentile"
    return [
        *rough,
        f"{name} gets bursts at a utilisation of {utilisation:.2f}, where the {what} is off by "
        f"{nearest[measure]:+.0%} (docs/models.md)",
    ]


def _rough(source: SolvedCentre, part: SolvedCentre) -> list[str]:
    """Say if the bursts are those of periods that vary more than the ones asked for."""
    if source.queue is None:
        return []
    phases = phases_for_bursts(source.queue, part.queue or part.centre.exact())
    if phases is None:
        return []
    return [
        f"what bursts add at {part.centre.name} is computed with a variability of {1 / phases:.2g} or more"
    ]


@cache
def error_map() -> Sequence[Mapping[str, float]]:
    """What the approximation is off by, cell by cell: for one event per second."""
    cells: list[dict[str, float]] = json.loads(ERRORS_FILE.read_text())
    return cells


def nearest_error(source: Centre, utilisation: float) -> Mapping[str, float]:
    """The cell of the map that is nearest to this source and utilisation; in units of the time between two events."""
    uplink, period = source.demand_s * source.rate, source.t_off_s * source.rate

    def distance(cell: Mapping[str, float]) -> float:
        return (
            abs(math.log(max(uplink, 1e-4) / cell["uplink_s"])) / 4
            + abs(math.log(max(period, 1e-4) / cell["period_s"])) / 2
            + 4 * abs(utilisation - cell["utilisation"])
        )

    return min(error_map(), key=distance)


def _alone(centre: Centre, queue: IntermittentQueue) -> SolvedCentre:
    """The centre as if its events came as a Poisson process."""
    law = None if centre.is_saturated else queue.response_distribution()
    return SolvedCentre(centre, queue if centre.is_on_off else None, law, law.mean() if law else None)


def _queue(centre: Centre, on_scv: float, off_scv: float) -> IntermittentQueue:
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
