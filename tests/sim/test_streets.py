"""Clients on the streets: where they are, and how fast they get there."""

import random
from itertools import islice, pairwise

import pytest
from msgspec.structs import replace

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId
from roamq.geo.cells import adjacent, pitch_m
from roamq.geo.city import site_grid
from roamq.sim.mobility import Step, World
from roamq.sim.streets import MapOptions, Streets, region_of

AREAS = {str(broker): (place.latitude, place.longitude) for broker, place in site_grid(3, 3, 2600.0).items()}
REGION = region_of(AREAS, MapOptions())
BROKERS = tuple(BrokerId(b) for b in AREAS)
WORLD = World(BROKERS, BROKERS, {}, AREAS, 600.0, REGION)
CALM = Streets(stop=0.0, turn_back=0.0, off=0.0)


def walk(model: Streets, count: int = 500, seed: int = 1) -> list[Step]:
    return list(islice(model.steps(0, WORLD, random.Random(seed)), count))


def test_every_street_lies_in_somebodys_area() -> None:
    assert REGION.routes is not None
    cells = {p.cell for a, b in REGION.routes.streets for p in REGION.routes.passages(a, b)}
    assert cells <= set(REGION.areas.broker_of)


def test_a_client_goes_from_cell_to_adjacent_cell_and_is_served_where_it_is() -> None:
    steps = walk(CALM)
    for one, other in pairwise(steps):
        assert one.time_s <= other.time_s
        assert one.cell is not None and other.cell in adjacent(one.cell)  # type: ignore[arg-type]
    assert all(REGION.areas.broker_of[s.cell] == s.broker for s in steps)  # type: ignore[index]
    assert len({step.broker for step in steps}) > 3


def test_speed_is_what_was_asked_for() -> None:
    slow = walk(replace(CALM, speed_mps=(5.0, 5.0)))
    fast = walk(replace(CALM, speed_mps=(20.0, 20.0)))
    assert slow[-1].time_s / fast[-1].time_s == pytest.approx(4.0, rel=0.01)
    per_cell_s = slow[-1].time_s / len(slow)
    assert 0.5 * pitch_m(9) / 5.0 < per_cell_s < 1.5 * pitch_m(9) / 5.0


def test_stops_make_the_same_way_longer() -> None:
    without, with_stops = walk(CALM), walk(replace(CALM, stop=0.5))
    assert with_stops[-1].time_s > 1.5 * without[-1].time_s


def test_some_turn_back() -> None:
    def returns(steps: list[Step]) -> int:
        return sum(a.cell == c.cell for a, c in zip(steps, steps[2:], strict=False))

    assert returns(walk(replace(CALM, turn_back=0.3))) > 2 * returns(walk(CALM))


def test_who_switches_off_comes_back_where_it_has_got_to() -> None:
    steps = walk(replace(CALM, off=0.2, off_s=100.0), 400)
    away = [place for place, step in enumerate(steps) if step.broker is None]
    assert len(away) > 20
    for place in away[:-1]:
        back = steps[place + 1]
        assert back.time_s > steps[place].time_s
        assert back.broker == REGION.areas.broker_of[back.cell]  # type: ignore[index]


def test_a_gap_parts_two_areas() -> None:
    steps = walk(replace(CALM, gap_s=0.5))
    for one, gone, other in zip(steps, steps[1:], steps[2:], strict=False):
        if gone.broker is None:
            assert other.time_s - gone.time_s == pytest.approx(0.5)
            assert one.broker != other.broker
        elif one.broker is not None:
            assert one.broker == gone.broker


def test_fixed_ways_are_followed_to_their_end() -> None:
    steps = walk(replace(CALM, ways=[[0, 1, 2, 3]]))
    again = walk(replace(CALM, ways=[[0, 1, 2, 3]]), seed=9)
    assert [s.cell for s in steps] == [s.cell for s in again]
    assert 2 <= len(steps) < 20


def test_streets_need_a_map() -> None:
    with pytest.raises(ConfigError, match=r"needs the group \[map\]"):
        list(Streets().steps(0, World(BROKERS, BROKERS, {}, AREAS, 1.0), random.Random(1)))
    with pytest.raises(ConfigError, match=r"network\.areas"):
        region_of({}, MapOptions())
