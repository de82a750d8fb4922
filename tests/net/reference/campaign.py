"""Many sequences, in parts that processes share and a journal remembers."""

import gc
import hashlib
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import roamq
from tests.net.reference.explore import ONE, THREE, Setting, explore

PART_SEEDS = 100
"""How many seeds a process takes at a time."""
COLLECT_EVERY = 25
"""A network is a heap of cycles: garbage is collected after so many of them, and not in between."""


class Choice(NamedTuple):
    """What is played for each seed."""

    length: int = 20
    is_every: bool = False
    scheme: str | None = None
    overlay: str | None = None

    def settings(self, kind: str, seed: int) -> tuple[Setting, ...]:
        if kind == "one":
            return (ONE,)
        found = [
            setting
            for setting in THREE
            if self.scheme in (None, setting.scheme) and self.overlay in (None, setting.overlay)
        ]
        return tuple(found) if self.is_every else (found[seed % len(found)],)


class Part(NamedTuple):
    """Some seeds of one kind of network."""

    kind: str
    first: int
    seeds: int


class Played(NamedTuple):
    """What came of a part."""

    part: Part
    played: dict[str, int]
    """By scheme and overlay, how many sequences."""
    found: list[str]
    """The disagreements."""


def play(work: tuple[Choice, Part, float]) -> Played | None:
    """Play a part; None if the time is over before it has begun."""
    choice, part, until = work
    if time.time() > until:
        return None
    played, found = Counter[str](), list[str]()
    gc.disable()
    for seed in range(part.first, part.first + part.seeds):
        for setting in choice.settings(part.kind, seed):
            disagreement = explore(seed, setting, choice.length)
            played[str(setting)] += 1
            if disagreement is not None:
                found.append(disagreement)
        if seed % COLLECT_EVERY == 0:
            gc.collect()
    gc.enable()
    return Played(part, dict(played), found)


@cache
def program() -> str:
    """A name for the code that is tested, and for the code that tests it."""
    roots = (Path(roamq.__file__).parent, Path(__file__).parent)
    files = sorted(path for root in roots for path in root.rglob("*.py"))
    files.append(Path(__file__).parents[1] / "network.py")
    digest = hashlib.blake2b(digest_size=6)
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


class Campaign:
    """The sequences of a range of seeds, less what the journal has."""

    def __init__(self, choice: Choice, journal: Path | None = None) -> None:
        self.choice = choice
        self.journal = journal
        self.played: Counter[str] = Counter()
        self.totals: Counter[str] = Counter()
        self.disagreements = 0
        self._done: dict[Part, Played] = {}
        self._stopped = False
        if journal is not None and journal.exists():
            for line in journal.read_text().splitlines():
                said = json.loads(line)
                if (said["program"], said["choice"]) == (program(), list(choice)):
                    part = Part(*said["part"])
                    self._done[part] = Played(part, said["played"], said["found"])

    def stop(self) -> None:
        """End when the parts under way are done."""
        self._stopped = True

    def run(self, kinds: list[str], first: int, count: int, processes: int, seconds: float) -> Iterator[str]:
        """Play all; gives disagreements as they are found, or were."""
        ends = first + count
        parts = [
            Part(kind, seed, min(PART_SEEDS, ends - seed))
            for seed in range(first, ends, PART_SEEDS)
            for kind in kinds
        ]
        for part in parts:
            if part in self._done:
                yield from self._count(self._done[part])
        until = time.time() + seconds
        work = [(self.choice, part, until) for part in parts if part not in self._done]
        if processes == 1:
            yield from self._take(map(play, work))
            return
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            yield from self._take(pool.imap_unordered(play, work))

    def _take(self, results: Iterator[Played | None]) -> Iterator[str]:
        for result in results:
            if result is not None:
                self._write(result)
                yield from self._count(result)
            if self._stopped:
                return

    def _count(self, result: Played) -> list[str]:
        self.played.update(result.played)
        self.totals[result.part.kind] += sum(result.played.values())
        self.disagreements += len(result.found)
        return result.found

    def _write(self, result: Played) -> None:
        if self.journal is not None:
            said = {
                "program": program(),
                "choice": self.choice,
                "part": result.part,
                "played": result.played,
                "found": result.found,
            }
            with self.journal.open("a") as file:
                file.write(json.dumps(said) + "\n")
