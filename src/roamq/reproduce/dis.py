"""[DIS] section 5.2: the overhead of four schemes in commute and pervasive, Figures 3, 4 and 9.

Ratios are link traversals of unicast over those of regular messages (docs/decisions/0030 and 0037), over the whole run
after its warm-up, seed by seed. A value that the paper calls "about" so much, or that is read off its plot, must be
met within a tenth (`judging.ABOUT`). What the paper leaves open is settled in every way that fits (`dis_open`).
"""

import functools
import itertools
from collections.abc import Callable

from roamq.models.paired import Estimate, interval, ratio
from roamq.pipeline.jobs import Job
from roamq.report.exhibits import Cell, Figure, Series, Table
from roamq.reproduce.dis_open import (
    ENDS_H,
    NEGLIGIBLE,
    PEAKS_MIN,
    Counted,
    Model,
    Said,
    about_standard,
    all_events,
    at_edges,
    fit_jobs,
    judged,
    overrides,
)
from roamq.reproduce.dis_runs import ENDS_SEEDS, SCHEMES, Values, by_population, populations, runs
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Wanted, about
from roamq.reproduce.registry import Outcome, claim

OVERHEAD = "message overhead ratio"


def random_jobs(quick: bool) -> list[Job]:
    return by_population("random", quick)


def by_population_figure(
    title: str,
    values: Values,
    quick: bool,
    metric: str = "overhead",
    published: dict[str, float] | None = None,
) -> Figure:
    """The four curves over the number of subscribers, and the paper's own points at 800."""
    xs = populations(quick)
    ours = [values.series(scheme, scheme, xs, metric) for scheme in SCHEMES]
    theirs = [
        Series(name=scheme, x=[800.0], y=[value], published=True)
        for scheme, value in (published or {}).items()
    ]
    return Figure(
        title=title,
        kind="line",
        x_label="number of subscribers",
        y_label=OVERHEAD,
        series=[*ours, *([] if quick else theirs)],
    )


# --- commute -------------------------------------------------------------------------------------------------


def commute_jobs(quick: bool) -> list[Job]:
    """Figures 3 and 4, the runs that models are fitted on, and logging of all events at the largest population."""
    return [*by_population("commute", quick), *logged_jobs(quick), *fit_jobs(quick)]


def logged_jobs(quick: bool) -> list[Job]:
    most = {"clients": str(populations(quick)[-1])}
    if quick:
        return []
    return runs("commute", ["logging"], {**most, **overrides("stop", "all")}, quick=False, seeds=ENDS_SEEDS)


def said_of_figure_3(counted: Counted) -> list[Said]:
    of, most = counted.average, counted.most

    def growth(scheme: str, few: int, many: int) -> Callable[[Model], Estimate]:
        return lambda model: ratio(of(scheme, model, many), of(scheme, model, few))

    rises = [
        Said(
            text=f"commute: {scheme} rises with the population, from {few} to {many}",
            wanted=Wanted(above=1.0),
            measure=growth(scheme, few, many),
            uses=("hop", "end_h"),
        )
        for scheme in ("standard", "home-broker")
        for few, many in itertools.pairwise(populations(counted.quick))
    ]
    return [
        about_standard(counted)[0],
        *rises,
        Said(
            text="commute: logging is below standard",
            wanted=Wanted(below=1.0),
            measure=lambda model: ratio(of("logging", model), of("standard", model)),
            uses=("hop", "log", "end_h"),
        ),
        Said(
            text="commute: prefetching has almost no overhead",
            wanted=Wanted(below=0.05),
            measure=lambda model: interval([*of("prefetching", model, most).values()]),
            uses=("hop", "end_h"),
        ),
        Said(
            text="commute: home broker is by far the highest (over standard)",
            wanted=Wanted(above=3.0),
            measure=lambda model: ratio(of("home-broker", model), of("standard", model)),
            uses=("hop", "end_h"),
        ),
    ]


@claim("DIS-F3", jobs=commute_jobs)
def average_overhead_in_commute(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    drawn = by_population("commute", quick)
    values = Values(evidence.summary(drawn, ["overhead"]), "clients")
    counted = Counted(evidence, commute_jobs(quick))
    at = {scheme: values.get(scheme, xs[-1]) for scheme in SCHEMES}
    return judged(counted, said_of_figure_3(counted)).outcome(
        f"at {xs[-1]}: " + ", ".join(f"{scheme} {value}" for scheme, value in at.items()),
        figures=[
            by_population_figure(
                "Fig. 3: average overhead, commute", values, quick, published={"standard": 0.8}
            )
        ],
    )


def said_of_figure_4(counted: Counted) -> list[Said]:
    average, peak = counted.average, counted.peak
    uses = ("hop", "end_h", "peak_min")

    def factor(scheme: str) -> Callable[[Model], Estimate]:
        return lambda model: ratio(peak(scheme, model), average(scheme, model))

    return [
        about_standard(counted)[1],
        Said(
            text="commute: home broker over 25 at 800 in the peak",
            wanted=Wanted(above=25.0),
            measure=lambda model: interval([*peak("home-broker", model).values()]),
            uses=uses,
            in_quick=False,
        ),
        *(
            Said(
                text=f"commute: {scheme} in the peak almost 3 times its average",
                wanted=about(2.85),
                measure=factor(scheme),
                uses=("hop", "log", "end_h", "peak_min") if scheme == "logging" else uses,
            )
            for scheme in SCHEMES[:3]
        ),
        Said(
            text="commute: home broker in the peak more than 4 times its average",
            wanted=Wanted(above=4.0),
            measure=factor("home-broker"),
            uses=uses,
        ),
        Said(
            text="commute: logging is below standard in the peak",
            wanted=Wanted(below=1.0),
            measure=lambda model: ratio(peak("logging", model), peak("standard", model)),
            uses=("hop", "log", "end_h", "peak_min"),
        ),
        Said(
            text="commute: the peak begins between 5:00 and 5:30 pm (hours)",
            wanted=Wanted(at_least=17.0, at_most=17.5),
            measure=lambda model: interval([*counted.peak_h("standard", model).values()]),
            uses=uses,
        ),
    ]


@claim("DIS-F4", jobs=commute_jobs)
def peak_overhead_in_commute(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    drawn = by_population("commute", quick)
    values = Values(evidence.summary(drawn, ["overhead", "overhead_peak"]), "clients")
    counted = Counted(evidence, commute_jobs(quick))
    most = xs[-1]
    mean = {scheme: values.get(scheme, most, "overhead_peak").mean for scheme in SCHEMES}
    return judged(counted, said_of_figure_4(counted)).outcome(
        f"at {most}, half hours until 8:30 pm: "
        + ", ".join(
            f"{s} {mean[s]:.3g} ({mean[s] / values.get(s, most).mean:.2g} x average)" for s in SCHEMES
        ),
        figures=[
            by_population_figure(
                "Fig. 4: peak overhead, commute",
                values,
                quick,
                "overhead_peak",
                {"standard": 2.3, "home-broker": 25.0},
            )
        ],
        tables=[peak_table(counted)],
    )


def peak_table(counted: Counted) -> Table:
    """Average and peak of each scheme, one row for every end of the day and every length of the peak. The last hop
    is that of the bundled scenario.
    """
    models = [Model(end_h=end, peak_min=minutes) for end in ENDS_H for minutes in PEAKS_MIN]
    rows: list[list[Cell]] = [
        [
            f"{model.end_h:g}",
            model.peak_min,
            scheme,
            str(interval([*counted.average(scheme, model).values()])),
            str(interval([*counted.peak(scheme, model).values()])),
            str(ratio(counted.peak(scheme, model), counted.average(scheme, model))),
        ]
        for model in models
        for scheme in SCHEMES
    ]
    return Table(
        title=f"Average and peak at {counted.most} subscribers, by what the paper leaves open",
        columns=["end, h", "peak, min", "scheme", "average", "peak", "peak / average"],
        rows=rows,
        note="The paper gives factors for standard (almost 3) and home broker (over 4).",
    )


# --- pervasive -----------------------------------------------------------------------------------------------


def pervasive_jobs(quick: bool) -> list[Job]:
    most = {"clients": str(populations(quick)[-1])}
    edges = [] if quick else at_edges("pervasive", [(scheme, most) for scheme in SCHEMES])
    return [*by_population("pervasive", quick), *edges, *fit_jobs(quick)]


def said_of_figure_9(counted: Counted) -> list[Said]:
    of = functools.partial(counted.ratio, "pervasive")

    def beside(scheme: str, other: str) -> Callable[[Model], Estimate]:
        return lambda model: ratio(of(scheme, model), of(other, model))

    def share_of_events(scheme: str) -> Callable[[Model], Estimate]:
        kinds = ("stored_event", "event_ids")
        return lambda model: interval([*counted.share_of("pervasive", scheme, model, kinds).values()])

    return [
        *(
            Said(
                text=f"pervasive: {scheme} performs as well as standard",
                wanted=about(1.0),
                measure=beside(scheme, "standard"),
                uses=("edge", "hop"),
            )
            for scheme in ("logging", "prefetching")
        ),
        *(
            Said(
                text=f"pervasive: home broker is above {scheme}",
                wanted=Wanted(above=1.0),
                measure=beside("home-broker", scheme),
                uses=("edge", "hop"),
            )
            for scheme in SCHEMES[:3]
        ),
        *(
            Said(
                text=f"pervasive: only subscriptions contribute to the overhead of {scheme} (share of events)",
                wanted=Wanted(at_most=NEGLIGIBLE),
                measure=share_of_events(scheme),
                uses=("edge",),
            )
            for scheme in SCHEMES[:3]
        ),
        all_events(counted, "pervasive"),
    ]


@claim("DIS-F9", jobs=pervasive_jobs)
def average_overhead_in_pervasive(evidence: Evidence) -> Outcome:
    quick, xs = evidence.quick, populations(evidence.quick)
    values = Values(evidence.summary(by_population("pervasive", quick), ["overhead"]), "clients")
    counted = Counted(evidence, pervasive_jobs(quick))
    at = {scheme: values.get(scheme, xs[-1]) for scheme in SCHEMES}
    return judged(counted, said_of_figure_9(counted)).outcome(
        f"at {xs[-1]}: " + ", ".join(f"{scheme} {value}" for scheme, value in at.items()),
        figures=[by_population_figure("Fig. 9: average overhead, pervasive", values, quick)],
    )
