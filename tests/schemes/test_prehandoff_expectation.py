"""Where a client is expected: by its cell, its streets, its direction and its speed ([PRE] sections 3.1 and 5)."""

import random

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, center, distance_m
from roamq.geo.city import block_streets, site_grid
from roamq.geo.region import Region
from roamq.schemes.locations import Choice, Expectation, LocationTable
from roamq.schemes.prehandoff import PreHandoffOptions

MH = ClientId("mh")
B5 = BrokerId("b5")
SITES = site_grid(3, 3, 2600.0)
AREAS = LocationAreas.voronoi(SITES, 9)
STREETS = block_streets(SITES.values(), 9, random.Random(4).random, block_m=400, margin_m=800)
REGION = Region(AREAS, STREETS)
BORDER = REGION.border_cells(B5)


def expectation(choice: Choice, region: Region = REGION, lead_s: float = 0.0) -> Expectation:
    return Expectation(B5, region, choice, cone_deg=90.0, lead_s=lead_s, patience=1.0)


def seen(*cells: Cell, every_s: float = 30.0) -> LocationTable:
    table = LocationTable()
    for number, cell in enumerate(cells):
        table.saw(MH, cell, number * every_s)
    return table


def through(cell: Cell) -> list[Cell]:
    """Own cells from which a street leads into `cell`."""
    return sorted(c for c in STREETS.next_cells[cell] if AREAS.broker_of.get(c) == B5)


def test_all_neighbors_are_expected_everywhere_and_border_servers_at_the_border() -> None:
    interior = next(c for c in AREAS.cells(B5) if c not in BORDER)
    assert expectation(Choice.ALL).servers(MH, seen(interior)) == AREAS.neighbors(B5)
    assert expectation(Choice.BORDER).servers(MH, seen(interior)) == ()
    for cell, servers in BORDER.items():
        assert expectation(Choice.BORDER).servers(MH, seen(cell)) == servers


def test_a_cell_of_another_area_expects_nothing() -> None:
    foreign = AREAS.cells(BrokerId("b1"))[0]
    for choice in Choice:
        assert expectation(choice).servers(MH, seen(foreign)) == ()
        assert expectation(choice).servers(MH, LocationTable()) == ()


def test_streets_ahead_are_among_those_beyond_the_border_and_fewer() -> None:
    fewer = 0
    for cell, servers in BORDER.items():
        for before in through(cell):
            ahead = expectation(Choice.AHEAD).servers(MH, seen(before, cell))
            assert set(ahead) <= set(servers)
            onward = {AREAS.broker_of.get(c) for c in STREETS.onward(before, cell)}
            assert set(ahead) == {server for server in servers if server in onward}
            fewer += len(ahead) < len(servers)
    assert fewer > 3


def test_who_has_just_come_is_expected_back_only_where_a_street_leads_back_without_turning() -> None:
    spared = 0
    for cell, servers in BORDER.items():
        for server in servers:
            table = LocationTable()
            table.arrived(MH, server, 10.0)
            table.saw(MH, cell, 0.0)
            onward = {c for entry in REGION.entries(cell, server) for c in STREETS.onward(entry, cell)}
            leads_back = any(AREAS.broker_of.get(c) == server for c in onward)
            assert (server in expectation(Choice.AHEAD).servers(MH, table)) == leads_back
            spared += not leads_back
    assert spared > 5


def test_who_lingers_is_expected_everywhere_beyond_the_border_again() -> None:
    cell = max(BORDER, key=lambda c: (len(BORDER[c]), c))
    table = seen(through(cell)[0], cell)
    until_s = expectation(Choice.AHEAD).until_lingering_s(MH, table)
    speed = table.speed_mps(MH)
    assert until_s is not None and speed is not None
    assert until_s == pytest.approx(distance_m(center(through(cell)[0]), center(cell)) / speed, rel=0.2)
    assert expectation(Choice.BORDER).until_lingering_s(MH, table) is None
    table.lingering.add(MH)
    assert expectation(Choice.AHEAD).servers(MH, table) == BORDER[cell]
    table.saw(MH, through(cell)[0], 90.0)
    assert MH not in table.lingering


def test_a_fast_client_is_expected_before_it_reaches_the_border() -> None:
    interior = [c for c in AREAS.cells(B5) if c not in BORDER and c in STREETS.next_cells]
    pairs = [(before, cell) for cell in interior for before in through(cell)]
    slow = [expectation(Choice.AHEAD, lead_s=10.0).servers(MH, seen(*pair, every_s=100.0)) for pair in pairs]
    fast = [expectation(Choice.AHEAD, lead_s=10.0).servers(MH, seen(*pair, every_s=2.0)) for pair in pairs]
    assert not any(slow)
    assert any(fast)


def test_without_a_route_map_direction_decides() -> None:
    bare = Region(AREAS)
    table = bare.border_cells(B5)
    cell = next(c for c in sorted(table) if table[c] == ("b6",))  # to the east
    inside = [c for c in AREAS.cells(B5) if c not in table]
    west = min(inside, key=lambda c: distance_m(center(c), center(cell)))
    assert expectation(Choice.AHEAD, bare).servers(MH, seen(west, cell)) == ("b6",)
    away = LocationTable()
    away.arrived(MH, BrokerId("b6"), 10.0)
    away.saw(MH, cell, 0.0)
    assert expectation(Choice.CONE, bare).servers(MH, away) == ()


def test_an_unknown_choice_is_an_operators_error() -> None:
    with pytest.raises(ConfigError, match=r"scheme\.choose: 'nearby' is none of border, all, ahead, cone"):
        PreHandoffOptions(choose="nearby")
