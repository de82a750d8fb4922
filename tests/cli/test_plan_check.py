"""`roamq plan check` on records of an ON/OFF client whose delays are computed here, one by one."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli
from roamq.pipeline.jobs import SIMULATOR

UNTIL_S = 2000.0
BASE_S = 0.01


def records(seed: int, clients: int, stored_later_s: float = 0.0) -> list[dict[str, Any]]:
    """Clients connected for 60 s and away for 15 s on average; a stored event waits for the reconnection."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []

    def add(kind: str, time_s: float, client: str | None = None, **more: Any) -> None:
        empty = dict.fromkeys(("detail", "count", "duration_s"))
        rows.append({"kind": kind, "time_s": time_s, "broker": "b1", "client": client, **empty, **more})

    for number in range(clients):
        client, now, is_on = f"c{number}", 0.0, True
        arrivals = np.cumsum(rng.exponential(1.0, int(1.5 * UNTIL_S)))
        add("connected", 0.0, client)
        while now < UNTIL_S:
            end = now + float(rng.exponential(60.0 if is_on else 15.0))
            inside = arrivals[(arrivals >= now) & (arrivals < end) & (arrivals < UNTIL_S)]
            for born in inside.tolist():
                add("published", born, None, count=1)
                late = BASE_S if is_on else end - born + BASE_S + stored_later_s
                add("delivered", born + late, client, detail="live" if is_on else "stored", duration_s=late)
            if end < UNTIL_S:
                add("disconnected" if is_on else "connected", end, client)
            if end < UNTIL_S and not is_on and inside.size:
                add("handoff", end + BASE_S, client, detail="stored", duration_s=BASE_S)
            now, is_on = end, not is_on
    return rows


def write(
    folder: Path, scheme: str | None, rows: list[dict[str, Any]], run_id: str, **about_run: Any
) -> None:
    """As the simulator's campaign writes it, or without `scheme` as live brokers do."""
    import pyarrow as pa
    from pyarrow import parquet

    root = folder / "campaign" if scheme else folder
    place = root / "part=records" / f"run_id={run_id}"
    place = place / "attempt=a1" if scheme else place
    place.mkdir(parents=True)
    parquet.write_table(pa.Table.from_pylist(rows), place / "part-0.parquet")
    if scheme:
        about = root / "part=runs" / f"run_id={run_id}" / "attempt=a1"
        about.mkdir(parents=True)
        entry = {"scheme": scheme, "warmup_s": 0.0, "until_s": UNTIL_S, "status": "ok", **about_run}
        parquet.write_table(pa.Table.from_pylist([entry]), about / "part-0.parquet")


def check(*args: str) -> Result:
    return CliRunner().invoke(cli, ["plan", "check", *args])


def schemes_of(folder: Path) -> list[dict[str, Any]]:
    result = check(str(folder), "--json")
    assert result.exit_code == 0, result.output
    schemes: list[dict[str, Any]] = json.loads(result.stdout)["schemes"]
    return schemes


@pytest.mark.slow
def test_the_model_agrees_with_a_run_that_follows_it(tmp_path: Path) -> None:
    write(tmp_path, "standard", records(1, 30), "r1")
    write(tmp_path, "proactive", records(2, 30), "r2")
    schemes = schemes_of(tmp_path)

    assert [(part["scheme"], part["kind"]) for part in schemes] == [
        ("proactive", "simulator"),
        ("standard", "simulator"),
    ]
    for part in schemes:
        found = part["parameters"]
        assert found["on_s"] == pytest.approx(60, rel=0.12)
        assert found["off_s"] == pytest.approx(15, rel=0.12)
        assert found["rate"] == pytest.approx(1.0, rel=0.03)
        assert found["live_delay_s"] == pytest.approx(BASE_S)
        assert part["holds"]
        # An event meets the client away with 15/75, and waits 15 s then; by Little's law as many wait on average.
        for name in ("mean", "waiting mean"):
            value, low, high = part["measures"][name]["model"]
            assert value == pytest.approx(3.0, rel=0.25)
            assert low / 1.1 < 3.0 < 1.1 * high  # a 95% interval misses now and then
        verdicts = {name: measure["verdict"] for name, measure in part["measures"].items()}
        assert "differs" not in verdicts.values(), verdicts
        assert {verdicts["mean"], verdicts["p50"], verdicts["deliveries/s"]} == {"agrees"}
        # P(delay > t) = 1/5 exp(-t/15) for exponential periods.
        assert part["measures"]["p95"]["model"][0] == pytest.approx(15 * math.log(4), rel=0.2)
    shown = check(str(tmp_path), "--figure", str(tmp_path / "check.png"))
    assert "95% within s" in shown.output
    assert "agrees" in shown.output
    assert (tmp_path / "check.png").stat().st_size > 1000


@pytest.mark.slow
def test_events_that_come_only_while_their_client_is_away_differ(tmp_path: Path) -> None:
    """The model takes events as independent of connectivity; here three of four live ones were never published."""
    rows = [row for n, row in enumerate(records(3, 40)) if row["detail"] != "live" or n % 4 == 0]
    write(tmp_path, "standard", rows, "r1")
    (part,) = schemes_of(tmp_path)

    assert part["measures"]["mean"]["verdict"] == "differs"
    assert part["measures"]["mean"]["observed"][0] > 1.5 * part["measures"]["mean"]["model"][0]


@pytest.mark.slow
def test_what_a_handoff_adds_is_found_without_records_of_handoffs(tmp_path: Path) -> None:
    rows = [row for row in records(6, 30, stored_later_s=3.0) if row["kind"] != "handoff"]
    write(tmp_path, "standard", rows, "r1")
    (part,) = schemes_of(tmp_path)

    assert part["parameters"]["handoff_s"] == pytest.approx(3.0, abs=0.02)


@pytest.mark.slow
def test_a_scheme_that_stores_events_where_the_client_is_not_is_told(tmp_path: Path) -> None:
    """Events wait 600 s longer than their client: it was connected meanwhile."""
    write(tmp_path, "durable", records(7, 30, stored_later_s=600.0), "r1")
    (part,) = schemes_of(tmp_path)

    assert not part["holds"]
    assert "stored where it is not" in part["reason"]
    assert "the model does not hold here" in check(str(tmp_path)).output


@pytest.mark.slow
def test_clients_for_whom_nothing_is_stored_are_left_out(tmp_path: Path) -> None:
    rows = records(8, 30)
    lost = {f"c{number}" for number in range(0, 30, 3)}
    kept = [row for row in rows if not (row["client"] in lost and row["detail"] == "stored")]
    write(tmp_path, "standard", kept, "r1")
    (part,) = schemes_of(tmp_path)

    assert part["left_out"] == 10
    assert part["measures"]["mean"]["verdict"] == "agrees"


@pytest.mark.slow
def test_live_and_simulated_runs_of_one_scheme_stand_side_by_side(tmp_path: Path) -> None:
    write(tmp_path, "standard NBR simulated", records(4, 20), "r1", runner=SIMULATOR.name)
    write(tmp_path, "standard NBR live", records(5, 20), "r2", runner="roamq.fieldtest.run:run_job")
    schemes = schemes_of(tmp_path)

    assert {(part["scheme"], part["kind"]) for part in schemes} == {
        ("standard NBR", "live"),
        ("standard NBR", "simulator"),
    }
    (heading,) = [line for line in check(str(tmp_path)).output.splitlines() if "measure" in line]
    assert heading.split() == ["measure", *["model", "simulator", "verdict"], *["model", "live", "verdict"]]


@pytest.mark.slow
def test_records_of_live_brokers_need_no_table_of_runs(tmp_path: Path) -> None:
    write(tmp_path, None, records(4, 20), "office")
    (part,) = schemes_of(tmp_path)

    assert (part["scheme"], part["kind"]) == ("office", "live")
    assert part["measures"]["p50"]["verdict"] == "agrees"


def test_a_broker_that_notices_late_that_a_client_is_gone_ends_no_connection_elsewhere(
    tmp_path: Path,
) -> None:
    """Every client connects at another broker each time, and the one before says `disconnected` a second too late."""
    rows = records(4, 20)
    late = list[dict[str, Any]]()
    place: dict[str, int] = {}
    for row in rows:
        if row["kind"] == "connected":
            place[row["client"]] = place.get(row["client"], 0) + 1
            if place[row["client"]] > 1:
                before = f"b{place[row['client']] - 1}"
                late.append({**row, "kind": "disconnected", "broker": before, "time_s": row["time_s"] + 1.0})
        if row["client"] is not None:
            row["broker"] = f"b{place[row['client']]}"
    write(tmp_path / "in time", "standard", rows, "r1")
    write(tmp_path / "late", "standard", rows + late, "r1")
    (one,), (other,) = schemes_of(tmp_path / "in time"), schemes_of(tmp_path / "late")

    assert late
    assert one["measures"]["mean"]["verdict"] == "agrees"
    assert other["parameters"] == one["parameters"]


def test_few_clients_have_no_interval_and_no_verdict(tmp_path: Path) -> None:
    write(tmp_path, "standard", records(9, 2), "r1")
    (part,) = schemes_of(tmp_path)

    assert part["measures"]["mean"]["model"][1:] == [None, None]
    assert part["measures"]["mean"]["verdict"] == "cannot tell"
    told = check(str(tmp_path)).output
    assert "cannot tell: the runs are too short, or too few" in " ".join(told.split())


def test_what_the_records_lack_is_named(tmp_path: Path) -> None:
    empty = check(str(tmp_path))
    assert empty.exit_code == 2
    assert "no records in it" in empty.stderr
    still = [row for row in records(5, 5) if row["kind"] in ("published", "delivered")]
    write(tmp_path, "standard", still, "r1")
    result = check(str(tmp_path))
    assert result.exit_code == 2
    assert "no client was seen to disconnect and reconnect" in result.stderr
