"""Events that occur at a place: a node near it detects them ([DRIP] section VI-A2, docs/drip.md, choice 0096)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roamq.core.errors import ConfigError
from roamq.core.records import Record
from roamq.manet.protocol.ports import Parameters
from roamq.manet.simulation.detecting import detector
from roamq.manet.simulation.experiment import Setting, build, run
from roamq.manet.simulation.waypoint import Area, Walk
from roamq.manet.simulation.workload import NumberInterval, occurrences

SMALL = Setting(
    nodes=60,
    publishing_s=30.0,
    warm_up_s=15.0,
    drain_s=5.0,
    detects="place",
    parameters=Parameters(k=8, l=3, m=2),
    walk=Walk(side_m=500.0),
)
PLACE = np.array((100.0, 100.0))
NEAR_AND_FAR = np.array(((100.0, 150.0), (160.0, 100.0), (400.0, 400.0)))


def test_a_node_near_the_place_detects_in_proportion_to_its_ability() -> None:
    ability = np.array((1.0, 3.0, 1000.0))
    found = [detector(PLACE, luck, ability, NEAR_AND_FAR, 120.0) for luck in np.linspace(0.0, 0.999, 1000)]

    assert found.count(0) == pytest.approx(250, abs=2)
    assert found.count(1) == pytest.approx(750, abs=2)
    assert 2 not in found, "the ablest node is too far away"


def test_nobody_detects_what_occurs_far_from_all_nodes() -> None:
    assert detector(PLACE, 0.5, np.ones(3), NEAR_AND_FAR, 40.0) is None
    assert detector(PLACE, 0.5, np.zeros(3), NEAR_AND_FAR, 120.0) is None, "absent nodes have no ability"


def test_events_occur_everywhere_alike() -> None:
    found = list(occurrences(NumberInterval(), 10.0, 5010.0, np.random.default_rng(3)))
    places = np.array([Area((100.0, 0.0), (200.0, 50.0)).at(*one.place) for one in found])

    assert len(found) == pytest.approx(4000, rel=0.06)
    assert places.mean(axis=0) == pytest.approx((200.0, 25.0), rel=0.05)
    assert places.min(axis=0) == pytest.approx((100.0, 0.0), abs=1.0)
    assert {one.value for one in found} == set(range(1, 101))


def published(records: list[Record]) -> list[Record]:
    return [record for record in records if record.kind == "published"]


@pytest.mark.parametrize(
    "other",
    [{"scheme": "sf"}, {"selection": "random"}, {"parameters": Parameters(k=10, l=3, m=2)}],
    ids=["scheme", "selection", "brokers"],
)
def test_who_detects_what_does_not_depend_on_the_protocol(other: dict[str, Any]) -> None:
    """Runs of one seed are compared pair by pair, so the same nodes must detect the same events in both."""
    one, two = published(run(SMALL, 3)), published(run(replace(SMALL, **other), 3))

    assert one
    assert one == two


def test_those_who_detect_are_spread_over_the_field_unlike_the_ablest() -> None:
    by_place = {record.client for record in published(run(replace(SMALL, publishing_s=60.0), 3))}
    by_node = {
        record.client for record in published(run(replace(SMALL, detects="node", publishing_s=60.0), 3))
    }

    assert len(by_place) > len(by_node)


def test_a_node_that_has_vanished_leaves_what_it_would_detect_to_others() -> None:
    setting = replace(SMALL, workload=NumberInterval(sensing_m=1000.0))
    network = build(setting, 3)
    network.run(14.0)
    for node in range(1, SMALL.nodes):
        network.remove(node)
    network.run(50.0)

    left = published(network.records)
    assert {record.client for record in left} == {"n0"}
    assert len(left) == len(published(run(setting, 3)))


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: Setting(detects="nose"), "detects: 'nose' is no choice.*node, place"),
        (lambda: NumberInterval(sensing_m=0.0), "sensing_m must be positive"),
    ],
)
def test_a_mistake_is_named(make: Callable[[], object], names: str) -> None:
    with pytest.raises(ConfigError, match=names):
        make()
