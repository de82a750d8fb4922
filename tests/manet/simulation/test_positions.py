"""Recorded positions in place of random movement: how a file is read, and how nodes move, come and go by it."""

import csv
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roamq.core.errors import ConfigError
from roamq.core.records import Record
from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.experiment import Setting, build, run
from roamq.manet.simulation.positions import RecordedMovement, RecordedPosition, read_positions
from roamq.manet.simulation.waypoint import Area

HEADER = "client,time,x,y\n"


def file_of(folder: Path, text: str) -> Path:
    path = folder / "cars.csv"
    path.write_text(text)
    return path


def moved(*sightings: tuple[str, float, float, float]) -> RecordedMovement:
    return RecordedMovement(RecordedPosition(client, time, 1, x, y) for client, time, x, y in sightings)


def test_a_client_moves_in_a_straight_line_between_two_positions() -> None:
    recorded = moved(("a", 100.0, 0.0, 0.0), ("a", 110.0, 50.0, 20.0), ("a", 112.0, 50.0, 0.0))

    at = {time: recorded.positions(time)[0].tolist() for time in (0.0, 4.0, 10.0, 11.0, 12.0)}
    assert at == {0.0: [0, 0], 4.0: [20, 8], 10.0: [50, 20], 11.0: [50, 10], 12.0: [50, 0]}


def test_clients_have_tracks_of_their_own_and_rows_may_stand_in_any_order() -> None:
    recorded = moved(
        ("b", 30.0, 7.0, 7.0), ("a", 20.0, 10.0, 0.0), ("b", 10.0, 5.0, 5.0), ("a", 10.0, 0.0, 0.0)
    )

    assert recorded.clients == ("a", "b")
    assert recorded.presence == [(0.0, 10.0), (0.0, 20.0)]
    assert recorded.positions(5.0).tolist() == [[5.0, 0.0], [5.5, 5.5]]
    assert recorded.positions(15.0).tolist() == [[10.0, 0.0], [6.5, 6.5]], "a stays where it was seen last"
    assert recorded.duration_s == 20.0
    assert recorded.area == Area((0.0, 0.0), (10.0, 7.0))


def test_a_long_step_passes_many_positions() -> None:
    recorded = moved(*(("a", float(time), float(time**2), 0.0) for time in range(100)))

    assert recorded.positions(98.5)[0, 0] == pytest.approx((98**2 + 99**2) / 2)


def test_csv_and_parquet_say_the_same(tmp_path: Path) -> None:
    text = "x,client,y,time,speed\n0,a,1,10,3\n\n 2.5 , a ,1,12,3\n9,b,9,11,3\n"
    one = read_positions(file_of(tmp_path, text))
    columns = {"client": ["a", "a", "b"], "time": [10, 12, 11], "x": [0.0, 2.5, 9.0], "y": [1.0, 1.0, 9.0]}
    pq.write_table(pa.table(columns), tmp_path / "cars.parquet")
    other = read_positions(tmp_path / "cars.parquet")

    assert one.clients == other.clients == ("a", "b")
    assert one.presence == other.presence == [(0.0, 2.0), (1.0, 1.0)]
    assert np.array_equal(one.positions(1.0), other.positions(1.0))


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", "cars.csv: line 1: no column 'client'; needed are client, time, x, y, found none"),
        ("client,time,x\na,1,2\n", "cars.csv: line 1: no column 'y'"),
        (HEADER, "cars.csv: no positions"),
        (HEADER + "a,1,2,3\n,1,2,3\n", "cars.csv: line 3: client: is missing"),
        (HEADER + "a,soon,2,3\n", "cars.csv: line 2: time: 'soon' is no number of seconds"),
        (HEADER + "a,1,2,3\n\na,2,far,3\n", "cars.csv: line 4: x: 'far' is no number of meters"),
        (HEADER + "a,1,2,nan\n", "cars.csv: line 2: y: 'nan' is no number of meters"),
        (HEADER + "a,1,2\n", "cars.csv: line 2: 3 fields, the first line has 4"),
        (HEADER + "a,1,2,3\na,1,5,3\n", "cars.csv: line 3: time: client 'a' is at another place .* line 2"),
    ],
    ids=["empty", "column", "no rows", "client", "time", "x", "nan", "width", "two places"],
)
def test_a_mistake_is_named_with_its_line_and_field(tmp_path: Path, text: str, names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        read_positions(file_of(tmp_path, text))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "cars.parquet").write_bytes(b"no")
    (tmp_path / "cars.csv").write_bytes(HEADER.encode() + b"\xff,1,2,3\n")
    gap = {"client": ["a"], "time": [1.0], "x": [None], "y": [1.0]}
    pq.write_table(pa.table(gap), tmp_path / "gap.parquet")

    for name, reason in {
        "cars.parquet": "no Parquet file",
        "cars.csv": "bytes are not UTF-8",
        "gap.parquet": "line 1: x: None is no number of meters",
        "none.csv": "there is no such file",
    }.items():
        with pytest.raises(ConfigError, match=f"{name}: .*{reason}"):
            read_positions(tmp_path / name)


def test_the_same_row_twice_says_nothing_new(tmp_path: Path) -> None:
    recorded = read_positions(file_of(tmp_path, HEADER + "a,1,2,3\na,1,2,3\na,2,4,3\n"))

    assert recorded.positions(0.5).tolist() == [[3.0, 3.0]]


# ---- a small town: cars drive in circles ---------------------------------------------------------------------

CARS, STAY_S = 40, 90


def town(folder: Path, late: Sequence[int] = (), early: Sequence[int] = ()) -> Path:
    """Cars circle at different radii. `late` come after 40 s, `early` leave after 40 s; times begin at 1000 s."""
    path = folder / "town.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["client", "time", "x", "y"])
        for car in range(CARS):
            for time in range(40 if car in late else 0, (40 if car in early else STAY_S) + 1, 5):
                angle, radius = car + time / 20, 60.0 + 40.0 * (car % 4)
                x, y = 200 + radius * math.cos(angle), 200 + radius * math.sin(angle)
                writer.writerow([f"car{car:02}", 1000 + time, x, y])
    return path


def setting(path: Path) -> Setting:
    return Setting(
        nodes=CARS,
        positions=str(path),
        parameters=Parameters(k=6, l=2, m=2),
        warm_up_s=20.0,
        publishing_s=40.0,
        drain_s=30.0,
    )


def of_kind(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record.kind == kind]


def test_a_network_that_moves_by_positions_delivers_and_repeats_itself(tmp_path: Path) -> None:
    chosen = setting(town(tmp_path))

    records = run(chosen, 1)

    assert of_kind(records, "delivered")
    assert records == run(chosen, 1)
    network = build(chosen, 1)
    network.run(5.2)
    expected = [200 + 60 * math.cos(0.25), 200 + 60 * math.sin(0.25)]
    assert network.field.positions[0].tolist() == pytest.approx(expected)


def test_a_node_hears_nothing_before_it_comes_and_after_it_leaves(tmp_path: Path) -> None:
    late, early = range(5), range(5, 10)
    network = build(setting(town(tmp_path, late, early)), 1)
    network.run(30.0)
    assert network.absent == set(late)
    assert not any(network.nodes[node].neighbors for node in late)
    assert network.field.neighbors(0) == {}

    network.run(60.0)

    assert network.absent == set(early)
    assert all(network.nodes[node].local_broker is not None for node in late), "they have joined a region"
    assert network.field.neighbors(0)
    assert network.field.neighbors(5) == {}
    network.run(90.0)
    got = [(int(str(r.client)[1:]), r.time_s) for r in of_kind(network.records, "delivered")]
    assert not [node for node, time in got if node in late and time < 40.0]
    assert not [node for node, time in got if node in early and time > 41.0]


def test_a_node_that_comes_late_does_not_make_itself_a_broker(tmp_path: Path) -> None:
    late = range(20)
    records = run(setting(town(tmp_path, late)), 1)

    elected = [record for record in of_kind(records, "role") if record.detail == "elected"]
    assert len(elected) == 6
    assert all(int(str(record.broker)[1:]) not in late for record in elected)


def test_who_is_absent_is_not_counted_as_a_subscriber(tmp_path: Path) -> None:
    def wanted(path: Path) -> int:
        before = replace(setting(path), publishing_s=18.0, drain_s=1.0)
        return sum(record.count or 0 for record in of_kind(run(before, 1), "published"))

    early = range(20, 40)  # they are there until second 40, so the same nodes detect the same events
    assert wanted(town(tmp_path, early=early)) == wanted(town(tmp_path)) > 0
    network = build(setting(town(tmp_path, early=early)), 1)
    network.run(90.0)
    later = [r.count or 0 for r in of_kind(network.records, "published") if r.time_s > 41.0]
    everybody = [
        r.count or 0 for r in of_kind(run(setting(town(tmp_path)), 1), "published") if r.time_s > 41.0
    ]
    assert sum(later) / len(later) < sum(everybody) / len(everybody)


def test_the_number_of_nodes_is_that_of_the_clients(tmp_path: Path) -> None:
    path = file_of(tmp_path, HEADER + "a,1,2,3\n")

    with pytest.raises(ConfigError, match=r"cars.csv has 1 clients, and the setting 40 nodes"):
        build(setting(path), 1)
