"""Pro-active caching under random networks, delays and faults: nothing lost, nothing twice, in order, no leaks."""

import random

import pytest

from roamq.sim.scenario import Scenario, load_scenario, run

pytestmark = pytest.mark.slow

SEEDS = 1200
BATCH = 200


def drawn(seed: int, scheme: str) -> Scenario:
    """A small scenario whose every parameter is drawn from the seed: hurried clients, slow links, faults."""
    draw = random.Random(seed)
    overrides = {
        "clients": "2",
        "duration_s": "38",
        "drain_s": "3000",  # hurried clients leave a long chain of transfers behind
        "mobility.connect_s": str(draw.choice([1, 3, 8])),
        "mobility.disconnect_s": str(draw.choice([0.2, 1, 3])),
        "mobility.handoff_s": str(draw.choice([0.05, 0.3, 2])),
        "mobility.pattern": draw.choice(["RND", "NBR"]),
        "link.delay_s": str(draw.choice([0.005, 0.05, 0.2])),
        "link.jitter_s": str(draw.choice([0, 0.3, 1])),
        "link.loss": str(draw.choice([0, 0.05])),
        "last_hop.delay_s": str(draw.choice([0.002, 0.1])),
        "last_hop.detect_s": str(draw.choice([0, 0.1, 0.5])),
        "last_hop.shows_epoch": draw.choice(["true", "false"]),
        "workload.publishers_count": str(draw.choice([1, 2])),
        "workload.begin_s": "20",  # by then everybody has been connected, and its subscriptions are known
        "workload.rate": "4",
        "workload.share": str(draw.choice([0.2, 1.0])),
    }
    if draw.random() < 0.3:
        overrides |= {
            "network.overlay": "hierarchy",
            "network.brokers": "[]",
            "network.links": "[]",
            "network.height": "3",
            "network.degree": "2",
            "network.covering": draw.choice(["true", "false"]),
            "network.advertisements": draw.choice(["true", "false"]),
            "mobility.pattern": "RND",
        }
    elif draw.random() < 0.5:
        faults = [fault(draw) for _ in range(draw.randrange(1, 4))]
        overrides["faults"] = f"[{', '.join(faults)}]"
    if scheme == "proactive":
        if draw.random() < 0.4:
            overrides["scheme.neighbor_lifetime_s"] = str(draw.choice([2, 10]))
        if draw.random() < 0.4:
            overrides["scheme.neighbor_limit"] = str(draw.choice([1, 2]))
    return load_scenario("testbed", scheme=scheme, overrides=overrides)


def fault(draw: random.Random) -> str:
    kind = draw.choice(["cut", "crash"])
    target = draw.choice(["b1-b2", "b3-b6", "b3-b5", "b2-b6"] if kind == "cut" else ["b1", "b3", "b6"])
    at_s, duration_s = draw.uniform(20, 36), draw.uniform(0.5, 6)
    return f'{{ at_s = {at_s:.3f}, kind = "{kind}", target = "{target}", duration_s = {duration_s:.3f} }}'


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_proactive_keeps_every_invariant(first: int) -> None:
    for seed in range(first, first + BATCH):
        result = run(drawn(seed, "proactive"), seed=seed)

        replay = f"replay: run(drawn({seed}, 'proactive'), seed={seed})"
        assert result.violations == [], replay
        assert result.checkers.unasked == [], replay
