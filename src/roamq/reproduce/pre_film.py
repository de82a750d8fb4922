"""The film of one client: its way through the city, and where virtual consumers wait for it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from roamq.core.events import BrokerId
from roamq.core.records import Record
from roamq.geo.cells import Place
from roamq.report.area_map import AreaScene, area_map, described
from roamq.report.exhibits import Film
from roamq.sim.scenario import Simulation, load_scenario, mobility_of, world_of
from roamq.sim.streets import Streets

SEED = 10
DURATION_S = 600.0
FRAMES = 10


class Moment(NamedTuple):
    time_s: float
    serving: BrokerId | None
    virtual: frozenset[BrokerId]
    what: str


def one_client() -> Film:
    """One client of the city for ten minutes: its whole way, then whenever its virtual consumers or server change."""
    scenario = load_scenario(
        "prehandoff", overrides={"clients": "1", "duration_s": str(DURATION_S), "mobility.off": "0"}
    )
    simulation = Simulation(scenario, SEED)
    moments = list(_moments(simulation.run().records))
    shown = _thin(moments)
    region = simulation.region
    assert region is not None
    way = _way(simulation)
    servers = {BrokerId(name): Place(*at) for name, at in scenario.network.areas.items()}
    scenes = [
        AreaScene(
            region=region,
            servers=servers,
            way=[place for time_s, place in way if time_s <= moment.time_s + 0.1],
            serving=moment.serving,
            virtual=moment.virtual,
        )
        for moment in shown
    ]
    overview = replace(scenes[-1], way=[place for _, place in way])
    return Film(
        title="One client in the city: areas, border cells and virtual consumers",
        frames=[area_map(overview), *(area_map(scene) for scene in scenes)],
        texts=[
            f"The whole way of the client in {DURATION_S / 60:.0f} minutes.",
            *(
                f"{moment.time_s:.0f} s: {moment.what} {described(scene)}"
                for moment, scene in zip(shown, scenes, strict=True)
            ),
        ],
        caption=(
            "Nine location areas of 50 to 100 hexagonal cells, each served by the nearest broker; border cells are "
            f"those from which a street leads into another area. Scenario prehandoff, one client, seed {SEED}."
        ),
    )


def _moments(records: list[Record]) -> Iterator[Moment]:
    """What changed for the client, in order of time."""
    serving: BrokerId | None = None
    virtual: set[BrokerId] = set()
    for record in records:
        if record.time_s > DURATION_S:
            return
        if record.kind == "connected" and record.broker is not None:
            serving = BrokerId(record.broker)
            met = serving in virtual
            virtual.discard(serving)
            what = "It replaces its virtual consumer." if met else "It connects."
        elif record.kind == "prehandoff" and record.detail == "ready" and record.broker is not None:
            virtual.add(BrokerId(record.broker))
            what = f"In a border cell: {record.broker} is ready for it."
        elif record.kind == "prehandoff" and record.detail == "wasted" and record.broker is not None:
            virtual.discard(BrokerId(record.broker))
            what = f"It did not go to {record.broker}: cancelled."
        else:
            continue
        yield Moment(record.time_s, serving, frozenset(virtual), what)


def _thin(moments: list[Moment]) -> list[Moment]:
    """The last of moments that follow each other within a second, and of those some, evenly."""
    apart = [
        moment
        for moment, after in zip(moments, [*moments[1:], None], strict=True)
        if after is None or after.time_s - moment.time_s > 1.0
    ]
    if len(apart) <= FRAMES:
        return apart
    return [apart[round(place * (len(apart) - 1) / (FRAMES - 1))] for place in range(FRAMES)]


def _way(simulation: Simulation) -> list[tuple[float, Place]]:
    """Where the client crossed from cell to cell."""
    model = mobility_of(simulation.scenario)
    assert isinstance(model, Streets)
    world = world_of(simulation.scenario, simulation.topology)
    way = []
    for whereabouts, _ in model.journey(0, world, simulation.stream("moves/0")):
        if whereabouts.time_s > DURATION_S:
            break
        way.append((whereabouts.time_s, whereabouts.place))
    return way
