"""Transfer cost, region delay and capacity."""

import itertools
import math
from typing import Any

import numpy as np
import pytest

from roamq.models.capacity import Demand, _balanced_tree, _loads, _longest_path, evaluate, plan_capacity
from roamq.models.queueing import SaturationError
from roamq.models.region_delay import RegionDelay, brokers_for_delay
from roamq.models.transfer_cost import Reconnection, subscription_messages, transfer_cost

MOVE = Reconnection(rates=[0.1, 0.05, 0.05], disconnected_s=600, transfer_s=5)


def test_the_standard_scheme_by_hand() -> None:
    """[DIS] Eq. 1-4: three messages per subscription, and all events of both spans."""
    cost = transfer_cost(MOVE, "standard")

    assert cost.subscription_messages == 9
    assert cost.event_messages == pytest.approx(0.2 * 605)
    assert cost.messages == pytest.approx(9 + 121)


def test_covering_and_the_device_save_messages() -> None:
    """[DIS] Eq. 2: coverage is 0 where another subscription covers it; section 3.2.4."""
    covered = Reconnection(rates=[0.1] * 4, disconnected_s=0, transfer_s=0, covered_new=1, covered_old=0.5)

    assert subscription_messages(covered) == pytest.approx(4 * 1.5)
    assert subscription_messages(covered, on_device=True) == pytest.approx(4 * 0.5)
    atomic = Reconnection(rates=[0.1], disconnected_s=0, transfer_s=0, is_atomic=True)
    assert subscription_messages(atomic) == 4


def test_prefetching_leaves_only_the_events_of_the_transfer() -> None:
    assert transfer_cost(MOVE, "prefetching").event_messages == pytest.approx(0.2 * 5)


def test_a_missed_prediction_costs_more_than_no_prediction() -> None:
    """[DIS] section 4.1: a failed prefetch incurs its cost in vain, and then the transfer itself."""
    missed = transfer_cost(MOVE, "prefetching", hit_share=0.0)

    assert missed.messages == pytest.approx(
        transfer_cost(MOVE, "prefetching").messages + transfer_cost(MOVE, "standard").messages
    )
    several = transfer_cost(MOVE, "prefetching", predicted_brokers=3)
    assert several.subscription_messages == 27


def test_logging_and_home_broker() -> None:
    """[DIS] Eq. 5; and section 4.1: no migration, but all time away from home counts."""
    assert transfer_cost(MOVE, "logging", logged_share=0.75).event_messages == pytest.approx(0.25 * 121)
    home = transfer_cost(MOVE, "home-broker", away_s=3600)
    assert home.subscription_messages == 0
    assert home.event_messages == pytest.approx(0.2 * 4200)


@pytest.mark.parametrize(
    ("scheme", "options", "named"),
    [
        ("teleport", {}, "scheme"),
        ("logging", {"logged_share": 2.0}, "logged_share"),
        ("prefetching", {"predicted_brokers": 0}, "predicted_brokers"),
    ],
)
def test_bad_schemes_are_named(scheme: str, options: dict[str, float], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        transfer_cost(MOVE, scheme, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="disconnected_s"):
        Reconnection(rates=[1.0], disconnected_s=-1, transfer_s=0)


REGIONS = RegionDelay(grid_cells=10_000, brokers=20, copies=3, destinations=4)


def test_the_exact_mean_is_that_of_the_slowest_of_l_searches() -> None:
    """[DRIP] Eq. 1 sampled: the maximum of l minima of m exponentials."""
    rng = np.random.default_rng(1)
    searches = REGIONS.meeting_s() * rng.standard_exponential((40_000, 4, 3))
    delays = searches.min(axis=2).max(axis=1)
    error = delays.std() / math.sqrt(delays.size)

    assert abs(delays.mean() - REGIONS.mean_s()) < 4 * error
    assert REGIONS.within(REGIONS.quantile_s(0.9)) == pytest.approx(0.9)
    assert np.mean(delays <= REGIONS.quantile_s(0.9)) == pytest.approx(0.9, abs=0.01)


def test_the_printed_mean_has_a_sign_slip() -> None:
    """Integrating the printed series gives (5l - l^2)/4, which for l = 1, 2 is the exact mean; Eq. 2 is not."""
    for length in (1, 2):
        regions = RegionDelay(grid_cells=10_000, brokers=20, copies=3, destinations=length)
        assert regions.mean_s("second-order") == pytest.approx(regions.mean_s("exact"))
    assert REGIONS.mean_s("paper") == pytest.approx(7 / (25 / 12) * REGIONS.mean_s("exact"))


def test_delay_falls_with_copies_and_grows_with_brokers_and_destinations() -> None:
    def mean_s(brokers: int = 20, copies: int = 3, destinations: int = 4) -> float:
        return RegionDelay(
            grid_cells=10_000, brokers=brokers, copies=copies, destinations=destinations
        ).mean_s()

    assert mean_s(copies=5) < mean_s()
    assert mean_s(brokers=200) > mean_s()
    assert mean_s(destinations=6) > mean_s()


def test_the_number_of_brokers_for_a_delay_is_the_largest_that_meets_it() -> None:
    brokers = brokers_for_delay(4500, grid_cells=10_000, copies=3, destinations=4)

    def mean_s(number: int) -> float:
        return RegionDelay(grid_cells=10_000, brokers=number, copies=3, destinations=4).mean_s()

    assert mean_s(brokers) <= 4500 < mean_s(brokers + 1)
    with pytest.raises(ValueError, match="target_s: even the fewest"):
        brokers_for_delay(1, grid_cells=10_000, copies=3, destinations=4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"brokers": 7}, "m \\+ l < k"),
        ({"grid_cells": 300, "brokers": 8}, "grid_cells"),
        ({"copies": 0}, "copies"),
    ],
)
def test_bad_regions_are_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        RegionDelay(**{"grid_cells": 10_000, "brokers": 20, "copies": 3, "destinations": 4, **changes})


def demand(**changes: float | str) -> Demand:
    base = {
        "clients": 20_000,
        "event_rate": 50.0,
        "match_share": 0.02,
        "t_on_s": 300.0,
        "t_off_s": 60.0,
        "demand_in_s": 0.002,
        "demand_copy_s": 0.0005,
        "demand_client_s": 0.01,
        "response_target_s": 120.0,
    }
    return Demand(**{**base, **changes})  # type: ignore[arg-type]


def test_the_plan_is_the_fewest_brokers_that_meet_the_targets() -> None:
    plan = plan_capacity(demand())

    assert plan.meets
    assert plan.binding == "utilisation"
    assert plan.broker_utilisation <= 0.7
    assert not evaluate(demand(), plan.brokers - 1).meets
    assert plan.clients_per_broker_busy > plan.clients_per_broker
    assert plan.response_s is not None
    assert plan.response_s_at_share is not None
    assert plan.response_s < plan.response_s_at_share <= 120


@pytest.mark.slow
def test_more_clients_need_more_brokers_and_memory_follows_the_buffer() -> None:
    small, large = plan_capacity(demand()), plan_capacity(demand(clients=60_000))

    assert large.brokers > 2 * small.brokers
    copied = plan_capacity(demand(copies=3))
    assert copied.broker_buffer_bytes == pytest.approx(3 * small.broker_buffer_bytes, rel=1e-6)
    strict = plan_capacity(demand(loss_target=1e-6))
    assert strict.client_buffer_events > small.client_buffer_events


def test_targets_out_of_reach_say_which_and_why() -> None:
    with pytest.raises(ValueError, match=r"response_target_s: the client's own connectivity already takes"):
        plan_capacity(demand(response_target_s=1))
    with pytest.raises(ValueError, match="utilisation_max: not met even with one broker per client"):
        plan_capacity(demand(demand_in_s=10, clients=50, match_share=0.9, event_rate=10.0))
    with pytest.raises(SaturationError, match="client is saturated"):
        plan_capacity(demand(demand_client_s=2.0))


@pytest.mark.parametrize("field", ["clients", "match_share", "t_off_s", "loss_target"])
def test_bad_demands_are_named(field: str) -> None:
    with pytest.raises(ValueError, match=field):
        demand(**{field: -1})


@pytest.mark.parametrize(
    ("brokers", "degree", "longest"),
    [(1, 4, 1), (2, 4, 2), (3, 4, 3), (5, 4, 3), (10, 2, 10), (6, 4, 4), (17, 4, 5), (18, 4, 6)],
)
def test_the_longest_path_of_a_balanced_tree(brokers: int, degree: int, longest: int) -> None:
    """Against the distances between all pairs."""
    tree = _balanced_tree(brokers, degree)
    neighbors: list[set[int]] = [set() for _ in range(brokers)]
    for broker in range(1, brokers):
        neighbors[broker].add(int(tree.parents[broker]))
        neighbors[int(tree.parents[broker])].add(broker)
    furthest = 0
    for begin in range(brokers):
        distance, waiting = {begin: 1}, [begin]
        for here in waiting:
            for neighbor in neighbors[here] - distance.keys():
                distance[neighbor] = distance[here] + 1
                waiting.append(neighbor)
        furthest = max(furthest, *distance.values())
    path = _longest_path(tree)

    assert max(map(len, neighbors)) <= degree
    assert len(path) == furthest == longest
    assert len(set(path)) == len(path)
    assert all(two in neighbors[one] for one, two in itertools.pairwise(path))


@pytest.mark.parametrize("overlay", ["flooding", "hierarchy", "advertisements"])
def test_the_load_of_every_broker_by_walking_events_through_the_tree(overlay: str) -> None:
    """Events drawn one by one: where they enter, who wants them, and which brokers they pass therefore."""
    asked = demand(clients=36, match_share=0.03, overlay=overlay, degree=3)
    tree = _balanced_tree(12, 3)
    rng = np.random.default_rng(1)
    parents = tree.parents.tolist()

    def way_up(broker: int) -> list[int]:
        way = [broker]
        while way[-1]:
            way.append(parents[way[-1]])
        return way

    def links_between(one: int, other: int) -> set[tuple[int, int]]:
        up, down = way_up(one), way_up(other)
        meet = next(broker for broker in up if broker in down)
        rise, fall = up[: up.index(meet) + 1], down[: down.index(meet) + 1][::-1]
        return {*itertools.pairwise(rise), *itertools.pairwise(fall)}

    passing, passed_on, events = np.zeros(12), np.zeros(12), 20_000
    for _ in range(events):
        source = int(rng.integers(12))
        wanting = {int(client) % 12 for client in np.flatnonzero(rng.random(36) < 0.03)}
        targets = {"flooding": set(range(12)), "hierarchy": wanting | {0}, "advertisements": wanting}[overlay]
        links = {link for target in targets for link in links_between(source, target)}
        for broker in {source, *(end for _, end in links)}:
            passing[broker] += 1
        for begin, _ in links:
            passed_on[begin] += 1
    expected = _loads(tree, asked)

    assert expected[0] == pytest.approx(passing / events, abs=0.015)
    assert expected[1] == pytest.approx(passed_on / events, abs=0.03)


def test_transit_decides_where_the_root_carries_everything() -> None:
    """1000 clients, 1000 events/s, match 1e-3: four brokers once passed for 63% busy, with the root at 130%."""
    asked = demand(
        clients=1000, event_rate=1000.0, match_share=1e-3, overlay="advertisements", demand_out_s=0.0
    )
    four = evaluate(asked, 4)

    assert four.broker_utilisation > 1.2
    assert evaluate(asked, 40).broker_utilisation > 1
    assert evaluate(asked, 40).transit_share > 0.9
    with pytest.raises(ValueError, match="are for other brokers"):
        plan_capacity(asked)
