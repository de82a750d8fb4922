"""Who becomes a broker: the k nodes with the largest fitness that an election hears of ([DRIP] section IV-A).

In the paper all nodes broadcast their ability and the top k become brokers. Flooding every ability would take
N transmissions by each of N nodes; here a node repeats only the best k it has heard so far, which gives the
same k brokers for the price of a few broadcasts per node (docs/decisions/0091).
"""

from collections.abc import Iterable

from roamq.manet.messages import Candidate, NodeId


class Election:
    """One node's view of an election for `seats` brokers."""

    __slots__ = ("best", "seats")

    def __init__(self, me: Candidate, seats: int) -> None:
        self.seats = seats
        self.best: tuple[Candidate, ...] = (me,)

    def hear(self, others: Iterable[Candidate]) -> bool:
        """Merge what a neighbor has heard; True if that changed anything worth repeating."""
        merged = sorted({*self.best, *others}, key=lambda candidate: candidate.rank, reverse=True)
        best = tuple(merged[: self.seats])
        if best == self.best:
            return False
        self.best = best
        return True

    def won_by(self, node: NodeId) -> bool:
        return any(candidate.node == node for candidate in self.best)
