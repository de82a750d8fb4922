"""Theorem 2 of [TIME] on connectivity that was really recorded: Fig. 12 with phones in the place of metro journeys.

    python -m benchmarks.theorem_2 FOLDER [--figure FILE.png] [--json]

FOLDER holds a `*.phonestate.csv.gz` for every phone (docs/traces.md, `extrasensory`): once a minute, whether it had
Wi-Fi. Every phone is replayed, period by period, as the ON/OFF centre of a subscriber. Beside the simulated mean stand
Theorem 2, which takes exponential periods of the same means, and the ON/OFF centre with the variability that the
periods have. The error is shown by the utilisation of the centre, over all phones.
"""

import argparse
import csv
import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from roamq.models.connectivity import Connectivity, join, periods
from roamq.models.fitting import fit_durations
from roamq.models.intermittent import IntermittentQueue
from roamq.models.phase_type import exponential, with_moments
from roamq.models.queueing import Centre
from roamq.report.exhibits import Figure, Series
from roamq.report.files import save
from roamq.sim import queueing as sim

UTILISATIONS: Final = (0.05, 0.2, 0.4, 0.6, 0.8)
DEMAND_S: Final = 1.0
GAP_S: Final = 600.0
"""A longer silence is missing data, not a disconnection."""
PERIODS_MIN: Final = 15
REPEATS: Final = 12
"""How often a recording is replayed: its own periods stay the same, arrivals and services do not."""
WIFI: Final = "discrete:wifi_status:is_reachable_via_wifi"
NO_WIFI: Final = "discrete:wifi_status:is_not_reachable"


def read_phone(path: Path) -> Connectivity:
    """The connected and disconnected periods of one phone."""
    with gzip.open(path, "rt", newline="") as file:
        rows = [
            (float(row["timestamp"]), row[WIFI].startswith("1"))
            for row in csv.DictReader(file)
            if row[WIFI].startswith("1") or row[NO_WIFI].startswith("1")
        ]
    rows.sort()
    times = np.array([time for time, _ in rows])
    cuts = np.flatnonzero(np.diff(times) > GAP_S) + 1
    return join(
        [
            periods([rows[i][0] for i in part], [rows[i][1] for i in part])
            for part in np.split(np.arange(len(rows)), cuts)
        ]
    )


@dataclass(frozen=True, slots=True)
class Phone:
    """One phone at one utilisation; mean response times in seconds."""

    name: str
    utilisation: float
    on_s: float
    off_s: float
    off_scv: float
    best_family: str
    """Of the disconnected periods."""
    simulated_s: float
    theorem_2_s: float
    with_variability_s: float


def answers(name: str, recorded: Connectivity, utilisation: float) -> Phone:
    on, off = recorded.on.whole_s, recorded.off.whole_s
    count = min(on.size, off.size)
    on, off = on[:count], off[:count]
    on_s, off_s = float(on.mean()), float(off.mean())
    rate = utilisation * on_s / (on_s + off_s) / DEMAND_S
    centre = sim.SimulatedCentre(
        service=sim.exponential(DEMAND_S), on=sim.recorded(on), off=sim.recorded(off)
    )
    until_s = REPEATS * float((on + off).sum())
    until_s = min(until_s, 60_000 / rate)
    simulated_s = sim.simulate([centre], seed=1, rate=rate, until_s=until_s, warmup_s=until_s / 20).mean_s()
    scvs = [min(max(float(x.var() / x.mean() ** 2), 0.1), 60.0) for x in (on, off)]
    general = IntermittentQueue(
        rate=rate,
        service=exponential(DEMAND_S),
        on=with_moments(on_s, scvs[0]),
        off=with_moments(off_s, scvs[1]),
    )
    return Phone(
        name,
        utilisation,
        on_s,
        off_s,
        scvs[1],
        fit_durations(off, replicates=0)[0].family,
        simulated_s,
        Centre(name=name, rate=rate, demand_s=DEMAND_S, t_on_s=on_s, t_off_s=off_s).response_s(),
        general.mean_response_s(),
    )


def errors(phones: Sequence[Phone], utilisation: float, field: str) -> list[float]:
    """Quartiles of the error over the phones: lower, median, upper."""
    found = [getattr(p, field) / p.simulated_s - 1 for p in phones if p.utilisation == utilisation]
    return [float(v) for v in np.quantile(found, [0.25, 0.5, 0.75])]


def figure(phones: Sequence[Phone]) -> Figure:
    def series(name: str, field: str) -> Series:
        quartiles = [errors(phones, u, field) for u in UTILISATIONS]
        return Series(
            name=name,
            x=list(UTILISATIONS),
            y=[q[1] for q in quartiles],
            low=[q[0] for q in quartiles],
            high=[q[2] for q in quartiles],
        )

    return Figure(
        title="Analysis over simulation of recorded periods, less 1: median and quartiles over phones",
        kind="line",
        x_label="utilisation",
        y_label="error",
        series=[
            series("Theorem 2 (exponential periods)", "theorem_2_s"),
            series("with the periods' variability", "with_variability_s"),
        ],
    )


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    recorded = {
        path.name.partition(".")[0]: read_phone(path) for path in sorted(asked.folder.glob("*.csv.gz"))
    }
    enough = {
        name: one
        for name, one in recorded.items()
        if min(one.on.whole_s.size, one.off.whole_s.size) >= PERIODS_MIN
    }
    phones = [answers(name, one, u) for name, one in enough.items() for u in UTILISATIONS]
    if asked.figure is not None:
        save(figure(phones), asked.figure)
    if asked.json:
        print(json.dumps([asdict(phone) for phone in phones]))
        return
    table = Table(
        title=f"{len(enough)} of {len(recorded)} phones with {PERIODS_MIN} periods of each state or more"
    )
    for column in (
        "utilisation",
        "Theorem 2: median error",
        "quartiles",
        "with variability: median error",
        "quartiles",
    ):
        table.add_column(column, justify="right")
    for u in UTILISATIONS:
        cells = [f"{u:g}"]
        for field in ("theorem_2_s", "with_variability_s"):
            low, median, high = errors(phones, u, field)
            cells += [f"{median:+.0%}", f"{low:+.0%} to {high:+.0%}"]
        table.add_row(*cells)
    Console(width=120).print(table)
    families = [phone.best_family for phone in phones if phone.utilisation == UTILISATIONS[0]]
    scvs = [phone.off_scv for phone in phones if phone.utilisation == UTILISATIONS[0]]
    print(
        f"disconnected periods: best family exponential for {families.count('exponential')} of {len(families)} phones; "
        f"median of their squared coefficient of variation {np.median(scvs):.1f}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
