"""Street rides: short random journeys through a small city, fast enough to outrun every message.

A ride's number decides the network, its delays and faults, how clients are expected, who shows what at a handoff, and
who changes its mind; `ride(number)` replays it. Cells are crossed in the time a message takes, so borders are crossed
before, while and after virtual consumers are made, filled and cancelled.

    python -m tests.support.street_rides 1000 9000        # rides 1000 to 8999, as many as there is patience for
    python -m tests.support.street_rides 1000 9000 told   # with clients that show what MQTT clients do
"""

import random
import sys
from typing import Any

from roamq.config import Source
from roamq.core.context import Ticket
from roamq.core.events import BrokerId, ClientId
from roamq.core.filters import Filter
from roamq.geo.city import site_grid
from roamq.schemes.prehandoff import PreHandoff
from roamq.sim.clients import SimClient
from roamq.sim.scenario import RunResult, Simulation, checked
from tests.support.rough_rides import findings, scheme_changes

SITES = {str(broker): list(place) for broker, place in site_grid(2, 3, 2600.0).items()}
LINKS = ["b1-b2", "b2-b3", "b1-b4", "b2-b5", "b3-b6", "b4-b5", "b5-b6"]
TREE = ["b1-b2", "b2-b3", "b2-b5", "b5-b4", "b5-b6"]
SPREAD_S = 4.0
"""How long a new subscription may take to reach every broker that must know it, faults included."""


def ride(
    number: int,
    *,
    scheme: str = "prehandoff",
    duration_s: float = 14.0,
    overlay: str | None = None,
    late_after_s: float | None = None,
    changes: bool = False,
    told: bool = False,
) -> RunResult:
    """One ride. With an `overlay` it is on the network with cycles, whatever the number says. With `late_after_s`
    contexts go without events that come late. With `changes` there are classes of clients, and schemes change. With
    `told` clients show their last connection at most, and servers tell virtual consumers what they had read."""
    return prepared(
        number,
        scheme=scheme,
        duration_s=duration_s,
        overlay=overlay,
        late_after_s=late_after_s,
        changes=changes,
        told=told,
    ).run()


def forgetful_ride(number: int) -> dict[BrokerId, list[ClientId]]:
    """Brokers fall and find nothing of what they knew: which virtual consumers are left when all have stopped?"""
    simulation = prepared(number, forgetful=True)
    simulation.run()
    schemes = [(broker, host.broker.scheme) for broker, host in simulation.network.hosts.items()]
    return {
        broker: list(scheme.virtual)
        for broker, scheme in schemes
        if isinstance(scheme, PreHandoff) and list(scheme.virtual)
    }


def prepared(
    number: int,
    *,
    scheme: str = "prehandoff",
    duration_s: float = 14.0,
    forgetful: bool = False,
    overlay: str | None = None,
    late_after_s: float | None = None,
    changes: bool = False,
    told: bool = False,
) -> Simulation:
    rng = random.Random(f"{number}/street ride")
    # Routes through a tree do not outlive what a broker forgets.
    flooded = rng.random() < 0.6 or forgetful or overlay is not None
    links = LINKS if flooded else TREE
    speed = rng.choice([300.0, 1000.0, 3000.0])
    scenario: dict[str, Any] = {
        "name": f"street ride {number}",
        "scheme": {"name": scheme, **(_options(rng) if scheme == "prehandoff" else {})},
        "clients": rng.randint(2, 4),
        "duration_s": duration_s,
        "drain_s": 3000.0,
        "network": {
            "overlay": overlay or ("flooding" if flooded else "hierarchy"),
            "brokers": list(SITES),
            "links": [link.split("-") for link in links],
            "areas": SITES,
            "covering": not flooded and rng.random() < 0.5,
            "advertisements": not flooded and rng.random() < 0.3,
        },
        "map": {"resolution": rng.choice([8, 9]), "block_m": 600.0, "border_rings": rng.choice([1, 1, 2])},
        "link": {
            "delay_s": rng.choice([0.005, 0.03, 0.15]),
            "jitter_s": rng.choice([0.0, 0.05, 0.3]),
        },
        "last_hop": _last_hop(rng),
        "mobility": {
            "model": "streets",
            "speed_mps": [speed / 2, speed],
            "stop": rng.choice([0.0, 0.2]),
            "stop_s": 0.5,
            "turn_back": rng.choice([0.0, 0.1, 0.3]),
            "off": rng.choice([0.0, 0.1]),
            "off_s": rng.choice([0.1, 1.0]),
            "gap_s": rng.choice([0.0, 0.0, 0.05, 0.3]),
        },
        "workload": {
            "model": "groups",
            "publishers_count": 3,
            "rate": 6.0,
            "topics": 2,
            "share": rng.choice([0.2, 0.6]),
            "begin_s": 3.0,  # when the first subscriptions have spread
        },
        "records": {"level": "moves"},
    }
    scenario["network"]["late_after_s"] = late_after_s
    if rng.random() < 0.3:
        scenario["service"] = {"operation_s": 0.002, "event_s": 0.001, "send_s": 0.001}
    if rng.random() < 0.4 or forgetful:
        faults = _faults(rng, links, duration_s)
        scenario["faults"] = [{**fault, "keep_store": not forgetful} for fault in faults]
    if changes:
        scenario |= scheme_changes(random.Random(f"{number}/changes"), scenario["network"], duration_s)
    simulation = Simulation(checked(scenario, Source("street ride")), number)
    simulation.checkers.remember_all()
    if told:
        for host in simulation.network.hosts.values():
            host.broker.contexts.tells_last_read = True
        for client in simulation.clients:
            _show_no_position(client)
    if rng.random() < 0.5:
        _change_minds(rng, simulation, duration_s)
    return simulation


def _show_no_position(client: SimClient) -> None:
    """As MQTT clients: the ticket names the last connection, if the ride's clients show anything."""

    def ticket(home: BrokerId) -> Ticket:
        return Ticket(home, client.epoch)

    client._ticket = ticket  # type: ignore[method-assign]


def _options(rng: random.Random) -> dict[str, Any]:
    return {
        "choose": rng.choice(["border", "border", "all", "ahead", "cone"]),
        "moving_s": rng.choice([0.2, 1.0, 5.0]),
        "lead_s": rng.choice([0.3, 2.0]),
        "cone_deg": rng.choice([30.0, 90.0, 180.0]),
        "haste": rng.choice([0.5, 1.0, 2.0]),
        "limit_mps": rng.choice([500.0, 5000.0]),
        "lease_s": rng.choice([0.2, 1.5, 300.0]),
    }


def _last_hop(rng: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {
        "delay_s": rng.choice([0.002, 0.02]),
        "detect_s": rng.choice([0.0, 0.05, 0.5]),
        "shows_epoch": rng.random() < 0.6,
    }
    return options


def _faults(rng: random.Random, links: list[str], duration_s: float) -> list[dict[str, Any]]:
    faults = []
    time = 3.0
    while time < duration_s:  # one after the other: two faults of one target would end each other
        kind = rng.choice(["crash", "cut", "cut"])
        target = rng.choice(list(SITES) if kind == "crash" else links)
        length = rng.uniform(0.05, 1.5)
        faults.append({"at_s": time, "kind": kind, "target": target, "duration_s": length})
        time += length + rng.uniform(0.05, 2.0)
    return faults


def _change_minds(rng: random.Random, simulation: Simulation, duration_s: float) -> None:
    """Clients subscribe and unsubscribe at random, also next to a border and beyond it."""
    wishes = [
        Filter.parse("news/0", "value < 40"),
        Filter.parse("news/1", "value >= 30"),
        Filter.parse("news/#"),
    ]

    def change(client: SimClient) -> None:
        filter = rng.choice([*wishes, *client.filters])
        if filter in client.filters:
            client.unsubscribe(filter)
        else:
            client.subscribe(filter, owed_after_s=SPREAD_S)

    for client in simulation.clients:
        time = 2.0
        while (time := time + rng.expovariate(1.0)) < duration_s:
            simulation.engine.at(time, change, client)


def told_ride(number: int) -> RunResult:
    """A ride with clients that show what MQTT clients do. Every other one is by interest, and half of those go without
    events that come late, as live networks do."""
    overlay, late_after_s = (None, "interest")[number % 2], 0.3 if number % 4 == 3 else None
    return ride(number, told=True, overlay=overlay, late_after_s=late_after_s)


def main(first: int, end: int, *, told: bool) -> int:
    """Ride from `first` to before `end`; says which rides went wrong, and how many did."""
    wrong = 0
    for number in range(first, end):
        found = findings(told_ride(number) if told else ride(number))
        if found:
            wrong += 1
            sys.stdout.write(f"ride {number}: {found}\n")
    sys.stdout.write(f"{end - first} rides, {wrong} with findings\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:3]), told="told" in sys.argv[3:]))
