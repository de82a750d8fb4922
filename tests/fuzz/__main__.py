"""`python -m tests.fuzz TARGET... [--inputs N] [--seconds S] [--jobs J]`: fuzz targets, guided by coverage.

Inputs that reach new code are kept in the folder of --corpus, and are where the next run begins. An input that makes a
target fail is written to the current folder, and its path is printed; `python -m tests.fuzz TARGET --replay PATH` runs
it again. The engine is libFuzzer, through the package atheris. Each target says how many inputs it has run, how many a
second, and how many of them reached new code; the last line counts them all.
"""

import argparse
import gc
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

NAMES = (
    "codec",
    "session",
    "mqtt",
    "websocket",
    "links",
    "frames",
    "selectors",
    "tickets",
    "tokens",
    "configuration",
    "journal",
    "http",
)


INPUT_BYTES_MAX = 2048
BYTES_MAX = {"mqtt": 384, "session": 384}
"""A step of these is what a client sends in one go, and costs a broker's work: long inputs are slow, and say little
that short ones do not."""


class Outcome(NamedTuple):
    """What came of fuzzing one target."""

    inputs: int
    failed: bool


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"some of: {', '.join(NAMES)}; default: all"
    )
    parser.add_argument("--inputs", type=int, default=0, help="for each target; 0: no bound")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets at a time")
    parser.add_argument("--corpus", type=Path, help="keep inputs that reach new code here")
    parser.add_argument("--replay", type=Path, help="run the one target on this file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.targets) - set(NAMES))
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(NAMES)}")
    if options.replay is not None:
        from tests.fuzz.targets import TARGETS

        TARGETS[options.targets[0]](options.replay.read_bytes())
        return 0
    if options.inside:
        fuzz(options.targets[0], options)
        return 0
    with ThreadPoolExecutor(options.jobs) as jobs:
        done = list(jobs.map(lambda name: run(name, options), options.targets or NAMES))
    failed = sum(outcome.failed for outcome in done)
    print(f"{sum(outcome.inputs for outcome in done):,} inputs, {failed} targets failed")
    return 1 if failed else 0


def run(name: str, options: argparse.Namespace) -> Outcome:
    """Fuzz in a process of its own, which libFuzzer ends; print what came of it."""
    again = [sys.executable, "-m", "tests.fuzz", name, "--inside"]
    again += ["--inputs", str(options.inputs), "--seconds", str(options.seconds)]
    if options.corpus is not None:
        again += ["--corpus", str(options.corpus)]
    done = subprocess.run(again, capture_output=True, text=True, errors="replace")
    said = done.stdout + done.stderr
    counted, per_second, new = (
        int(found[-1]) if (found := re.findall(rf"stat::{figure}: +(\d+)", said)) else 0
        for figure in ("number_of_executed_units", "average_exec_per_sec", "new_units_added")
    )
    covered = re.findall(r"cov: (\d+)", said) or ["0"]
    if done.returncode == 0 and counted:
        print(
            f"{name}: {counted:,} inputs, {per_second:,} a second, none failed; {new:,} reached new code, "
            f"from {covered[0]} to {covered[-1]} places",
            flush=True,
        )
        return Outcome(counted, failed=False)
    print(said[-8000:])
    print(f"{name}: FAILED", flush=True)
    return Outcome(counted, failed=True)


def fuzz(name: str, options: argparse.Namespace) -> None:
    try:
        import atheris  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("fuzzing needs the package atheris, which is there for Linux on x86-64") from None
    with atheris.instrument_imports(include=["roamq", "jwt", "websockets"], enable_loader_override=False):
        from tests.fuzz.seeds import SEEDS
        from tests.fuzz.targets import TARGETS

    with tempfile.TemporaryDirectory() as scratch:
        corpus = (options.corpus / name) if options.corpus is not None else Path(scratch)
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(SEEDS[name]):
            (corpus / f"seed-{number}").write_bytes(seed)
        arguments = [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={options.seconds}",
            f"-max_len={BYTES_MAX.get(name, INPUT_BYTES_MAX)}",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix=fuzz-{name}-",
        ]
        if options.inputs:
            arguments.append(f"-runs={options.inputs}")
        gc.collect()
        gc.freeze()  # the collector need not look at all modules again and again
        atheris.Setup(arguments, TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
