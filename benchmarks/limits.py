"""The error of fixed lifetimes and of finite buffers along a path, against simulation, on random paths.

    python -m benchmarks.limits [--paths=30] [--seed=1]

A path has a publisher and a subscriber that come and go, and one broker; a third of the publishers are always
connected. The lifetime, and the room of both buffers, are between a fifth and twice what the longer of the two times
away asks for. Every path is simulated event by event (`roamq.sim.queueing`); the ± is half of a 95% interval over runs.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from roamq.cli.plan.extras import buffers_along
from roamq.cli.plan.path import ResponseTimeQuestion, delivered_share, solve
from roamq.cli.plan.simulated import simulated

MEASURES: Final = (
    ("lifetime: share delivered", "delivered_share_if_dropped"),
    ("buffers: share delivered", "delivered_share_drop_newest"),
)


class Compared(NamedTuple):
    model: float
    simulated: float
    half_width: float

    @property
    def error(self) -> float:
        return self.model / self.simulated - 1

    def __str__(self) -> str:
        return f"{100 * self.error:+.0f} ± {100 * self.half_width / self.simulated:.0f}"


def random_path(rng: np.random.Generator) -> ResponseTimeQuestion:
    def periods() -> tuple[float, float]:
        on_s, off_s = np.exp(rng.uniform(math.log(5), math.log(100), 2))
        return float(on_s), float(off_s)

    (from_on_s, from_off_s), (to_on_s, to_off_s) = periods(), periods()
    rate = float(np.exp(rng.uniform(math.log(0.5), math.log(2))))
    is_mobile = rng.random() < 2 / 3
    from_s, to_s = (
        float(rng.uniform(0.02, 0.9)) * on_s / (on_s + off_s) / rate
        for on_s, off_s in ((from_on_s, from_off_s if is_mobile else 0.0), (to_on_s, to_off_s))
    )
    longest_s = max(from_off_s if is_mobile else 0.0, to_off_s)
    asked_s, room = (longest_s * float(np.exp(rng.uniform(math.log(0.2), math.log(2)))) for _ in range(2))
    return ResponseTimeQuestion(
        rate=rate,
        publisher_on_s=from_on_s,
        publisher_off_s=from_off_s if is_mobile else 0.0,
        subscriber_on_s=to_on_s,
        subscriber_off_s=to_off_s,
        publisher_demand_s=from_s,
        subscriber_demand_s=to_s,
        broker_demand_s=float(rng.uniform(0.01, 0.7)) / rate,
        processing_s=0.01 / rate,
        brokers=1,
        ttl_s=asked_s,
        buffer_events=max(2, round(rate * room)),
    )


def compared(question: ResponseTimeQuestion) -> dict[str, Compared]:
    solved = solve(question)
    assert question.ttl_s is not None
    _, buffers = buffers_along(question, solved)
    model = {
        "delivered_share_if_dropped": delivered_share(question, question.ttl_s),
        "delivered_share_drop_newest": buffers["delivered_share"],
    }
    _, runs = simulated(question, is_saturated=True)
    return {name: Compared(model[name], runs[name]["mean"], runs[name]["half_width"]) for _, name in MEASURES}


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--paths", type=int, default=30, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    asked = parser.parse_args(argv)
    rng = np.random.default_rng(asked.seed)
    table = Table(title=f"Error of the model, %: {asked.paths} random paths, seed {asked.seed}")
    for column in ("away s", "utilisation", "lifetime s", "room", *(title for title, _ in MEASURES)):
        table.add_column(column, justify="right")
    errors: dict[str, list[float]] = {name: [] for _, name in MEASURES}
    for _ in range(asked.paths):
        question = random_path(rng)
        found = compared(question)
        for name, one in found.items():
            errors[name].append(one.error)
        busy = " ".join(
            f"{part.centre.utilisation:.2f}{'*' if part.queue is not None else ''}"
            for part in solve(question)
        )
        away = f"{question.publisher_off_s:.0f}, {question.subscriber_off_s:.0f}"
        limits = f"{question.ttl_s:.0f}", str(question.buffer_events)
        table.add_row(away, busy, *limits, *(str(one) for one in found.values()))
    console = Console(width=150)
    console.print(table)
    for title, name in MEASURES:
        apart = np.abs(errors[name])
        console.print(
            f"{title}: off by {100 * np.median(apart):.1f}% in the median, {100 * np.quantile(apart, 0.9):.1f}% in one "
            f"path of ten, {100 * apart.max():.1f}% at most; {100 * np.mean(errors[name]):+.1f}% on average"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
