"""What [PRO] section 6 predicts for a broker, beside what runs of the testbed gave.

The Markov chain says how many subscribers to expect at a broker, a model turns that into a throughput. Two models are
compared: the paper's, a curve over the broker's own subscribers, and ours, which also knows the pace of the publisher.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from roamq.models.curves import Curve, r_squared
from roamq.models.markov import Occupancy


@dataclass(frozen=True, slots=True)
class Observation:
    """One broker in one run."""

    pattern: str
    population: int
    broker: str
    subscribers: float
    """Connected at this broker, on average over the run."""
    throughput: float
    """Messages per second that this broker delivered."""
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """One broker at one population: the throughput predicted from its expected subscribers, and what the runs gave."""

    population: int
    broker: str
    expected: float
    """Subscribers, by the Markov chain."""
    observed: float
    """Subscribers, mean of the runs."""
    predicted: float
    low: float
    high: float
    """Ends of the 95% prediction interval of the model."""
    measured: float
    error: float
    """Half of the 95% confidence interval of the measured mean, with the spread between runs of all brokers at this
    population: few runs of one broker tell little of it. 0 for a single run."""

    @property
    def agrees(self) -> bool:
        """The intervals overlap, which is what section 6.4 asks."""
        return self.low <= self.measured + self.error and self.measured - self.error <= self.high


Model = Callable[[int, float], tuple[float, float, float]]
"""(population, subscribers at the broker) -> throughput with the ends of its interval."""


def observations(rows: Iterable[Mapping[str, Any]]) -> list[Observation]:
    """Rows of `schemas.METRICS`, paired by run and broker. A broker that served nobody has delivered nothing."""
    cells: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    params: dict[str, Mapping[str, str]] = {}
    seeds: dict[str, int] = {}
    for row in rows:
        params[row["run_id"]], seeds[row["run_id"]] = row["params"], row.get("seed", 0)
        cells[row["run_id"], row["entity"]][row["metric"]] = row["value"]
    found = [
        Observation(
            pattern=params[run_id]["mobility.pattern"],
            population=int(params[run_id]["clients"]),
            broker=broker.upper(),
            subscribers=values.get("broker_subscribers", 0.0),
            throughput=values.get("broker_throughput", 0.0),
            seed=seeds[run_id],
        )
        for (run_id, broker), values in cells.items()
    ]
    return sorted(found, key=lambda o: (o.pattern, o.population, o.broker, o.subscribers))


def by_curve(curve: Curve) -> Model:
    """The paper's model: the broker's own subscribers decide."""

    def model(_: int, subscribers: float) -> tuple[float, float, float]:
        low, high = curve.interval(subscribers)
        return float(curve.predict(subscribers)), float(low), float(high)

    return model


def by_pace(rnd: Sequence[Observation]) -> Model:
    """Subscribers at the broker x messages per second that one of them gets where so many are in the system.

    The second factor comes from the random runs. Flow control sets one pace for all brokers, which a curve over one
    broker's subscribers cannot know: ten at a broker are served faster where there are 70 in all than where there
    are 200.
    """
    paces: dict[int, list[float]] = defaultdict(list)
    for o in rnd:
        if o.subscribers > 0:
            paces[o.population].append(o.throughput / o.subscribers)

    def model(population: int, subscribers: float) -> tuple[float, float, float]:
        low, middle, high = np.quantile(paces[population], (0.025, 0.5, 0.975)) * subscribers
        return float(middle), float(low), float(high)

    return model


def predictions(model: Model, observed: Sequence[Observation], chain: Occupancy) -> list[Prediction]:
    """What the model gives at the chain's expected subscribers, for every population and broker observed."""
    cells: dict[tuple[int, str], list[Observation]] = defaultdict(list)
    for o in observed:
        cells[o.population, o.broker].append(o)
    spreads = {population: _spread(cells, population) for population, _ in cells}
    found = []
    for (population, broker), mine in sorted(cells.items()):
        expected = chain.expected(population)[broker]
        predicted, low, high = model(population, expected)
        found.append(
            Prediction(
                population=population,
                broker=broker,
                expected=expected,
                observed=float(np.mean([o.subscribers for o in mine])),
                predicted=predicted,
                low=low,
                high=high,
                measured=float(np.mean([o.throughput for o in mine])),
                error=spreads[population] / len(mine) ** 0.5,
            )
        )
    return found


def _spread(cells: Mapping[tuple[int, str], Sequence[Observation]], population: int) -> float:
    """How far one run may be from its broker's mean at 95%, all brokers of a population taken together."""
    groups = [[o.throughput for o in some] for (size, _), some in cells.items() if size == population]
    freedom = sum(len(values) - 1 for values in groups)
    if freedom == 0:
        return 0.0
    variance = sum(float(np.var(values)) * len(values) for values in groups) / freedom
    return float(student_t.ppf(0.975, freedom) * np.sqrt(variance))


def r2_of(predicted: Sequence[Prediction]) -> float:
    """R2 of the predictions against the measured throughput."""
    return r_squared(np.array([p.measured for p in predicted]), np.array([p.predicted for p in predicted]))
