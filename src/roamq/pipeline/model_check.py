"""The model beside the runs of a folder, scheme by scheme: what `plan check`, `bench roaming`, the tour and the claims
of our own show.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roamq.models.calibration import (
    AGREEMENT,
    AGREEMENT_LIVE,
    GROUPS,
    GROUPS_MIN,
    Calibration,
    ModelCheck,
    calibrate,
    compare,
    jackknife,
    with_storage,
)
from roamq.models.paired import Estimate, exactly
from roamq.pipeline.client_histories import RecordedRun, read_runs


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeCheck:
    """The runs of one scheme on one kind of brokers, and what the model says of them."""

    scheme: str
    is_live: bool
    runs: Sequence[RecordedRun]
    calibration: Calibration | None
    """None: `reason` says what the records lack."""
    checks: Sequence[ModelCheck] = ()
    reason: str = ""
    left_out: int = 0
    """Clients for whom nothing is stored, which the model leaves out."""

    def measure(self, name: str) -> ModelCheck | None:
        return next((check for check in self.checks if check.name == name), None)


def model_of_folder(folder: Path) -> dict[str, SchemeCheck]:
    """The name of a scheme, as the table of runs has it -> the model's numbers for its runs, beside what they measured.

    This is the model's column for a table that has one line per scheme: `measure("mean")`, `measure("p95")`.
    """
    return {check.scheme: check for check in check_runs(read_runs(folder))}


def check_runs(runs: Iterable[RecordedRun]) -> list[SchemeCheck]:
    """Hold the model against runs: all of one scheme and one kind of brokers together."""
    together: dict[tuple[str, bool], list[RecordedRun]] = defaultdict(list)
    for run in runs:
        together[run.scheme, run.is_live].append(run)
    ordered = sorted(together.items(), key=lambda item: (item[0][1], item[0][0]))
    return [check_scheme(scheme, parts, is_live=is_live) for (scheme, is_live), parts in ordered]


def check_scheme(scheme: str, runs: Sequence[RecordedRun], *, is_live: bool) -> SchemeCheck:
    histories = [history for run in runs for history in run.histories]
    tolerance = AGREEMENT_LIVE if is_live else AGREEMENT
    modelled = with_storage(histories)
    left_out = sum(1 for history in histories if history.events) - len(modelled)
    try:
        calibration = calibrate(modelled)
        checks = compare(modelled, tolerance=tolerance)
    except (ValueError, ArithmeticError) as error:
        return SchemeCheck(
            scheme=scheme, is_live=is_live, runs=runs, calibration=None, reason=str(error), left_out=left_out
        )
    throughput = _throughput(runs, tolerance)
    return SchemeCheck(
        scheme=scheme,
        is_live=is_live,
        runs=runs,
        calibration=calibration,
        checks=[*checks, *([throughput] if throughput else [])],
        reason="; ".join(calibration.doubts()),
        left_out=left_out,
    )


def _throughput(runs: Sequence[RecordedRun], tolerance: float) -> ModelCheck | None:
    """Deliveries per second in one run: what subscriptions ask for, and what happened."""
    wanted = [run.wanted_per_s for run in runs if run.wanted_per_s is not None]
    if len(wanted) < len(runs) or not sum(wanted):
        return None
    model, found = (sum(values) / len(runs) for values in (wanted, [run.delivered_per_s for run in runs]))
    counts = [history.events for run in runs for history in run.histories]
    groups = min(GROUPS, len(counts))
    total = sum(counts)
    parts = [sum(counts[group::groups]) for group in range(groups)] if groups >= GROUPS_MIN else []
    sizes = [len(counts[group::groups]) for group in range(groups)]
    without = [
        found * (total - part) / total * len(counts) / (len(counts) - size)
        for part, size in zip(parts, sizes, strict=False)
    ]
    # Both count the same publications, so the ratio does not share the error of the count.
    return ModelCheck(
        name="deliveries/s",
        model=exactly(model),
        observed=jackknife(found, without),
        ratio=exactly(model / found) if found else Estimate(float("inf"), float("-inf"), float("inf")),
        tolerance=tolerance,
    )
