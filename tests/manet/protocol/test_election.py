"""Bootstrapping: the top k become brokers ([DRIP] section IV-A)."""

from random import Random

import numpy as np
import pytest

from roamq.manet.protocol.election import Election
from roamq.manet.protocol.messages import BrokerCandidate
from roamq.manet.protocol.ports import Parameters
from roamq.manet.protocol.spreading import MultiCopyMultiDestination
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.network import AdHocNetwork
from roamq.manet.simulation.waypoint import Standing


def test_only_the_best_are_remembered_and_repeated() -> None:
    election = Election(BrokerCandidate(5.0, 0), seats=2)

    assert election.hear([BrokerCandidate(7.0, 1), BrokerCandidate(6.0, 2)])
    assert not election.hear([BrokerCandidate(5.5, 3)])
    assert election.best == (BrokerCandidate(7.0, 1), BrokerCandidate(6.0, 2))
    assert election.won_by(2)
    assert not election.won_by(0)


def test_equal_fitness_is_settled_the_same_way_everywhere() -> None:
    one, other = Election(BrokerCandidate(1.0, 1), seats=1), Election(BrokerCandidate(1.0, 2), seats=1)
    one.hear(other.best)
    other.hear(one.best)

    assert one.best == other.best


@pytest.mark.parametrize("seed", range(3))
def test_a_connected_network_chooses_its_top_k(seed: int) -> None:
    """[DRIP] section IV-A: "the top k nodes with the largest ξ in the network will be marked as the broker nodes"."""
    random = np.random.default_rng(seed)
    chain = np.column_stack([np.arange(30) * 100.0, random.uniform(0.0, 10.0, size=30)])
    fitness = random.pareto(1.0, size=30)
    network = AdHocNetwork(
        [BrokerCandidate(float(fitness[node]), node) for node in range(30)],
        [()] * 30,
        Parameters(k=6, l=2, m=2),
        Field(Standing(chain), range_m=120.0, delay_s_per_m=50e-6),
        lambda: MultiCopyMultiDestination(2),
        Random(seed),
    )
    network.run(30.0)

    assert {node.me for node in network.brokers()} == set(np.argsort(-fitness)[:6].tolist())
    regions = [node.broker.region for node in network.brokers() if node.broker]
    assert len(set(regions)) == 6, "each broker chooses a unique region id"
