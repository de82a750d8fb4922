"""Centres in a row, simulated without an event loop: millions of events a second, to hold approximations against.

A first-come-first-served centre is the recursion d_i = max(a_i, d_{i-1}) + s_i, which is a running maximum. An ON/OFF
centre is the same on a clock that stands still while the peer is away.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Station:
    demand_s: float
    t_on_s: float = 0.0
    t_off_s: float = 0.0
    other_rate: float = 0.0


def responses(stations: list[Station], *, rate: float, events: int, seed: int) -> Floats:
    """Response times of Poisson events through all stations; the first tenth is left out."""
    rng = np.random.default_rng(seed)
    births = np.cumsum(rng.exponential(1 / rate, events))
    times = births
    for station in stations:
        times = _through(station, times, rng)
    return np.asarray((times - births)[events // 10 :])


def _through(station: Station, arrivals: Floats, rng: np.random.Generator) -> Floats:
    own = np.ones(arrivals.size, dtype=bool)
    if station.other_rate:
        others = rng.uniform(0, arrivals[-1], rng.poisson(station.other_rate * arrivals[-1]))
        order = np.argsort(np.concatenate([arrivals, others]), kind="stable")
        own = (np.arange(order.size) < arrivals.size)[order]
        arrivals = np.concatenate([arrivals, others])[order]
    if not station.t_off_s:
        return _served(station, arrivals, rng)[own]
    # Twice the time, so that the last events are served as well.
    cycles = int(2 * arrivals[-1] / (station.t_on_s + station.t_off_s)) + 100
    on, off = rng.exponential(station.t_on_s, cycles), rng.exponential(station.t_off_s, cycles)
    first = rng.random() * (station.t_on_s + station.t_off_s) < station.t_on_s
    if not first:
        on[0] = 1e-9
    ends = np.cumsum(np.column_stack([on, off]).ravel())
    real = np.concatenate([[0.0], ends])
    worked = np.concatenate([[0.0], np.cumsum(np.column_stack([on, np.zeros(cycles)]).ravel())])
    departures = _served(station, np.interp(arrivals, real, worked), rng)
    # Back to real time: the instant at which so much was worked, before the clock stood still.
    period = np.searchsorted(worked[::2], departures, side="left") - 1
    back = np.asarray(real[::2][period] + departures - worked[::2][period], dtype=np.float64)
    return back[own]


def _served(station: Station, arrivals: Floats, rng: np.random.Generator) -> Floats:
    services = rng.exponential(station.demand_s, arrivals.size)
    total = np.cumsum(services)
    return total + np.maximum.accumulate(arrivals - (total - services))
