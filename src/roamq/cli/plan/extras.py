"""What `roamq plan response-time` adds on request: lifetimes, priorities and buffers."""

from typing import TYPE_CHECKING, Any, Final

from roamq.cli.plan.path import ResponseTimeQuestion, delivered_share
from roamq.report.exhibits import Cell, Table

if TYPE_CHECKING:
    from roamq.models.bursts import SolvedCentre

LIFETIME_ERROR: Final = "too high, by 3% in the median of random paths and by 28% behind a slow uplink"
BUFFER_ERROR: Final = "off by 1% in the median of random paths, and by 21% behind a slow uplink"
"""Errors of the delivered share, against simulation: `python -m benchmarks.limits`."""

DROP_OLDEST_MAX: Final = 2000
"""The largest buffer that is solved for drop-oldest: the time grows with the square of the buffer."""


def add_extras(
    question: ResponseTimeQuestion, solved: "list[SolvedCentre]", data: dict[str, Any], tables: list[Table]
) -> list[str]:
    """Adds the share that survives a time-to-live, and the buffers, for every ON/OFF centre, also a saturated one."""
    from roamq.models.buffers import capacity_for_loss
    from roamq.models.lifetimes import with_lifetime

    notes = []
    centres = [(solution.centre.name, solution.queue) for solution in solved if solution.queue is not None]
    if question.ttl_s is not None:
        table, data["lifetime"] = _lifetimes(question, solved)
        tables.append(table)
    if question.ttl_s is not None and centres:
        try:
            shares = {name: with_lifetime(queue, question.ttl_s).delivered_share for name, queue in centres}
        except ValueError as error:
            notes.append(f"lifetimes that vary are left out: {str(error).partition(': ')[2]}")
        else:
            data["delivered_share_if_dropped"] = shares
            tables.append(
                Table(
                    title=f"If lifetimes vary (exponential, mean {question.ttl_s:g} s), by each centre alone",
                    columns=["centre", "delivered"],
                    rows=[list(item) for item in shares.items()],
                )
            )
    if question.priority_rate is not None:
        table, data["priorities"] = _priorities(question, solved)
        tables.append(table)
    if question.buffer_events is not None:
        table, data["buffers"] = buffers_along(question, solved)
        tables.append(table)
    if question.loss is not None:
        if not centres:
            notes.append("no buffer is needed: publisher and subscriber are always connected")
        data["buffer_events"] = {name: capacity_for_loss(queue, question.loss) for name, queue in centres}
        if centres:
            tables.append(
                Table(
                    title=f"Buffer for a loss of {question.loss:g}",
                    columns=["centre", "events"],
                    rows=[list(item) for item in data["buffer_events"].items()],
                )
            )
    return notes


def _lifetimes(question: ResponseTimeQuestion, solved: "list[SolvedCentre]") -> tuple[Table, dict[str, Any]]:
    """Returns the share that is in time, end to end, under both rules for late events."""
    from roamq.models.bursts import law_of

    assert question.ttl_s is not None
    law = law_of(solved)
    late_too = float(law.cdf(question.ttl_s)) if law is not None else None
    dropped = delivered_share(question, question.ttl_s)
    data = {"in_time_share_if_delivered": late_too, "delivered_share_if_dropped": dropped}
    rows: list[list[Cell]] = [
        ["is delivered all the same", _or_saturated(late_too)],
        ["is dropped, wherever it is then", dropped],
    ]
    note = ""
    if sum(solution.queue is not None for solution in solved) > 1:
        note = (
            "dropped: an approximation, because events reach the second peer in bursts; "
            f"{LIFETIME_ERROR}; `--simulate` tells for this path"
        )
    return Table(
        title=f"Every event lives for {question.ttl_s:g} s, end to end",
        columns=["an event that is late", "share in time"],
        rows=rows,
        note=note,
    ), data


def _priorities(question: ResponseTimeQuestion, solved: "list[SolvedCentre]") -> tuple[Table, dict[str, Any]]:
    """Returns the delays of alarms before news, at every centre of the path."""
    from roamq.models.priorities import EventClass, mean_responses_s

    if (question.on_scv, question.off_scv) != (1.0, 1.0):
        raise ValueError("priority_rate: takes exponential periods only; leave on_scv and off_scv at 1")
    totals: list[float | None] = [0.0, 0.0]
    for solution in solved:
        centre = solution.centre
        alarm_rate = question.priority_rate or 0.0
        classes = [
            EventClass(name="alarms", rate=alarm_rate, demand_s=centre.demand_s),
            EventClass(
                name="others", rate=centre.rate - alarm_rate + centre.other_rate, demand_s=centre.demand_s
            ),
        ]
        answers = mean_responses_s(classes, t_on_s=centre.t_on_s, t_off_s=centre.t_off_s)
        totals = [
            None if total is None or answer is None else total + answer
            for total, answer in zip(totals, answers, strict=True)
        ]
    fifo = (
        None
        if any(part.poisson_mean_s is None for part in solved)
        else sum(p.poisson_mean_s or 0 for p in solved)
    )
    data = {"alarms_s": totals[0], "others_s": totals[1], "first_come_first_served_s": fifo}
    rows: list[list[Cell]] = [
        ["alarms, first", question.priority_rate, _or_saturated(totals[0])],
        ["others", question.rate, _or_saturated(totals[1])],
        ["all, in order of arrival", question.rate + (question.priority_rate or 0), _or_saturated(fifo)],
    ]
    return Table(
        title="With priorities (without bursts)", columns=["events", "events/s", "mean s"], rows=rows
    ), data


def _or_saturated(value: float | None) -> Cell:
    return "saturated" if value is None else value


def buffers_along(
    question: ResponseTimeQuestion, solved: "list[SolvedCentre]"
) -> tuple[Table, dict[str, Any]]:
    """Returns what buffers of one size lose, at each ON/OFF centre; a centre gets what those before let through."""
    from roamq.models.buffers import finite, response_s_drop_oldest
    from roamq.models.buffers_behind import FOLLOWED_MAX, finite_behind

    assert question.buffer_events is not None
    capacity = question.buffer_events
    delivered, rows = 1.0, list[list[Cell]]()
    for solution in solved:
        if solution.queue is None:
            continue
        if solution.source is None:
            here = finite(solution.queue, capacity)
            oldest_s = (
                response_s_drop_oldest(solution.queue, capacity) if capacity <= DROP_OLDEST_MAX else None
            )
        else:
            here = behind = finite_behind(solution.source, capacity, solution.queue, capacity)
            oldest_s = behind.response_s_drop_oldest
        delivered *= 1 - here.loss
        rows.append([solution.centre.name, here.loss, here.mean_present, here.response_s, oldest_s])
    several = len(rows) > 1
    rows.append(["delivered end to end", delivered, None, None, None])
    data = {
        "delivered_share": delivered,
        "centres": {
            str(row[0]): {"loss": row[1], "response_s": row[3], "response_s_drop_oldest": row[4]}
            for row in rows[:-1]
        },
    }
    note = "the share is the same for both rules; who is dropped, and so the response time, is not"
    if several:
        note += (
            f"; the second centre gets the bursts of the first, an approximation ({BUFFER_ERROR}; `--simulate` tells); "
            "times are those of each centre, and do not add up: whom the second one drops has often waited long at the "
            "first"
        )
    if any(row[4] is None for row in rows[:-1]):
        note += f"; drop-oldest is computed for at most {FOLLOWED_MAX if several else DROP_OLDEST_MAX} events"
    return (
        Table(
            title=f"Buffers of {capacity} events",
            columns=["centre", "lost share", "mean present", "mean s, drop-newest", "mean s, drop-oldest"],
            rows=rows,
            note=note,
        ),
        data,
    )
