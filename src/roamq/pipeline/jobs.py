"""Jobs: what a campaign runs, as plain values. Importable without Spark.

A job is one run: a runner, its payload and a seed. Its id is the digest of what decides its records: runner,
payload, seed, the content of the files that the payload names, and the code that will run. So a campaign makes a run
once, and makes a new one when the scenario, a trace or the code changes (docs/decisions/0021).
"""

import functools
import hashlib
import json
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import roamq
from roamq.core.records import Record
from roamq.schemes.table import scheme_named, scheme_names
from roamq.sim.scenario import run_job

RunFunction = Callable[[dict[str, Any], int], Iterable[Record]]
"""`run(payload, seed)` yields the records of one run."""


Files = Callable[[Mapping[str, Any]], Sequence[str]]
"""`files(payload)` are the paths of the files that a run reads."""


def no_files(payload: Mapping[str, Any]) -> Sequence[str]:
    return ()


def simulation_files(payload: Mapping[str, Any]) -> Sequence[str]:
    """The trace that a scenario replays, if it replays one, and the source of a scheme that another package brings."""
    path = payload.get("mobility", {}).get("path")
    name = payload.get("scheme", {}).get("name")
    sources = _sources_of(name) if name in scheme_names() else ()
    return sources if path is None else (path, *sources)


@functools.cache
def _sources_of(scheme: str) -> tuple[str, ...]:
    """The files of the module, or of the package, that a scheme comes from, unless that is RoamQ itself."""
    module = sys.modules[scheme_named(scheme).scheme.__module__]
    if module.__name__.partition(".")[0] == "roamq" or module.__file__ is None:
        return ()
    path = Path(module.__file__)
    if "." not in module.__name__ and path.name != "__init__.py":
        return (str(path),)
    top = path.parents[module.__name__.count(".") - (path.name != "__init__.py")]
    return tuple(map(str, sorted(top.rglob("*.py"))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runner:
    """What makes the records of a run: the simulator, or whatever the caller of a campaign hands in."""

    run: RunFunction
    """A function at the top level of a module: Spark's workers import that module to run it."""
    unrelated: frozenset[str] = frozenset()
    """Packages of ours whose code cannot change what this runner records. A package that nobody lists counts."""
    files: Files = no_files

    @property
    def name(self) -> str:
        """`module:function`, for the table of runs."""
        return f"{self.run.__module__}:{self.run.__qualname__}"


AFTER_THE_RUN = frozenset({"models", "pipeline", "report", "reproduce"})
"""Packages that no runner uses: they decide what is run, and what is made of the records."""

SIMULATOR = Runner(
    run=run_job, unrelated=AFTER_THE_RUN | {"cli", "fieldtest", "manet", "net"}, files=simulation_files
)
"""The default runner: the payload is a scenario as plain data."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run of a campaign."""

    scenario: str
    """The name under which its records are grouped."""
    scheme: str
    seed: int
    params: Mapping[str, str] = field(default_factory=dict)
    """The parameters that were varied. Tables group by them; the runner does not read them."""
    payload: Mapping[str, Any] = field(default_factory=dict)
    """What the runner reads: JSON."""
    runner: Runner = SIMULATOR
    cost: float = 1.0
    """How long the run takes compared with the others of its campaign: the longest runs start first."""
    replay: str = ""
    """The command that makes this run again; without one, the run is taken to be of a preset."""

    @property
    def run_id(self) -> str:
        runner = self.runner
        files = [file_digest(Path(path)) for path in runner.files(self.payload)]
        decisive = [runner.name, dict(self.payload), self.seed, files, code_digest(runner.unrelated)]
        text = json.dumps(decisive, sort_keys=True)
        # A letter first: a folder named after it can never be taken for a number.
        return "r" + hashlib.sha256(text.encode()).hexdigest()[:15]

    @property
    def warmup_s(self) -> float:
        """Metrics ignore events published before this time."""
        return float(self.payload.get("warmup_s", 0.0))

    @property
    def until_s(self) -> float | None:
        """Metrics ignore events published after this time; None: they ignore none."""
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


def file_digest(path: Path) -> str:
    """A digest of the file's content. It is empty for a missing file: the run itself will report that."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else ""


@functools.cache
def code_digest(unrelated: frozenset[str], root: Path = Path(roamq.__file__).parent) -> str:
    """A digest of the source files under `root`, without those of the packages in `unrelated`."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if path.suffix in {".py", ".toml"} and relative.parts[0].removesuffix(".py") not in unrelated:
            digest.update(relative.as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]
