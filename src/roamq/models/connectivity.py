"""Connectivity traces: ON/OFF observations of one path joined into connected and disconnected periods.

Paper: [TIME] section 4.1.3: a tuple is taken whenever the state changes and every 30 s besides; the tuples
of a journey form a pattern, and the patterns of one path are concatenated.
Departs: a journey's first and last period are cut by its beginning and end; `roamq.models.censoring` says how they
count, whereas the paper glues them to the next journey's (docs/time.md, choice 0060).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from roamq.models.censoring import Survival, kaplan_meier

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Periods:
    """What one or more journeys say about one state: connected, or disconnected."""

    whole_s: Floats
    """Periods whose beginning and end were both seen."""
    total_s: float
    """All time spent in the state, in cut periods too."""
    ends: int
    """How many periods were seen to end, those under way when a journey began included."""
    cut_s: Floats = field(default_factory=lambda: np.empty(0))
    """Lengths, up to the journey's end, of periods whose beginning was seen but not their end."""

    def exponential_mean_s(self) -> float:
        """The maximum-likelihood mean of exponential periods, unbiased by where the journeys were cut."""
        if not self.ends:
            raise ValueError("periods: none was seen to end, so their mean is unknown")
        return self.total_s / self.ends

    def survival(self) -> Survival:
        """The law of the periods whatever their family, unbiased by where the journeys were cut."""
        whole = np.arange(self.whole_s.size + self.cut_s.size) < self.whole_s.size
        return kaplan_meier(np.concatenate([self.whole_s, self.cut_s]), whole)


@dataclass(frozen=True, slots=True)
class Connectivity:
    """Connected and disconnected periods of one path."""

    on: Periods
    off: Periods


def periods(times_s: Sequence[float], is_on: Sequence[bool]) -> Connectivity:
    """One journey's observations, ordered by time, as periods.

    A state holds from its first observation to the first of the other state: that is exact where the change
    itself was observed, and late by at most the sampling interval where it was not.
    """
    times = np.asarray(times_s, dtype=np.float64)
    states = np.asarray(is_on, dtype=bool)
    if times.size != states.size:
        raise ValueError(f"is_on: {states.size} states for {times.size} times")
    if (np.diff(times) < 0).any():
        raise ValueError("times_s: must not decrease")
    if times.size == 0:
        return join([])
    starts = np.concatenate([[0], np.flatnonzero(np.diff(states)) + 1])
    lengths = np.diff(np.append(times[starts], times[-1]))
    state = states[starts]
    position = np.arange(starts.size)
    is_ended = position < starts.size - 1
    is_whole = is_ended & (position > 0) & (lengths > 0)
    is_cut = ~is_ended & (position > 0) & (lengths > 0)

    def of(wanted: bool) -> Periods:
        mine = state == wanted
        ends = int(np.count_nonzero(mine & is_ended))
        return Periods(lengths[mine & is_whole], float(lengths[mine].sum()), ends, lengths[mine & is_cut])

    return Connectivity(on=of(True), off=of(False))


def join(journeys: Sequence[Connectivity]) -> Connectivity:
    """The periods of all journeys of one path."""

    def all_of(parts: Sequence[Periods]) -> Periods:
        whole = np.concatenate([np.empty(0), *(part.whole_s for part in parts)])
        cut = np.concatenate([np.empty(0), *(part.cut_s for part in parts)])
        return Periods(whole, sum(part.total_s for part in parts), sum(part.ends for part in parts), cut)

    return Connectivity(
        on=all_of([journey.on for journey in journeys]), off=all_of([journey.off for journey in journeys])
    )


def concatenate(journeys: Sequence[tuple[Sequence[float], Sequence[bool]]]) -> Connectivity:
    """The paper's reading: journeys of one path put end to end, as if they were one long journey."""
    times: list[float] = []
    states: list[bool] = []
    offset = 0.0
    for journey_times, journey_states in journeys:
        times.extend(offset + time - journey_times[0] for time in journey_times)
        states.extend(journey_states)
        offset = times[-1] if times else 0.0
    return periods(times, states)
