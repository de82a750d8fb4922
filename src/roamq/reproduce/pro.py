"""[PRO] Tables 2 to 4: pro-active caching against durable subscriptions and reactive transfer, on a simulated testbed.

Absolute figures are those of 2003 JMS brokers; the order, the trends and the ratios are the claims. Service times are
calibrated on one column of Table 2, pro-active RND (docs/pro.md), and everything else follows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.pro_models import (
    SUBSCRIBERS,
    TESTBED,
    cached_for,
    neighboring_occupancy,
    random_occupancy,
)
from roamq.reproduce.pro_runs import (
    PATTERNS,
    SCHEMES,
    cheaper_transfer_jobs,
    dear_durable_jobs,
    populations,
    shared_store_jobs,
    table_jobs,
    unbounded_jobs,
)
from roamq.reproduce.pro_tables import (
    PUBLISHED_DUPLICATION,
    PUBLISHED_LOSS,
    PUBLISHED_THROUGHPUT,
    Key,
)
from roamq.reproduce.registry import Evidence, Outcome, Verdict, claim


def keyed(rows: Iterable[Measured], metric: str) -> dict[Key, Measured]:
    """The rows of one metric over all of a run, by scheme, pattern and subscribers."""
    return {
        (row.scheme, row.params["mobility.pattern"], int(row.params["clients"])): row
        for row in rows
        if row.metric == metric and row.entity == "all"
    }


def low_of(row: Measured) -> float:
    """The lower end of the interval; one run has none but itself."""
    return row.mean if row.low is None else row.low


def high_of(row: Measured) -> float:
    return row.mean if row.high is None else row.high


def beside(
    title: str, unit: str, ours: Mapping[Key, Measured], published: Mapping[Key, float], note: str = ""
) -> Table:
    """Our means with their intervals beside the published figures."""
    rows: list[list[Cell]] = []
    for key in sorted(ours, key=lambda k: (SCHEMES.index(k[0]), PATTERNS.index(k[1]), k[2])):
        row = ours[key]
        interval = f"{low_of(row):.4g} to {high_of(row):.4g}"
        rows.append([*key, published.get(key), round(row.mean, 3), interval])
    columns = ["scheme", "pattern", "subscribers", f"published {unit}", f"ours {unit}", "95% interval"]
    return Table(title=title, columns=columns, rows=rows, note=note)


def verdict(problems: Sequence[str]) -> Verdict:
    return Verdict.DIFFERS if problems else Verdict.REPRODUCED


def ordered(
    ours: Mapping[Key, Measured], quick: bool, holds: Callable[[Mapping[str, float]], bool], what: str
) -> list[str]:
    """The cells in which an order of the schemes does not hold."""
    found = []
    for pattern in PATTERNS:
        for n in populations(quick):
            means = {scheme: ours[scheme, pattern, n].mean for scheme in SCHEMES}
            if not holds(means):
                figures = ", ".join(f"{scheme} {mean:.4g}" for scheme, mean in means.items())
                found.append(f"{what} does not hold at {n} subscribers, {pattern} ({figures})")
    return found


def throughput_jobs(quick: bool) -> Sequence[Job]:
    return [*table_jobs(quick), *dear_durable_jobs(quick), *cheaper_transfer_jobs(quick)]


@claim("PRO-T2", jobs=throughput_jobs)
def table_2_throughput(evidence: Evidence) -> Outcome:
    ours = keyed(evidence.summary(table_jobs(evidence.quick), ["throughput"]), "throughput")
    problems = ordered(
        ours, evidence.quick, lambda m: m["proactive"] > m["reactive"] > m["durable"], "the order"
    )
    problems += order_by_other_costs(evidence, problems)
    lifts = {
        scheme: [
            100 * (ours[scheme, "NBR", n].mean / ours[scheme, "RND", n].mean - 1)
            for n in populations(evidence.quick)
        ]
        for scheme in SCHEMES
    }
    if min(lifts["proactive"]) <= 0:
        problems.append(
            f"NBR does not lift pro-active at every population: {load_of_the_center()}, and flow control goes at "
            "its pace"
        )
    shown = "; ".join(f"{s} {'/'.join(f'{lift:+.1f}' for lift in lifts[s])}%" for s in SCHEMES)
    return Outcome(
        verdict=verdict(problems),
        ours=f"NBR against RND at {'/'.join(map(str, populations(evidence.quick)))}: {shown}",
        why="; ".join(problems) or "calibrated on pro-active RND alone",
        tables=[beside("Subscriber throughput (Table 2)", "msg/s", ours, PUBLISHED_THROUGHPUT)],
    )


def order_by_other_costs(evidence: Evidence, problems: Sequence[str]) -> list[str]:
    """Where the order does not hold: which of the costs that are not calibrated decides it, tried."""
    few, *more = populations(evidence.quick)
    found = []
    dear = keyed(evidence.summary(dear_durable_jobs(evidence.quick), ["throughput"]), "throughput")
    if dear and any(f"at {few} subscribers" in problem for problem in problems):
        told = "/".join(f"{dear['durable', pattern, few].mean:.0f}" for pattern in PATTERNS)
        found.append(
            "by Table 2 itself durable has a fixed cost of 2.8 ms per event that pro-active has not, which its column "
            f"cannot tell; with it durable comes to {told} msg/s at {few} (RND/NBR)"
        )
    cheap = keyed(evidence.summary(cheaper_transfer_jobs(evidence.quick), ["throughput"]), "throughput")
    if cheap and any(f"at {n} subscribers" in problem for n in more for problem in problems):
        columns = {p: "/".join(f"{cheap['reactive', p, n].mean:.0f}" for n in more) for p in PATTERNS}
        told = ", ".join(f"{column} {pattern}" for pattern, column in columns.items())
        found.append(
            "what a transferred message costs is assumed, 16.2 ms as any message; at 12 ms reactive comes to "
            f"{told} msg/s at {'/'.join(map(str, more))}"
        )
    return found


def loss_jobs(quick: bool) -> Sequence[Job]:
    return [*table_jobs(quick), *unbounded_jobs(quick), *shared_store_jobs(quick)]


@claim("PRO-T3", jobs=loss_jobs)
def table_3_loss(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    rows = evidence.summary(table_jobs(quick), ["loss_pct", "throughput"])
    ours, pace = keyed(rows, "loss_pct"), keyed(rows, "throughput")
    few, many = populations(quick)[0], populations(quick)[-1]
    problems = ordered(ours, quick, lambda m: m["proactive"] <= min(m.values()), "pro-active loses least")
    if problems:
        faster = [
            pace["proactive", p, n].mean / pace["reactive", p, n].mean
            for p in PATTERNS
            for n in populations(quick)
        ]
        problems.append(
            f"at up to {max(faster):.2f} times reactive's pace pro-active's queue of the same size holds fewer seconds "
            "(docs/pro.md has what larger ones give)"
        )
    for pattern in PATTERNS:
        if not ours["proactive", pattern, many].mean < ours["proactive", pattern, few].mean:
            problems.append(f"pro-active does not fall with the population under {pattern}")
        if not ours["reactive", pattern, many].mean > ours["reactive", pattern, few].mean:
            problems.append(f"reactive does not rise with the population under {pattern}")
        durable = [ours["durable", pattern, n].mean for n in populations(quick)]
        if max(durable) > 2.5 * min(durable):
            problems.append(f"durable is not flat under {pattern}")
    metrics = ["loss_pct", "duplication_pct"]
    unbounded = evidence.summary(unbounded_jobs(quick), metrics)
    worst = max(abs(row.mean) for row in unbounded)
    if worst > 0:
        problems.append(f"pro-active with sufficient buffers lost or repeated {worst:.3g}%")
    shared = keyed(evidence.summary(shared_store_jobs(quick), ["loss_pct"]), "loss_pct")
    if any(problem.startswith("reactive does not rise") for problem in problems):
        grows = "/".join(f"{shared['reactive', 'RND', n].mean:.2f}" for n in populations(quick)[:2])
        problems.append(
            "a subscriber's own queue is full less often as the pace falls with the population; were 1 MB the store of "
            f"all, reactive would lose {grows}% at {'/'.join(map(str, populations(quick)[:2]))}; what a transfer costs "
            "does not decide it (PRO-F5)"
        )
    return Outcome(
        verdict=verdict(problems),
        ours="; ".join(
            f"{scheme} {'/'.join(f'{ours[scheme, pattern, n].mean:.2f}' for n in populations(quick))}% {pattern}"
            for scheme in SCHEMES
            for pattern in PATTERNS
        )
        + f"; pro-active with sufficient buffers {worst:.3g}%",
        why="; ".join(problems)
        or "a queue of 1 MB holds more seconds of messages as the rate falls with the population; the paper credits "
        "shared copies",
        tables=[
            beside("Message loss (Table 3)", "%", ours, PUBLISHED_LOSS),
            beside(
                "Pro-active with sufficient buffers: lost",
                "%",
                keyed(unbounded, "loss_pct"),
                {},
                note="Beyond the paper: with room for everything nothing is lost, in every run.",
            ),
            beside(
                "Reactive and pro-active with one bounded store for all subscribers",
                "%",
                shared,
                {},
                note="Had the 1 MB been shared, both would lose more with every subscriber.",
            ),
        ],
    )


@claim("PRO-T4", jobs=table_jobs)
def table_4_duplication(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    rows = evidence.summary(table_jobs(quick), ["duplication_pct"])
    ours = keyed(rows, "duplication_pct")
    problems = ordered(
        ours, quick, lambda m: m["proactive"] == 0 < m["reactive"] < m["durable"], "0 < reactive < durable"
    )
    return Outcome(
        verdict=verdict(problems),
        ours="; ".join(
            f"{scheme} {min(v):.2f} to {max(v):.2f}%"
            for scheme in SCHEMES
            if (v := [ours[scheme, p, n].mean for p in PATTERNS for n in populations(quick)])
        ),
        why="; ".join(problems)
        or "fewer than the paper's durable: a store of 1 MB remembers only the last seconds of what was read elsewhere",
        tables=[beside("Message duplication (Table 4)", "%", ours, PUBLISHED_DUPLICATION)],
    )


def load_of_the_center() -> str:
    """Why the brokers with most neighbors gain least, by the chains of section 6 alone."""
    rnd, nbr = random_occupancy(), neighboring_occupancy()
    away = {
        "RND": SUBSCRIBERS * cached_for(rnd, dict.fromkeys(rnd.brokers, rnd.brokers))["B6"],
        "NBR": SUBSCRIBERS * cached_for(nbr, TESTBED)["B6"],
    }
    served = {"RND": rnd.expected(SUBSCRIBERS)["B6"], "NBR": nbr.expected(SUBSCRIBERS)["B6"]}
    return (
        f"by the paper's chains B6 stores for {away['NBR']:.1f} of {SUBSCRIBERS} subscribers, {away['RND']:.1f} under "
        f"RND, and serves {served['NBR']:.0f} in place of {served['RND']:.0f}"
    )
