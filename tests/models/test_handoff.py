"""What schemes add at a handoff, against the simulator's own handoffs."""

import pytest

from roamq.models.handoff import PREDICTS, TRIPS, Distances, delay_s, handoff_s
from roamq.models.queueing import Centre
from roamq.sim.scenario import load_scenario, run


def simulated_handoffs_s(scheme: str) -> dict[str, set[float]]:
    """From reconnect to the first stored event: at another broker, one link away, and at the same."""
    scenario = load_scenario("testbed", overrides={"duration_s": "200", "clients": "8"}, scheme=scheme)
    found: dict[str, set[float]] = {"moved": set(), "same": set()}
    for record in run(scenario, seed=1).records:
        if record.kind == "handoff" and record.detail != "live" and record.duration_s is not None:
            is_move = record.peer not in (None, record.broker)
            found["moved" if is_move else "same"].add(round(record.duration_s, 6))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("scheme", [scheme for scheme in TRIPS if scheme != "home-broker"])
def test_trips_are_those_of_the_simulator(scheme: str) -> None:
    """Links of 5 ms, last hops of 2 ms, neighbors one link apart: every handoff is a hit or a miss of the model."""
    found = simulated_handoffs_s(scheme)
    hit = handoff_s(scheme, Distances(link_s=0.005, last_hop_s=0.002, hit_share=1.0))
    miss = handoff_s(scheme, Distances(link_s=0.005, last_hop_s=0.002, hit_share=0.0))

    assert found["same"] <= {0.004}
    assert found["moved"]
    if scheme not in PREDICTS:
        assert found["moved"] == {round(hit, 6)}
    else:
        assert min(found["moved"]) == pytest.approx(hit) or min(found["moved"]) == pytest.approx(miss)
        assert max(found["moved"]) <= miss + 1e-6


@pytest.mark.slow
def test_a_home_broker_is_two_trips_away_at_any_distance() -> None:
    """Distances between 0 and 3 links."""
    by_distance = {
        round(handoff_s("home-broker", Distances(link_s=0.005, last_hop_s=0.002, home_hops=hops)), 6)
        for hops in range(4)
    }

    assert simulated_handoffs_s("home-broker")["moved"] <= by_distance


def test_shares_weigh_hits_and_moves() -> None:
    network = Distances(link_s=0.1, last_hop_s=0.0, hops=2, move_share=0.5, hit_share=0.75)

    assert handoff_s("standard", network) == pytest.approx(4 * 2 * 0.1 * 0.5)
    assert handoff_s("proactive", network) == pytest.approx(4 * 2 * 0.1 * 0.5 * 0.25)
    with_handoff = delay_s("standard", network, rate=1, demand_s=0.01, t_on_s=60, t_off_s=5)
    by_hand = Centre(name="c", rate=1, demand_s=0.01, t_on_s=60, t_off_s=5.4).response_s()
    assert with_handoff == pytest.approx(by_hand)


def test_bad_networks_are_named() -> None:
    with pytest.raises(ValueError, match="hit_share"):
        Distances(link_s=0, last_hop_s=0, hit_share=2)
    with pytest.raises(ValueError, match="scheme: unknown teleport"):
        handoff_s("teleport", Distances(link_s=0, last_hop_s=0))
