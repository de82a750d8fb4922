"""Trees of the source: this one and the one before a change. A benchmark of ours runs against either of them.

A child process imports `roamq` from the tree and `benchmarks` from here, so both trees run the same script.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


class Tree:
    """A checkout of RoamQ, whose `src/roamq` child processes import."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path.resolve()
        self.name = name
        if not (self.path / "src" / "roamq").is_dir():
            raise SystemExit(f"--before {path}: there is no src/roamq; name a checkout of RoamQ")

    @cached_property
    def environment(self) -> dict[str, str]:
        """What a child process needs to import `roamq` from this tree; it is tried once."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(self.path / "src"), str(HERE))),
            "PYTHONSAFEPATH": "1",  # the current folder has no say, nor for the processes that a child starts
        }
        asked = [sys.executable, "-c", "import roamq; print(roamq.__file__)"]
        found = subprocess.run(
            asked, env=environment, capture_output=True, text=True, check=True
        ).stdout.strip()
        if not Path(found).resolve().is_relative_to(self.path):
            raise SystemExit(
                f"{self.name}: `import roamq` finds {found}, not {self.path / 'src'}; "
                "start an interpreter that puts PYTHONPATH before installed packages"
            )
        return environment

    def start(self, module: str, arguments: Sequence[str]) -> "subprocess.Popen[str]":
        """Start `python -m module arguments` on this tree; what it prints is read from `stdout`."""
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.Popen(
            command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def output(self, module: str, arguments: Sequence[str]) -> str:
        """Run `python -m module arguments` on this tree to its end, and give what it printed."""
        with self.start(module, arguments) as process:
            printed, _ = process.communicate()
        if process.returncode:
            command = " ".join(("python -m", module, *arguments))
            raise SystemExit(
                f"{self.name} ({self.path}): `{command}` failed with exit code {process.returncode}"
            )
        return printed


def pair(before: Path) -> tuple[Tree, Tree]:
    """The tree before, and this one."""
    return Tree(before, "before"), Tree(HERE, "now")
