"""[PRO] Fig. 5 to 8: overhead, handoff times, handoff frequency, and the brokers one by one.

As in `pro.py`, every claim is judged over all parameter sets that fit Table 2 RND and Fig. 6.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from roamq.models.paired import Estimate, difference, ratio
from roamq.report.exhibits import Cell as TableCell
from roamq.report.exhibits import Figure, Series, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, Wanted
from roamq.reproduce.pro import MORE, SLIGHTLY, beside, load_of_the_center, spread, table_figure
from roamq.reproduce.pro_identify import TARGETS
from roamq.reproduce.pro_judging import UNKNOWN, Fitted, mean_of
from roamq.reproduce.pro_runs import (
    LONG_STAY_S,
    PATTERNS,
    SCHEMES,
    Cell,
    Measured,
    figure_7_jobs,
    jobs_of,
    largest,
    long_stay_cells,
    populations,
    table_cells,
    table_jobs,
)
from roamq.reproduce.pro_tables import PUBLISHED_HANDOFF_S, PUBLISHED_THROUGHPUT
from roamq.reproduce.registry import Outcome, claim

FAR_ABOVE: Final = 2.0
ALMOST_NONE_PCT: Final = 5.0
"""What "almost no message overhead" may be, of the consumed messages: the paper has 37 to 42 of reactive."""
MUCH_LESS: Final = 1 / FAR_ABOVE
SIGNIFICANTLY: Final = Wanted(at_most=1 - 2 * SLIGHTLY)
"""A significant reduction is more than what the same paragraph calls slight."""


def rnd_cells(quick: bool) -> list[Cell]:
    return [cell for cell in table_cells(quick) if cell.pattern == "RND"]


def over(a: Mapping[int, float], b: Mapping[int, float]) -> Estimate:
    """`a` over `b`, seed by seed; unknown where no seed has both."""
    return ratio(a, b) if a.keys() & b.keys() else UNKNOWN


@claim("PRO-F5", jobs=table_jobs)
def figure_5_overhead(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    fitted = Fitted(evidence)
    if not fitted.names:
        return fitted.none_fits()
    measured = Measured(evidence, rnd_cells(quick), ["latency_s_mean", "throughput", "transferred_pct"])
    sizes, sets = populations(quick), fitted.names

    def latency(name: str, scheme: str, n: int) -> dict[int, float]:
        return measured.of(Cell(name, scheme, "RND", n), "latency_s_mean")

    judgement = Judgement()
    for n in sizes:
        judgement.says(
            f"reactive far above pro-active at {n} (latency)",
            {a: over(latency(a, "reactive", n), latency(a, "proactive", n)) for a in sets},
            above=FAR_ABOVE,
        )
        judgement.says(
            f"pro-active above durable at {n} (latency)",
            {a: over(latency(a, "proactive", n), latency(a, "durable", n)) for a in sets},
            above=1.0,
        )
    cells = {a: Cell(a, "reactive", "RND", sizes[-1]) for a in sets}
    judgement.says(
        "37 to 42% of reactive's messages came by state transfer at 200",
        None if quick else {a: mean_of(measured.of(cells[a], "transferred_pct")) for a in sets},
        Wanted(at_least=37.0, at_most=42.0, named=39.5),
    )
    for n in sizes:
        shares = {a: measured.of(Cell(a, "proactive", "RND", n), "transferred_pct") for a in sets}
        judgement.says(
            f"pro-active has almost no message overhead at {n} (% by state transfer)",
            {a: mean_of(found) for a, found in shares.items()},
            at_most=ALMOST_NONE_PCT,
        )
    means = {
        s: [
            spread([measured.mean(Cell(a, s, "RND", n), "latency_s_mean") for a in sets], ".2f")
            for n in sizes
        ]
        for s in SCHEMES
    }
    share = spread([measured.mean(cells[a], "transferred_pct") for a in sets], ".1f")
    return fitted.outcome(
        judgement,
        "; ".join(f"{s} {'/'.join(means[s])} s" for s in SCHEMES) + f"; {share}% by state transfer",
        figures=[
            table_figure("End-to-end latency (Fig. 5)", "seconds", measured, "latency_s_mean", sets, {}),
            table_figure(
                "Subscriber throughput (Fig. 5)",
                "messages per second",
                measured,
                "throughput",
                sets,
                PUBLISHED_THROUGHPUT,
            ),
        ],
        tables=[
            beside("End-to-end latency (Fig. 5)", "s", measured, "latency_s_mean", sets, {}),
            beside("Came by state transfer", "%", measured, "transferred_pct", sets, {}),
            fitted.table(),
        ],
    )


@claim("PRO-F6", jobs=table_jobs)
def figure_6_handoff_latency(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    fitted = Fitted(evidence)
    if not fitted.names:
        return fitted.none_fits()
    kept = ["buffer_message_s", "buffer_copies_per_message", "handoff_s_p50"]
    cells = [cell for cell in rnd_cells(quick) if cell.subscribers == largest(quick)]
    measured = Measured(evidence, cells, ["handoff_s_at", *kept])
    sets = fitted.names

    def handoff(name: str, scheme: str, percent: str) -> dict[int, float]:
        return measured.of(Cell(name, scheme, "RND", largest(quick)), "handoff_s_at", percent)

    judgement = Judgement()
    for target in TARGETS:
        if target.metric == "handoff_s_at":
            low = 0.0 if target.at_most else target.published / target.factor
            judgement.says(
                f"{target.name}: {'under' if target.at_most else 'about'} {target.published} s",
                {a: mean_of(handoff(a, target.scheme, target.entity)) for a in sets},
                Wanted(at_least=low, at_most=target.published * target.factor, named=target.published),
                calibrated=True,
            )
    for other in ("proactive", "durable"):
        judgement.says(
            f"reactive's handoffs are by far the slowest (60%, over {other})",
            {a: over(handoff(a, "reactive", "60"), handoff(a, other, "60")) for a in sets},
            above=FAR_ABOVE,
        )
    judgement.says(
        "pro-active's handoffs are slower than durable's (60%)",
        {a: over(handoff(a, "proactive", "60"), handoff(a, "durable", "60")) for a in sets},
        above=1.0,
    )
    at = {"reactive": "40", "proactive": "60", "durable": "60"}
    told = {
        scheme: spread(
            [measured.mean(Cell(a, scheme, "RND", largest(quick)), "handoff_s_at", percent) for a in sets],
            ".3g",
        )
        for scheme, percent in at.items()
    }
    return fitted.outcome(
        judgement,
        f"60% of handoffs: reactive over {told['reactive']} s, pro-active under {told['proactive']} s, "
        f"durable under {told['durable']} s",
        figures=[handoff_figure(evidence, sets[0])],
        tables=[caching_cost(measured, sets, largest(quick)), fitted.table()],
    )


def handoff_figure(evidence: Evidence, name: str) -> Figure:
    """The distribution with one set, and what the paper's text says of its own."""
    from roamq.pipeline.metrics import handoff_distribution

    quick = evidence.quick
    cells = [Cell(name, scheme, "RND", largest(quick)) for scheme in SCHEMES]
    curves: dict[str, dict[float, float]] = {scheme: {} for scheme in SCHEMES}
    for row in evidence.rows(handoff_distribution, jobs_of(cells, quick)):
        curves[row["scheme"]][round(row["probability"], 2)] = row["value"]
    return Figure(
        title="Distribution of handoff times (Fig. 6)",
        kind="cdf",
        x_label="seconds",
        y_label="fraction of handoffs",
        series=[
            *(Series(name=s, x=[c[p] for p in sorted(c)], y=sorted(c)) for s, c in curves.items() if c),
            *(Series(name=s, x=[x], y=[y], published=True) for s, (x, y) in PUBLISHED_HANDOFF_S.items()),
        ],
        caption=f"With {name}. The paper's text gives one point of each curve.",
        x_log=True,
    )


def caching_cost(measured: Measured, sets: Sequence[str], subscribers: int) -> Table:
    """Beyond the paper: what the speed costs."""
    rows: list[list[TableCell]] = [
        [
            name,
            scheme,
            round(measured.mean(cell, "buffer_message_s")),
            round(measured.mean(cell, "buffer_copies_per_message"), 2),
            round(measured.mean(cell, "handoff_s_p50"), 3),
        ]
        for name in sets
        for scheme in SCHEMES
        if measured.of(cell := Cell(name, scheme, "RND", subscribers), "buffer_message_s")
    ]
    return Table(
        title="What a fast handoff costs: messages kept at brokers",
        columns=["set", "scheme", "message-seconds buffered", "copies per message", "median handoff s"],
        rows=rows,
        note="A message that several contexts of one broker hold is kept once there; copies counts the contexts.",
    )


@claim("PRO-F7", jobs=figure_7_jobs)
def figure_7_handoff_frequency(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    fitted = Fitted(evidence)
    if not fitted.names:
        return fitted.none_fits()
    n, sets = largest(quick), fitted.names
    metrics = ["throughput", "loss_pct", "duplication_pct"]
    short_cells = [cell for cell in rnd_cells(quick) if cell.subscribers == n]
    measured = Measured(evidence, [*short_cells, *long_stay_cells(quick)], metrics)

    def both(name: str, scheme: str, metric: str) -> tuple[dict[int, float], dict[int, float]]:
        """With stays of 150 s, and of 60 s. The paper's text swaps the labels: 150 s is the low frequency."""
        long, short = Cell(name, scheme, "RND", n, LONG_STAY_S), Cell(name, scheme, "RND", n)
        return measured.of(long, metric), measured.of(short, metric)

    judgement = Judgement()
    for scheme in ("proactive", "durable"):
        judgement.says(
            f"fewer handoffs raise the throughput of {scheme} slightly",
            {a: ratio(*both(a, scheme, "throughput")) for a in sets},
            above=1.0,
            at_most=1 + 2 * SLIGHTLY,
        )
        judgement.says(
            f"fewer handoffs lower the loss of {scheme} significantly",
            {a: ratio(*both(a, scheme, "loss_pct")) for a in sets},
            SIGNIFICANTLY,
        )
    judgement.says(
        "fewer handoffs lower the duplicates of durable significantly",
        {a: ratio(*both(a, "durable", "duplication_pct")) for a in sets},
        SIGNIFICANTLY,
    )
    judgement.says(
        "the throughput of reactive stays almost the same",
        {a: ratio(*both(a, "reactive", "throughput")) for a in sets},
        at_least=1 - SLIGHTLY,
        at_most=1 + SLIGHTLY,
    )
    judgement.says(
        "fewer handoffs raise the loss of reactive (percentage points)",
        {a: difference(*both(a, "reactive", "loss_pct")) for a in sets},
        MORE,
    )
    gain = {
        s: spread([100 * (ratio(*both(a, s, "throughput")).mean - 1) for a in sets], "+.1f") for s in SCHEMES
    }
    return fitted.outcome(
        judgement,
        "throughput at Tb=150 against 60: " + ", ".join(f"{s} {gain[s]}%" for s in SCHEMES),
        figures=[stay_figure(measured, sets[0], n)],
        tables=[stay_table(measured, sets, n, metrics), fitted.table()],
    )


def stay_figure(measured: Measured, name: str, n: int) -> Figure:
    cells = {"60": {s: Cell(name, s, "RND", n) for s in SCHEMES}}
    cells["150"] = {s: Cell(name, s, "RND", n, LONG_STAY_S) for s in SCHEMES}
    return Figure(
        title=f"What stays of 150 s change, at {n} subscribers (Fig. 7)",
        kind="bar",
        x_label="",
        y_label="throughput, messages per second",
        series=[
            Series(
                name=f"stays of {stay} s",
                x=SCHEMES,
                y=[measured.mean(by_scheme[s], "throughput") for s in SCHEMES],
            )
            for stay, by_scheme in cells.items()
        ],
        caption=f"With {name}. The paper plots the same bars and prints no numbers; what its text says is the claim.",
    )


def stay_table(measured: Measured, sets: Sequence[str], n: int, metrics: Sequence[str]) -> Table:
    rows: list[list[TableCell]] = []
    for name in sets:
        for scheme in SCHEMES:
            for cell in (Cell(name, scheme, "RND", n), Cell(name, scheme, "RND", n, LONG_STAY_S)):
                values = [round(measured.mean(cell, metric), 2) for metric in metrics]
                rows.append([name, scheme, f"{cell.stay_s} s", *values])
    return Table(
        title=f"Low and high handoff frequency at {n} subscribers (Fig. 7)",
        columns=["set", "scheme", "mean stay", "throughput msg/s", "loss %", "duplicates %"],
        rows=rows,
    )


@claim("PRO-F8", jobs=table_jobs)
def figure_8_brokers(evidence: Evidence) -> Outcome:
    quick = evidence.quick
    fitted = Fitted(evidence)
    if not fitted.names:
        return fitted.none_fits()
    n, sets = largest(quick), fitted.names
    both = [c for c in table_cells(quick) if c.scheme == "proactive" and c.subscribers == n]
    measured = Measured(evidence, both, ["processing_s", "broker_throughput"])
    brokers = measured.entities(both[0], "processing_s")

    def of(name: str, metric: str, pattern: str, broker: str) -> dict[int, float]:
        return measured.of(Cell(name, "proactive", pattern, n), metric, broker)

    judgement = Judgement()
    for broker in brokers:
        judgement.says(
            f"M is lower under NBR at {broker.upper()}",
            {
                a: over(of(a, "processing_s", "NBR", broker), of(a, "processing_s", "RND", broker))
                for a in sets
            },
            below=1.0,
        )
    for broker in brokers:
        if broker != "b5":
            judgement.says(
                f"M is lower at B5 than at {broker.upper()}",
                {
                    a: over(of(a, "processing_s", "NBR", "b5"), of(a, "processing_s", "NBR", broker))
                    for a in sets
                },
                below=1.0,
            )
        for top in ("b3", "b6"):
            if broker not in ("b3", "b6"):
                routed = "broker_throughput"
                judgement.says(
                    f"Tb is higher at {top.upper()} than at {broker.upper()}",
                    {a: over(of(a, routed, "NBR", top), of(a, routed, "NBR", broker)) for a in sets},
                    above=1.0,
                )
    judgement.says(
        "B5 routes much less under NBR",
        {
            a: over(of(a, "broker_throughput", "NBR", "b5"), of(a, "broker_throughput", "RND", "b5"))
            for a in sets
        },
        at_most=MUCH_LESS,
    )

    def milliseconds(name: str, pattern: str) -> dict[str, float]:
        cell = Cell(name, "proactive", pattern, n)
        return {b: 1000 * measured.mean(cell, "processing_s", b) for b in brokers}

    first = sets[0]
    routed_by = {
        p: {b: measured.mean(Cell(first, "proactive", p, n), "broker_throughput", b) for b in brokers}
        for p in PATTERNS
    }
    return fitted.outcome(
        judgement,
        f"{first}: M under NBR "
        + " ".join(f"{b} {ms:.1f}" for b, ms in milliseconds(first, "NBR").items())
        + " ms, under RND "
        + " ".join(f"{b} {ms:.1f}" for b, ms in milliseconds(first, "RND").items())
        + " ms; Tb highest at "
        + " and ".join(sorted(brokers, key=lambda b: -routed_by["NBR"][b])[:2]),
        note=load_of_the_center(),
        figures=[
            broker_bars(
                f"Message processing time with {first} (Fig. 8)",
                "milliseconds",
                {p: milliseconds(first, p) for p in PATTERNS},
            ),
            broker_bars(f"Broker throughput with {first} (Fig. 8)", "messages per second", routed_by),
        ],
        tables=[fitted.table()],
    )


def broker_bars(title: str, unit: str, values: Mapping[str, Mapping[str, float]]) -> Figure:
    return Figure(
        title=title,
        kind="bar",
        x_label="broker",
        y_label=unit,
        series=[
            Series(name=pattern, x=list(by_broker), y=list(by_broker.values()))
            for pattern, by_broker in values.items()
        ],
    )
