"""The election of brokers: the k nodes with the largest fitness become brokers ([DRIP] section IV-A).

In the paper all nodes broadcast their ability and the top k become brokers. To flood every ability, each of N nodes
would have to transmit N times. Here a node repeats only the best k candidates that it has heard of, which elects the
same k brokers with a few broadcasts per node (docs/drip.md, choice 0091).
"""

from collections.abc import Iterable

from roamq.manet.protocol.messages import BrokerCandidate, NodeId


class Election:
    """An election of `seats` brokers as one node knows it: `best` are the best candidates it has heard of."""

    __slots__ = ("best", "seats")

    def __init__(self, me: BrokerCandidate, seats: int) -> None:
        self.seats = seats
        self.best: tuple[BrokerCandidate, ...] = (me,)

    def hear(self, others: Iterable[BrokerCandidate]) -> bool:
        """Add the candidates of a neighbor. True: the best have changed, so the node should repeat them."""
        merged = sorted({*self.best, *others}, key=lambda candidate: candidate.rank, reverse=True)
        best = tuple(merged[: self.seats])
        if best == self.best:
            return False
        self.best = best
        return True

    def won_by(self, node: NodeId) -> bool:
        return any(candidate.node == node for candidate in self.best)
