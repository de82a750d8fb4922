"""Predicts a broker's delay and utilisation, beside the observed ones, and warns an operator before the broker is full.

A message costs a few counters. Once a minute the counters are closed into a window, and `roamq.models.outlook` computes
a prediction from the windows before. The broker that a client left sees how long the client is away: until it is back
here, or until another broker takes its session over.
"""

import math
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from roamq.core.records import Record
from roamq.models.outlook import (
    DelayOutlook,
    LoadOutlook,
    Moments,
    Window,
    histogram_quantile,
    load_outlook,
)

WINDOW_S: Final = 60.0
WINDOWS: Final = 180
"""Number of windows that the trend looks at: three hours."""
WINDOWS_MIN: Final = 10
"""The broker does not warn of growth before it has this many windows."""
FADE: Final = 0.98
"""The share of older counts that a window keeps: half is left after 35 minutes."""
FULL: Final = 0.9
"""The utilisation of a full broker: one that works for this share of the time has no room for a burst."""
HORIZON_S: Final = 24 * 3600.0
"""A trend says nothing about times further away."""
EVENTS_MIN: Final = 50
"""A window with fewer delays has no 95th percentile."""
PERIODS_MIN: Final = 30
CLIENTS_MAX: Final = 20_000
"""Clients whose last change the broker remembers; it forgets the oldest of more."""
LOOKED_AT: Final = 128
"""The number of records of a batch whose delay is looked at."""
SHARE: Final = 0.95
BOUNDS_S: Final = tuple(round(10 ** (k / 8 - 4), 7) for k in range(8 * 9 + 1))
"""Upper bounds of the bins of delays: from 0.1 ms to more than a day, eight bins to a power of ten."""


@dataclass(frozen=True, slots=True)
class WindowOutlook:
    """One window: what was predicted for it, and what was observed; None where the broker cannot tell."""

    delay_observed_s: float | None
    delay_predicted_s: float | None
    utilisation_observed: float
    utilisation_predicted: float | None
    rate: float
    """Messages per second, in and out."""
    load: LoadOutlook | None


class Forecast:
    """Counts what one broker does, and predicts the next minute from the minutes before."""

    def __init__(self, cpu_s: Callable[[], float] = time.thread_time) -> None:
        """`cpu_s`: the processor time that the broker has used of its one interpreter."""
        self.last: WindowOutlook | None = None
        """The outlook of the last whole window."""
        self._cpu_s = cpu_s
        self._began: float | None = None
        self._cpu_began_s = 0.0
        self._events = 0
        self._delivered = self._acknowledged = 0
        self._delays = [0] * (len(BOUNDS_S) + 1)
        """Counts of delays by bin, in this window."""
        self._live_now = [0] * (len(BOUNDS_S) + 1)
        self._live = [0.0] * (len(BOUNDS_S) + 1)
        """The same for live deliveries in earlier windows, faded."""
        self._on, self._off = Moments(), Moments()
        self._since: dict[str, tuple[bool, float]] = {}
        """Client -> whether it is connected, and since when."""
        self._windows: deque[Window] = deque(maxlen=WINDOWS)

    def count(self, records: list[Record], kinds: Counter[str], acknowledged: int = 0) -> None:
        """Counts messages that were published, delivered and acknowledged.

        In a long batch, every n-th delay stands for n: messages that leave together have waited about equally long.
        """
        self._acknowledged += acknowledged
        self._events += kinds["delivered"] + kinds["published"]
        if not kinds["delivered"]:
            return
        self._delivered += kinds["delivered"]
        stride = 1 + len(records) // LOOKED_AT
        delays, live_now = self._delays, self._live_now
        for record in records[::stride]:
            if record[0] == "delivered" and (waited_s := record[11]) is not None:
                place = bisect_left(BOUNDS_S, waited_s)
                delays[place] += stride
                if record[7] == "live":
                    live_now[place] += stride

    def take(self, record: Record) -> None:
        """Counts a record other than a delivery: clients that connect, disconnect or move."""
        if record.kind in ("connected", "disconnected", "transferred"):
            self._changed(record.kind, record.client or "", record.time_s)

    def tick(self, now: float) -> None:
        """Closes the window if it is over; called about once a second."""
        if self._began is None:
            self._began, self._cpu_began_s = now, self._cpu_s()
        elif now - self._began >= WINDOW_S:
            self._close(now, now - self._began)

    def warning(self) -> str | None:
        """Returns what an operator should know before the broker is full; None: nothing."""
        last = self.last
        if last is not None and last.utilisation_observed >= FULL:
            busy, rate = last.utilisation_observed, self._windows[-1].rate
            return f"the broker is full: it works for {busy:.0%} of the time, at {_about(rate)} messages/s in and out"
        if last is None or last.load is None or len(self._windows) < WINDOWS_MIN:
            return None
        load = last.load
        if load.full_in_s > HORIZON_S:
            return None
        return (
            f"at this growth, {_about(load.growth * 3600)} messages/s in and out more every hour, the broker is full "
            f"in {spoken(load.full_in_s)}: it bears about {_about(load.rate_max)}, and works for "
            f"{last.utilisation_observed:.0%} of the time now, at {_about(last.rate)}"
        )

    def _changed(self, kind: str, client: str, now: float) -> None:
        before = self._since.pop(client, None)
        is_on = kind == "connected"
        if before is not None and before[0] != is_on and kind != "transferred":
            (self._on if before[0] else self._off).add(max(now - before[1], 1e-6))
        elif before is not None and kind == "transferred" and not before[0]:
            self._off.add(max(now - before[1], 1e-6))
        if kind == "transferred":
            return  # another broker sees what follows
        if before is not None and before[0] == is_on:
            now = before[1]  # a second record of the same state
        self._since[client] = (is_on, now)
        if len(self._since) > CLIENTS_MAX:
            del self._since[next(iter(self._since))]

    def _close(self, now: float, span_s: float) -> None:
        cpu_s = self._cpu_s()
        share = min(1.0, self._acknowledged / self._delivered) if self._delivered else 0.0
        window = Window(now, self._events / span_s, (cpu_s - self._cpu_began_s) / span_s, share)
        self._windows.append(window)
        load = load_outlook(list(self._windows), full=FULL)
        observed = sum(self._delays) >= EVENTS_MIN
        self.last = WindowOutlook(
            histogram_quantile(BOUNDS_S, self._delays, SHARE) if observed else None,
            self._predicted_delay_s(load),
            window.utilisation,
            None if load is None else load.predicted,
            window.rate,
            load,
        )
        self._live = [FADE * old + new for old, new in zip(self._live, self._live_now, strict=True)]
        self._on.fade(FADE)
        self._off.fade(FADE)
        self._delays = [0] * len(self._delays)
        self._live_now = [0] * len(self._live_now)
        self._events = self._delivered = self._acknowledged = 0
        self._began, self._cpu_began_s = now, cpu_s

    def _predicted_delay_s(self, load: LoadOutlook | None) -> float | None:
        """Predicts the delay from the windows before this one, and the load of this one."""
        if sum(self._live) < EVENTS_MIN:
            return None
        usual = [w.utilisation for w in self._windows][:-1]
        stretch = 1.0
        if load is not None and usual:
            # A queue of one server: the delay grows as the spare time shrinks.
            spare, usual_spare = 1 - min(load.predicted, 0.99), 1 - min(sum(usual) / len(usual), 0.99)
            stretch = min(max(usual_spare / spare, 0.1), 100.0)
        never_away = self._off.number < PERIODS_MIN or self._on.number < PERIODS_MIN
        return DelayOutlook(
            BOUNDS_S,
            self._live,
            on_s=1.0 if never_away else self._on.mean_s,
            off_s=1e-9 if never_away else self._off.mean_s,
            off_scv=1.0 if never_away else self._off.scv,
            stretch=stretch,
        ).quantile(SHARE)


def _about(rate: float) -> str:
    """Writes a rate with two digits: what a broker bears is an estimate."""
    return f"{float(f'{rate:.2g}'):,.0f}"


def spoken(seconds: float) -> str:
    """Writes a duration as `3 hours`: one unit, two digits at most."""
    for unit_s, name in ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= 0.95 * unit_s:
            number = float(f"{seconds / unit_s:.2g}")
            return f"{number:g} {name}{'' if number == 1 else 's'}"
    return "less than a minute" if math.isfinite(seconds) else "never"
