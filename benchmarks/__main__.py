"""`python -m benchmarks [NAME...] [-- options of the one benchmark]`: speed and scale against peers in one run.

Without names all of them run, one after the other: a benchmark wants the machine for itself. Results also go to
`benchmarks.json` in the folder named by --out.

Two more are commands of their own, because they compare this tree with another checkout: `python -m
benchmarks.digests` (the same records?) and `python -m benchmarks.before` (the same speed?). Two tell how wrong models
are (docs/models.md): `python -m benchmarks.bursts` and `benchmarks.solvers`.
"""

import argparse
import importlib
import json
import pkgutil
from pathlib import Path

import benchmarks

COMPARE_TREES = frozenset({"before", "digests"})
"""Commands of their own: they compare this tree with another one, which has to be named."""

ABOUT_MODELS = frozenset({"bursts", "limits", "saturation", "solvers"})
"""Commands of their own: they measure the error of models, not speed."""


def names() -> list[str]:
    found = {m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_")}
    return sorted(found - COMPARE_TREES - ABOUT_MODELS)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of: {', '.join(names())}")
    parser.add_argument("--out", type=Path, help="also write the results as JSON into this folder")
    options, rest = parser.parse_known_args()
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}; there are {', '.join(names())}")
    results: dict[str, object] = {}
    for name in options.names or names():
        print(f"\n=== {name}", flush=True)
        results[name] = importlib.import_module(f"benchmarks.{name}").main(rest)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "benchmarks.json").write_text(json.dumps(results, indent=2, default=str))


if __name__ == "__main__":
    main()
