"""`roamq plan`: the papers' rows, the same names in file, option and message, and exit codes."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli

pytestmark = pytest.mark.slow

SUBCOMMANDS = ["mobility", "response-time", "regions", "transfer-cost", "schemes", "capacity"]


def plan(*args: str) -> Result:
    return CliRunner().invoke(cli, ["plan", *args])


def answer(*args: str) -> dict[str, Any]:
    result = plan(*args, "--json")
    assert result.exit_code == 0, result.output
    loaded: dict[str, Any] = json.loads(result.stdout)
    return loaded


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_every_question_shows_an_example_and_explains_its_fields(name: str) -> None:
    result = plan(name, "--help")

    assert result.exit_code == 0
    assert re.search(rf"^  Examples:\n    roamq plan {name} ", result.output, re.MULTILINE), (
        "one example a line"
    )
    for line in result.output.split("Options:")[1].splitlines():
        if line.startswith("  --") and len(line.split()) < 3:
            following = result.output.split(line)[1].splitlines()[1]
            assert following.startswith("        "), f"{line.strip()} has no help"


def test_with_a_measured_meeting_time_regions_are_answered_in_seconds() -> None:
    """Two destinations, one copy: (1 + 1/2) meeting times; twice as many brokers meet half as often."""
    asked = ("--copies", "1", "--destinations", "2", "--meeting-s", "20", "--meeting-power", "1")
    result = plan("regions", "--brokers", "10", *asked, "--target-s", "60", "--json")

    answer = json.loads(result.output)
    assert answer["mean"]["exact"] == pytest.approx(30.0)
    assert answer["brokers_for_target"]["exact"] == 20
    assert "seconds" in plan("regions", "--brokers", "10", *asked).output


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("mobility", "testbed-rnd"),
        ("mobility", "testbed-nbr"),
        ("response-time", "metro-1"),
        ("response-time", "voluntary-2"),
        ("regions", "drip"),
        ("transfer-cost", "random"),
        ("schemes", "testbed"),
        ("capacity", "city"),
    ],
)
def test_presets_print_tables_and_draw(name: str, preset: str, tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    result = plan(name, "--preset", preset, "--figure", str(figure))

    assert result.exit_code == 0, result.output
    assert "─" in result.output
    assert figure.read_bytes()[:4] == b"\x89PNG"


def test_metro_1_prints_the_papers_row_ours_and_the_discrepancy() -> None:
    """[TIME] Table 3."""
    result = plan("response-time", "--preset", "metro-1")
    data = answer("response-time", "--preset", "metro-1")

    assert data["response_without_bursts_s"] == pytest.approx(116.893, abs=1e-3)
    assert data["response_s"] == pytest.approx(118.7, rel=0.02), "the published simulation has bursts as well"
    assert data["with_four_centres_s"] == pytest.approx(116.760, abs=1e-3)
    assert data["published"] == {"analysis_s": 116.76, "simulation_s": 118.7}
    assert data["percentiles_s"]["95"] > data["response_s"]
    assert "the published sum has four" in result.output


def test_testbed_nbr_is_table_5() -> None:
    """[PRO] Table 5."""
    brokers = answer("mobility", "--preset", "testbed-nbr")["brokers"]

    for broker in brokers:
        assert broker["expected"] == pytest.approx(broker["published"], abs=0.02)


def test_options_override_the_file_and_the_file_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "ask.toml"
    file.write_text("rate = 0.5\nbrokers = 1\n")

    only_file = answer("response-time", str(file), "--preset", "metro-1")
    with_option = answer("response-time", str(file), "--preset", "metro-1", "--rate", "2")

    assert len(only_file["centres"]) == 4
    assert with_option["centres"][0]["utilisation"] == pytest.approx(
        4 * only_file["centres"][0]["utilisation"]
    )


def test_saturation_is_an_answer_that_names_the_centre() -> None:
    asked = ("response-time", "--rate", "9", "--subscriber-on-s", "20", "--subscriber-off-s", "20")
    data = answer(*asked, "--demand-s", "0.125")

    assert data["response_s"] is None
    assert data["saturated_by"][0] == "publisher p"
    assert "broker 3 to s" in data["saturated_by"]
    shown = plan(*asked, "--demand-s", "0.125").output
    assert "broker 3 to s is saturated: it can bear less than 4 events/s" in shown


def test_time_to_live_loss_and_a_day_with_a_saturated_hour() -> None:
    asked = ["--rate", "2", "--demand-s", "0.125", "--subscriber-on-s", "20", "--subscriber-off-s", "20"]
    data = answer("response-time", *asked, "--ttl-s", "40", "--loss", "0.001", "--day-rates", "1,6,1")

    assert 0.7 < data["in_time_share"] < 0.95
    assert data["delivered_share_if_dropped"]["broker 3 to s"] < 1
    assert data["buffer_events"] == {"broker 3 to s": 357}
    assert data["day"][1]["bin alone s"] == "saturated"
    assert data["day"][2]["with carry-over s"] > 3 * data["day"][2]["bin alone s"]


def test_periods_of_other_variability_change_the_answer() -> None:
    asked = ["--rate", "2", "--demand-s", "0.125", "--subscriber-on-s", "20", "--subscriber-off-s", "20"]

    regular = answer("response-time", *asked, "--off-scv", "0.25")
    bursty = answer("response-time", *asked, "--off-scv", "4")

    assert regular["response_s"] < answer("response-time", *asked)["response_s"] < bursty["response_s"]


def test_a_network_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(
        """
        [network]
        links = [["a", "b"], ["b", "c"]]
        [[network.publishers]]
        name = "p"
        broker = "a"
        rates = {news = 0.5, alarms = 0.1}
        [[network.subscribers]]
        name = "s"
        broker = "c"
        topics = ["news"]
        on_s = 60
        off_s = 60
        [[network.subscribers]]
        name = "slow"
        broker = "b"
        topics = ["news", "alarms"]
        demand_s = 3
        """
    )
    pairs = {pair["subscriber"]: pair for pair in answer("response-time", str(file))["pairs"]}

    assert pairs["s"]["rate"] == 0.5
    assert pairs["s"]["response_s"] == pytest.approx(32.1, abs=0.5)
    assert pairs["slow"]["response_s"] is None
    assert pairs["slow"]["saturated_by"] == ["b to slow"]


NETWORK = """
    [network]
    links = [["a", "b"], ["b", "c"], ["c", "d"], ["d", "a"]]
    [[network.publishers]]
    name = "p"
    broker = "a"
    rates = {news = 0.5}
    [[network.subscribers]]
    name = "s"
    broker = "c"
    topics = ["news"]
    on_s = 60
    off_s = 60
    """


def test_percentiles_and_a_time_to_live_of_a_network(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(NETWORK)
    pair = answer("response-time", str(file), "--percentiles", "50,95", "--ttl-s", "60")["pairs"][0]
    alone = answer(
        "response-time",
        "--rate",
        "0.5",
        "--subscriber-on-s",
        "60",
        "--subscriber-off-s",
        "60",
        "--ttl-s",
        "60",
    )

    # The brokers' part is small beside the connectivity: nearly the answer for the path alone.
    assert pair["percentiles_s"]["95"] == pytest.approx(alone["percentiles_s"]["95"], rel=0.02)
    assert pair["in_time_share"] == pytest.approx(alone["in_time_share"], abs=0.01)


@pytest.mark.parametrize(
    ("change", "args", "message"),
    [
        ("", ["--simulate"], "simulate: is not used with a [network]"),
        ("", ["--rate", "3"], "rate: is not used with a [network]"),
        ("[[network.publishers]]\nname='p'\nbroker='b'\nrates={}", [], "publishers: p is named twice"),
        ("[[network.brokers]]\nname='b'\n[[network.brokers]]\nname='b'", [], "brokers: b is named twice"),
        ("[[network.brokers]]\nname='z'", [], "brokers: z is not in links"),
        ("[[network.publishers]]\nname='q'\nbroker='bb'\nrates={}", [], "q: broker bb is not in links"),
        (
            "[[network.publishers]]\nname='q'\nbroker='b'\nrates={t=-1.0}",
            [],
            "network.publishers[1].rates[...]: expected `float` >= 0.0",
        ),
        (
            "[[network.publishers]]\nname='q'\nbroker='b'\nrates={t=inf}",
            [],
            "network.publishers.rates.t: must be",
        ),
    ],
)
def test_a_network_ignores_no_option_and_merges_no_names(
    change: str, args: list[str], message: str, tmp_path: Path
) -> None:
    file = tmp_path / "network.toml"
    file.write_text(NETWORK + change)
    result = plan("response-time", str(file), *args)

    assert result.exit_code == 2
    assert message in result.stderr


def test_a_topic_that_nobody_publishes_is_told(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    wanted = "[[network.subscribers]]\nname='q'\nbroker='b'\ntopics=['newz', 'news/#', 'newz']\n"
    file.write_text(NETWORK + wanted + "[[network.publishers]]\nname='r'\nbroker='b'\nrates={news=1.0}")
    result = plan("response-time", str(file))

    assert result.exit_code == 0
    assert result.output.count("q wants newz, which nobody publishes; did you mean 'news'?") == 1
    assert "q wants news/#, which nobody publishes" in result.output


def test_a_network_computes_the_bursts_of_a_pair_s_own_publisher(tmp_path: Path) -> None:
    """The same centres as one path give the same answer; a slow last hop makes the burst queue."""
    file = tmp_path / "network.toml"
    file.write_text(NETWORK)
    assert "bursts" not in plan("response-time", str(file)).output
    slow = NETWORK.replace("on_s = 60", "demand_s = 0.6\n    on_s = 60")
    file.write_text(slow.replace('name = "p"', 'name = "p"\n    off_s = 30'))
    result = plan("response-time", str(file))
    (pair,) = answer("response-time", str(file))["pairs"]

    assert "bursts of a pair's own publisher are computed" in result.output
    assert pair["response_s"] > 1.01 * pair["response_without_bursts_s"]


def test_flooding_loads_brokers_that_no_path_passes(tmp_path: Path) -> None:
    file = tmp_path / "network.toml"
    file.write_text(NETWORK)
    flooded = answer("response-time", str(file))["rates"]
    file.write_text(NETWORK.replace("[network]", "[network]\n    overlay = 'advertisements'", 1))
    wanted = answer("response-time", str(file))["rates"]

    assert flooded["d in"] == 0.5
    assert "d in" not in wanted


@pytest.mark.parametrize("name", SUBCOMMANDS)
def test_the_examples_of_the_help_are_commands_as_they_stand(name: str) -> None:
    shown = plan(name, "--help").output.split("Examples:")[1].split("Options:")[0]
    for line in shown.replace("\\\n", " ").strip().splitlines():
        words = shlex.split(line)
        assert words[:2] == ["roamq", "plan"], f"{line!r} is not a command of its own"
        if "--warehouse" in words:
            continue  # needs tables
        words = words[2 : words.index("--figure")] if "--figure" in words else words[2:]
        assert plan(*words).exit_code == 0, line


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Gold tables as the pipeline writes them: sites a, b, c that are walked in a circle, and one dead end."""
    import pyarrow as pa

    from roamq.pipeline.ledger import Ledger, TableChange
    from roamq.pipeline.schemas import DERIVED, arrow_schema
    from roamq.pipeline.store import Store

    ledger = Ledger(Store.at(tmp_path))

    def write(table: str, rows: list[dict[str, Any]]) -> None:
        contract = DERIVED[table].contract
        maps = [row | {"params": list(row["params"].items())} if "params" in row else row for row in rows]
        file = ledger.write(table, pa.Table.from_pylist(maps, schema=arrow_schema(contract)))
        ledger.commit(ledger.latest(), {table: TableChange(contract=contract, files=[file])}, "a test")

    edges = [("a", "b", 1.0), ("b", "c", 0.5), ("b", "a", 0.5), ("c", "a", 0.9), ("c", "end", 0.1)]
    write(
        "neighbor_graph",
        [{"dataset": "d", "from": one, "to": to, "probability": p} for one, to, p in edges],
    )
    common = {"dataset": "d", "grouping": "all", "n": 50, "aic": 1.0, "ks_statistic": 0.1}
    erlang = {"family": "weibull", "params": {"shape": 2.0, "scale": 30.0}, "fit_mean_s": 26.6}
    fits = [
        {
            "period": "on",
            "mean_s": 20.0,
            "family": "exponential",
            "params": {"mean": 20.0},
            "fit_mean_s": 20.0,
        },
        {"period": "off", "mean_s": 26.6, **erlang},
        {
            "period": "stay",
            "mean_s": 40.0,
            "family": "exponential",
            "params": {"mean": 40.0},
            "fit_mean_s": 40.0,
        },
    ]
    write("connectivity", [{**common, **fit, "best": True} for fit in fits])
    write(
        "daily_profile",
        [
            {"dataset": "d", "kind": "events", "site": site, "minute_of_day": minute, "rate_per_s": rate}
            for site, minute, rate in [("a", 0, 0.5), ("a", 1380, 0.25), ("*", 60, 1.0)]
        ],
    )
    return tmp_path


def test_what_the_pipeline_learned_answers_for_movement(warehouse: Path) -> None:
    brokers = answer("mobility", "--warehouse", str(warehouse), "--p-disconnect", "0")["brokers"]

    shares = {broker["broker"]: broker["share"] for broker in brokers}
    assert set(shares) == {"a", "b", "c"}, "the dead end is left out"
    assert shares["a"] == pytest.approx(shares["b"])
    assert shares["c"] == pytest.approx(shares["b"] / 2)
    assert sum(shares.values()) == pytest.approx(40 / 43)  # stays of 40 s, handoffs of 3 s by default


def test_what_the_pipeline_learned_answers_for_response_times(warehouse: Path) -> None:
    asked = ("response-time", "--warehouse", str(warehouse), "--rate", "1", "--site", "a")
    learned = answer(*asked)
    given = answer(
        "response-time", "--rate", "1", "--subscriber-on-s", "20", "--subscriber-off-s", "26.6",
        "--off-scv", str(4 / 3.141592653589793 - 1),
    )  # fmt: skip

    assert learned["response_s"] == pytest.approx(given["response_s"])
    assert len(learned["day"]) == 24
    assert learned["day"][0]["events/s"] == 0.5
    assert learned["day"][1]["events/s"] == 0
    overridden = answer(*asked, "--subscriber-off-s", "5")
    assert overridden["response_s"] < learned["response_s"]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dataset", "e"], "dataset: name the one that is meant"),
        (["--site", "x"], "site: 'x' has no events"),
    ],
)
def test_what_a_warehouse_does_not_have_is_named(args: list[str], message: str, warehouse: Path) -> None:
    result = plan("response-time", "--warehouse", str(warehouse), *args)

    assert result.exit_code == 2
    assert message in result.stderr
    missing = plan("response-time", "--warehouse", str(warehouse / "nothing"))
    assert missing.exit_code == 2
    assert "`roamq pipeline run` makes it from traces" in missing.stderr


def test_simulation_beside_the_model() -> None:
    data = answer("response-time", "--preset", "degraded", "--simulate")

    assert data["simulated"]["mean_s"]["mean"] == pytest.approx(data["response_s"], rel=0.15)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["response-time", "--rate", "-1"], "rate: expected `float` > 0.0"),
        (["response-time", "--rate", "much"], "rate: expected `float`"),
        (["response-time", "--percentiles", "150"], "percentiles: 150 is not between 0 and 100"),
        (["response-time", "--day-rates", "1"], "day_rates: need"),
        (["response-time", "--rate", "inf"], "rate: must be a finite number"),
        (["response-time", "--subscriber-off-s", "nan"], "subscriber_off_s: expected"),
        (["response-time", "--day-rates", "1,inf", "--subscriber-off-s", "3"], "day_rates: must be a finite"),
        (["response-time", "--subscriber-on-s", "5"], "subscriber_on_s: is used only with subscriber_off_s"),
        (["response-time", "--off-scv", "2"], "off_scv: is used only if a peer disconnects"),
        (["response-time", "--bin-s", "2"], "bin_s: is used only with day_rates"),
        (["response-time", "--day-rates", " , "], "day_rates: give at least one value, or leave it out"),
        (
            ["response-time", "--subscriber-off-s", "9", "--day-rates", "1e9"],
            "day_rates: the backlog exceeds 400,000",
        ),
        (["response-time", "--percentiles", ""], "percentiles: give at least one value, or leave it out"),
        (
            ["response-time", "--subscriber-off-s", "9", "--day-rates", "1,-1"],
            "day_rates: must not be negative",
        ),
        (
            ["response-time", "--subscriber-off-s", "9", "--day-rates", "0,0"],
            "day_rates: must not be negative, and",
        ),
        (["response-time", "--site", "a"], "site: is used only with warehouse"),
        (["response-time", "--rate", "99", "--simulate"], "simulate: publisher p is saturated"),
        (["mobility", "--brokers", "3", "--p-return", "0.1"], "p_return: is used only where"),
        (["mobility", "--brokers", "3", "--curve-throughput", "1"], "curve_throughput: is used only with"),
        (["capacity", "--preset", "city", "--overlay", "gossip"], "overlay: unknown gossip"),
        (["mobility"], "brokers, edges, neighbors: give exactly one"),
        (["mobility", "--edges", "a-b,c"], "edges: 'c' is not a pair"),
        (["mobility", "--edges", "a-b,c-d"], "neighbors: no way leads"),
        (["mobility", "--edges", "a-b,b-a"], "edges: 'b-a' is given twice"),
        (["mobility", "--edges", "a-b,a-a"], "edges: 'a-a' links a broker with itself"),
        (["response-time", "--percentiles", "95,95"], "percentiles: 95 is given twice"),
        (["regions"], "grid_cells: is needed; give it in the file, or as --grid-cells"),
        (["regions", "--grid-cells", "1e4", "--brokers", "5"], "brokers: 3 copies"),
        (["regions", "--grid-cells", "1e4", "--target-s", "1"], "target_s: even the fewest"),
        (["regions", "--meeting-s", "9", "--target-s", "99"], "meeting_power: is needed, and above 0"),
        (["regions", "--grid-cells", "1e4", "--meeting-power", "1"], "meeting_power: is used only with"),
        (["capacity", "--preset", "city", "--response-target-s", "1"], "response_target_s: the client's own"),
        (["capacity", "--preset", "city", "--demand-client-s", "5"], "client is saturated"),
        (["transfer-cost", "--preset", "random", "--hit-share", "2"], "hit_share: expected `float` <= 1.0"),
        (
            ["mobility", "--brokers", "3", "--figure", "x.gif"],
            "x.gif: the name of a figure must end with .png",
        ),
    ],
)
def test_what_is_wrong_is_named_and_exits_with_2(args: list[str], message: str) -> None:
    result = plan(*args)

    assert result.exit_code == 2
    [said] = [line for line in result.stderr.splitlines() if not line.startswith("this takes some seconds")]
    assert said.startswith("roamq: ")
    assert message in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ratte = 1", "ratte: no such field; did you mean 'rate'?"),
        ("rate = ", "is not TOML"),
        ("rate = 0", "rate: expected `float` > 0.0"),
        ("[network]\nlinks = []", "network: object missing required field `publishers`"),
    ],
)
def test_what_is_wrong_in_a_file_names_the_file_too(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "ask.toml"
    file.write_text(text)
    result = plan("response-time", str(file))

    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert message in result.stderr


def shown_commands() -> list[tuple[str, list[str]]]:
    """The commands of the planner's guide, each with the lines of output that it shows."""
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text()
    blocks = re.findall(r"^```\n\$ (.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [block.splitlines() for block in blocks]
    return [(block[0], [line for line in block[1:] if line.strip() and line != "..."]) for block in lines]


@pytest.mark.parametrize(("command", "expected"), shown_commands())
def test_the_guide_shows_what_the_commands_print(command: str, expected: list[str]) -> None:
    result = plan(*shlex.split(command)[2:])
    printed = {" ".join(line.split()) for line in result.output.splitlines()}

    assert result.exit_code == 0
    assert expected
    assert {" ".join(line.split()) for line in expected} <= printed


def test_the_guide_works_three_questions() -> None:
    assert len(shown_commands()) >= 3
