"""`roamq plan check`: the model beside what a run did."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from roamq.cli.options import json_option
from roamq.cli.output import print_json, print_table
from roamq.report.exhibits import Figure, Series
from roamq.report.files import check_name, save
from roamq.report.numbers import span

if TYPE_CHECKING:
    from roamq.models.calibration import Calibration, ModelCheck
    from roamq.models.paired import Estimate
    from roamq.pipeline.model_check import SchemeCheck

TITLES: Final = {
    "mean": "mean delay s",
    "p50": "50% within s",
    "p95": "95% within s",
    "p99": "99% within s",
    "waiting mean": "events waiting, mean",
    "waiting p99": "events waiting, 99%",
    "deliveries/s": "deliveries/s",
}
"""Measure -> its name in the table."""

KINDS: Final = {False: "simulator", True: "live"}

SUFFIXES: Final = (" simulated", ", live", " live")
"""Endings by which `bench roaming` and the tour name two runs of one scheme."""


@click.command("check")
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--figure", type=click.Path(dir_okay=False, path_type=Path), help="Draw model and run into this file."
)
@json_option
def check(run: Path, figure: Path | None, as_json: bool) -> None:
    """Hold the model against RUN: a folder of `roamq simulate` or `bench roaming --out`, or records of live brokers.

    Parameters are estimated from the records: connected and disconnected periods from connects and disconnects, rates,
    the delay of events that find their client connected, the pace of waiting events, and what a handoff adds. The
    delays of waiting events are not used. The model predicts them, and the table shows model, simulator and live
    brokers for every scheme, with 95% intervals. The model `agrees` if it is within 10% of a simulated run, or 20% of a
    live one, by the interval of their ratio; `cannot tell` means that the run is too short to say.

    \b
    Examples:
      roamq simulate testbed --scheme standard --set duration_s=900 --out runs/first
      roamq plan check runs/first --figure check.png
      roamq bench roaming --quick --out runs/live
      roamq plan check runs/live
    """
    from roamq.core.errors import ConfigError
    from roamq.models.calibration import AGREEMENT, AGREEMENT_LIVE, CANNOT_TELL
    from roamq.pipeline.client_histories import read_runs
    from roamq.pipeline.model_check import check_runs

    if figure is not None:
        check_name(figure)
    checks = check_runs(read_runs(run))
    if not any(part.calibration for part in checks):
        reasons = dict.fromkeys(f"{part.scheme}: {part.reason}" for part in checks) or ["no run succeeded"]
        raise ConfigError(f"{run}: {'; '.join(reasons)}")
    if figure is not None:
        save(_figure(checks), figure)
    if as_json:
        print_json({"schemes": [_data(part) for part in checks]})
        return
    _print_parameters(checks)
    for scheme, parts in _by_scheme(checks).items():
        _print_scheme(scheme, parts)
    if any(measure.verdict == CANNOT_TELL for part in checks for measure in part.checks):
        click.echo(
            f"{CANNOT_TELL}: the runs are too short, or too few, to say whether the model is within {AGREEMENT:.0%} of "
            f"a simulated run, or {AGREEMENT_LIVE:.0%} of a live one"
        )
    if figure is not None:
        click.echo(f"figure: {figure}")


def _by_scheme(checks: "Sequence[SchemeCheck]") -> "dict[str, list[SchemeCheck]]":
    """Scheme -> the checks of its simulated and live runs."""
    together: dict[str, list[SchemeCheck]] = {}
    for part in checks:
        together.setdefault(_plain(part.scheme), []).append(part)
    return together


def _plain(scheme: str) -> str:
    for suffix in SUFFIXES:
        scheme = scheme.removesuffix(suffix)
    return scheme


def _print_parameters(checks: "Sequence[SchemeCheck]") -> None:
    print_table(
        [
            "scheme",
            "",
            "clients",
            "connected s",
            "away s",
            "events/s each",
            "if connected s",
            "handoff adds s",
        ],
        [
            [
                _plain(part.scheme),
                KINDS[part.is_live],
                part.calibration.clients,
                *(f"{value:.3g}" for value in _parameters(part.calibration)),
            ]
            for part in checks
            if part.calibration is not None
        ],
        title="Parameters, estimated from the records",
    )


def _parameters(calibration: "Calibration") -> list[float]:
    return [
        calibration.on.mean(),
        calibration.off.mean(),
        calibration.rate,
        float(calibration.live_s.mean()),
        calibration.handoff_s,
    ]


def _print_scheme(scheme: str, parts: "Sequence[SchemeCheck]") -> None:
    columns, rows = ["measure"], []
    for part in parts:
        columns += ["model", KINDS[part.is_live], "verdict"]
    for name, title in TITLES.items():
        measures = [part.measure(name) for part in parts]
        if not any(measures):
            continue
        row = [title]
        for measure in measures:
            row += ["", "", ""] if measure is None else [*_shown(measure), measure.verdict]
        rows.append(row)
    print_table(columns, rows, title=scheme)
    for part in parts:
        kind = KINDS[part.is_live]
        if part.calibration is None:
            click.echo(f"{kind}: {part.reason}")
        elif part.reason:
            click.echo(f"{kind}: the model does not hold here: {part.reason}")
        if part.left_out:
            click.echo(f"{kind}: {part.left_out} clients are left out, because nothing is stored for them")


def _shown(measure: "ModelCheck") -> tuple[str, str]:
    return "saturated" if measure.model is None else _span(measure.model), _span(measure.observed)


def _span(estimate: "Estimate") -> str:
    return span(estimate.mean, estimate.low, estimate.high)


def _data(part: "SchemeCheck") -> dict[str, Any]:
    calibration = part.calibration
    return {
        "scheme": _plain(part.scheme),
        "kind": KINDS[part.is_live],
        "runs": len(part.runs),
        "holds": calibration is not None and not part.reason,
        "reason": part.reason,
        "left_out": part.left_out,
        "parameters": {
            "on_s": calibration.on.mean(),
            "off_s": calibration.off.mean(),
            "rate": calibration.rate,
            "live_delay_s": float(calibration.live_s.mean()),
            "demand_s": calibration.demand_s,
            "handoff_s": calibration.handoff_s,
            "clients": calibration.clients,
            "events": calibration.events,
        }
        if calibration is not None
        else None,
        "measures": {
            measure.name: {
                "model": _list(measure.model),
                "observed": _list(measure.observed),
                "ratio": _list(measure.ratio),
                "verdict": measure.verdict,
            }
            for measure in part.checks
        },
    }


def _list(estimate: "Estimate | None") -> list[float | None] | None:
    """Returns value, low and high; None for an end that is not known."""
    return None if estimate is None else [value if math.isfinite(value) else None for value in estimate]


def _figure(checks: "Sequence[SchemeCheck]") -> Figure:
    """Draws the delays of every scheme and kind: the model's beside the measured ones."""
    shown = [
        (part, measure)
        for part in checks
        for measure in part.checks
        if measure.name in ("mean", "p95", "p99")
    ]
    names = [f"{_plain(part.scheme)} {KINDS[part.is_live]}, {measure.name}" for part, measure in shown]

    def series(name: str, estimates: "Sequence[Estimate | None]") -> Series:
        known = [(x, e) for x, e in zip(names, estimates, strict=True) if e is not None]
        return Series(
            name=name,
            x=[x for x, _ in known],
            y=[e.mean for _, e in known],
            low=[max(e.low, 0.0) if math.isfinite(e.low) else e.mean for _, e in known],
            high=[e.high if math.isfinite(e.high) else e.mean for _, e in known],
        )

    return Figure(
        title="Model and run: delay from publication to delivery",
        kind="bar",
        x_label="",
        y_label="seconds",
        series=[
            series("model", [measure.model for _, measure in shown]),
            series("run", [measure.observed for _, measure in shown]),
        ],
    )
