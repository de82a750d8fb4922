"""Rough rides: short random scenarios full of races and faults, each from one number.

A ride's number decides its network, its delays, its faults, who moves when and who changes its mind, so a failure is
replayed with `ride(scheme, number)`. Stays are of the order of a transfer's length: clients come back before it ends,
move on in the middle, return to the same broker, and subscribe and unsubscribe while their context is on its way.
"""

import random
from typing import Any

from roamq.config import Source
from roamq.core.filters import Filter
from roamq.sim.clients import SimClient
from roamq.sim.scenario import RunResult, Simulation, checked

TESTBED_LINKS = ["b1-b2", "b1-b6", "b2-b3", "b2-b6", "b3-b4", "b3-b5", "b3-b6", "b4-b6"]
LONGEST_FAULT_S = 1.5
SPREAD_S = 4.0
"""How long a new subscription may take to reach every broker that must know it, faults included."""


LOSSLESS = ("standard", "logging", "prefetching", "proactive", "prehandoff")
"""The schemes that contexts can be taken between."""


def ride(
    scheme: str,
    number: int,
    *,
    duration_s: float = 12.0,
    overlay: str | None = None,
    late_after_s: float | None = None,
    changes: bool = False,
    advertised: bool = False,
    **options: Any,
) -> RunResult:
    """One ride; `options` are the scheme's. With an `overlay` it is on a random graph of 3 to 12 brokers.

    With `late_after_s` contexts go without events that come late: with 0, whenever any may. With `changes` there may be
    classes of clients, and brokers change their schemes, together or one after the other. With `advertised` each broker
    says that it publishes about its own site alone, and clients want some of the sites.
    """
    rng = random.Random(f"{number}/ride")
    scenario: dict[str, Any] = {
        "name": f"ride {number}",
        "scheme": {"name": scheme, **options},
        "clients": rng.randint(2, 5),
        "duration_s": duration_s,
        "drain_s": 3000.0,  # a chain of a hundred visits takes its time; nothing else happens in it
        "network": _network(rng) if overlay is None else _graph(rng, overlay),
        "link": {"delay_s": 0.01, "jitter_s": rng.choice([0.0, 0.05, 0.2])},
        "last_hop": {"delay_s": 0.002, "detect_s": rng.choice([0.0, 0.02, 0.5])},
        "mobility": {
            "model": "uniform",
            "connect_s": [0.0, rng.choice([0.1, 0.5, 3.0])],
            "disconnect_s": [0.0, rng.choice([0.05, 0.3, 2.0])],
            "stay": rng.choice([0.1, 0.4]),
        },
        "workload": {
            "model": "groups",
            "publishers_count": 3,
            "rate": 6.0,
            "topics": 2,
            "share": rng.choice([0.2, 0.6]),
            "begin_s": 2.0,
        },
        "records": {"level": "traffic"},
    }
    scenario["network"]["late_after_s"] = late_after_s
    if advertised:
        scenario["network"]["advertisements"] = True
        wanted = random.Random(f"{number}/sites").choice([1, 2, 3])
        scenario["workload"] = {"model": "sites", "wanted": wanted, "rate": 3.0, "begin_s": 2.0}
    if rng.random() < 0.3:
        scenario["service"] = {"operation_s": 0.002, "event_s": 0.001, "send_s": 0.001}
    if rng.random() < 0.6:
        scenario["faults"] = _faults(rng, scenario["network"], duration_s)
    if changes:
        scenario |= scheme_changes(random.Random(f"{number}/changes"), scenario["network"], duration_s)
    simulation = Simulation(checked(scenario, Source("ride")), number)
    simulation.checkers.remember_all()
    _change_minds(rng, simulation, duration_s)
    return simulation.run()


def scheme_changes(rng: random.Random, network: dict[str, Any], duration_s: float) -> dict[str, Any]:
    """Classes of clients, and schemes that change."""
    classes = [
        {"name": name, "clients": pattern, "scheme": _scheme(rng)}
        for name, pattern in (("even", "c[024]"), ("first", "c0"))
        if rng.random() < 0.5
    ]
    names = ["", *(one["name"] for one in classes)]
    changes = []
    time = rng.uniform(0.0, 3.0)
    while time < duration_s:
        change = {"scheme": _scheme(rng), "client_class": rng.choice(names)}
        if rng.random() < 0.4:
            changes.append({"at_s": time, **change})
        else:  # one broker after the other; some may be forgotten
            step_s = rng.choice([0.0, 0.05, 0.5])
            for place, broker in enumerate(
                rng.sample(_brokers(network), rng.randint(1, len(_brokers(network))))
            ):
                changes.append({"at_s": time + place * step_s, "brokers": [broker], **change})
        time += rng.expovariate(0.5)
    return {"classes": classes, "scheme_changes": changes}


def _scheme(rng: random.Random) -> dict[str, Any]:
    name = rng.choice(LOSSLESS)
    if name == "logging":
        return {"name": name, "log_size": rng.choice([5, 1000])}
    if name == "prefetching":
        return {
            "name": name,
            "targets": rng.choice([1, 2]),
            "prediction": rng.choice(["perfect", "wrong", "learned"]),
        }
    if name == "proactive":
        return {"name": name, "neighbor_limit": rng.choice([1, 3, 12])}
    return {"name": name}


def _brokers(network: dict[str, Any]) -> list[str]:
    if "brokers" in network:
        return list(network["brokers"])
    return ["b0.0", *(f"b1.{i}" for i in range(2)), *(f"b2.{i}" for i in range(4))]


def _network(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        links = [link.split("-") for link in TESTBED_LINKS]
        return {"overlay": "flooding", "brokers": [f"b{i}" for i in range(1, 7)], "links": links}
    return {
        "overlay": "hierarchy",
        "height": 3,
        "degree": 2,
        "covering": rng.random() < 0.5,
        "advertisements": rng.random() < 0.3,
    }


def _graph(rng: random.Random, overlay: str) -> dict[str, Any]:
    """The testbed, or a random connected graph; from a tree to about twice as many links."""
    if rng.random() < 0.25:
        links = [link.split("-") for link in TESTBED_LINKS]
        return {"overlay": overlay, "brokers": [f"b{i}" for i in range(1, 7)], "links": links}
    brokers = [f"b{i}" for i in range(rng.randint(3, 12))]
    chosen = {(rng.randrange(i), i) for i in range(1, len(brokers))}
    for _ in range(rng.randint(0, len(brokers))):
        one, other = sorted(rng.sample(range(len(brokers)), 2))
        chosen.add((one, other))
    links = [[brokers[one], brokers[other]] for one, other in sorted(chosen)]
    return {"overlay": overlay, "brokers": brokers, "links": links}


def _faults(rng: random.Random, network: dict[str, Any], duration_s: float) -> list[dict[str, Any]]:
    if "brokers" in network:
        brokers, links = network["brokers"], ["-".join(link) for link in network["links"]]
    else:
        brokers = _brokers(network)
        links = [f"b0.0-b1.{i}" for i in range(2)] + [f"b1.{i // 2}-b2.{i}" for i in range(4)]
    faults = []
    time = 3.0
    while time < duration_s:  # one after the other: two faults of one target would end each other
        kind = rng.choice(["crash", "cut", "cut"])
        target = rng.choice(brokers if kind == "crash" else links)
        length = rng.uniform(0.05, LONGEST_FAULT_S)
        faults.append({"at_s": time, "kind": kind, "target": target, "duration_s": length})
        time += length + rng.uniform(0.05, 2.0)
    return faults


def _change_minds(rng: random.Random, simulation: Simulation, duration_s: float) -> None:
    """Clients subscribe and unsubscribe at random, also while they arrive."""
    if rng.random() < 0.5:
        return
    if simulation.topology.publishes:
        wishes = [Filter(f"site/{broker}") for broker in simulation.topology.brokers[:3]] + [Filter("site/#")]
    else:
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
        while (time := time + rng.expovariate(0.8)) < duration_s:
            simulation.engine.at(time, change, client)


def findings(result: RunResult) -> dict[str, object]:
    """What a ride that went well does not have."""
    checkers = result.checkers
    found: dict[str, list[object]] = {
        "lost": [*result.lost()],
        "duplicated": [*result.duplicated()],
        "reordered": [*result.reordered()],
        "unasked": [*checkers.unasked],
        "leaks": [*checkers.leaks()],
    }
    return {name: what[:3] for name, what in found.items() if what}
