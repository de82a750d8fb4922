"""Centres in a row, simulated without an event loop: millions of events a second, to hold approximations against.

A first-come-first-served centre is the recursion d_i = max(a_i, d_{i-1}) + s_i, which is a running maximum. An ON/OFF
centre is the same on a clock that stands still while the peer is away.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from roamq.sim.queueing import MeanOfRuns, Sampler, mean_of_runs

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Station:
    demand_s: float
    t_on_s: float = 0.0
    t_off_s: float = 0.0
    other_rate: float = 0.0
    recorded_s: tuple[Floats, Floats] | None = None
    """Connected and disconnected periods of a recording, to be repeated; None: drawn, or else exponential."""
    drawn: tuple[Sampler, Sampler] | None = None
    """Functions that draw connected and disconnected periods with the same means; None: exponential."""


def mean_response(
    stations: Sequence[Station], *, rate: float, until_s: float, runs: int, first_seed: int = 1
) -> MeanOfRuns:
    """Returns the mean response time over runs that differ in their seed alone."""
    seeds = range(first_seed, first_seed + runs)
    return mean_of_runs(mean_responses(stations, rate=rate, until_s=until_s, seeds=seeds))


def mean_responses(
    stations: Sequence[Station], *, rate: float, until_s: float, seeds: Iterable[int]
) -> list[float]:
    """Returns the mean response time of one run per seed."""
    events = max(200, round(rate * until_s))
    return [float(responses(stations, rate=rate, events=events, seed=seed).mean()) for seed in seeds]


def responses(stations: Sequence[Station], *, rate: float, events: int, seed: int) -> Floats:
    """Returns response times of Poisson events through all stations; the first tenth is left out."""
    *_, last = passages(stations, rate=rate, events=events, seed=seed)
    return last


def passages(stations: Sequence[Station], *, rate: float, events: int, seed: int) -> Iterator[Floats]:
    """Yields, per station, the times that the events took until they left it; the first tenth is left out."""
    rng = np.random.default_rng(seed)
    births = np.cumsum(rng.exponential(1 / rate, events))
    times = births
    for station in stations:
        times = _through(station, times, rng)
        yield np.asarray((times - births)[events // 10 :])


def _through(station: Station, arrivals: Floats, rng: np.random.Generator) -> Floats:
    own = np.ones(arrivals.size, dtype=bool)
    if station.other_rate:
        others = rng.uniform(0, arrivals[-1], rng.poisson(station.other_rate * arrivals[-1]))
        order = np.argsort(np.concatenate([arrivals, others]), kind="stable")
        own = (np.arange(order.size) < arrivals.size)[order]
        arrivals = np.concatenate([arrivals, others])[order]
    if not station.t_off_s:
        return _served(station, arrivals, rng)[own]
    # Periods for twice the time, so that the last events are served as well.
    cycles = int(2 * arrivals[-1] / (station.t_on_s + station.t_off_s)) + 100
    on, off = _periods(station, cycles, rng)
    first = rng.random() * (station.t_on_s + station.t_off_s) < station.t_on_s
    if not first:
        on[0] = 1e-9
    ends = np.cumsum(np.column_stack([on, off]).ravel())
    real = np.concatenate([[0.0], ends])
    worked = np.concatenate([[0.0], np.cumsum(np.column_stack([on, np.zeros(cycles)]).ravel())])
    departures = _served(station, np.interp(arrivals, real, worked), rng)
    # Back to real time: the instant at which the server had worked this long, before its clock stood still.
    period = np.searchsorted(worked[::2], departures, side="left") - 1
    back = np.asarray(real[::2][period] + departures - worked[::2][period], dtype=np.float64)
    return back[own]


def _periods(station: Station, cycles: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    if station.drawn is not None:
        draw_on, draw_off = station.drawn
        return draw_on(rng, cycles), draw_off(rng, cycles)
    if station.recorded_s is None:
        return rng.exponential(station.t_on_s, cycles), rng.exponential(station.t_off_s, cycles)
    begin = int(rng.integers(station.recorded_s[0].size))
    on, off = (np.resize(np.roll(periods, -begin), cycles) for periods in station.recorded_s)
    return on, off


def recorded_station(demand_s: float, on_s: Floats, off_s: Floats) -> Station:
    """Returns a station whose peer connects and disconnects as in a recording."""
    if on_s.size != off_s.size or not on_s.size:
        raise ValueError(
            "on_s, off_s: as many connected as disconnected periods are needed, and at least one"
        )
    return Station(demand_s, float(on_s.mean()), float(off_s.mean()), recorded_s=(on_s, off_s))


def _served(station: Station, arrivals: Floats, rng: np.random.Generator) -> Floats:
    services = rng.exponential(station.demand_s, arrivals.size)
    total = np.cumsum(services)
    return total + np.maximum.accumulate(arrivals - (total - services))
