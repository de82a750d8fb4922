"""`roamq plan response-time --simulate`: the path in virtual time, as a table beside the model's."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from roamq.cli.plan.path import ResponseTimeQuestion, path_of
from roamq.report.exhibits import Cell, Table

if TYPE_CHECKING:
    from roamq.sim.queueing import Run, SimulatedCentre

EVENTS: Final = 30_000
"""Events that are sent through the path in each run."""

RUNS: Final = 8


def simulated(question: ResponseTimeQuestion, *, is_saturated: bool) -> tuple[Table, dict[str, Any]]:
    """Simulates the mean response time, if it is finite (path not saturated), and what lifetimes and buffers lose."""
    import numpy as np

    from roamq.sim.queueing import mean_of_runs

    centres = simulated_centres(question)
    rows: list[list[Cell]] = []
    data: dict[str, Any] = {}

    def add(name: str, key: str, values: Sequence[float]) -> None:
        of_runs = mean_of_runs(values)
        rows.append([name, f"{of_runs.mean:.4g} ± {of_runs.half_width:.2g}"])
        data[key] = {"mean": of_runs.mean, "half_width": of_runs.half_width}

    if not is_saturated:
        add("mean s", "mean_s", [run.mean_s() for run in _runs(question, centres)])
    ttl_s = question.ttl_s
    if ttl_s is not None:
        runs = _runs(question, centres, ttl=lambda _, size: np.full(size, ttl_s))
        shares = [run.delivered_share for run in runs]
        add(f"share delivered, dropped after {ttl_s:g} s", "delivered_share_if_dropped", shares)
    for rule in ("newest", "oldest") if question.buffer_events is not None else ():
        finite = [
            replace(centre, capacity=question.buffer_events, drops_oldest=rule == "oldest")
            if centre.off is not None
            else centre
            for centre in centres
        ]
        runs = _runs(question, finite)
        shares, means = [run.delivered_share for run in runs], [run.mean_s() for run in runs]
        add(f"share delivered, drop-{rule}", f"delivered_share_drop_{rule}", shares)
        add(f"mean s of these, drop-{rule}", f"mean_s_drop_{rule}", means)
    return Table(title=f"Simulated: {RUNS} runs", columns=["measure", "95% interval"], rows=rows), data


def simulated_centres(question: ResponseTimeQuestion) -> "list[SimulatedCentre]":
    """Returns the centres of the path, with periods of the variability that the question asks for."""
    from roamq.models.phase_type import with_moments
    from roamq.sim.queueing import exponential_centre

    centres = []
    for centre in path_of(question).centres:
        made = exponential_centre(
            centre.demand_s, t_on_s=centre.t_on_s, t_off_s=centre.t_off_s, other_rate=centre.other_rate
        )
        if centre.is_on_off:
            made = replace(
                made,
                on=with_moments(centre.t_on_s, question.on_scv).draw,
                off=with_moments(centre.t_off_s, question.off_scv).draw,
            )
        centres.append(made)
    return centres


def _runs(question: ResponseTimeQuestion, centres: "Sequence[SimulatedCentre]", **more: Any) -> "list[Run]":
    from roamq.sim.queueing import simulate

    rate = question.rate + (question.priority_rate or 0.0)
    until_s = EVENTS / rate
    return [
        simulate(centres, seed=1 + run, rate=rate, until_s=until_s, warmup_s=until_s / 20, **more)
        for run in range(RUNS)
    ]
