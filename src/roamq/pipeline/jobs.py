"""Jobs: what a campaign runs, as plain values. Importable without Spark.

A job is one run: a runner, its payload and a seed. Its id is the digest of what decides its records (runner,
payload, seed, and the code that will run), so a run that was made once is never made again, and a change to
the code or the scenario makes a new one.
"""

import functools
import hashlib
import importlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import roamq
from roamq.core.errors import ConfigError
from roamq.core.records import Record

Runner = Callable[[dict[str, Any], int], Iterable[Record]]
"""`runner(payload, seed)` yields the records of one run; found by its dotted name, `module:function`."""

SIMULATE = "roamq.sim.scenario:run_job"
"""The default runner: the payload is a scenario as plain data."""

UNRELATED = frozenset({"cli", "console", "net", "pipeline", "report", "reproduce"})
"""Packages whose code cannot change what a run records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a campaign."""

    scenario: str
    """The name under which its records are grouped."""
    scheme: str
    seed: int
    params: Mapping[str, str] = field(default_factory=dict)
    """What was varied, for the tables: not read by the runner."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What the runner reads: JSON."""
    runner: str = SIMULATE
    cost: float = 1.0
    """How long it runs compared with its neighbours: the longest start first."""
    replay: str = ""
    """The command that makes this run again; one for a preset is made up where none is given."""

    @property
    def run_id(self) -> str:
        text = json.dumps([self.runner, dict(self.payload), self.seed, code_version()], sort_keys=True)
        # A letter first: a folder named after it can never be taken for a number.
        return "r" + hashlib.sha256(text.encode()).hexdigest()[:15]

    @property
    def warmup_s(self) -> float:
        """Metrics leave out what was published before this."""
        return float(self.payload.get("warmup_s", 0.0))

    @property
    def until_s(self) -> float | None:
        """Metrics leave out what was published after this; None: nothing."""
        duration_s = self.payload.get("duration_s")
        return None if duration_s is None else float(duration_s)

    @property
    def replay_command(self) -> str:
        if self.replay:
            return self.replay
        overrides = " ".join(f"--set {shlex.quote(f'{key}={value}')}" for key, value in self.params.items())
        return (
            f"roamq simulate {self.scenario} --scheme {self.scheme} {overrides} --seed {self.seed}".replace(
                "  ", " "
            )
        )


def find_runner(dotted: str) -> Runner:
    """The function that `module:function` names."""
    module, _, function = dotted.partition(":")
    try:
        runner = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"runner {dotted!r} cannot be found: {error}") from error
    assert callable(runner), f"runner {dotted!r} is not callable"
    return runner  # type: ignore[no-any-return]


@functools.cache
def code_version() -> str:
    """A digest of all code that may decide what a run records."""
    root = Path(roamq.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.suffix in {".py", ".toml"} and relative.parts[0] not in UNRELATED:
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
