"""`roamq plan mobility`: expected subscribers and throughput per broker."""

from typing import Annotated, Any, Final

import msgspec

from roamq.cli.plan.answer import Answer
from roamq.cli.plan.question import Presets, about, asks
from roamq.cli.plan.warehouse import mobility_fields
from roamq.report.exhibits import Cell, Figure, Series, Table

TESTBED_EDGES: Final = ["B1-B2", "B1-B6", "B2-B3", "B2-B6", "B3-B4", "B3-B5", "B3-B6", "B4-B6"]

PRESETS: Final[Presets] = {
    "testbed-rnd": {"brokers": 6, "throughput": "paper"},
    "testbed-nbr": {"edges": TESTBED_EDGES, "throughput": "paper"},
}

PUBLISHED: Final = {
    "testbed-rnd": [29.5358] * 6,
    "testbed-nbr": [21.98, 32.96, 43.96, 21.98, 10.98, 43.96],
}
"""Expected subscribers per broker, of 200, as [PRO] prints them."""


class MobilityQuestion(msgspec.Struct, kw_only=True):
    brokers: Annotated[int, about("Number of brokers; a client moves to any of them.", ge=1)] | None = None
    edges: Annotated[list[str], about("Instead: neighbors, as a-b pairs; a client moves to a neighbor.")] = []
    neighbors: dict[str, dict[str, float]] | None = None
    warehouse: (
        Annotated[str, about("Take learned values from this folder of the pipeline's tables.")] | None
    ) = None
    dataset: Annotated[str, about("Dataset of the warehouse.")] | None = None
    subscribers: Annotated[int, about("Number of subscribers.", ge=1)] = 200
    connect_s: Annotated[float, about("Mean time connected.", gt=0)] = 60.0
    disconnect_s: Annotated[float, about("Mean time disconnected.", gt=0)] = 12.0
    handoff_s: Annotated[float, about("Mean time between two brokers.", gt=0)] = 3.0
    p_disconnect: Annotated[float, about("Share of disconnections that are no handoff.", ge=0, lt=1)] = 0.5
    p_return: Annotated[float, about("Share of those that end at the same broker.", ge=0, lt=1)] = 0.5
    busy_share: Annotated[float, about("Share of the time that the busy column covers.", gt=0, lt=1)] = 0.95
    throughput: Annotated[str, about("`paper`: print messages per second by Eq. 16.")] = "none"
    curve_subscribers: Annotated[list[float], about("Measured numbers of subscribers at a broker.")] = []
    curve_throughput: Annotated[
        list[float], about("Messages per second at these numbers; a curve is fitted.")
    ] = []


def _unused(question: MobilityQuestion) -> dict[str, str]:
    unused: dict[str, str] = {}
    if question.brokers:
        unused |= dict.fromkeys(("p_disconnect", "p_return"), "is used only where clients move to a neighbor")
    if question.curve_subscribers:
        unused["throughput"] = "is not used beside a measured curve"
    else:
        unused["curve_throughput"] = "is used only with curve_subscribers"
    if question.warehouse is None:
        unused["dataset"] = "is used only with warehouse"
    return unused


@asks("mobility", MobilityQuestion, PRESETS, mobility_fields, _unused)
def mobility(question: MobilityQuestion, preset: str | None) -> Answer:
    """Expected subscribers and throughput per broker, from how clients move ([PRO] section 6).

    \b
    Examples:
      roamq plan mobility --preset testbed-nbr
      roamq plan mobility --brokers 40 --subscribers 5000 --connect-s 600
      roamq plan mobility --edges a-b,b-c,c-a --figure subscribers.png
      roamq plan mobility --warehouse warehouse --subscribers 1000
    """
    occupancy = _occupancy(question)
    expected = list(occupancy.expected(question.subscribers).values())
    deviation = list(occupancy.deviation(question.subscribers).values())
    busy = list(occupancy.quantile(question.subscribers, question.busy_share).values())
    columns = ["broker", "share", "expected", "deviation", f"busy {question.busy_share:.0%}"]
    rows: list[list[Cell]] = [
        [broker, float(occupancy.connected[i]), expected[i], deviation[i], busy[i]]
        for i, broker in enumerate(occupancy.brokers)
    ]
    notes = [
        f"disconnected {occupancy.disconnected:.4f}, in handoff {occupancy.handoff:.4f} of the time",
    ]
    published = PUBLISHED.get(preset or "") if question.subscribers == 200 else None
    if published:
        columns.append("published")
        rows = [[*row, value] for row, value in zip(rows, published, strict=True)]
    throughput, curve_note = _throughput(question, expected)
    if throughput:
        columns.append("messages/s")
        rows = [[*row, value] for row, value in zip(rows, throughput, strict=True)]
        notes.append(curve_note)
    if preset == "testbed-rnd":
        notes.append("the printed chain returns a disconnected client to any broker; the text, to its own")
    shown = rows if len(rows) <= 60 else sorted(rows, key=lambda row: -float(str(row[2])))[:60]
    if len(rows) > 60:
        notes.insert(0, f"the 60 busiest of {len(rows)} brokers; --json has all")
    data: dict[str, Any] = {
        "brokers": [dict(zip(columns, row, strict=True)) for row in rows],
        "disconnected": occupancy.disconnected,
        "handoff": occupancy.handoff,
    }
    return Answer(
        data=data,
        tables=[Table(title=f"{question.subscribers} subscribers", columns=columns, rows=shown)],
        notes=notes,
        figure=Figure(
            title="Expected subscribers per broker",
            kind="bar",
            x_label="broker",
            y_label="subscribers",
            series=[Series(name="expected", x=list(occupancy.brokers), y=expected)],
        ),
    )


def _occupancy(question: MobilityQuestion) -> Any:
    from roamq.models.markov import neighboring_mobility, random_mobility

    asked = [name for name in ("brokers", "edges", "neighbors") if getattr(question, name)]
    if len(asked) != 1:
        raise ValueError("brokers, edges, neighbors: give exactly one of them")
    if question.brokers:
        return random_mobility(
            question.brokers,
            t_connect_s=question.connect_s,
            t_disconnect_s=question.disconnect_s,
            t_handoff_s=question.handoff_s,
        )
    return neighboring_mobility(
        question.neighbors or _graph(question.edges),
        t_connect_s=question.connect_s,
        t_disconnect_s=question.disconnect_s,
        t_handoff_s=question.handoff_s,
        p_disconnect=question.p_disconnect,
        p_return=question.p_return,
    )


def _graph(edges: list[str]) -> dict[str, list[str]]:
    graph: dict[str, list[str]] = {}
    for edge in edges:
        first, dash, second = edge.partition("-")
        if not (first and dash and second):
            raise ValueError(f"edges: {edge!r} is not a pair such as a-b")
        if first == second:
            raise ValueError(f"edges: {edge!r} links a broker with itself")
        if second in graph.get(first, ()):
            raise ValueError(
                f"edges: {edge!r} is given twice; a weighted graph is a table `neighbors` in a file"
            )
        graph.setdefault(first, []).append(second)
        graph.setdefault(second, []).append(first)
    return dict(sorted(graph.items()))


def _throughput(question: MobilityQuestion, expected: list[float]) -> tuple[list[float], str]:
    from roamq.models.curves import fit_curve, paper_throughput

    if question.curve_subscribers:
        curve = fit_curve(question.curve_subscribers, question.curve_throughput)[0]
        low, high = curve.interval(expected)
        half = float(((high - low) / 2).mean())
        return curve.predict(expected).tolist(), (
            f"throughput by a {curve.kind} curve: R2 {curve.r2:.3f}, cross-validated "
            f"{curve.r2_cross_validated:.3f}; a new measurement lies within ± {half:.3g} (95%)"
        )
    if question.throughput == "paper":
        return paper_throughput(expected).tolist(), "throughput by [PRO] Eq. 16, for its testbed's machines"
    if question.throughput != "none":
        raise ValueError(f"throughput: {question.throughput!r} is neither `paper` nor `none`")
    return [], ""
