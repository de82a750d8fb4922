"""Markov models of movement: how many subscribers each broker serves on average, and how far that varies.

Paper: [PRO] section 6.1 (random mobility, Eq. 1-11) and 6.2 (neighboring mobility, Eq. 12-15).
Goes further: any graph, weighted or directed (a learned neighbor graph is one), mean times per broker, any
branching probabilities, the whole binomial law of a broker's subscribers, and thousands of brokers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from roamq.models.quantiles import binomial_quantile

Floats = NDArray[np.float64]

TimeByBroker = float | Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False)
class Occupancy:
    """Where a subscriber is found at a random moment."""

    brokers: tuple[str, ...]
    connected: Floats
    """Probability to be connected, per broker."""
    disconnected: float
    handoff: float

    def expected(self, subscribers: int) -> dict[str, float]:
        """Eq. 9, 15: mean number of subscribers connected at each broker."""
        return dict(zip(self.brokers, (subscribers * self.connected).tolist(), strict=True))

    def deviation(self, subscribers: int) -> dict[str, float]:
        """Standard deviation of that number: it is binomial, since subscribers move independently."""
        spread = np.sqrt(subscribers * self.connected * (1 - self.connected))
        return dict(zip(self.brokers, spread.tolist(), strict=True))

    def quantile(self, subscribers: int, share: float) -> dict[str, int]:
        """The number of subscribers that a broker does not exceed for `share` of the time."""
        counts = binomial_quantile(share, subscribers, self.connected)
        return dict(zip(self.brokers, counts.tolist(), strict=True))


def random_mobility(
    brokers: int, *, t_connect_s: float, t_disconnect_s: float, t_handoff_s: float
) -> Occupancy:
    """Section 6.1 in closed form: from anywhere to any of `brokers` with equal probability."""
    _require_positive(t_connect_s=t_connect_s, t_disconnect_s=t_disconnect_s, t_handoff_s=t_handoff_s)
    if brokers < 1:
        raise ValueError(f"brokers: {brokers} is less than 1")
    n = brokers
    alpha = 1 / (n * t_handoff_s)  # Eq. 1
    delta = 1 / ((n + 1) * t_disconnect_s)  # Eq. 2
    beta = 1 / (2 * t_connect_s)  # Eq. 3
    connected = (n + 1) * alpha * delta
    connected /= n * beta * alpha + (n + 2) * beta * delta + n * (n + 1) * alpha * delta  # Eq. 8
    handoff = (n + 2) * beta / ((n + 1) * alpha) * connected  # Eq. 6
    disconnected = n * beta / ((n + 1) * delta) * connected  # Eq. 7
    return Occupancy(tuple(f"B{i + 1}" for i in range(n)), np.full(n, connected), disconnected, handoff)


def random_generator(
    brokers: int, *, t_connect_s: float, t_disconnect_s: float, t_handoff_s: float
) -> sparse.csr_array:
    """The M-matrix of Fig. 9: handoff, disconnect, then the brokers. Solving it must agree with Eq. 6-8."""
    n = brokers
    rates = sparse.lil_array((n + 2, n + 2))
    rates[0, 2:] = 1 / (n * t_handoff_s)
    rates[1, 0] = 1 / ((n + 1) * t_disconnect_s)
    rates[1, 2:] = 1 / ((n + 1) * t_disconnect_s)
    rates[2:, 0] = 1 / (2 * t_connect_s)
    rates[2:, 1] = 1 / (2 * t_connect_s)
    return _with_diagonal(rates.tocsr())


def neighboring_mobility(
    neighbors: Mapping[str, Sequence[str] | Mapping[str, float]],
    *,
    t_connect_s: TimeByBroker,
    t_disconnect_s: TimeByBroker,
    t_handoff_s: TimeByBroker,
    p_disconnect: float = 0.5,
    p_return: float = 0.5,
) -> Occupancy:
    """Section 6.2 for any graph: a handoff leads to a neighbor, uniformly or by the weights given.

    `p_disconnect` is the paper's P01 (else a handoff follows directly), `p_return` its P10 (else a handoff).
    """
    brokers = tuple(neighbors)
    n = len(brokers)
    moves = _move_probabilities(neighbors)
    _require_probability(p_disconnect=p_disconnect, p_return=p_return)
    leave_connect = _leaving_rates(t_connect_s, brokers, "t_connect_s")
    leave_disconnect = _leaving_rates(t_disconnect_s, brokers, "t_disconnect_s")
    leave_handoff = _leaving_rates(t_handoff_s, brokers, "t_handoff_s")
    # States as in Fig. 10: connected at each broker, then disconnected at each, then in handoff from each.
    rates = sparse.block_array(
        [
            [
                None,
                sparse.diags_array(leave_connect * p_disconnect),
                sparse.diags_array(leave_connect * (1 - p_disconnect)),
            ],
            [
                sparse.diags_array(leave_disconnect * p_return),
                None,
                sparse.diags_array(leave_disconnect * (1 - p_return)),
            ],
            [sparse.diags_array(leave_handoff) @ moves, None, sparse.csr_array((n, n))],
        ]
    )
    law = stationary(_with_diagonal(sparse.csr_array(rates)))
    return Occupancy(brokers, law[:n], float(law[n : 2 * n].sum()), float(law[2 * n :].sum()))


def stationary(generator: sparse.csr_array) -> Floats:
    """pi with pi M = 0 (Eq. 4) and sum 1, by a sparse factorisation: one balance equation is redundant.

    The last state's probability is set to 1, its own equation left out, and the solution scaled.
    """
    transposed = sparse.csc_array(generator.T)
    inner = sparse.csc_matrix(transposed[:-1, :-1])
    column = transposed[:-1, [-1]].toarray().ravel()
    solution = np.append(splu(inner).solve(-column), 1.0)
    return np.asarray(solution / solution.sum())


def _move_probabilities(neighbors: Mapping[str, Sequence[str] | Mapping[str, float]]) -> sparse.csr_array:
    index = {broker: i for i, broker in enumerate(neighbors)}
    if not index:
        raise ValueError("neighbors: the graph has no broker")
    rows: list[int] = []
    columns: list[int] = []
    weights: list[float] = []
    for broker, others in neighbors.items():
        weighted = others if isinstance(others, Mapping) else dict.fromkeys(others, 1.0)
        total = sum(weighted.values())
        if not total > 0 or min(weighted.values()) < 0:
            raise ValueError(f"neighbors: {broker} needs at least one neighbor, and no negative weight")
        for other, weight in weighted.items():
            if other not in index:
                raise ValueError(f"neighbors: {broker} names {other}, which is not a broker of the graph")
            rows.append(index[broker])
            columns.append(index[other])
            weights.append(weight / total)
    moves = sparse.csr_array((weights, (rows, columns)), shape=(len(index),) * 2)
    parts, label = csgraph.connected_components(moves, connection="strong")
    if parts > 1:
        names = list(index)
        lonely = names[int(np.flatnonzero(label != label[0])[0])]
        raise ValueError(f"neighbors: no way leads from {names[0]} to {lonely} and back")
    return moves


def _leaving_rates(times: TimeByBroker, brokers: tuple[str, ...], field: str) -> Floats:
    if isinstance(times, Mapping):
        missing = [broker for broker in brokers if broker not in times]
        if missing:
            raise ValueError(f"{field}: no time is given for {missing[0]}")
        means = np.array([times[broker] for broker in brokers], dtype=np.float64)
    else:
        means = np.full(len(brokers), float(times))
    if not (means > 0).all():
        raise ValueError(f"{field}: times must be positive")
    return 1 / means


def _with_diagonal(rates: sparse.csr_array) -> sparse.csr_array:
    """Drop the rates of a state to itself, which are no moves, and make the rows sum to 0."""
    rates = rates - sparse.diags_array(rates.diagonal())
    return sparse.csr_array(rates - sparse.diags_array(np.asarray(rates.sum(axis=1)).ravel()))


def _require_positive(**fields: float) -> None:
    for field, value in fields.items():
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{field}: {value} is not a positive number")


def _require_probability(**fields: float) -> None:
    for field, value in fields.items():
        if not 0 <= value < 1:
            raise ValueError(f"{field}: {value} is not in [0, 1)")
