"""Scenarios: reading them, and that equal seeds give equal records."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roamq.core.errors import ConfigError
from roamq.sim.scenario import Scenario, load_scenario, presets, run

DIGEST = """
import hashlib
from roamq.sim.scenario import load_scenario, run
result = run(load_scenario("testbed", overrides={"duration_s": "60"}), seed=7)
print(hashlib.sha256(repr(result.records).encode()).hexdigest())
"""


def digest(scenario: Scenario, seed: int) -> str:
    return hashlib.sha256(repr(run(scenario, seed=seed).records).encode()).hexdigest()


@pytest.mark.parametrize("name", sorted(presets()))
def test_every_preset_can_be_read_and_survives_a_round_trip(name: str) -> None:
    scenario = load_scenario(name)

    assert Scenario.from_json(scenario.to_json()) == scenario
    assert scenario.description


@pytest.mark.slow
def test_equal_seeds_give_equal_records_whatever_the_hash_seed_of_the_process() -> None:
    def in_process(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        done = subprocess.run(
            [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, env=environment
        )
        return done.stdout

    here = digest(load_scenario("testbed", overrides={"duration_s": "60"}), 7)

    assert in_process("1").strip() == in_process("2").strip() == here


def test_different_seeds_give_different_records() -> None:
    scenario = load_scenario("testbed", overrides={"duration_s": "60"})

    assert digest(scenario, 1) != digest(scenario, 2)


def test_changing_the_workload_does_not_change_the_moves() -> None:
    def moves(rate: str) -> list[tuple[float, str | None, str | None]]:
        scenario = load_scenario("testbed", overrides={"duration_s": "100", "workload.rate": rate})
        return [
            (r.time_s, r.client, r.broker) for r in run(scenario, seed=3).records if r.kind == "connected"
        ]

    assert moves("1.0") == moves("9.0")


def test_overrides_reach_nested_fields_and_keep_their_types() -> None:
    scenario = load_scenario(
        "testbed", overrides={"mobility.pattern": "RND", "mobility.connect_s": "150", "clients": "7"}
    )

    assert scenario.clients == 7
    assert scenario.mobility["pattern"] == "RND"
    assert scenario.mobility["connect_s"] == 150


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[scheme]\nname = "standrad"\n',
            r"line 2: scheme: unknown scheme 'standrad'; did you mean 'standard'",
        ),
        ("clients = -1\n", r"line 1: clients: expected `int` >= 0"),
        ('clients = "many"\n', r"line 1: clients: expected `int`, got `str`"),
        ("\n[link]\ndelay = 3\n", r"line 3: link.delay: unknown field; did you mean 'delay_s'"),
        ("cliants = 3\n", r"line 1: cliants: unknown field; did you mean 'clients'"),
        ('[mobility]\nmodel = "hover"\n', r"line 2: mobility.model: unknown model 'hover'"),
        (
            '[mobility]\nmodel = "three-state"\nconnect_s = -4\n',
            r"line 3: mobility.connect_s: expected `float` >= 0",
        ),
        (
            '[network]\noverlay = "star"\n',
            r"line 2: network.overlay: .star. is no choice; choose one of flooding, hierarchy",
        ),
        ('[records]\nlevel = "some"\n', r"line 2: records.level: .some. is no choice; choose one of"),
        ("[scheme]\nname = 'standard'\nbufer = 3\n", r"scheme.bufer: unknown option"),
        ("clients = [\n", r"not valid TOML"),
        (
            "[[faults]]\nat_s = 1.0\nkind = 'crash'\ntarget = 'nobody'\n",
            r"faults\[0\]: 'crash' of 'nobody' is neither",
        ),
    ],
)
def test_a_wrong_scenario_is_refused_with_line_field_and_remedy(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)

    with pytest.raises(ConfigError, match=message):
        load_scenario(str(path))


def test_an_unknown_name_suggests_a_preset() -> None:
    with pytest.raises(ConfigError, match=r"unknown scenario 'testbad'; did you mean 'testbed'"):
        load_scenario("testbad")


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load_scenario(str(tmp_path / "none.toml"))


TRACE = "client,time_s,site,connected\nann,1,b1,true\nann,20,,false\nann,25,b3,true\nbob,2,b2,true\n"


def trace_scenario(tmp_path: Path, rows: str) -> Scenario:
    path = tmp_path / "trace.csv"
    path.write_text(rows)
    return load_scenario(
        "testbed", overrides={"mobility": f'{{ model = "trace", path = "{path}" }}', "duration_s": "60"}
    )


def test_a_recorded_trace_is_replayed_row_by_row(tmp_path: Path) -> None:
    result = run(trace_scenario(tmp_path, TRACE), seed=1)

    connected = [(r.time_s, r.client, r.broker, r.peer) for r in result.records if r.kind == "connected"]
    assert connected == [(1.0, "c0", "b1", None), (2.0, "c1", "b2", None), (25.0, "c0", "b3", "b1")]
    assert result.violations == []


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("client,time_s,site\n", "line 1: column 'connected' is missing"),
        ("client,time_s,site,connected\nann,soon,b1,true\n", "line 2: time_s is 'soon'"),
        ("client,time_s,site,connected\nann,1,b9,true\n", "line 2: site 'b9' is not a broker"),
        ("client,time_s,site,connected\nann,1,b1,maybe\n", "line 2: connected is 'maybe'"),
    ],
)
def test_a_bad_trace_names_file_line_and_column(tmp_path: Path, rows: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run(trace_scenario(tmp_path, rows), seed=1)


@pytest.mark.parametrize("scheme", ["prefetching", "prefetching+on-device"])
def test_a_wrong_prediction_names_another_broker_also_where_all_brokers_have_areas(scheme: str) -> None:
    scenario = load_scenario(
        "prehandoff", scheme=scheme, overrides={"scheme.prediction": "wrong", "duration_s": "300"}
    )

    assert run(scenario, seed=1).violations == []
