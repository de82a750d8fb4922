"""Random arrivals, duplicates, late rows, growth, removals and kills, run by run; then the same files in one go.

python -m tests.pipeline.incremental --sequences 50
python -m tests.pipeline.incremental --sequences 50 --kind tied
"""

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from pyspark.sql import SparkSession

from roamq.pipeline import derive
from roamq.pipeline.arrivals import PipelineFailedError
from roamq.pipeline.definitions import gold
from roamq.pipeline.landing import add_source
from roamq.pipeline.ledger import Ledger
from roamq.pipeline.runner import run_pipeline, warehouse_settings
from roamq.pipeline.session import open_session
from roamq.pipeline.upkeep import remove_what
from tests.pipeline.warehouses import differences

BEGIN_S = 1_704_067_200
DAY_S = 86_400
CALLS = 40
"""A run writes and commits about so often."""


class Killed(BaseException):
    """The process ended here."""


def rows(chance: random.Random, clients: list[str], days: range, count: int) -> list[str]:
    """Walks of some clients on some days, with silences, duplicates, ties and lines that cannot be read."""
    lines = []
    for client in clients:
        second = BEGIN_S + chance.choice(days) * DAY_S + chance.randrange(DAY_S)
        for _ in range(count):
            second += chance.choice([0, 5, 60, 300, 300, 700, 4000])
            lines.append(f"{second},{client},{chance.choice(['', *(f's{n}' for n in range(6))])}")
    lines += chance.sample(lines, k=min(3, len(lines)))
    if chance.random() < 0.5:
        lines.insert(chance.randrange(len(lines) + 1), "torn li")
    chance.shuffle(lines)
    return lines


def tied_rows(chance: random.Random, count: int) -> list[str]:
    """Few clients and few instants: most lines contradict others of that instant, in their own file and in others."""
    lines = []
    for _ in range(count):
        second = BEGIN_S + chance.randrange(3) * DAY_S + 300 * chance.randrange(60)
        site = chance.choice(["", *(f"s{n}" for n in range(4))])
        lines.append(f"{second},c{chance.randrange(3)},{site}")
    return lines


def tied_step(chance: random.Random, folder: Path, number: int) -> str | None:
    """Several files at once: which of them a task of Spark reads after which depends on what else is read."""
    files = sorted(folder.glob("*.csv"))
    kind = chance.choice(["new", "grow", "remove"]) if files else "new"
    if kind == "grow":
        with chance.choice(files).open("a") as file:
            file.write("\n".join(tied_rows(chance, 20)) + "\n")
    elif kind == "remove" and len(files) > 1:
        gone = chance.choice(files)
        gone.unlink()
        return gone.name
    else:
        for part in range(chance.randrange(1, 6) if files else 6):
            lines = tied_rows(chance, chance.randrange(10, 60 if files else 400))
            (folder / f"f{number}-{part}.csv").write_text("\n".join(lines) + "\n")
    return None


def step(chance: random.Random, folder: Path, number: int) -> str | None:
    """Change the folder of files; returns the name of a file to remove from the warehouse, if that is the step."""
    clients = [f"c{n}" for n in range(20)]
    files = sorted(folder.glob("*.csv"))
    kind = chance.choice(["new", "late", "grow", "remove", "duplicate"]) if files else "first"
    if kind == "first":
        lines = rows(chance, clients, range(6), 30)
    elif kind == "duplicate":
        lines = chance.choice(files).read_text().splitlines() + rows(chance, clients[:1], range(3), 3)
    elif kind == "grow":
        with chance.choice(files).open("a") as file:
            file.write("\n".join(rows(chance, chance.sample(clients, 2), range(8), 5)) + "\n")
        return None
    elif kind == "remove" and len(files) > 1:
        gone = chance.choice(files)
        gone.unlink()
        return gone.name
    else:
        days = range(-3, 0) if kind == "late" else range(5, 9)
        lines = rows(chance, [*chance.sample(clients, 2), f"new{number}"], days, 8)
    (folder / f"f{number}.csv").write_text("\n".join(lines) + "\n")
    return None


@contextlib.contextmanager
def killed_at(number: int) -> Iterator[None]:
    """A run that is dead from its so-manieth write or commit on: later ones do not happen either."""
    calls = 0

    def dying(work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > number:
                raise Killed
            return work(*given, **named)

        return call

    with (
        mock.patch.object(Ledger, "written", dying(Ledger.written)),
        mock.patch.object(Ledger, "_enter", dying(Ledger._enter)),
    ):
        yield


def is_killed(spark: SparkSession, warehouse: Path, number: int) -> bool:
    """Run the pipeline and let it die, if it does not end before."""
    try:
        with killed_at(number):
            run_pipeline(spark, warehouse)
    except Killed:
        return True
    except PipelineFailedError as error:
        if isinstance(error.__cause__, Killed):
            return True
        raise
    return False


SEQUENCES = {"plain": (step, "last"), "tied": (tied_step, "last"), "listed": (tied_step, "sticky")}
"""What happens to the files, and which of several rows at one instant counts."""


def play(
    spark: SparkSession, root: Path, seed: int, steps: int, kind: str = "plain"
) -> tuple[dict[str, int], int]:
    """Play a sequence; returns the tables that differ from those of a full run after it, and how many runs died."""
    with as_if_large() if seed % 2 else contextlib.nullcontext():
        return _play(spark, root, seed, steps, kind)


@contextlib.contextmanager
def as_if_large() -> Iterator[None]:
    """A few hundred rows are treated as many: silver tables have many files, counts of paths are corrected, and where
    more than three sites are touched all are made anew."""
    with (
        mock.patch.object(derive, "SILVER_ROWS", 32),
        mock.patch.object(gold, "MANY_MOVES", 0),
        mock.patch.object(gold, "MANY_KEYS", 3),
    ):
        yield


def _play(spark: SparkSession, root: Path, seed: int, steps: int, kind: str) -> tuple[dict[str, int], int]:
    chance = random.Random(seed)
    folder, warehouse = root / "in", root / "w"
    folder.mkdir()
    change, instant = SEQUENCES[kind]
    settings = {"min_observations": "4", "gap_s": "600", "ping_pong_s": "120", "at_one_instant": instant}
    killed = 0
    for number in range(steps + 1):
        gone = change(chance, folder, number)
        if gone is not None:
            remove_what(warehouse, gone)
        add_source(warehouse, str(folder), "associations", "d", settings)
        if chance.random() < 0.5:
            killed += is_killed(spark, warehouse, chance.randrange(CALLS))
        run_pipeline(spark, warehouse)
    again = root / "again"
    add_source(again, str(folder), "associations", "d", settings)
    run_pipeline(spark, again)
    found = differences(again, warehouse)
    return {name: rows for name, rows in found.items() if rows or name != "quarantine"}, killed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sequences", type=int, default=10)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--kind", choices=SEQUENCES, default="plain")
    options = parser.parse_args()
    failed = 0
    with open_session(warehouse_settings(Path(tempfile.gettempdir()) / "none", master="local[2]")) as spark:
        for seed in range(options.first, options.first + options.sequences):
            root = Path(tempfile.mkdtemp(prefix="roamq-incremental-"))
            try:
                found, killed = play(spark, root, seed, options.steps, options.kind)
            finally:
                shutil.rmtree(root)
            failed += bool(found)
            sys.stdout.write(f"sequence {seed}: {found or 'equal'}, {killed} runs killed\n")
            sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
