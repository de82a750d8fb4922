"""[TIME] Fig. 12 on connectivity that was really recorded: phones in the place of metro journeys.

The recordings are not part of the repository: `roamq reproduce TIME-F12-recorded --recordings FOLDER` reads a
`*.phonestate.csv.gz` for every phone (docs/traces.md, `extrasensory`): once a minute, whether it had Wi-Fi. Every phone
is replayed, period by period, as the ON/OFF centre of a subscriber. Beside the simulated mean stand Theorem 2, which
takes exponential periods of the same means, and the ON/OFF centre with the variability that the periods have. A second
simulation puts the phone's periods into random order: it tells what their order does.
"""

import csv
import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from roamq.core.errors import ConfigError
from roamq.models.connectivity import Connectivity, join, periods
from roamq.models.fitting import fit_durations
from roamq.models.intermittent import IntermittentQueue
from roamq.models.paired import Estimate
from roamq.models.phase_type import exponential, with_moments
from roamq.models.queueing import Centre
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, about
from roamq.reproduce.registry import Outcome, Verdict, claim
from roamq.sim import tandem

Floats = NDArray[np.float64]

UTILISATIONS: Final = (0.05, 0.2, 0.4, 0.6, 0.8)
DEMAND_S: Final = 5.0
"""Small beside the periods, which last for minutes and hours."""
GAP_S: Final = 600.0
"""A longer silence is missing data, not a disconnection."""
PERIODS_MIN: Final = 15
EVENTS: Final = 2_000_000
"""Of a replay: a recording is repeated until so many events have passed."""
SHUFFLED: Final = 20_000
"""Periods of a recording that is repeated, every time in another order."""
WIFI: Final = "discrete:wifi_status:is_reachable_via_wifi"
NO_WIFI: Final = "discrete:wifi_status:is_not_reachable"
ANSWERS: Final = {
    "theorem_2_s": "Theorem 2",
    "with_variability_s": "with the periods' variability",
    "shuffled_s": "periods in random order",
}


# Running


def read_phone(path: Path) -> Connectivity:
    """The connected and disconnected periods of one phone."""
    with gzip.open(path, "rt", newline="") as file:
        reader = csv.DictReader(file)
        missing = {"timestamp", WIFI, NO_WIFI} - set(reader.fieldnames or ())
        if missing:
            raise ConfigError(
                f"{path}: has no column {sorted(missing)[0]!r}; docs/traces.md names the recordings"
            )
        rows = sorted(
            (float(row["timestamp"]), row[WIFI].startswith("1"))
            for row in reader
            if row[WIFI].startswith("1") or row[NO_WIFI].startswith("1")
        )
    cuts = np.flatnonzero(np.diff([time for time, _ in rows]) > GAP_S) + 1
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
    off_scv: float
    best_family: str
    """Of the disconnected periods."""
    replayed_s: float
    shuffled_s: float
    theorem_2_s: float
    with_variability_s: float

    def over_replay(self, field: str) -> float:
        return float(getattr(self, field)) / self.replayed_s


def answers(name: str, recorded: Connectivity, *, quick: bool) -> list[Phone]:
    """The phone at every utilisation."""
    count = min(recorded.on.whole_s.size, recorded.off.whole_s.size)
    on, off = recorded.on.whole_s[:count], recorded.off.whole_s[:count]
    on_s, off_s = float(on.mean()), float(off.mean())
    shuffled = tandem.recorded_station(
        DEMAND_S, *(_shuffled(part, seed) for seed, part in enumerate((on, off)))
    )
    on_scv, off_scv = (min(max(float(x.var() / x.mean() ** 2), 0.1), 60.0) for x in (on, off))
    family = fit_durations(off, replicates=0)[0].family
    phones = []
    for utilisation in UTILISATIONS:
        rate = utilisation * on_s / (on_s + off_s) / DEMAND_S
        general = IntermittentQueue(
            rate=rate,
            service=exponential(DEMAND_S),
            on=with_moments(on_s, on_scv),
            off=with_moments(off_s, off_scv),
        )
        phones.append(
            Phone(
                name,
                utilisation,
                off_scv,
                family,
                _mean_s(tandem.recorded_station(DEMAND_S, on, off), rate, quick),
                _mean_s(shuffled, rate, quick),
                Centre(name=name, rate=rate, demand_s=DEMAND_S, t_on_s=on_s, t_off_s=off_s).response_s(),
                general.mean_response_s(),
            )
        )
    return phones


def _shuffled(periods_s: Floats, seed: int) -> Floats:
    rng = np.random.default_rng(seed)
    passes = -(-SHUFFLED // periods_s.size)
    return np.concatenate([rng.permutation(periods_s) for _ in range(passes)])


def _mean_s(station: tandem.Station, rate: float, quick: bool) -> float:
    events = EVENTS // 10 if quick else EVENTS
    return float(tandem.responses([station], rate=rate, events=events, seed=1).mean())


def recordings_in(folder: Path) -> list[Path]:
    """The recordings of a folder; an error if it has none."""
    files = sorted(folder.glob("*.phonestate.csv.gz"))
    if not files:
        raise ConfigError(
            f"--recordings: {folder} has no *.phonestate.csv.gz; docs/traces.md names the recordings"
        )
    return files


def read_folder(folder: Path) -> tuple[dict[str, Connectivity], int]:
    """The phones with enough periods of both states, and how many there are in all."""
    recorded = {path.name.partition(".")[0]: read_phone(path) for path in recordings_in(folder)}
    return {
        name: one
        for name, one in recorded.items()
        if min(one.on.whole_s.size, one.off.whole_s.size) >= PERIODS_MIN
    }, len(recorded)


# Judging


def median_over(phones: Sequence[Phone], utilisation: float, field: str) -> Estimate:
    """The median over phones of an answer over the replay, with its 95% interval by resampling phones."""
    ratios = np.array([p.over_replay(field) for p in phones if p.utilisation == utilisation])
    drawn = np.random.default_rng(1).choice(ratios, (2000, ratios.size))
    low, high = np.quantile(np.median(drawn, axis=1), [0.025, 0.975])
    return Estimate(float(np.median(ratios)), float(low), float(high))


def judge(phones: Sequence[Phone]) -> Judgement:
    """Fig. 12: "quite good match between the two with the maximum difference of about 10%"."""
    judgement = Judgement()
    for utilisation in UTILISATIONS:
        judgement.says(
            f"Theorem 2 over replay at utilisation {utilisation:g}, median over phones",
            median_over(phones, utilisation, "theorem_2_s"),
            about(1.0),
        )
    return judgement


@claim("TIME-F12-recorded")
def recorded_connectivity(evidence: Evidence) -> Outcome:
    if evidence.recordings is None:
        return Outcome(
            verdict=Verdict.NOT_RUN,
            why="the recordings are not part of the repository; give them with --recordings (docs/traces.md)",
        )
    recorded, count = read_folder(evidence.recordings)
    phones = [phone for name, one in recorded.items() for phone in answers(name, one, quick=evidence.quick)]
    once = [phone for phone in phones if phone.utilisation == UTILISATIONS[0]]
    exponentials = sum(phone.best_family == "exponential" for phone in once)
    return judge(phones).outcome(
        f"{len(recorded)} of {count} phones have enough periods; at utilisation {UTILISATIONS[1]:g} the median error "
        f"over them is {_error(phones, 'theorem_2_s')} for Theorem 2, {_error(phones, 'with_variability_s')} with the "
        "periods' variability",
        note=f"exponential disconnected periods fit best for {exponentials} of {len(once)} phones; the median of their "
        f"squared coefficient of variation is {np.median([phone.off_scv for phone in once]):.1f}",
        figures=[_figure(phones)],
        tables=[_table(phones)],
    )


def _error(phones: Sequence[Phone], field: str) -> str:
    return f"{median_over(phones, UTILISATIONS[1], field).mean - 1:+.0%}"


# Drawing


def quartiles(phones: Sequence[Phone], utilisation: float, field: str) -> list[float]:
    """Lower quartile, median and upper quartile over phones of the error."""
    errors = [p.over_replay(field) - 1 for p in phones if p.utilisation == utilisation]
    return [float(value) for value in np.quantile(errors, [0.25, 0.5, 0.75])]


def _table(phones: Sequence[Phone]) -> Table:
    rows: list[list[Cell]] = []
    for utilisation in UTILISATIONS:
        row: list[Cell] = [utilisation]
        for field in ANSWERS:
            low, median, high = quartiles(phones, utilisation, field)
            row += [f"{median:+.0%}", f"{low:+.0%} to {high:+.0%}"]
        rows.append(row)
    return Table(
        title="Error of the mean response time against the replay: median and quartiles over phones",
        columns=["utilisation", *(column for name in ANSWERS.values() for column in (name, "quartiles"))],
        rows=rows,
        note="The last pair is a simulation: the same periods, every time in another order.",
    )


def _figure(phones: Sequence[Phone]) -> Figure:
    found: Mapping[str, list[list[float]]] = {
        field: [quartiles(phones, u, field) for u in UTILISATIONS] for field in ANSWERS
    }
    return Figure(
        title="Error against the replay of recorded periods: median and quartiles over phones",
        kind="line",
        x_label="utilisation",
        y_label="error",
        series=[
            Series(
                name=ANSWERS[field],
                x=list(UTILISATIONS),
                y=[q[1] for q in values],
                low=[q[0] for q in values],
                high=[q[2] for q in values],
            )
            for field, values in found.items()
        ],
    )
