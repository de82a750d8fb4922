"""What `roamq bench roaming` runs: each scenario on live brokers and in the simulator, with the same moves."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from roamq.cli.live_runner import LIVE_BROKERS
from roamq.config import to_toml
from roamq.fieldtest.run import LINK_DELAY_S
from roamq.pipeline.jobs import SIMULATOR, Job
from roamq.schemes.table import scheme_named
from roamq.sim.scenario import load_scenario

BEGIN_S = 3.0
"""Seconds in which clients come, before publishing begins."""

SAMPLED_S = 2.0
"""Seconds between questions to brokers about what they store and have put on their links: a price needs both."""

FAULTS = (
    '[{{ at_s = {crash:.1f}, kind = "crash", target = "b3", duration_s = 1.0 }},'
    ' {{ at_s = {cut:.1f}, kind = "cut", target = "b2-b6", duration_s = 2.0 }}]'
)


class RoamingLoad(NamedTuple):
    """The load of a run: clients, seconds, events per second, and how many times faster it is than in the papers."""

    clients: int
    seconds: float
    rate: float
    compress: float
    seed: int

    def overrides(self) -> dict[str, str]:
        """Returns the parameters of a scenario that both kinds of runs share."""
        return {
            "clients": str(self.clients),
            "duration_s": str(self.seconds + BEGIN_S),
            "warmup_s": "0",
            "drain_s": "30",
            "workload.rate": str(self.rate),
            "workload.begin_s": str(BEGIN_S),
            "records.buffer_s": str(SAMPLED_S),
        }


def testbed_jobs(
    schemes: Sequence[str], patterns: Sequence[str], load: RoamingLoad, *, faults: bool
) -> list[Job]:
    """Makes runs on the six brokers of [PRO], with clients that wander between them."""
    overrides = {
        **load.overrides(),
        "mobility.connect_s": str(60 / load.compress),
        "mobility.disconnect_s": str(12 / load.compress),
        "mobility.handoff_s": str(3 / load.compress),
    }
    if faults:
        overrides["faults"] = FAULTS.format(crash=BEGIN_S + load.seconds / 3, cut=BEGIN_S + load.seconds / 2)
    jobs = []
    for pattern in patterns:
        for scheme in schemes:
            chosen = {**overrides, "mobility.pattern": pattern}
            jobs += _beside("testbed", scheme, f"{scheme} {pattern}", chosen, load.seed)
    return jobs


def street_jobs(schemes: Sequence[str], load: RoamingLoad) -> list[Job]:
    """Makes runs in the city of [PRE], with clients that drive through its streets and report the cells they enter.

    Live brokers have no map of the streets: they take the areas from positions, and here the simulated brokers do the
    same. The links between live brokers take as long as the simulated ones.
    """
    city = json.loads(load_scenario("prehandoff").to_json())
    mobility, areas = city["mobility"], city["network"]["areas"]
    overrides = {
        **load.overrides(),
        "network.overlay": "interest",  # the overlay of live brokers
        "mobility.speed_mps": to_toml([load.compress * speed for speed in mobility["speed_mps"]]),
        "mobility.stop_s": str(mobility["stop_s"] / load.compress),
        "mobility.off_s": str(mobility["off_s"] / load.compress),
        "mobility.gap_s": str(3 / load.compress),
        "workload.publishers_count": "1",
        "workload.share": "0.2",
        "records.level": "all",
    }
    jobs = []
    for scheme in schemes:
        chosen = dict(overrides)
        if scheme_named(scheme).scheme.means_places:
            chosen["scheme.areas"] = to_toml(areas)
            chosen["scheme.resolution"] = str(city["map"]["resolution"])
            chosen["scheme.moving_s"] = str(city["scheme"]["moving_s"] / load.compress)
        jobs += _beside("prehandoff", scheme, f"{scheme} streets", chosen, load.seed, as_far=True)
    return jobs


def _beside(
    name: str, scheme: str, label: str, overrides: dict[str, str], seed: int, *, as_far: bool = False
) -> list[Job]:
    """Makes one run on live brokers and one in the simulator; `as_far`: live links have the simulated links' delay."""
    payload: dict[str, Any] = json.loads(load_scenario(name, scheme=scheme, overrides=overrides).to_json())
    live = {**payload, LINK_DELAY_S: payload["link"]["delay_s"]} if as_far else payload
    return [
        Job(
            scenario=name,
            scheme=f"{label} {world}",
            seed=seed,
            payload=told,
            runner=runner,
            replay="roamq bench roaming",
        )
        for world, runner, told in (("live", LIVE_BROKERS, live), ("simulated", SIMULATOR, payload))
    ]
