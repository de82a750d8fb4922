"""`roamq plan response-time` beyond one answer: sweeps, questions asked backwards, classes, buffers, lifetimes."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli

pytestmark = pytest.mark.slow


def plan(*args: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *args])


def answer(*args: str) -> dict[str, Any]:
    result = plan(*args, "--json")
    assert result.exit_code == 0, result.output
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


ON_OFF = ("--subscriber-on-s", "60", "--subscriber-off-s", "60")


def test_a_sweep_asks_the_same_question_again_and_again(tmp_path: Path) -> None:
    figure = tmp_path / "sweep.svg"
    points = answer("response-time", *ON_OFF, "--sweep", "rate=1:9:5", "--figure", str(figure))["sweep"][
        "points"
    ]

    assert [point["rate"] for point in points] == [1, 3, 5, 7, 9]
    for point in points[:4]:
        alone = answer("response-time", *ON_OFF, "--rate", str(point["rate"]))
        assert point["mean"] == pytest.approx(alone["response_s"])
        assert point["p95"] == pytest.approx(alone["percentiles_s"]["95"])
    assert points[4]["mean"] is None
    assert points[4]["utilisation"] > 1
    assert "<svg" in figure.read_text()
    assert len(answer("response-time", "--sweep", "brokers=1:4:8")["sweep"]["points"]) == 4


@pytest.mark.parametrize("key", ["rate", "t_off", "demand"])
def test_the_solution_meets_its_target_and_a_little_more_does_not(key: str) -> None:
    solved = answer("response-time", *ON_OFF, "--solve-for", key, "--target", "p95=200")["solved"]
    field = solved["field"].replace("_", "-")
    asked = [word for pair in (ON_OFF[:2], ON_OFF[2:]) for word in pair if pair[0] != f"--{field}"]
    met = answer("response-time", *asked, f"--{field}", str(solved["value"]))
    missed = answer("response-time", *asked, f"--{field}", str(1.01 * solved["value"]))

    assert met["percentiles_s"]["95"] == pytest.approx(200, rel=1e-3)
    assert missed["percentiles_s"]["95"] > 200


def test_the_most_brokers_on_a_path() -> None:
    solved = answer("response-time", "--solve-for", "brokers", "--target", "mean=0.9")["solved"]

    means = {
        n: answer("response-time", "--brokers", str(n))["response_s"]
        for n in (solved["value"], solved["value"] + 1)
    }
    assert means[solved["value"]] <= 0.9 < means[solved["value"] + 1]


def test_every_centre_may_have_its_own_demand() -> None:
    demands = ["--publisher-demand-s", "0.1", "--broker-demand-s", "0.2", "--subscriber-demand-s", "0.3"]
    centres = answer("response-time", "--rate", "1", *demands, "--processing-s", "0.4", "--brokers", "2")[
        "centres"
    ]

    assert [centre["utilisation"] for centre in centres] == pytest.approx([0.1, 0.2, 0.2, 0.2, 0.3, 0.4])


def test_alarms_overtake_the_news() -> None:
    data = answer("response-time", *ON_OFF, "--rate", "5", "--priority-rate", "0.5")["priorities"]
    alone = answer("response-time", *ON_OFF, "--rate", "0.5")

    assert data["alarms_s"] == pytest.approx(alone["response_without_bursts_s"])
    assert data["alarms_s"] < data["first_come_first_served_s"] < data["others_s"]


def test_buffers_along_the_path_lose_at_every_centre() -> None:
    asked = [*ON_OFF, "--publisher-on-s", "60", "--publisher-off-s", "60", "--buffer-events", "40"]
    data = answer("response-time", *asked)["buffers"]
    losses = [centre["loss"] for centre in data["centres"].values()]

    assert list(data["centres"]) == ["publisher p", "broker 3 to s"]
    assert data["delivered_share"] == pytest.approx((1 - losses[0]) * (1 - losses[1]))
    assert all(0 < loss < 1 for loss in losses)


def test_errors_of_parameters_become_an_interval() -> None:
    asked = [*ON_OFF, "--uncertain", "subscriber_off_s=0.1,rate=0.05"]
    low, high = answer("response-time", *asked)["intervals_s"]["mean"]
    longer = answer("response-time", "--subscriber-on-s", "60", "--subscriber-off-s", str(60 * 1.1))

    # One standard error moves the answer half way to the end of the interval, or nearly so.
    assert low < answer("response-time", *ON_OFF)["response_s"] < longer["response_s"] < high
    assert (
        "may saturate" in plan("response-time", *ON_OFF, "--rate", "7.9", "--uncertain", "rate=0.05").output
    )


def test_fixed_lifetimes_end_to_end_with_late_events_dropped() -> None:
    asked = ["--rate", "2", "--demand-s", "0.125", "--subscriber-on-s", "20", "--subscriber-off-s", "20"]
    data = answer("response-time", *asked, "--ttl-s", "40", "--simulate")
    dropped = data["simulated"]["delivered_share_if_dropped"]

    assert dropped["half_width"] < 0.03
    assert dropped["mean"] > data["in_time_share"] - dropped["half_width"], (
        "dropping the late helps the others"
    )
    modelled = data["lifetime"]["delivered_share_if_dropped"]
    assert modelled == pytest.approx(dropped["mean"], abs=2 * dropped["half_width"])
    assert data["lifetime"]["in_time_share_if_delivered"] == data["in_time_share"] < modelled


def test_a_sweep_may_give_a_value_to_what_is_off() -> None:
    """Without --subscriber-off-s the connected periods would be of no use; here the sweep gives it."""
    points = answer("response-time", "--subscriber-on-s", "30", "--sweep", "subscriber_off_s=10:20:2")[
        "sweep"
    ]
    alone = answer("response-time", "--subscriber-on-s", "30", "--subscriber-off-s", "20")

    assert points["points"][1]["mean"] == pytest.approx(alone["response_s"])


def test_values_that_are_left_to_others_can_be_swept() -> None:
    points = answer("response-time", "--sweep", "broker_demand_s=0.1:0.2:2", "--brokers", "1")["sweep"][
        "points"
    ]
    late = answer("response-time", *ON_OFF, "--sweep", "ttl_s=60:120:2")["sweep"]["points"]
    alone = answer("response-time", *ON_OFF, "--ttl-s", "120")

    # M/M/1 at 1 event/s: three centres of 62.5 ms, and the broker.
    assert points[1]["mean"] == pytest.approx(3 * 0.0625 / (1 - 0.0625) + 0.2 / 0.8)
    assert late[1]["late_share"] == pytest.approx(1 - alone["in_time_share"])
    expired = 1 - alone["lifetime"]["delivered_share_if_dropped"]
    assert late[1]["expired_share"] == pytest.approx(expired)
    assert 0 < expired < late[1]["late_share"], "dropping the late helps the others"


def test_of_an_overloaded_path_lifetimes_and_buffers_can_be_simulated() -> None:
    asked = ["--rate", "9", "--subscriber-on-s", "6", "--subscriber-off-s", "6", "--brokers", "1"]
    asked += ["--demand-s", "1e-4", "--subscriber-demand-s", "0.0625"]
    data = answer("response-time", *asked, "--ttl-s", "5", "--buffer-events", "20", "--simulate")
    run, model = data["simulated"], data["buffers"]["centres"]["broker 1 to s"]

    assert data["response_s"] is None
    assert "mean_s" not in run
    for rule in ("newest", "oldest"):
        lost = 1 - run[f"delivered_share_drop_{rule}"]["mean"]
        assert lost == pytest.approx(model["loss"], abs=run[f"delivered_share_drop_{rule}"]["half_width"] * 2)
    drop_oldest = run["mean_s_drop_oldest"]
    assert drop_oldest["mean"] == pytest.approx(
        model["response_s_drop_oldest"], abs=2 * drop_oldest["half_width"]
    )
    assert drop_oldest["half_width"] < 0.1 * drop_oldest["mean"] < 0.06 * run["mean_s_drop_newest"]["mean"]
    dropped = run["delivered_share_if_dropped"]
    assert 0.4 < dropped["mean"] < 0.9
    assert data["lifetime"]["in_time_share_if_delivered"] is None
    modelled = data["lifetime"]["delivered_share_if_dropped"]
    assert modelled == pytest.approx(dropped["mean"], abs=2 * dropped["half_width"])


@pytest.mark.parametrize(("ttl_s", "share"), [("1e9", 1.0), ("1e-9", 0.0)])
def test_lifetimes_may_be_as_long_or_short_as_one_likes(ttl_s: str, share: float) -> None:
    data = answer("response-time", *ON_OFF, "--ttl-s", ttl_s)

    assert data["lifetime"]["delivered_share_if_dropped"] == pytest.approx(share, abs=1e-5)
    assert data["lifetime"]["in_time_share_if_delivered"] == pytest.approx(share, abs=1e-5)
    assert all(one == pytest.approx(share, abs=1e-5) for one in data["delivered_share_if_dropped"].values())


def test_an_overloaded_centre_with_too_many_events_alive_says_what_is_left_out() -> None:
    result = plan("response-time", *ON_OFF, "--rate", "50", "--ttl-s", "1e7")

    assert result.exit_code == 0, result.output
    assert "this takes some seconds: up to 500,000,000 events live at a time" in result.stderr
    assert "lifetimes that vary are left out: up to 500,268," in result.output


def test_periods_that_hardly_vary_are_taken_as_the_least_that_is_solved() -> None:
    least = answer("response-time", *ON_OFF, "--off-scv", "0.05")
    fixed = answer("response-time", *ON_OFF, "--off-scv", "0.001")

    assert fixed["response_s"] == least["response_s"]
    assert "off_scv: 0.001 is taken as 0.05, the least that is solved" in fixed["notes"]
    assert "notes" not in least


def test_which_rate_lets_no_more_than_a_share_expire() -> None:
    """The centre may be overloaded: dropping keeps it finite."""
    asked = ["--subscriber-on-s", "20", "--subscriber-off-s", "20", "--demand-s", "0.0625", "--ttl-s", "60"]
    rate = answer("response-time", *asked, "--solve-for", "rate", "--target", "expired_share=0.2")["solved"][
        "value"
    ]
    alone = answer("response-time", *asked, "--rate", str(rate))

    assert rate > 8, "8 events/s saturate it"
    assert alone["lifetime"]["delivered_share_if_dropped"] == pytest.approx(0.8, abs=0.001)


def test_two_buffers_with_bursts_between_them() -> None:
    peers = [
        "--publisher-on-s",
        "20",
        "--publisher-off-s",
        "20",
        "--subscriber-on-s",
        "20",
        "--subscriber-off-s",
        "10",
    ]
    asked = [*peers, "--brokers", "1", "--demand-s", "0.01", "--subscriber-demand-s", "0.3"]
    data = answer("response-time", *asked, "--buffer-events", "10", "--simulate")
    run = data["simulated"]["delivered_share_drop_newest"]

    assert data["buffers"]["delivered_share"] == pytest.approx(run["mean"], abs=2 * run["half_width"])


def test_periods_of_any_variability_are_simulated_as_they_are_modelled() -> None:
    asked = ["--rate", "1", "--subscriber-on-s", "6", "--subscriber-off-s", "6", "--off-scv", "4"]
    data = answer("response-time", *asked, "--brokers", "1", "--simulate")

    run = data["simulated"]["mean_s"]
    assert run["half_width"] < 0.15 * run["mean"]
    assert data["response_s"] == pytest.approx(run["mean"], abs=2 * run["half_width"])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sweep", "rate=1:2"], "--sweep: 'rate=1:2' is not of the form"),
        (["--sweep", "speed=1:2:3"], "speed: no number of this question"),
        (["--sweep", "=1:2:3"], "--sweep: name a number of this question, as rate="),
        (["--solve-for", "rate"], "--solve-for, --target: give both"),
        (["--solve-for", "rate", "--target", "p95"], "--target: 'p95' is not of the form"),
        (["--solve-for", "rate", "--target", "luck=3"], "--target: unknown luck"),
        (["--solve-for", "rate", "--target", "mean=0.001"], "target: not met anywhere"),
        (["--uncertain", "rate=2"], "uncertain: 'rate=2' must be between 0 and 1"),
        (["--sweep", "rate=1:3:3", "--loss", "0.1"], "loss: is not used with --sweep"),
        (["--sweep", "rate=1:3:3", "--simulate"], "simulate: is not used with --sweep"),
        (["--solve-for", "rate", "--target", "p95=9", "--day-rates", "1"], "day_rates: is not used with"),
        (["--sweep", "subscriber_on_s=1:3:3"], "subscriber_on_s: is used only with subscriber_off_s"),
        (["--sweep", "rate=1:3:3", "--percentiles", "150"], "percentiles: 150 is not between 0 and 100"),
        (["--sweep", "brokers=1:1000:2"], "brokers: 1000 is out of its limits"),
        (["--sweep", "rate=0:1:3"], "rate: 0 is out of its limits"),
        (["--sweep", "rate=1:2:3", "--solve-for", "rate", "--target", "p95=9"], "give one of them"),
        (["--uncertain", "rate=0.1,rate=0.2"], "uncertain: rate is given twice"),
        (["--uncertain", "rate=0.1,rate=0.2", "--sweep", "rate=1:2:3"], "uncertain: rate is given twice"),
        (
            ["--uncertain", "rate=0.1", "--sweep", "rate=1:2:3"],
            "uncertain: has an error of rate, which takes",
        ),
        (
            ["--uncertain", "demand=0.1", "--solve-for", "demand_s", "--target", "p95=9"],
            "uncertain: has an error of demand_s, which takes values of its own here; leave it out",
        ),
        (
            [
                *(
                    "--solve-for",
                    "demand",
                    "--target",
                    "p95=9",
                    "--broker-demand-s",
                    "1e-3",
                    "--processing-s",
                    "1e-3",
                ),
                *("--publisher-demand-s", "1e-3", "--subscriber-demand-s", "1e-3"),
            ],
            "demand_s: p95 does not depend on it",
        ),
    ],
)
def test_what_a_mode_ignores_is_an_error(args: list[str], message: str) -> None:
    result = plan("response-time", *args)

    assert result.exit_code == 2
    assert result.stderr.startswith("roamq: ")
    assert message in result.stderr


CITY = ("capacity", "--preset", "city")


def test_a_sweep_of_clients_tells_the_brokers_that_they_need() -> None:
    points = answer(*CITY, "--sweep", "clients=10000:20000:2")["sweep"]["points"]

    assert [point["brokers"] for point in points] == [
        answer(*CITY, "--clients", str(clients))["plan"]["brokers"] for clients in (10_000, 20_000)
    ]


def test_the_most_clients_that_so_many_brokers_bear() -> None:
    solved = answer(*CITY, "--solve-for", "clients", "--target", "brokers=10")["solved"]
    most = round(solved["value"])

    needed = [answer(*CITY, "--clients", str(clients))["plan"]["brokers"] for clients in (most, most + 1)]
    assert needed[0] <= 10 < needed[1]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--overlay", "gossip", "--sweep", "clients=5000:9000:2"], "overlay: unknown gossip"),
        (
            ["--overlay", "gossip", "--solve-for", "clients", "--target", "brokers=9"],
            "overlay: unknown gossip",
        ),
        (
            ["--response-target-s", "1", "--sweep", "clients=5000:9000:2"],
            "clients: no value from 5000 to 9000 has an answer, for a client is saturated, or no number of brokers",
        ),
        (
            ["--response-target-s", "1", "--solve-for", "clients", "--target", "brokers=9"],
            "is no answer: a client is saturated, or no number of brokers is enough",
        ),
    ],
)
def test_why_there_is_no_answer_about_brokers(args: list[str], message: str) -> None:
    result = plan(*CITY, *args)

    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_a_share_that_is_nothing_has_no_interval_and_saturates_nothing() -> None:
    asked = ["--rate", "0.01", "--ttl-s", "1e5", "--uncertain", "demand_s=0.1", "--sweep", "rate=0.01:0.02:2"]
    told = plan("response-time", *asked).output

    assert "late_share" in told
    assert "saturate" not in told


def test_the_messages_of_moves_are_part_of_a_broker_s_load() -> None:
    """By hand: 200 clients at 2 events/s, and what [DIS] counts for each of their moves, 1 ms each."""
    asked = [
        "--t-on-s",
        "60",
        "--t-off-s",
        "10",
        "--rate",
        "2",
        "--clients",
        "200",
        "--broker-demand-s",
        "1e-3",
    ]
    rows = {row["scheme"]: row for row in answer("schemes", *asked)["schemes"]}
    standard = rows["standard"]

    moves = 1 / (60 + 10 + standard["handoff adds s"])
    load = 200 * (2 + standard["messages per move"] * moves) * 1e-3
    assert standard["broker utilisation"] == pytest.approx(load)
    assert standard["with the broker s"] == pytest.approx(standard["mean delay s"] + 1e-3 / (1 - load))
    assert rows["home-broker"]["broker utilisation"] > standard["broker utilisation"]
    assert rows["proactive"]["broker utilisation"] is None, "[DIS] does not count its messages"
    busy = answer("schemes", *asked[:-1], "3e-3")["schemes"]
    assert {row["with the broker s"] for row in busy if row["scheme"] == "standard"} == {"saturated"}
