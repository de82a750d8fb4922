"""S_D and the pruning of broadcasts ([DRIP] section IV-B)."""

from random import Random

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from roamq.manet.protocol.messages import BrokerCandidate
from roamq.manet.protocol.nearest import NearestBrokers
from roamq.manet.protocol.ports import Parameters
from roamq.manet.protocol.spreading import MultiCopyMultiDestination
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.network import AdHocNetwork
from roamq.manet.simulation.waypoint import Standing
from tests.manet.recording import beacon


def three_nearest() -> NearestBrokers:
    nearest = NearestBrokers(3)
    for broker, delay in ((1, 1.0), (2, 2.0), (3, 3.0)):
        assert nearest.hear(beacon(broker, delay=delay), via=7, now=100.0)
    return nearest


def test_a_farther_broker_is_discarded_and_not_forwarded() -> None:
    """[DRIP] section IV-B: if the delay is not below any of S_D "the non-broker node would discard that message"."""
    nearest = three_nearest()

    assert not nearest.hear(beacon(4, delay=3.0), via=7, now=100.0)
    assert nearest.in_order() == (1, 2, 3)


def test_a_nearer_broker_replaces_the_farthest() -> None:
    """[DRIP] section IV-B: the broker with the maximal delay "would be replaced by the originator"."""
    nearest = three_nearest()

    assert nearest.hear(beacon(4, delay=1.5), via=8, now=100.0)
    assert nearest.in_order() == (1, 4, 2)
    assert nearest.brokers[4].via == 8


def test_the_newest_broadcast_of_a_kept_broker_counts_though_it_came_from_farther() -> None:
    nearest = three_nearest()

    assert nearest.hear(beacon(1, delay=9.0, sequence=2), via=7, now=100.0)
    assert nearest.in_order() == (2, 3, 1)


def test_a_copy_by_a_longer_way_and_an_old_broadcast_are_discarded() -> None:
    nearest = NearestBrokers(3)
    nearest.hear(beacon(1, delay=1.0, sequence=5), via=7, now=100.0)

    assert not nearest.hear(beacon(1, delay=1.0, sequence=5), via=8, now=100.0)
    assert not nearest.hear(beacon(1, delay=0.5, sequence=4), via=8, now=100.0)
    assert nearest.hear(beacon(1, delay=0.5, sequence=5), via=8, now=100.0)
    assert nearest.brokers[1].via == 8


def test_a_node_that_became_a_broker_again_counts_from_one_again() -> None:
    nearest = NearestBrokers(3)
    nearest.hear(beacon(1, delay=1.0, sequence=50), via=7, now=100.0)

    assert nearest.hear(beacon(1, delay=2.0, sequence=1, term=2), via=7, now=100.0)


def test_a_silent_broker_is_forgotten() -> None:
    nearest = three_nearest()
    nearest.hear(beacon(2, delay=2.0, sequence=2, at=110.0), via=7, now=110.0)

    nearest.forget_before(105.0)

    assert nearest.in_order() == (2,)


@pytest.mark.parametrize("seed", range(5))
def test_pruned_floods_still_tell_every_node_its_l_nearest_brokers(seed: int) -> None:
    """Against Dijkstra: what the pruning leaves out is nowhere among the l nearest by the length of the way."""
    random = np.random.default_rng(seed)
    positions = random.uniform(0.0, 600.0, size=(90, 2))
    field = Field(Standing(positions), range_m=120.0, delay_s_per_m=50e-6)
    fitness = random.permutation(90)
    network = AdHocNetwork(
        [BrokerCandidate(float(fitness[node]), node) for node in range(90)],
        [()] * 90,
        Parameters(k=9, l=3, m=2),
        field,
        lambda: MultiCopyMultiDestination(2),
        Random(seed),
    )
    network.run(40.0)

    rows = [(a, b, delay) for a in range(90) for b, delay in field.neighbors(a).items()]
    a, b, delays = zip(*rows, strict=True)
    distance = dijkstra(csr_array((delays, (a, b)), shape=(90, 90)))
    brokers = [node.me for node in network.brokers()]
    for node in network.nodes:
        reached = [broker for broker in brokers if np.isfinite(distance[node.me, broker])]
        expected = sorted(reached, key=lambda broker: (distance[node.me, broker], broker))[:3]
        assert list(node.nearest.in_order()) == expected, f"node {node.me}, seed {seed}"
        assert node.local_broker == (expected[0] if expected else None)
