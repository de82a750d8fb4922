"""[DIS] section 5.2.3: the random scenario, Figures 6 to 8; and beyond it, populations up to 20,000."""

import math
from collections.abc import Sequence
from statistics import linear_regression
from typing import Final

from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Figure, Series, Table
from roamq.reproduce.dis import OVERHEAD, QUICK, by_population_figure, random_jobs, rises
from roamq.reproduce.dis_runs import SCHEMES, Checks, Values, populations, runs
from roamq.reproduce.dis_why import ENDLESS, FEW, LOCAL, MANY, TURN, Why, choices_table, edge, why_jobs
from roamq.reproduce.registry import Evidence, Outcome, claim

LARGE_POPULATIONS: Final = (1600, 3200, 6400, 12800, 20000)
LARGE_SEEDS: Final = 2
LARGE_RUN: Final = {"duration_s": "4200.0", "records.level": "traffic"}
"""Half an hour after the same warm-up, against an hour below."""

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


@claim("DIS-F6", jobs=random_jobs, beyond=lambda: [*large_jobs(), *why_jobs()])
def average_overhead_in_random(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    jobs = [*random_jobs(quick), *(large_jobs() if evidence.beyond else ())]
    values = Values(evidence.summary(jobs, ["overhead", "broker_subscribers"]), "clients")
    at = {scheme: values.get(scheme, xs[-1]) for scheme in SCHEMES}
    standard, logging = at["standard"].mean, at["logging"].mean
    growth = {s: values.get(s, xs[-1]).mean / values.get(s, xs[0]).mean for s in SCHEMES}
    why = Why(evidence) if evidence.beyond else None
    reason = edge_of(values, xs[-1])
    checks = Checks()
    if not quick:
        checks.expect(0.8 <= standard <= 1.2, f"standard about 1.0 at 800 (within a fifth): {standard:.2f}")
        checks.expect(logging < 0.7 * standard, f"logging under 70%: {logging / standard:.0%}", reason)
        checks.expect(
            growth["logging"] < growth["standard"] and growth["logging"] < 1.25,
            f"logging almost flat: x {growth['logging']:.2f} from 200 to 800, standard x {growth['standard']:.2f}",
            reason + (flatter(why) if why else ""),
        )
    checks.expect(rises(values, "standard", xs), "standard rises with the population")
    checks.expect(logging < standard, "logging is below standard")
    checks.expect(at["prefetching"].mean < 0.1, f"prefetching is small: {at['prefetching']}")
    checks.expect(at["home-broker"].mean > max(standard, logging), "home broker is highest")
    figures = [
        by_population_figure("Fig. 6: average overhead, random", values, quick, published={"standard": 1.0})
    ]
    tables = []
    if why is not None:
        figures.append(growth_figure(values))
        tables += [growth_table(values), choices_table(why, values, logging / standard)]
    return checks.outcome(
        f"at {xs[-1]}: "
        + ", ".join(f"{scheme} {value}" for scheme, value in at.items())
        + f"; logging {logging / standard:.0%} of standard",
        note=QUICK if quick else "",
        figures=figures,
        tables=tables,
    )


def edge_of(values: Values, at: object) -> str:
    subscribers = values.entities("logging", at, "broker_subscribers")
    return edge({broker: value.mean for broker, value in subscribers.items()})


def flatter(why: Why) -> str:
    few, many = (why.ratio("logging", clients, ENDLESS) for clients in (FEW, MANY))
    turned = [why.ratio("logging", clients, TURN) for clients in (FEW, MANY)]
    return (
        f"; with an endless log it goes from {few:.2f} to {many:.2f}, x {many / few:.2f}. If they turned around "
        f"(mobility.edge=turn) it would go from {turned[0]:.2f} to {turned[1]:.2f}, x {turned[1] / turned[0]:.2f}, but "
        f"standard would come to {why.ratio('standard', MANY, TURN):.2f}"
    )


def growth_figure(values: Values) -> Figure:
    xs = (*populations(False), *LARGE_POPULATIONS)
    return Figure(
        title="Beyond the paper: overhead in random for populations up to 20,000",
        kind="line",
        x_label="number of subscribers",
        y_label=OVERHEAD,
        x_log=True,
        y_log=True,
        series=[values.series(scheme, scheme, xs) for scheme in SCHEMES],
        caption=f"Above 800: half an hour simulated after the warm-up, {LARGE_SEEDS} seeds.",
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
    "Regular traffic is T up and down the tree, which stops growing when every leaf has somebody for every kind of "
    "event, and d for each subscriber; transfers are u for each. So the ratio is u N / (T + d N), and 1 / ratio a "
    "straight line in 1 / N, fitted to the four largest populations; the last column is the N at which it comes to "
    "nine tenths of its limit. What a home broker forwards is not regular: d is next to nothing, and no limit in sight."
)


def level(xs: Sequence[int], ratios: Sequence[float]) -> tuple[float, float]:
    """The limit of u N / (T + d N), and the N at which nine tenths of it are reached."""
    slope, offset = linear_regression([1 / x for x in xs], [1 / ratio for ratio in ratios])
    if offset <= 0:
        return math.inf, math.inf
    return 1 / offset, 9 * slope / offset


def locality_jobs(quick: bool) -> list[Job]:
    clients = str(populations(quick)[-1])
    return [
        job
        for locality in LOCALITIES
        for job in runs("random", SCHEMES, {"clients": clients, "workload.locality": locality}, quick=quick)
    ]


AXIS = ". On Fig. 7's axis, which ends at 12, the gap is a fortieth"


@claim("DIS-F7", jobs=locality_jobs, beyond=why_jobs)
def effect_of_interest_locality(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    metrics = ["overhead", "broker_subscribers"]
    values = Values(evidence.summary(locality_jobs(quick), metrics), "workload.locality")
    curves = {s: [values.get(s, x).mean for x in LOCALITIES] for s in SCHEMES}
    logging, prefetching = curves["logging"], curves["prefetching"]
    checks = Checks()
    checks.expect(logging[0] > logging[1] > logging[2], f"logging falls: {logging}")
    checks.expect(
        logging[2] - prefetching[2] < 0.1 * curves["standard"][2],
        f"logging reaches prefetching at 90%: {logging[2]:.3f} against {prefetching[2]:.3f}",
        edge_of(values, LOCALITIES[2]) + (nearer(Why(evidence)) if evidence.beyond else "") + AXIS,
    )
    for scheme in ("standard", "prefetching", "home-broker"):
        checks.expect(curves[scheme][2] >= curves[scheme][0], f"{scheme} does not fall: {curves[scheme]}")
    series = [values.series(s, s, LOCALITIES) for s in SCHEMES]
    percent = [
        type(line)(name=line.name, x=[100 * x for x in line.x], y=line.y, low=line.low, high=line.high)
        for line in series
    ]
    return checks.outcome(
        "; ".join(f"{s} " + "/".join(f"{value:.3g}" for value in curve) for s, curve in curves.items()),
        note=QUICK if quick else "",
        figures=[
            Figure(
                title=f"Fig. 7: effect of locality, random, {populations(quick)[-1]} subscribers",
                kind="line",
                x_label="interest locality (%)",
                y_label=OVERHEAD,
                series=percent,
            )
        ],
    )


def nearer(why: Why) -> str:
    endless = why.ratio("logging", MANY, ENDLESS, LOCAL)
    return (
        f"; with an endless log logging comes to {endless:.2f} at 90%, and the rest are leaves with a handful of "
        "subscribers"
    )


def log_size_jobs(quick: bool) -> list[Job]:
    return [
        job
        for clients in populations(quick)
        for size in LOG_SIZES
        for job in runs("random", ["logging"], log_size(clients, size), quick=quick)
    ]


def log_size(clients: int, size: str) -> dict[str, str]:
    """The preset's size, 1000, is left unsaid, so that these runs are those of Figure 6."""
    return {"clients": str(clients), **({} if size == "1000" else {"scheme.log_size": size})}


@claim("DIS-F8", jobs=log_size_jobs, beyond=why_jobs)
def effect_of_the_log_size(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    checks = Checks()
    series, falls = [], []
    by_size = {}
    metrics = ["overhead", "broker_subscribers"]
    for clients in xs:
        jobs = [j for j in log_size_jobs(quick) if j.params["clients"] == str(clients)]
        by_size[clients] = Values(evidence.summary(jobs, metrics), "scheme.log_size", "1000")
    for size in LOG_SIZES:
        points = [by_size[clients].get("logging", size) for clients in xs]
        series.append(
            _log_size_series(
                size, xs, [p.mean for p in points], [p.low for p in points], [p.high for p in points]
            )
        )
    for clients in xs:
        small, large = (by_size[clients].get("logging", size).mean for size in ("800", "1200"))
        falls.append(1 - large / small)
    checks.expect(
        all(-0.01 <= fall <= 0.1 for fall in falls),
        "the overhead falls by at most 10% from 800 to 1200: " + ", ".join(f"{fall:.1%}" for fall in falls),
        edge_of(by_size[xs[-1]], "1000")
        + ", and each hundred events more reach back a minute further"
        + (marginal(Why(evidence)) if evidence.beyond else ""),
    )
    return checks.outcome(
        "from 800 to 1200 events it falls by "
        + ", ".join(f"{fall:.1%} at {clients}" for clients, fall in zip(xs, falls, strict=True)),
        note=QUICK if quick else "",
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


def marginal(why: Why) -> str:
    few, many = why.saved_by_a_larger_log(FEW), why.saved_by_a_larger_log(MANY)
    return f". If they turned around (mobility.edge=turn) it would fall by {few:.0%} at {FEW} and {many:.0%} at {MANY}"


def _log_size_series(
    size: str, xs: tuple[int, ...], y: list[float], low: list[float], high: list[float]
) -> Series:
    return Series(name=f"log of {size}", x=[float(x) for x in xs], y=y, low=low, high=high)
