"""Where clients go from a border cell, learned by watching them ([PRE] section 2.3)."""

import random

import pytest

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.geo.areas import LocationAreas
from roamq.geo.cells import adjacent
from roamq.geo.city import site_grid
from roamq.geo.region import Region
from roamq.schemes.parts.locations import Choice, Expectation, LocationTable
from roamq.schemes.parts.movement_pattern import PRIOR_MOVES, MovementPattern, rows_of
from roamq.schemes.prehandoff_options import PreHandoffOptions
from roamq.sim.scenario import load_scenario, run

B5 = BrokerId("b5")
REGION = Region(LocationAreas.voronoi(site_grid(3, 3, 2600.0), 9))
CORNER, BEYOND = next(
    (cell, beyond) for cell, beyond in sorted(REGION.border_cells(B5).items()) if len(beyond) == 2
)
OFTEN, NEVER = BEYOND
MINE = sorted(cell for cell in adjacent(CORNER) if REGION.areas.broker_of.get(cell) == B5)


class Server:
    """An event server's table and pattern, and clients that it watches."""

    def __init__(self, least_probability: float = 0.05) -> None:
        self.table, self.pattern = LocationTable(), MovementPattern(B5)
        self.expectation = Expectation(
            B5,
            REGION,
            Choice.LEARNED,
            cone_deg=90.0,
            lead_s=2.0,
            haste=2.0,
            pattern=self.pattern,
            least_probability=least_probability,
        )

    def saw(self, client: str, *cells: str) -> None:
        for cell in cells:
            if self.table.saw(ClientId(client), cell, 0.0):  # type: ignore[arg-type]
                self.expectation.learn(ClientId(client), self.table)

    def left(self, client: str, to: BrokerId) -> None:
        self.pattern.left(ClientId(client), to)
        self.table.forget(ClientId(client))

    def due(self, client: str) -> set[str]:
        return set(self.expectation.due(ClientId(client), self.table))


def test_where_nothing_is_known_the_servers_beyond_the_border_are_expected() -> None:
    server = Server(least_probability=1.0)

    server.saw("c", CORNER)

    assert server.due("c") == set(BEYOND)


def test_a_server_that_clients_never_went_to_is_left_out_after_enough_of_them() -> None:
    server = Server(least_probability=0.05)
    expected = []
    for number in range(60):
        server.saw(f"c{number}", CORNER)
        expected.append(server.due(f"c{number}"))
        server.left(f"c{number}", OFTEN)

    assert expected[0] == set(BEYOND)
    assert expected[-1] == {OFTEN}
    first = expected.index({OFTEN})
    assert expected[first:] == [{OFTEN}] * (60 - first), "and stays left out while nobody goes there"


def test_a_server_is_expected_again_when_clients_begin_to_go_there() -> None:
    """Whoever goes where nobody is expected is seen too: the server there asks for its context."""
    server = Server(least_probability=0.1)
    for number in range(60):
        server.saw(f"c{number}", CORNER)
        server.left(f"c{number}", OFTEN)
    for number in range(60, 80):
        server.saw(f"c{number}", CORNER)
        server.left(f"c{number}", NEVER)

    server.saw("c", CORNER)

    assert server.due("c") == set(BEYOND)


def test_clients_are_told_apart_by_the_cell_that_they_came_from() -> None:
    server = Server(least_probability=0.1)
    to_often, to_never = MINE[0], MINE[1]
    for number in range(100):
        server.saw(f"c{number}", to_often, CORNER)
        server.left(f"c{number}", OFTEN)
        server.saw(f"d{number}", to_never, CORNER)
        server.left(f"d{number}", NEVER)

    server.saw("c", to_often, CORNER)
    server.saw("d", to_never, CORNER)

    assert server.due("c") == {OFTEN}
    assert server.due("d") == {NEVER}


def test_who_stays_in_the_area_counts_too_but_who_says_its_cell_again_does_not() -> None:
    server = Server()
    server.saw("c", CORNER, CORNER, CORNER)
    assert server.pattern.went == {}

    server.saw("c", MINE[0])

    assert server.pattern.went == {(CORNER, ""): {B5: 1.0}}


def test_a_move_counts_once_and_a_client_that_is_forgotten_not_at_all() -> None:
    server = Server()
    server.saw("c", CORNER)
    server.pattern.left(ClientId("c"), OFTEN)
    server.pattern.left(ClientId("c"), OFTEN)
    server.saw("d", CORNER)
    server.pattern.forget(ClientId("d"))
    server.pattern.left(ClientId("d"), OFTEN)

    assert server.pattern.went == {("", ""): {OFTEN: 1.0}, (CORNER, ""): {OFTEN: 1.0}}


def test_cells_that_do_not_touch_the_border_cell_are_not_remembered() -> None:
    """A client may say anything; what a server remembers is bounded by its border."""
    server = Server()
    far = [cell for cell in REGION.areas.broker_of if cell not in adjacent(CORNER) and cell != CORNER]
    for number, cell in enumerate(far):
        server.saw(f"c{number}", cell, CORNER)
        server.left(f"c{number}", OFTEN)

    of_corner = {given for given in server.pattern.went if given[0] == CORNER}
    assert of_corner == {(CORNER, "")}


def test_a_warm_start_knows_where_clients_of_an_area_go() -> None:
    server = Server(least_probability=0.05)
    rows = rows_of(
        [
            ("b5", OFTEN, 500, 1.0),  # neighbor_graph
            (None, "b5", OFTEN, 500, 1.0),  # transitions of order 1
            (OFTEN, "b5", NEVER, 400, 1.0),  # transitions of order 2
            ("b1", NEVER, 1e6, 1.0),  # another server's
        ]
    )

    server.pattern.warm_start(rows)

    assert server.pattern.went == {("", ""): {OFTEN: 1000.0}, ("", OFTEN): {NEVER: 400.0}}
    server.saw("c", CORNER)
    assert server.due("c") == {OFTEN}
    server.table.arrived(ClientId("d"), OFTEN, None)
    server.saw("d", CORNER)
    assert server.due("d") == {NEVER}, "clients that come from there go on"
    assert rows_of(rows) == rows


def test_a_probability_nears_the_share_of_moves() -> None:
    pattern, rng = MovementPattern(B5), random.Random(1)
    for _ in range(4000):
        pattern.entered(ClientId("c"), CORNER, None, None, is_border=True)
        pattern.left(ClientId("c"), OFTEN if rng.random() < 0.8 else NEVER)

    pattern.entered(ClientId("c"), CORNER, None, None, is_border=True)

    assert pattern.probability(ClientId("c"), OFTEN) == pytest.approx(0.8, abs=0.02)
    assert pattern.probability(ClientId("stranger"), OFTEN) == 1.0
    assert PRIOR_MOVES > 0


@pytest.mark.parametrize("row", [("b1", "b2"), ("b1", "b2", "many", 0), 7, ("a", "b", "c", "d", 1, 0)])
def test_a_warm_start_of_other_rows_is_refused(row: object) -> None:
    with pytest.raises(ConfigError, match=r"scheme.warm_start\[0\]"):
        PreHandoffOptions(choose="learned", warm_start=(row,))  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_least_probability_is_one(value: float) -> None:
    with pytest.raises(ConfigError, match=r"scheme.least_probability"):
        PreHandoffOptions(least_probability=value)


@pytest.mark.parametrize("seed", [1, 2])
def test_learned_servers_are_fewer_than_those_beyond_the_border_and_nothing_is_lost(seed: int) -> None:
    def simulated(**options: str) -> tuple[int, list[str | None]]:
        overrides = {"duration_s": "900", "records.level": "all"}
        overrides |= {f"scheme.{name}": value for name, value in options.items()}
        result = run(load_scenario("prehandoff", scheme="prehandoff", overrides=overrides), seed=seed)
        noted = [record.detail for record in result.records if record.kind == "prehandoff"]
        return noted.count("requested"), [r.detail for r in result.records if r.kind == "violation"]

    border, _ = simulated(choose="border")
    everything, _ = simulated(choose="learned", least_probability="0")
    learned, violations = simulated(choose="learned", least_probability="0.2")

    replay = (
        f"replay: roamq simulate prehandoff --set scheme.choose=learned --set duration_s=900 --seed {seed}"
    )
    assert everything == border, replay
    assert learned < border, replay
    assert violations == [], replay
