"""Where a client is expected: by its cell, its streets, its direction and its speed ([PRE] sections 3.1 and 5)."""

import random

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import Cell, center, distance_m, pitch_m
from roamq.geo.city import block_streets, site_grid
from roamq.geo.region import Region
from roamq.schemes.parts.locations import Choice, Expectation, LocationTable
from roamq.schemes.prehandoff_options import PreHandoffOptions

MH = ClientId("mh")
B5 = BrokerId("b5")
SITES = site_grid(3, 3, 2600.0)
AREAS = LocationAreas.voronoi(SITES, 9)
STREETS = block_streets(SITES.values(), 9, random.Random(4).random, block_m=400, margin_m=800)
REGION = Region(AREAS, STREETS)
BORDER = REGION.border_cells(B5)


def expectation(
    choice: Choice, region: Region = REGION, *, lead_s: float = 0.0, haste: float = 1.0
) -> Expectation:
    return Expectation(B5, region, choice, cone_deg=90.0, lead_s=lead_s, haste=haste)


def servers(expected: Expectation, table: LocationTable) -> tuple[BrokerId, ...]:
    """All that the client may be expected at before it is seen in another cell."""
    return tuple(sorted(expected.due(MH, table)))


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
    assert servers(expectation(Choice.ALL), seen(interior)) == AREAS.neighbors(B5)
    assert servers(expectation(Choice.BORDER), seen(interior)) == ()
    for cell, beyond in BORDER.items():
        assert servers(expectation(Choice.BORDER), seen(cell)) == beyond


def test_a_cell_of_another_area_expects_nothing() -> None:
    foreign = AREAS.cells(BrokerId("b1"))[0]
    for choice in Choice:
        assert servers(expectation(choice), seen(foreign)) == ()
        assert servers(expectation(choice), LocationTable()) == ()


def test_streets_ahead_are_among_those_beyond_the_border_and_fewer() -> None:
    fewer = 0
    for cell, beyond in BORDER.items():
        for before in through(cell):
            ahead = servers(expectation(Choice.AHEAD), seen(before, cell))
            out = {AREAS.broker_of.get(there) for there in STREETS.exits(before, cell)}
            assert set(ahead) == {server for server in beyond if server in out}
            fewer += len(ahead) < len(beyond)
    assert fewer > 3


def test_who_has_just_come_is_expected_back_only_where_it_can_turn_back() -> None:
    """ "Direction": a cell without a junction is crossed, and what was left lies behind."""
    spared = 0
    for cell, beyond in BORDER.items():
        for server in beyond:
            table = LocationTable()
            table.arrived(MH, server, 10.0)
            table.saw(MH, cell, 0.0)
            out = {there for entry in REGION.entries(cell, server) for there in STREETS.exits(entry, cell)}
            leads_back = any(AREAS.broker_of.get(there) == server for there in out)
            assert (server in servers(expectation(Choice.AHEAD), table)) == leads_back
            spared += not leads_back
    assert spared > 5


@pytest.mark.parametrize("haste", [0.5, 1.0, 2.0])
def test_a_server_is_due_when_the_client_can_be_there_less_the_lead(haste: float) -> None:
    """ "Speed": the way by street at the client's speed, and so many times faster as it may become."""
    checked = 0
    for cell in BORDER:
        for before in through(cell):
            for first in through(before):
                metres = STREETS.exits(first, before).get(cell)
                if first == cell or metres is None:
                    continue
                table = seen(first, before, cell, every_s=30.0)
                expected = expectation(Choice.AHEAD, lead_s=0.5, haste=haste)
                assert expected.speed_mps(MH, table) == pytest.approx(metres / 30.0)
                ways = REGION.ways_out([before], cell, haste * metres / 30.0 * 0.5)
                for server, due_s in expected.due(MH, table).items():
                    assert due_s == pytest.approx(60.0 + ways[server] / (haste * metres / 30.0) - 0.5)
                    checked += 1
    assert checked > 20


def test_the_speed_limit_bounds_haste_but_not_what_was_seen() -> None:
    cell = next(
        c for c in sorted(BORDER) if through(c) and set(STREETS.exits(through(c)[0], c)) - set(through(c))
    )
    before = through(cell)[0]
    table = LocationTable()
    table.arrived(MH, BrokerId("b1"), 10.0)
    table.saw(MH, before, 0.0)
    table.saw(MH, cell, 30.0)

    def due(haste: float, limit_mps: float | None) -> dict[BrokerId, float]:
        bounded = Expectation(
            B5, REGION, Choice.AHEAD, cone_deg=90.0, lead_s=0.0, haste=haste, limit_mps=limit_mps
        )
        return dict(bounded.due(MH, table))

    assert due(4.0, 15.0) == pytest.approx(due(1.5, None))
    assert due(4.0, 50.0) == pytest.approx(due(4.0, None))
    assert due(4.0, 5.0) == pytest.approx(due(1.0, None))
    assert due(1.0, None)


def test_who_was_out_of_sight_came_unseen() -> None:
    """Also if the cell it is seen in next is one to which a street leads from the last."""
    cell = next(c for c in sorted(BORDER) if through(c))
    for cells in ([through(cell)[0], cell], [through(cell)[0]]):
        table = seen(*cells)
        table.reappeared(MH, 12.0)
        table.saw(MH, cell, 200.0)
        assert expectation(Choice.AHEAD).due(MH, table) == dict.fromkeys(BORDER[cell], 0.0)
        assert expectation(Choice.AHEAD).speed_mps(MH, table) == 12.0


def test_nobody_reaches_a_server_by_street_before_it_is_due() -> None:
    """Against journeys that know nothing of `exits`: random walks from junction to junction at a constant speed."""
    walker = random.Random(3)
    crossed = 0
    for _ in range(400):
        at = walker.randrange(len(STREETS.junctions))
        time_s, cell = 0.0, STREETS.passages(at, STREETS.neighbors[at][0])[0].cell
        table = seen(cell)
        for _ in range(30):
            to = walker.choice(STREETS.neighbors[at])
            for passage in STREETS.passages(at, to):
                if passage.cell == cell:
                    continue
                now = time_s + passage.at_m / 10.0
                into = AREAS.broker_of.get(passage.cell)
                if AREAS.broker_of.get(cell) == B5 and into not in (None, B5):
                    due_s = expectation(Choice.AHEAD).due(MH, table)[into]
                    assert due_s <= now + 1e-6
                    crossed += 1
                cell = passage.cell
                if into == B5:
                    table.saw(MH, cell, now)
                else:
                    table.arrived(MH, into or BrokerId("nobody"), 10.0)
            time_s += STREETS.length_m(at, to) / 10.0
            at = to
    assert crossed > 100


def test_a_stop_does_not_make_a_client_slow() -> None:
    pairs = [(before, cell) for cell in BORDER for before in through(cell)]
    way = next(
        [first, second, before, cell]
        for before, cell in pairs
        for second in through(before)
        for first in through(second)
        if cell in STREETS.exits(second, before)
        and before in STREETS.exits(first, second)
        and first != before
    )
    table = LocationTable()
    for time_s, cell in zip((0.0, 30.0, 60.0, 300.0), way, strict=True):
        table.saw(MH, cell, time_s)
    fastest = STREETS.exits(way[0], way[1])[way[2]] / 30.0
    assert expectation(Choice.AHEAD).speed_mps(MH, table) == pytest.approx(fastest)


def test_who_was_switched_off_may_be_anywhere_in_its_cell() -> None:
    cell = next(iter(BORDER))
    far = next(c for c in AREAS.cells(B5) if c not in STREETS.next_cells[cell] and c != cell)
    assert expectation(Choice.AHEAD).due(MH, seen(far, cell)) == dict.fromkeys(BORDER[cell], 0.0)


def test_a_fast_client_is_expected_before_it_reaches_the_border() -> None:
    interior = [c for c in AREAS.cells(B5) if c not in BORDER and c in STREETS.next_cells]
    walks = [
        (first, before, cell) for cell in interior for before in through(cell) for first in through(before)
    ]
    ahead = expectation(Choice.AHEAD, lead_s=10.0)
    assert not any(servers(ahead, seen(*walk, every_s=100.0)) for walk in walks)
    assert any(servers(ahead, seen(*walk, every_s=2.0)) for walk in walks)


def test_without_a_route_map_direction_decides_until_the_cell_should_have_been_crossed() -> None:
    bare = Region(AREAS)
    table = bare.border_cells(B5)
    cell = next(c for c in sorted(table) if table[c] == ("b6",))  # to the east
    inside = [c for c in AREAS.cells(B5) if c not in table]
    west = min(inside, key=lambda c: distance_m(center(c), center(cell)))
    assert expectation(Choice.AHEAD, bare).due(MH, seen(west, cell)) == {"b6": 0.0}
    away = LocationTable()
    away.arrived(MH, BrokerId("b6"), 10.0)
    away.saw(MH, cell, 7.0)
    [(server, due_s)] = expectation(Choice.CONE, bare).due(MH, away).items()
    assert server == "b6"
    assert due_s == pytest.approx(7.0 + pitch_m(9) / 10.0)


@pytest.mark.parametrize("haste", [0.0, -1.0, float("nan")])
def test_a_client_that_never_comes_is_an_operators_error(haste: float) -> None:
    with pytest.raises(ConfigError, match=r"scheme\.haste"):
        PreHandoffOptions(haste=haste)
    with pytest.raises(ConfigError, match=r"scheme\.limit_mps"):
        PreHandoffOptions(limit_mps=haste)


def test_an_unknown_choice_is_an_operators_error() -> None:
    with pytest.raises(
        ConfigError, match=r"scheme\.choose: 'nearby' is no choice; choose one of border, all, ahead, cone"
    ):
        PreHandoffOptions(choose="nearby")
