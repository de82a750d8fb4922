"""A scenario whose areas are drawn: the simulator takes the GeoJSON file that live brokers take."""

import json
import random
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.sim.scenario import load_scenario, mobility_of, run, topology_of, world_of

SCENARIO = """
clients = 6
duration_s = 900.0
drain_s = 300.0
[scheme]
name = "prehandoff"
[network]
overlay = "flooding"
brokers = ["west", "east"]
links = [["west", "east"]]
polygons = "areas.geojson"
[map]
resolution = 9
[mobility]
model = "streets"
[workload]
model = "groups"
rate = 2.0
share = 0.4
"""


def area(broker: str, west: float, east: float) -> dict[str, Any]:
    ring = [[west, 48.19], [east, 48.19], [east, 48.22], [west, 48.22], [west, 48.19]]
    return {
        "type": "Feature",
        "properties": {"broker": broker},
        "geometry": {"type": "Polygon", "coordinates": [ring]},
    }


def drawn(*features: Mapping[str, Any]) -> str:
    return json.dumps({"type": "FeatureCollection", "features": features})


def scenario_file(folder: Path, polygons: str) -> str:
    (folder / "areas.geojson").write_text(polygons)
    (folder / "city.toml").write_text(SCENARIO)
    return str(folder / "city.toml")


TOUCHING = drawn(area("west", 16.35, 16.38), area("east", 16.38, 16.41))
APART = drawn(area("west", 16.35, 16.37), area("east", 16.39, 16.41))


def test_clients_find_virtual_consumers_beyond_the_border_that_was_drawn(tmp_path: Path) -> None:
    scenario = load_scenario(scenario_file(tmp_path, TOUCHING))
    (tmp_path / "areas.geojson").unlink()  # a scenario that was read depends on no file

    result = run(scenario, seed=1)

    assert [record.detail for record in result.records if record.kind == "violation"] == []
    noted = [record.detail for record in result.records if record.kind == "prehandoff"]
    assert "hit" in noted
    region = world_of(scenario, topology_of(scenario)).region
    assert region is not None
    assert set(region.areas.broker_of.values()) == {"west", "east"}
    assert region.border_cells(BrokerId("west"))


def test_between_the_areas_a_client_is_not_connected(tmp_path: Path) -> None:
    scenario = load_scenario(scenario_file(tmp_path, APART))
    world = world_of(scenario, topology_of(scenario))
    assert world.region is not None

    steps = list(islice(mobility_of(scenario).steps(0, world, random.Random(1)), 500))

    assert steps[0].broker is not None, "it begins where there is a broker"
    assert {step.broker for step in steps} == {None, "west", "east"}
    for step in steps:
        if step.cell is not None:
            assert world.region.areas.broker_of.get(step.cell) == step.broker  # type: ignore[call-overload]
    violations = [record for record in run(scenario, seed=1).records if record.kind == "violation"]
    assert violations == []


@pytest.mark.parametrize(
    ("polygons", "reason"),
    [
        ("{", "is not JSON"),
        ("[1]", "expected `object"),
        (drawn({"type": "Feature", "properties": {}}), "no GeoJSON FeatureCollection"),
        (drawn(area("north", 16.35, 16.38)), "an area of 'north'"),
    ],
)
def test_a_file_with_a_mistake_is_refused_by_name(tmp_path: Path, polygons: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=rf"city.toml, line 11: network.polygons: .*{reason}"):
        load_scenario(scenario_file(tmp_path, polygons))


def test_areas_in_which_no_client_could_begin_are_refused(tmp_path: Path) -> None:
    tiny = drawn(area("west", 16.35, 16.352), area("east", 16.40, 16.402))
    scenario = load_scenario(scenario_file(tmp_path, tiny), overrides={"map.block_m": "5000.0"})
    with pytest.raises(ConfigError, match=r"network.polygons: no junction"):
        run(scenario, seed=1)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = scenario_file(tmp_path, TOUCHING)
    with pytest.raises(ConfigError, match=r"network.polygons: other.geojson cannot be read"):
        load_scenario(path, overrides={"network.polygons": "other.geojson"})
