"""Sweeps: every combination of parameter values is run, and all metrics come as one table."""

import contextlib
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.core.errors import ConfigError
from roamq.pipeline.schemas import SummaryRow
from roamq.pipeline.sweep import as_frame, combinations, jobs_of, label, split_values, sweep


def test_commas_separate_values_outside_brackets_and_quotes() -> None:
    assert split_values("10,50") == ["10", "50"]
    assert split_values("10") == ["10"]
    assert split_values('[{ at_s = 9.0, kind = "crash" }]') == ['[{ at_s = 9.0, kind = "crash" }]']
    assert split_values('"a,b", c') == ['"a,b"', "c"]


def test_every_combination_is_a_job_with_its_replay_command() -> None:
    grid = combinations({"clients": ["10", "50"], "duration_s": ["60"]})
    jobs = jobs_of("testbed", ["standard", "proactive"], [1], grid)

    assert [(job.scheme, job.payload["clients"], job.payload["duration_s"]) for job in jobs] == [
        ("standard", 10, 60.0),
        ("proactive", 10, 60.0),
        ("standard", 50, 60.0),
        ("proactive", 50, 60.0),
    ]
    assert (
        jobs[2].replay
        == "roamq simulate testbed --scheme standard --set clients=50 --set duration_s=60 --seed 1"
    )
    assert combinations({}) == [{}]


@pytest.mark.parametrize("duration_s", ["30", "20"])
def test_a_run_that_ends_before_anything_is_measured_is_refused_before_it_begins(duration_s: str) -> None:
    with pytest.raises(ConfigError, match=r"duration_s: .* leave nothing to measure after warmup_s, 30 s"):
        jobs_of("testbed", ["standard"], [1], [{"duration_s": duration_s}])


def test_a_summary_becomes_a_tidy_table() -> None:
    rows = [
        SummaryRow("testbed", "standard", {"clients": "50"}, "loss_pct", "all", 2, 0.5, 0.4, 0.6),
        SummaryRow("testbed", "standard", {"clients": "10"}, "loss_pct", "all", 2, 0.0, None, None),
        SummaryRow("testbed", "standard", {"clients": "10"}, "broker_throughput", "b1", 2, 7.0, None, None),
    ]
    frame = as_frame(rows)

    assert list(frame.columns) == ["scheme", "clients", "metric", "runs", "mean", "low", "high"]
    assert frame[["clients", "mean"]].to_numpy().tolist() == [[10, 0.0], [50, 0.5]]
    assert label("standard", {"clients": "50", "x": "1"}, ["clients"]) == "standard, clients=50"


def test_a_single_run_takes_one_value() -> None:
    result = CliRunner().invoke(cli, ["simulate", "testbed", "--seed", "1", "--set", "clients=1,2"])
    assert result.exit_code == 2 and "--set clients: give one value" in result.output


@pytest.mark.spark
@pytest.mark.slow
def test_the_command_and_the_function_give_the_same_table(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("roamq.cli.campaigns", "roamq.pipeline.session"):
        monkeypatch.setattr(f"{module}.open_session", lambda _: contextlib.nullcontext(spark))
    out = tmp_path / "out"
    settings = ["--set", "clients=3,6", "--set", "duration_s=40", "--set", "warmup_s=0"]
    arguments = ["simulate", "testbed", "--scheme", "standard", "--seeds", "1", *settings, "--out", str(out)]
    told = CliRunner().invoke(cli, arguments)
    assert told.exit_code == 0, told.output
    assert "standard, clients=3" in told.output and "standard, clients=6" in told.output

    values = {"clients": [3, 6], "duration_s": 40, "warmup_s": 0}
    frame = sweep("testbed", values, schemes=["standard"], seeds=1, out=out)

    published = frame[frame.metric == "published"].set_index("clients")["mean"]
    assert list(published.index) == [3, 6] and (published > 0).all()
    pd.testing.assert_frame_equal(frame, pd.read_csv(out / "summary.csv"), check_dtype=False)
