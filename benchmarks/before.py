"""`python -m benchmarks.before --before PATH`: the speed of another checkout and of this one, in turns, in one run.

    throughput   a live broker under six loads, as in `roamq bench throughput`
    simulator    the hierarchy of [DIS] with 300 clients, for two schemes
    handoff      clients that move between live brokers (wall clock), and between two machines without sockets
    waiting      an input's cost while 0, 1,000 and 4,000 clients wait for their sessions

The trees take turns of a second or so, in an order that changes from turn to turn, in processes that are new in each
round. A ratio above 1 means that this tree is faster than the one before: it is the median over all turns, with the
interval that holds it with 95% confidence. `best` is the ratio of the best turn of each tree, the least disturbed one.

Other programs disturb the wall clock most, but processor time as well where two hardware threads share a core. On a
busy machine, ask for many rounds and look at the interval before you believe a ratio.
"""

import argparse
import json
import random
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks._measures import Figure, Measures
from benchmarks._trees import Tree, pair

KINDS = ("throughput", "simulator", "handoff", "waiting")


class Row(NamedTuple):
    """One figure of both trees, over all rounds."""

    what: str
    clock: str
    unit: str
    before: float
    """The median, as are `now` and `ratio`."""
    now: float
    ratio: float
    low: float
    """The interval of the ratio, from here to `high`."""
    high: float
    best: float
    turns: int

    def __str__(self) -> str:
        return (
            f"{self.what:<32} {self.clock:<9} {self.before:>10,.2f} {self.now:>10,.2f} {self.unit:<12} "
            f"{self.ratio:>5.3f}  {self.low:.3f} to {self.high:.3f}  {self.best:.3f} {self.turns:>5}"
        )


HEADING = (
    f"{'':<32} {'clock':<9} {'before':>10} {'now':>10} {'':<12} "
    f"{'ratio':>5}  {'95%':<14}  {'best':<5} {'turns':>5}"
)


class Worker:
    """A process that measures one tree when it is asked."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self._process = tree.start("benchmarks._measures", [])

    def measure(self, name: str) -> list[Figure]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{name}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"{self.tree.name} ({self.tree.path}): {name} could not be measured; see above")
        return [Figure(**figure) for figure in json.loads(answer)]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@contextmanager
def workers(trees: tuple[Tree, Tree]) -> Iterator[list[Worker]]:
    with ExitStack() as stack:
        started = []
        for tree in trees:
            worker = Worker(tree)
            stack.callback(worker.close)
            started.append(worker)
        yield started


def measured_in_turns(trees: tuple[Tree, Tree], kinds: list[str], rounds: int) -> list[Row]:
    """Every figure of the kinds, from as many rounds. Progress goes to standard error."""
    found: dict[tuple[str, str], list[tuple[Figure, Figure]]] = {}
    for number in range(rounds):
        for kind in kinds:
            with workers(trees) as started:
                for before, now in _one_round(started, kind, number):
                    found.setdefault((now.what, now.clock), []).append((before, now))
                    print(
                        f"round {number + 1}: {now.what} ({now.clock}): {before.value:,.2f} before, "
                        f"{now.value:,.2f} {now.unit} now",
                        file=sys.stderr,
                        flush=True,
                    )
    return [row_of(pairs) for pairs in found.values()]


def _one_round(started: list[Worker], kind: str, number: int) -> Iterator[tuple[Figure, Figure]]:
    """Figures of the two trees that belong together, as they come."""
    for name, measure in Measures().by_name.items():
        for turn in range(measure.turns if measure.kind == kind else 0):
            order = started if (number + turn) % 2 == 0 else started[::-1]
            figures = {worker.tree.name: worker.measure(name) for worker in order}
            yield from zip(figures["before"], figures["now"], strict=True)


def row_of(pairs: list[tuple[Figure, Figure]]) -> Row:
    figure = pairs[0][1]
    old, new = [before.value for before, _ in pairs], [now.value for _, now in pairs]
    if figure.more_is_better:
        ratios = [now / before for before, now in zip(old, new, strict=True)]
        best = max(new) / max(old)
    else:
        ratios = [before / now for before, now in zip(old, new, strict=True)]
        best = min(old) / min(new)
    low, high = interval(ratios)
    return Row(
        figure.what,
        figure.clock,
        figure.unit,
        statistics.median(old),
        statistics.median(new),
        statistics.median(ratios),
        low,
        high,
        best,
        len(ratios),
    )


def interval(ratios: list[float], samples: int = 1000) -> tuple[float, float]:
    """The bootstrap interval of the median, 95%."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(samples))
    return medians[samples // 40], medians[-1 - samples // 40]


def smallest(rows: list[Row]) -> str:
    """One line for each clock."""
    said = []
    for clock, name in (("processor", "processor time"), ("wall", "wall clock")):
        of_clock = [row for row in rows if row.clock == clock]
        if of_clock:
            row = min(of_clock, key=lambda row: row.ratio)
            said.append(
                f"smallest ratio by {name}: {row.ratio:.3f} ({row.low:.3f} to {row.high:.3f}; "
                f"best {row.best:.3f}), {row.what}"
            )
    return "\n".join(said)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.before",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--before", type=Path, required=True, metavar="PATH", help="the other checkout of RoamQ"
    )
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument("--only", default=",".join(KINDS), metavar="KINDS", help=f"some of {','.join(KINDS)}")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    options = parser.parse_args(argv)
    kinds = options.only.split(",")
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown or options.rounds < 1:
        parser.error(
            f"--only {unknown[0]}: choose from {', '.join(KINDS)}" if unknown else "--rounds: at least 1"
        )
    rows = measured_in_turns(pair(options.before), kinds, options.rounds)
    if options.json:
        print(json.dumps([row._asdict() for row in rows], indent=2))
    else:
        print(HEADING)
        for row in rows:
            print(row)
        print(smallest(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
