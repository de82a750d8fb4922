"""`roamq simulate`: what it refuses, what it shows, what it leaves behind."""

import contextlib
import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession

from roamq.cli import drip
from roamq.cli.describe import describe
from roamq.cli.main import cli
from roamq.config import Source
from roamq.manet.simulation.experiment import Setting
from roamq.models.tariff import Tariff
from roamq.pipeline.campaign import read_campaign
from roamq.pipeline.price import PRICED
from roamq.pipeline.results import per_run, with_prices
from roamq.pipeline.sweep import jobs_of
from roamq.report.page import read_page
from roamq.sim.scenario import checked, load_scenario, mobility_of, presets, scheme_options, workload_of


def simulate(*args: str) -> Result:
    return CliRunner().invoke(cli, ["simulate", *args])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["testbd"], "unknown scenario 'testbd'; did you mean 'testbed'?"),
        (["testbed", "--scheme", "standrd"], "unknown scheme 'standrd'; did you mean 'standard'?"),
        (["testbed", "--set", "clients"], "--set clients: write key=value"),
        (["testbed", "--set", "clients=many"], "clients: expected `int`, got `str`"),
        (["testbed", "--set", "mobility.conect_s=60"], "mobility.conect_s: unknown field; did you mean"),
        ([], "name a scenario"),
        (["testbed", "--seed", "1", "--scheme", "all"], "name one --scheme"),
        (["nowhere.toml"], "nowhere.toml: cannot be read"),
        (
            ["testbed", "--tariff", "delay=much"],
            "--tariff: delay is 'much'; write a number, such as delay=0.1",
        ),
        (
            ["testbed", "--tariff", "speed=1"],
            "--tariff: 'speed=1' is not NAME=PRICE; names: traffic, memory, delay",
        ),
        (["testbed", "--tariff", "delay=1", "--seed", "1"], "--tariff: only a campaign has a price"),
        (["drip", "--tariff", "delay=1"], "--tariff: only a campaign has a price, and `drip` none"),
        (["drip", "--set", "parameters.kk=3"], "--set parameters.kk: unknown; did you mean 'parameters.k'?"),
        (["drip", "--set", "nodes=many"], "drip: nodes: expected `int`, got `str`"),
        (["drip", "--set", "parameters.k=2"], "DRIP needs l >= 1, m >= 1 and l + m < k"),
        (
            ["drip", "--scheme", "standard"],
            "--scheme standard: with drip there are drip, sf, spray-and-wait, prophet",
        ),
    ],
)
def test_bad_input_is_one_line_on_stderr_and_exit_code_2(args: list[str], message: str) -> None:
    result = simulate(*args)

    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


def test_an_unreadable_scenario_is_named_with_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('clients = 3\n\n[link]\ndelay_s = "soon"\n')

    result = simulate(str(path))

    assert result.exit_code == 2
    assert f"{path}, line 4: link.delay_s: expected `float`" in result.stderr


def test_list_shows_every_preset_with_its_line() -> None:
    listed = json.loads(simulate("--list", "--json").stdout)

    assert set(listed) == {*presets(), drip.NAME}
    assert all(listed.values())


@pytest.mark.parametrize("name", sorted(presets()))
def test_show_explains_every_parameter_and_reads_back_as_the_same_scenario(name: str) -> None:
    scenario = load_scenario(name)

    text = describe(scenario)

    again = checked(tomllib.loads(text), Source("shown"))
    assert describe(again) == text
    assert mobility_of(again) == mobility_of(scenario)
    assert workload_of(again) == workload_of(scenario)
    assert scheme_options(again) == scheme_options(scenario)
    assert again.network == scenario.network
    lines = [line for line in text.splitlines() if " = " in line]
    unexplained = [line for line in lines if "  # " not in line]
    assert unexplained == []


def test_replay_runs_one_seed_here_and_prints_the_checkers_counts() -> None:
    result = simulate("testbed", "--seed", "7", "--set", "duration_s=60", "--json")

    counts = json.loads(result.stdout)
    assert result.exit_code == 0
    assert counts["delivered"] == counts["expected"] > 0
    assert counts["violations"] == []


def test_a_job_per_scheme_and_seed_with_the_command_that_replays_it() -> None:
    jobs = jobs_of("testbed", ["standard"], range(1, 3), [{"clients": "5"}])

    assert [job.seed for job in jobs] == [1, 2]
    assert jobs[1].replay == "roamq simulate testbed --scheme standard --set clients=5 --seed 2"
    assert jobs[0].payload["clients"] == 5
    assert (jobs[0].warmup_s, jobs[0].until_s) == (30.0, 300.0)


@pytest.mark.spark
@pytest.mark.slow
def test_a_campaign_writes_summary_and_report_and_a_second_one_makes_nothing(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """End to end on the session of the tests: the command would start its own."""
    monkeypatch.setattr("roamq.cli.campaigns.open_session", lambda _: contextlib.nullcontext(spark))
    monkeypatch.chdir(tmp_path)
    args = ["testbed", "--scheme", "standard", "--seeds", "2", "--set", "duration_s=60", "--out", "out"]

    first = simulate(*args)
    again = simulate(*args, "--json")
    report = CliRunner().invoke(cli, ["report", "out"])

    assert first.exit_code == 0, first.output
    assert "2 runs in out, 2 of them new; next: roamq report out" in first.stdout
    answer = json.loads(again.stdout)
    loss = [row for row in answer["summary"] if row["metric"] == "loss_pct"]
    assert [(row["scheme"], row["runs"], row["mean"]) for row in loss] == [("standard", 2, 0.0)]
    assert answer["troubles"] == []
    assert json.loads(Path("out/summary.json").read_text()) == answer
    assert report.exit_code == 0
    assert "Simulation of testbed" in Path("out/report.html").read_text()
    # Nothing but what was asked for: no metastore, no log, no warehouse.
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_tariff_prices_a_simulation_as_it_prices_a_study(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamq.cli.campaigns.open_session", lambda _: contextlib.nullcontext(spark))
    monkeypatch.chdir(tmp_path)
    args = ["testbed", "--scheme", "standard", "--seeds", "1", "--set", "duration_s=60", "--out", "out"]

    answer = json.loads(simulate(*args, "--tariff", "delay=5", "--json").stdout)

    numbers = {(row["metric"], row["entity"]): row["mean"] for row in answer["summary"]}
    campaign = read_campaign(spark, tmp_path / "out" / "campaign")
    studied = with_prices(spark, per_run(campaign, PRICED), Tariff(delay=5.0))
    assert answer["tariff"] == {"traffic": 0.1, "memory": 0.01, "delay": 5.0}
    assert numbers["price", "all"] > 0
    for row in studied:
        assert numbers[row.metric, row.entity] == pytest.approx(row.value), row.metric


# --- networks whose brokers move ------------------------------------------------------------------------------

FEW_NODES = ("--set", "nodes=40", "--set", "publishing_s=20", "--set", "drain_s=10")


def test_a_network_of_mobile_brokers_is_replayed_by_its_seed() -> None:
    one, again = (simulate("drip", "--seed", "3", *FEW_NODES, "--json").stdout for _ in range(2))

    assert json.loads(one)["records"]["published"] > 0
    assert one == again


def test_what_show_prints_of_mobile_brokers_is_toml_with_every_parameter() -> None:
    shown = tomllib.loads(simulate("drip", "--show", "--set", "channel.loss=0.1").stdout)

    assert shown["channel"]["loss"] == 0.1
    assert drip.setting_of({"channel.loss": "0.1"}).to_payload() == Setting.from_payload(shown).to_payload()


def cars(folder: Path, seconds: int = 100) -> Path:
    """Thirty cars that drive side by side."""
    path = folder / "cars.csv"
    rows = [f"car{car},{time},{10 * car + time},{time}" for car in range(30) for time in (0, seconds)]
    path.write_text("\n".join(["client,time,x,y", *rows]))
    return path


def test_nodes_move_by_recorded_positions(tmp_path: Path) -> None:
    path = str(cars(tmp_path))
    result = simulate("drip", "--seed", "3", "--positions", path, "--json")
    shown = tomllib.loads(simulate("drip", "--show", "--positions", path).stdout)

    assert json.loads(result.stdout)["records"]["published"] > 0
    assert (shown["nodes"], shown["publishing_s"], shown["positions"]) == (30, 10.0, path)


def test_runs_know_the_positions_that_they_were_made_from(tmp_path: Path) -> None:
    path = cars(tmp_path)
    (job,) = drip.jobs_of(["sf"], [1], {}, path)
    before = job.run_id
    path.write_text(path.read_text().replace("car7,100,", "car7,99,"))
    (other,) = drip.jobs_of(["sf"], [1], {}, path)

    assert before != other.run_id
    assert job.replay == f"roamq simulate drip --scheme sf --positions {path} --seed 1"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (
            ["drip", "--set", "nodes=40"],
            "--set nodes: with --positions the clients of the file are the nodes",
        ),
        (["drip", "--set", "positions=x.csv"], "--set positions: give the file as --positions FILE"),
        (["drip", "--set", "drain_s=70"], "cars.csv: the positions last 100 s"),
        (["drip", "--set", "parameters.k=40"], "nodes must be more than the 40 brokers, got 30"),
        (["testbed"], "--positions: only `drip` moves its nodes by positions"),
        (["drip", "--positions", "."], ".: is a folder; name a file of positions"),
    ],
)
def test_mistakes_about_positions_are_named(tmp_path: Path, arguments: list[str], names: str) -> None:
    result = simulate("--positions", str(cars(tmp_path)), *arguments, "--seed", "1")

    assert result.exit_code == 2
    assert names in " ".join(result.output.split())


@pytest.mark.spark
@pytest.mark.slow
def test_a_campaign_of_mobile_brokers_leaves_numbers_and_a_report(
    spark: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import contextlib

    monkeypatch.setattr("roamq.pipeline.session.open_session", lambda _: contextlib.nullcontext(spark))
    result = simulate("drip", "--scheme", "all", "--seeds", "2", *FEW_NODES, "--out", str(tmp_path), "--json")

    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["summary"]
    assert {row["scheme"] for row in rows} == {"drip", "sf", "spray-and-wait", "prophet"}
    assert {"delivery_ratio", "delivery_delay_s"} <= {row["metric"] for row in rows}
    assert read_page(tmp_path).sections[0].figures
