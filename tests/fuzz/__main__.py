"""`python -m tests.fuzz TARGET... [--inputs N] [--seconds S]`: fuzz targets one after the other, guided by coverage.

Inputs that reach new code are kept in the folder of --corpus, and are where the next run begins. An input that makes a
target fail is written to the current folder, and its path is printed; `python -m tests.fuzz TARGET --replay PATH` runs
it again. The engine is libFuzzer, through the package atheris.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

NAMES = (
    "codec",
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


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument(
        "targets", nargs="*", metavar="TARGET", help=f"some of: {', '.join(NAMES)}; default: all"
    )
    parser.add_argument("--inputs", type=int, default=0, help="for each target; 0: no bound")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
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
    failed = 0
    for name in options.targets or NAMES:
        failed += run(name, options)
    return 1 if failed else 0


def run(name: str, options: argparse.Namespace) -> int:
    """Fuzz in a process of its own, which libFuzzer ends; print what came of it."""
    again = [sys.executable, "-m", "tests.fuzz", name, "--inside"]
    again += ["--inputs", str(options.inputs), "--seconds", str(options.seconds)]
    if options.corpus is not None:
        again += ["--corpus", str(options.corpus)]
    done = subprocess.run(again, capture_output=True, text=True, errors="replace")
    said = done.stdout + done.stderr
    inputs = re.findall(r"number_of_executed_units: (\d+)", said)
    counted = int(inputs[-1]) if inputs else 0
    if done.returncode == 0 and counted:
        print(f"{name}: {counted:,} inputs, none failed", flush=True)
        return 0
    print(said[-8000:])
    print(f"{name}: FAILED", flush=True)
    return 1


def fuzz(name: str, options: argparse.Namespace) -> None:
    try:
        import atheris  # type: ignore[import-untyped]
    except ImportError:
        raise SystemExit("fuzzing needs the package atheris, which is there for Linux on x86-64") from None
    with atheris.instrument_imports(include=["roamq", "jwt", "websockets"], enable_loader_override=False):
        from tests.fuzz.targets import SEEDS, TARGETS

    with tempfile.TemporaryDirectory() as scratch:
        corpus = (options.corpus / name) if options.corpus is not None else Path(scratch)
        corpus.mkdir(parents=True, exist_ok=True)
        for number, seed in enumerate(SEEDS[name]):
            (corpus / f"seed-{number}").write_bytes(seed)
        arguments = [
            sys.argv[0],
            str(corpus),
            f"-max_total_time={options.seconds}",
            "-max_len=2048",
            "-timeout=10",
            "-rss_limit_mb=2048",
            "-print_final_stats=1",
            f"-artifact_prefix=fuzz-{name}-",
        ]
        if options.inputs:
            arguments.append(f"-runs={options.inputs}")
        atheris.Setup(arguments, TARGETS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
