"""A finite buffer behind a peer that reconnects: what it loses of the bursts that the peer releases.

The centre before it is ON/OFF and may have a finite buffer itself. Its departures are a Markovian arrival process whose
phase is connectivity and backlog, as in `roamq.models.bursts`; the finite chain behind it is solved from the full
buffer down. A small backlog is counted event by event. A larger one is counted in lumps, with two
sizes of lumps, and the line through both answers is followed to lumps of one event.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roamq.models.buffers import FiniteCentre, finite, followed_drop_oldest
from roamq.models.bursts import BACKLOG_MAX, STATES_MAX
from roamq.models.intermittent import IntermittentQueue, left_null_vector
from roamq.models.phase_type import exponential

Floats = NDArray[np.float64]

LUMPS: Final = (18, 36)
"""The backlog of the centre before is counted in so many lumps."""

LUMPS_FOLLOWED: Final = (9, 18)
"""The same where an event is followed through the buffer."""

FOLLOWED_MAX: Final = 300
"""Drop-oldest is computed for buffers of so many events: its time grows with their square."""

_SCALE_MAX: Final = 1e100


@dataclass(frozen=True, kw_only=True)
class FiniteBehind(FiniteCentre):
    """A centre with a finite buffer that gets bursts."""

    response_s_drop_oldest: float | None
    """None if the buffer is too large to follow an event through it."""


@dataclass(frozen=True, kw_only=True)
class _Released:
    """The events that leave an ON/OFF centre with a finite buffer, whose backlog is counted in so many lumps."""

    source: IntermittentQueue
    capacity: int
    lumps: int

    @cached_property
    def lump(self) -> float:
        """Events to a lump."""
        if self.capacity <= self.lumps:
            return 1.0
        held = BACKLOG_MAX * finite(self.source, self.capacity).mean_present
        return max(1.0, min(float(self.capacity), held) / self.lumps)

    @cached_property
    def levels(self) -> int:
        return min(self.lumps, self.capacity) + 1

    @cached_property
    def released(self) -> Floats:
        """Rates between phases with which an event leaves."""
        leaving = 1 / self.source.service.mean()
        if self.lump > 1:
            # A backlog leaves at full speed; what arrives without a backlog goes straight on.
            while_on = np.diag(np.where(np.arange(self.levels) > 0, leaving, min(leaving, self.source.rate)))
        else:
            while_on = leaving * np.eye(self.levels, k=-1)
        return np.asarray(np.kron(np.diag(self.source.is_on), while_on), dtype=np.float64)

    @cached_property
    def hidden(self) -> Floats:
        """Rates between phases without an event that leaves: connectivity, and changes of the backlog."""
        arriving, leaving = self.source.rate, 1 / self.source.service.mean()
        grow, shrink = np.eye(self.levels, k=1), np.eye(self.levels, k=-1)
        while_on = grow * arriving
        if self.lump > 1:
            while_on = (
                grow * max(0.0, arriving - leaving) + shrink * max(0.0, leaving - arriving)
            ) / self.lump
        is_on = self.source.is_on
        rates = (
            np.kron(self.source.connectivity, np.eye(self.levels))
            + np.kron(np.diag(is_on), while_on)
            + np.kron(np.diag(1 - is_on), grow * arriving / self.lump)
        )
        np.fill_diagonal(rates, 0.0)
        np.fill_diagonal(rates, -(rates.sum(axis=1) + self.released.sum(axis=1)))
        return np.asarray(rates, dtype=np.float64)


def finite_behind(
    source: IntermittentQueue, source_capacity: int, centre: IntermittentQueue, capacity: int
) -> FiniteBehind:
    """The centre with room for `capacity` events behind a source with room for `source_capacity`.

    `centre.rate` is not used: what the source does not lose arrives. The service of both must be exponential.
    """
    for name, size in (("source_capacity", source_capacity), ("capacity", capacity)):
        if size < 1:
            raise ValueError(f"{name}: {size} is less than 1")
    if (LUMPS[0] + 1) * source.phases * centre.phases > STATES_MAX:
        # Too many phases: the source's periods are taken as exponential.
        assert source.on is not None
        assert source.off is not None
        source = replace(source, on=exponential(source.on.mean()), off=exponential(source.off.mean()))

    def solved(lumps: int) -> tuple[float, Floats]:
        released = _Released(source=source, capacity=source_capacity, lumps=lumps)
        return released.lump, _solved(released, centre, capacity)

    def followed(lumps: int) -> tuple[float, Floats]:
        released = _Released(source=source, capacity=source_capacity, lumps=lumps)
        return released.lump, _followed(released, centre, capacity)

    loss, mean_present, arriving = _by_size(solved, LUMPS, source_capacity)
    loss = min(1.0, loss)
    return FiniteBehind(
        loss=loss,
        mean_present=mean_present,
        delivered_rate=arriving * (1 - loss),
        response_s_drop_oldest=float(_by_size(followed, LUMPS_FOLLOWED, source_capacity)[0])
        if capacity <= FOLLOWED_MAX
        else None,
    )


def _by_size(
    answer: Callable[[int], tuple[float, Floats]], lumps: tuple[int, int], source_capacity: int
) -> Floats:
    """Answers for lumps of one event: exact ones if the backlog is small, else by the line through two sizes."""
    if source_capacity <= lumps[1]:
        return answer(source_capacity)[1]
    (coarse, coarser), (fine, finest) = answer(lumps[0]), answer(lumps[1])
    if fine == coarse:
        return finest
    return np.maximum(0.0, finest + (fine - 1) / (coarse - fine) * (finest - coarser))


class _Chain(NamedTuple):
    """The rates between phases at the centre behind: with an arrival, with neither, empty, and with a service's end."""

    up: Floats
    local: Floats
    empty: Floats
    down: Floats


def _chain(released: _Released, centre: IntermittentQueue) -> _Chain:
    phases, behind = released.hidden.shape[0], centre.phases
    up: Floats = np.kron(released.released, np.eye(behind)).astype(np.float64)
    down: Floats = np.kron(np.eye(phases), centre.completions).astype(np.float64)
    empty = np.kron(released.hidden, np.eye(behind)) + np.kron(np.eye(phases), centre.idle)
    return _Chain(up, empty - np.diag(down.sum(axis=1)), empty, down)


def _solved(released: _Released, centre: IntermittentQueue, capacity: int) -> Floats:
    """The share that is lost, the events present, and events per second that arrive."""
    chain = _chain(released, centre)
    present = _present(chain, capacity)
    arriving = (present @ chain.up).sum(axis=1)
    held = float(present.sum(axis=1) @ np.arange(capacity + 1))
    return np.array([arriving[-1] / arriving.sum(), held, arriving.sum()])


def _followed(released: _Released, centre: IntermittentQueue, capacity: int) -> Floats:
    """The mean response time of delivered events under drop-oldest."""
    chain = _chain(released, centre)
    found = _present(chain, capacity) @ chain.up
    return np.array([followed_drop_oldest(found, chain.up, chain.local, chain.down)])


def _present(chain: _Chain, capacity: int) -> Floats:
    """The probabilities of 0, 1 to `capacity` events at the centre, by phase."""
    up, local, empty, down = chain
    climbs = [up @ np.linalg.inv(-(local + up))]
    while len(climbs) < capacity:
        climb = up @ np.linalg.inv(-(local + climbs[-1] @ down))
        if np.abs(climb - climbs[-1]).max() < 1e-12 * max(1e-300, np.abs(climb).max()):
            # Far from the top the matrix no longer changes.
            climbs += [climb] * (capacity - len(climbs))
        else:
            climbs.append(climb)
    levels: Floats = np.zeros((capacity + 1, up.shape[0]))
    levels[0] = left_null_vector(empty + climbs[-1] @ down, normal=np.ones(up.shape[0]))
    for level, climb in enumerate(reversed(climbs), start=1):
        levels[level] = levels[level - 1] @ climb
        if levels[level].max() > _SCALE_MAX:
            levels /= levels[level].max()
    return levels / float(levels.sum())
