"""[DIS] section 5.2.3: the random scenario, Figures 6 to 8; and beyond it, larger populations."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from statistics import linear_regression
from typing import Final

from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Figure, Series, Table
from roamq.reproduce.dis import OVERHEAD, by_population_figure, random_jobs
from roamq.reproduce.dis_open import (
    NEGLIGIBLE,
    Counted,
    Model,
    Said,
    about_standard,
    all_events,
    at_edges,
    fit_jobs,
    judged,
)
from roamq.reproduce.dis_runs import SCHEMES, Values, populations, runs
from roamq.reproduce.dis_why import endless_jobs, endless_table, gap, outermost, sweep_jobs, sweep_table
from roamq.reproduce.evidence import Evidence, Seeds
from roamq.reproduce.judging import ABOUT, Wanted, about
from roamq.reproduce.registry import Outcome, claim

LARGE_POPULATIONS: Final = (1600, 3200, 6400)
LARGE_SEEDS: Final = 1
LARGE_RUN: Final = {"duration_s": "4200.0", "records.level": "traffic"}
"""Large runs last half an hour after the same warm-up; smaller ones an hour."""

LOCALITIES: Final = ("0.3", "0.6", "0.9")
LOG_SIZES: Final = ("800", "1000", "1200")


def large_jobs() -> list[Job]:
    """Populations that the paper does not reach."""
    return [
        job
        for clients in LARGE_POPULATIONS
        for job in runs(
            "random", SCHEMES, {"clients": str(clients), **LARGE_RUN}, quick=False, seeds=LARGE_SEEDS
        )
    ]


FIGURE_6: Final = (
    *((scheme, {"clients": "800"}) for scheme in SCHEMES),
    *((scheme, {"clients": "200"}) for scheme in ("standard", "logging")),
)
"""What the sentences of Figure 6 need at every edge of the city: (scheme, parameters)."""


def figure_6_jobs(quick: bool) -> list[Job]:
    return [*random_jobs(quick), *([] if quick else at_edges("random", FIGURE_6)), *fit_jobs(quick)]


def said_of_figure_6(counted: Counted) -> list[Said]:
    of = functools.partial(counted.ratio, "random")
    few, uses = counted.few, ("edge", "hop", "log")

    def growth(scheme: str) -> Callable[[Model], Estimate]:
        return lambda model: ratio(of(scheme, model), of(scheme, model, clients=few))

    def beside(scheme: str, other: str) -> Callable[[Model], Estimate]:
        return lambda model: ratio(of(scheme, model), of(other, model))

    return [
        about_standard(counted)[2],
        Said(
            text="random: logging less than 70% of standard at 800",
            wanted=Wanted(below=0.7),
            measure=beside("logging", "standard"),
            uses=uses,
            in_quick=False,
        ),
        Said(
            text="random: logging increases marginally from 200 to 800",
            wanted=about(1.0),
            measure=growth("logging"),
            uses=uses,
            in_quick=False,
        ),
        Said(
            text="random: standard rises with the population",
            wanted=Wanted(above=1.0),
            measure=growth("standard"),
            uses=uses[:2],
        ),
        Said(
            text="random: logging is below standard",
            wanted=Wanted(below=1.0),
            measure=beside("logging", "standard"),
            uses=uses,
        ),
        Said(
            text="random: prefetching is small",
            wanted=Wanted(below=0.1),
            measure=lambda model: interval([*of("prefetching", model).values()]),
            uses=uses[:2],
        ),
        *(
            Said(
                text=f"random: home broker is above {scheme}",
                wanted=Wanted(above=1.0),
                measure=beside("home-broker", scheme),
                uses=uses,
            )
            for scheme in ("standard", "logging")
        ),
        Said(
            text="random: stored events have a negligible impact on prefetching (share of its overhead)",
            wanted=Wanted(at_most=NEGLIGIBLE),
            measure=lambda model: interval(
                [*counted.share_of("random", "prefetching", model, ("stored_event", "event_ids")).values()]
            ),
            uses=uses[:1],
        ),
        all_events(counted, "random"),
    ]


@claim("DIS-F6", jobs=figure_6_jobs, beyond=lambda: [*large_jobs(), *endless_jobs()])
def average_overhead_in_random(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    jobs = [*random_jobs(quick), *(large_jobs() if evidence.beyond else ())]
    values = Values(evidence.summary(jobs, ["overhead"]), "clients")
    looked_at = [*random_jobs(quick), *(endless_jobs() if evidence.beyond else ())]
    seeds = Seeds(evidence.per_seed(looked_at, ["overhead", "broker_subscribers"]))
    counted = Counted(evidence, figure_6_jobs(quick))
    judgement = judged(counted, said_of_figure_6(counted))
    most = xs[-1]
    at = {scheme: values.get(scheme, most) for scheme in SCHEMES}
    figures = [
        by_population_figure("Fig. 6: average overhead, random", values, quick, published={"standard": 1.0})
    ]
    tables = []
    if evidence.beyond:
        figures.append(growth_figure(values))
        tables += [growth_table(values), endless_table(seeds)]
    return judgement.outcome(
        f"at {most}: "
        + ", ".join(f"{scheme} {value}" for scheme, value in at.items())
        + f"; logging {at['logging'].mean / at['standard'].mean:.0%} of standard",
        note=outermost(seeds, most),
        figures=figures,
        tables=tables,
    )


def growth_figure(values: Values) -> Figure:
    xs = (*populations(False), *LARGE_POPULATIONS)
    return Figure(
        title="Beyond the paper: overhead in random for larger populations",
        kind="line",
        x_label="number of subscribers",
        y_label=OVERHEAD,
        x_log=True,
        y_log=True,
        series=[values.series(scheme, scheme, xs) for scheme in SCHEMES],
        caption="Above 800: half an hour simulated after the warm-up, one seed.",
    )


def growth_table(values: Values) -> Table:
    xs = (*populations(False), *LARGE_POPULATIONS)
    rows: list[list[str | float]] = []
    for scheme in SCHEMES:
        means = [values.get(scheme, x).mean for x in xs]
        limit, most = level(xs[-4:], means[-4:])
        in_sight = limit < 2 * means[-1]
        told = (f"{limit:.3g}", f"{most:,.0f}") if in_sight else ("no limit in sight", "")
        rows.append([scheme, *(round(mean, 3) for mean in means), *told])
    return Table(
        title="Beyond the paper: where the overhead levels off",
        columns=["scheme", *(str(x) for x in xs), "levels off at", "nine tenths of it at"],
        rows=rows,
        note=LEVELLING,
    )


LEVELLING = (
    "The curve u N / (T + d N), in which 1 / ratio is straight in 1 / N, fitted to the four largest populations: as if "
    "regular traffic had a part T that does not grow with the subscribers and a part d for each, and transfers were u "
    "for each. The last column is the N at which it comes to nine tenths of its limit."
)


def level(xs: Sequence[int], ratios: Sequence[float]) -> tuple[float, float]:
    """The limit of u N / (T + d N), and the N at which nine tenths of it are reached."""
    slope, offset = linear_regression([1 / x for x in xs], [1 / ratio for ratio in ratios])
    if offset <= 0:
        return math.inf, math.inf
    return 1 / offset, 9 * slope / offset


FIGURE_7: Final = tuple(
    (scheme, {"clients": "800", "workload.locality": locality})
    for scheme in SCHEMES
    for locality in (LOCALITIES if scheme == "logging" else (LOCALITIES[0], LOCALITIES[-1]))
)


def drawn_localities(quick: bool) -> list[Job]:
    clients = str(populations(quick)[-1])
    return [
        job
        for locality in LOCALITIES
        for job in runs("random", SCHEMES, {"clients": clients, "workload.locality": locality}, quick=quick)
    ]


def locality_jobs(quick: bool) -> list[Job]:
    return [
        *drawn_localities(quick),
        *([] if quick else at_edges("random", FIGURE_7)),
        *fit_jobs(quick),
    ]


def said_of_figure_7(counted: Counted) -> list[Said]:
    uses = ("edge", "hop", "log")

    def change(scheme: str, low: str, high: str) -> Callable[[Model], Estimate]:
        def measure(model: Model) -> Estimate:
            before, after = (
                counted.ratio("random", scheme, model, workload__locality=locality)
                for locality in (low, high)
            )
            return ratio(after, before, comparisons=2)

        return measure

    return [
        *(
            Said(
                text=f"random: logging falls from a locality of {low} to {high}",
                wanted=Wanted(below=1.0),
                measure=change("logging", low, high),
                uses=uses,
            )
            for low, high in itertools.pairwise(LOCALITIES)
        ),
        Said(
            text="random: logging matches prefetching at 0.9 (the gap, of standard's overhead)",
            wanted=Wanted(at_most=0.1),
            measure=lambda model: gap(counted, LOCALITIES[-1], model),
            uses=uses,
        ),
        *(
            Said(
                text=f"random: {scheme} does not fall from 0.3 to 0.9",
                wanted=Wanted(at_least=1 - ABOUT),
                measure=change(scheme, LOCALITIES[0], LOCALITIES[-1]),
                uses=uses[:2],
            )
            for scheme in ("standard", "prefetching", "home-broker")
        ),
    ]


@claim("DIS-F7", jobs=locality_jobs, beyond=sweep_jobs)
def effect_of_interest_locality(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    values = Values(evidence.summary(drawn_localities(quick), ["overhead"]), "workload.locality")
    counted = Counted(evidence, [*locality_jobs(quick), *(sweep_jobs() if evidence.beyond else ())])
    judgement = judged(counted, said_of_figure_7(counted))
    most = counted.most
    tables = [sweep_table(counted)] if evidence.beyond else []
    curves = {s: [values.get(s, x).mean for x in LOCALITIES] for s in SCHEMES}
    series = [values.series(s, s, LOCALITIES) for s in SCHEMES]
    percent = [
        type(line)(name=line.name, x=[100 * x for x in line.x], y=line.y, low=line.low, high=line.high)
        for line in series
    ]
    return judgement.outcome(
        "; ".join(f"{s} " + "/".join(f"{value:.3g}" for value in curve) for s, curve in curves.items()),
        figures=[
            Figure(
                title=f"Fig. 7: effect of locality, random, {most} subscribers",
                kind="line",
                x_label="interest locality (%)",
                y_label=OVERHEAD,
                series=percent,
            )
        ],
        tables=tables,
    )


FIGURE_8: Final = tuple(
    ("logging", {"clients": clients, "scheme.log_size": size})
    for clients in ("200", "800")
    for size in ("800", "1200")
)


def drawn_log_sizes(quick: bool) -> list[Job]:
    return [
        job
        for clients in populations(quick)
        for size in LOG_SIZES
        for job in runs("random", ["logging"], log_size(clients, size), quick=quick)
    ]


def log_size_jobs(quick: bool) -> list[Job]:
    return [
        *drawn_log_sizes(quick),
        *([] if quick else at_edges("random", FIGURE_8)),
        *fit_jobs(quick),
    ]


def log_size(clients: int, size: str) -> dict[str, str]:
    """The preset's log size, 1000, is not given as an override, so that these runs are the same as those of Figure
    6.
    """
    return {"clients": str(clients), **({} if size == "1000" else {"scheme.log_size": size})}


def saved(counted: Counted, clients: int, model: Model) -> Estimate:
    """1 less logging's overhead with a log of 1200 events over that with one of 800."""
    small, large = (
        counted.ratio("random", "logging", model, clients=clients, scheme__log_size=size)
        for size in ("800", "1200")
    )
    return interval([1 - large[seed] / small[seed] for seed in small], comparisons=2)


def said_of_figure_8(counted: Counted) -> list[Said]:
    return [
        Said(
            text=f"random: a log of 1200 saves only marginally against one of 800, at {clients}",
            wanted=Wanted(at_least=-0.02, at_most=0.1),
            measure=functools.partial(saved, counted, clients),
            uses=("edge", "hop", "log"),
        )
        for clients in (counted.few, counted.most)
    ]


@claim("DIS-F8", jobs=log_size_jobs)
def effect_of_the_log_size(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    by_size = {}
    for clients in xs:
        jobs = [j for j in drawn_log_sizes(quick) if j.params["clients"] == str(clients)]
        by_size[clients] = Values(evidence.summary(jobs, ["overhead"]), "scheme.log_size", "1000")
    series = []
    for size in LOG_SIZES:
        points = [by_size[clients].get("logging", size) for clients in xs]
        series.append(
            _log_size_series(
                size, xs, [p.mean for p in points], [p.low for p in points], [p.high for p in points]
            )
        )
    counted = Counted(evidence, log_size_jobs(quick))
    judgement = judged(counted, said_of_figure_8(counted))
    return judgement.outcome(
        "from 800 to 1200 events it falls by "
        + ", ".join(f"{saved(counted, clients, Model()).mean:.1%} at {clients}" for clients in xs),
        figures=[
            Figure(
                title="Fig. 8: effect of the log size on logging, random",
                kind="line",
                x_label="number of subscribers",
                y_label=OVERHEAD,
                series=series,
            )
        ],
    )


def _log_size_series(
    size: str, xs: tuple[int, ...], y: list[float], low: list[float], high: list[float]
) -> Series:
    return Series(name=f"log of {size}", x=[float(x) for x in xs], y=y, low=low, high=high)
