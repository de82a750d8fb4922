"""Predictions: where will the client be next? Prefetching asks when a client disconnects ([DIS] section 3.2.1).

"Broker 1 can make this prediction based, for example, on statistics of the mobility patterns of its clients": that is
`Learned`. A world that knows the future, as the simulator does, gives the schemes an `Oracle`; from the oracle come the
perfect prediction that the paper's results assume, and the wrong one that shows the cost of a failure.
"""

from collections import Counter
from typing import Protocol

from roamq.core.events import BrokerId, ClientId


class Oracle(Protocol):
    """A world that knows where its clients go."""

    def next_broker(self, client: ClientId) -> BrokerId | None:
        """The broker of the client's next connection; None if it will not come back."""

    def other_broker(self, client: ClientId) -> BrokerId | None:
        """A broker that the client could go to next, but will not."""


class Predictor(Protocol):
    """One broker's way to predict where its clients go."""

    def predict(self, client: ClientId, count: int) -> tuple[BrokerId, ...]:
        """Up to `count` brokers where the client may be next, the likeliest first. Empty: this predictor has no
        idea."""

    def assumed(self, to: BrokerId) -> None:
        """The scheme acts on the prediction that a client goes to the broker `to`; no broker has objected yet."""

    def observed(self, to: BrokerId, assumed: BrokerId | None) -> None:
        """A client has gone to the broker `to`; `assumed` is the broker that was predicted for it before."""


class Learned:
    """Counts where clients of this broker went, and predicts what happened most often.

    A broker that prefetched to the right place hears nothing more of it, so a prediction counts as right until another
    broker asks for the context.
    """

    def __init__(self) -> None:
        self.went: Counter[BrokerId] = Counter()

    def predict(self, client: ClientId, count: int) -> tuple[BrokerId, ...]:
        ranked = sorted(((-times, broker) for broker, times in self.went.items() if times > 0))
        return tuple(broker for _, broker in ranked[:count])

    def assumed(self, to: BrokerId) -> None:
        self.went[to] += 1

    def observed(self, to: BrokerId, assumed: BrokerId | None) -> None:
        if assumed is not None:
            self.went[assumed] -= 1
        self.went[to] += 1


class Foretold:
    """Predicts what the oracle says: the right broker, or on purpose another. Further guesses come from experience."""

    def __init__(self, oracle: Oracle, *, right: bool) -> None:
        self.oracle = oracle
        self.right = right
        self.experience = Learned()

    def predict(self, client: ClientId, count: int) -> tuple[BrokerId, ...]:
        truth = self.oracle.next_broker(client)
        first = truth if self.right else self.oracle.other_broker(client)
        if first is None:
            return ()
        others = (b for b in self.experience.predict(client, count + 1) if b not in (first, truth))
        return (first, *others)[:count]

    def assumed(self, to: BrokerId) -> None:
        self.experience.assumed(to)

    def observed(self, to: BrokerId, assumed: BrokerId | None) -> None:
        self.experience.observed(to, assumed)
