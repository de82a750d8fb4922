"""Small runners for campaign tests: they record a few rows without a simulator."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from roamq.core.records import Record


def counting(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """`payload["events"]` publications and deliveries at times drawn from the seed."""
    rng = random.Random(seed)
    for number in range(payload["events"]):
        at = rng.random()
        yield Record("published", at, "b1", "p0", "b1", number, count=1)
        yield Record("delivered", at + 0.5, "b2", "c0", "b1", number, detail="live", duration_s=0.5)


def failing(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """Records something, then breaks on odd seeds."""
    yield Record("published", 0.0, "b1", "p0", "b1", 1, count=1)
    if seed % 2:
        raise RuntimeError(f"broke at seed {seed}")


def refusing(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """Breaks before it records anything."""
    raise RuntimeError(f"refused seed {seed}")


def refusing_while_there(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """On odd seeds breaks while a file is there, as while a disk is full."""
    if seed % 2 and Path(payload["file"]).exists():
        raise OSError(28, "No space left on device")
    yield Record("published", 0.0, "b1", "p0", "b1", 1, count=1)


def violating(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """Reports that an invariant broke."""
    yield Record("violation", 1.0, detail="duplication: 1 found", count=1)


def dying(payload: dict[str, Any], seed: int) -> Iterator[Record]:
    """Takes its process down on seed 1, as a run that needs too much memory would."""
    yield Record("published", 0.0, "b1", "p0", "b1", 1, count=1)
    if seed == 1:
        os._exit(1)
