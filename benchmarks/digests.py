"""`python -m benchmarks.digests`: one digest of the records of each simulated run, to show that nothing changed.

Every scheme, some of them with options as well, runs in every scenario with every seed. Three scenarios are full of
faults: brokers crash and find their store again or not, links are cut, messages are lost, repeated and late. The
fourth is calm, because only a run without faults takes the simulator's short ways.

    python -m benchmarks.digests > digests.txt              # one line per scheme, scenario and seed
    python -m benchmarks.digests --before digests.txt       # compare with a table that was saved
    python -m benchmarks.digests --before ../old-checkout   # compare with another checkout, which runs the same list
    python -m benchmarks.digests --scenario testbed-kept    # the same faults, but no broker loses its store
    python -m benchmarks.digests --scheme proactive --scenario testbed --seed 1 --records     # the records themselves

A comparison ends with exit code 1 if a run differs or is missing, and shows the first record that differs.
"""

import argparse
import hashlib
import importlib
import itertools
import json
import sys
from collections.abc import Container, Generator, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks._trees import HERE, Tree, pair

SEEDS = (1, 2)
DETAIL = 7
"""The place of the field `detail` in a record. In a violation it begins with the guarantee and a colon."""
SHOWN = 3
"""For how many different runs the first record that differs is looked up: each takes two more runs."""

SCENARIOS: dict[str, tuple[str, dict[str, str]]] = {
    # Flooding. Links lose and repeat. The last hop loses, and a broker sends what was lost again when the client comes
    # back, after later events: the checker of order records that as a violation.
    "testbed": (
        "testbed",
        {
            "duration_s": "120.0",
            "drain_s": "600.0",
            "mobility.connect_s": "8.0",
            "mobility.disconnect_s": "3.0",
            "mobility.handoff_s": "0.5",
            "workload.publishers_count": "2",
            "workload.rate": "8.0",
            "link": "{ delay_s = 0.01, jitter_s = 0.05, loss = 0.02, duplication = 0.01 }",
            "last_hop": "{ delay_s = 0.004, loss = 0.01, detect_s = 0.3 }",
            "records.buffer_s": "5.0",
            "faults": """[
                { at_s = 25.0, kind = "crash", target = "b3", duration_s = 2.0 },
                { at_s = 45.0, kind = "cut", target = "b2-b6", duration_s = 3.0 },
                { at_s = 70.0, kind = "crash", target = "b6", duration_s = 2.0, keep_store = false },
                { at_s = 90.0, kind = "cut", target = "b3-b5", duration_s = 5.0 },
            ]""",
        },
    ),
    # Hierarchy with covering and advertisements. Brokers take time, and clients show no epoch.
    "city": (
        "pervasive",
        {
            "clients": "60",
            "duration_s": "900.0",
            "warmup_s": "0.0",
            "drain_s": "600.0",
            "network.height": "3",
            "network.degree": "3",
            "network.covering": "true",
            "network.advertisements": "true",
            "mobility.stay_s": "[20.0, 60.0]",
            "mobility.travel_s": "[20.0, 60.0]",
            "mobility.cell_km": "0.1",
            "workload.publishers_count": "30",
            "workload.period_s": "30.0",
            "link": "{ delay_s = 0.02, jitter_s = 0.1 }",
            "last_hop": "{ delay_s = 0.004, detect_s = 0.5, shows_epoch = false }",
            "service": "{ operation_s = 0.0005, event_s = 0.001, send_s = 0.0005 }",
            "records": '{ level = "all", bin_s = 60.0, buffer_s = 30.0 }',
            "faults": """[
                { at_s = 200.0, kind = "crash", target = "b1.1", duration_s = 3.0 },
                { at_s = 400.0, kind = "cut", target = "b0.0-b1.2", duration_s = 10.0 },
                { at_s = 500.0, kind = "crash", target = "b2.4", duration_s = 2.0 },
                { at_s = 600.0, kind = "cut", target = "b1.0-b2.0", duration_s = 20.0 },
                { at_s = 700.0, kind = "crash", target = "b2.7", duration_s = 5.0, keep_store = false },
            ]""",
        },
    ),
    # Location areas and cells. Links are slow, and events expire.
    "streets": (
        "prehandoff",
        {
            "clients": "20",
            "duration_s": "600.0",
            "warmup_s": "0.0",
            "drain_s": "600.0",
            "mobility.speed_mps": "[30.0, 60.0]",
            "mobility.off": "0.02",
            "mobility.off_s": "20.0",
            "mobility.turn_back": "0.05",
            "workload.lifetime_s": "60.0",
            "link": "{ delay_s = 0.2, jitter_s = 0.3 }",
            "last_hop": "{ delay_s = 0.005, detect_s = 0.2 }",
            "records.level": "all",
            "faults": """[
                { at_s = 150.0, kind = "crash", target = "b5", duration_s = 2.0 },
                { at_s = 250.0, kind = "cut", target = "b2-b3", duration_s = 5.0 },
                { at_s = 350.0, kind = "crash", target = "b4", duration_s = 3.0, keep_store = false },
                { at_s = 450.0, kind = "cut", target = "b5-b8", duration_s = 4.0 },
            ]""",
        },
    ),
    # Hierarchy without faults, jitter or service time.
    "calm": (
        "random",
        {
            "clients": "100",
            "duration_s": "600.0",
            "warmup_s": "0.0",
            "network.height": "3",
            "mobility.stay_s": "[20.0, 60.0]",
            "mobility.travel_s": "[20.0, 60.0]",
            "workload.publishers_count": "40",
            "workload.period_s": "30.0",
            "records.level": "all",
        },
    ),
}
"""Name -> the bundled scenario, and what is changed in it. Clients move often, so that faults meet handoffs."""

KEPT = "-kept"
"""Behind the name of a scenario: every broker that crashes finds its store again. What a broker that has lost its store
does may have changed since the other tree; such a run shows whether anything else has."""
WITH_STORES_KEPT = tuple(
    f"{name}{KEPT}" for name, (_, changes) in SCENARIOS.items() if "keep_store" in changes.get("faults", "")
)

VARIANTS: tuple[tuple[str, dict[str, str], tuple[str, ...]], ...] = (
    ("standard", {"queue_bytes": "600", "timeout_s": "20.0"}, ("testbed", "streets")),
    ("prefetching", {"prediction": "learned", "targets": "2"}, ("testbed", "city")),
    ("prefetching", {"prediction": "wrong"}, ("testbed", "city")),
    ("logging", {"log_size": "20"}, ("testbed", "streets")),
    ("home-broker", {"report_every": "5"}, ("testbed", "streets")),
    ("proactive", {"neighbor_limit": "1", "buffer_bytes": "4000"}, ("testbed", "city", "streets")),
    ("proactive", {"neighbor_lifetime_s": "60.0"}, ("testbed", "streets")),
    ("reactive", {"fenced": "true", "deduplicated": "true", "followed": "true"}, ("testbed", "streets")),
    ("prehandoff", {"choose": "all"}, ("streets",)),
    ("prehandoff", {"choose": "ahead"}, ("streets",)),
    ("prehandoff", {"choose": "cone", "lease_s": "20.0"}, ("streets",)),
)
"""Schemes with options that choose other ways through their code, in the scenarios where those ways are taken."""


class Run(NamedTuple):
    """Which run: together these decide its records."""

    scheme: str
    """The name, followed by options in parentheses if there are any."""
    scenario: str
    seed: int


class Digest(NamedTuple):
    """How many records a run left, and the digest of all of them; or the error that ended it."""

    records: int
    text: str


Table = dict[Run, Digest]


# --- what must be asked of the tree that runs --------------------------------------------------------------------


def scheme_names() -> list[str]:
    """Every name that the tree's registry of schemes knows."""
    try:
        table: Any = importlib.import_module("roamq.schemes.table")
    except ModuleNotFoundError:  # an older tree, whose schemes registered themselves
        table = importlib.import_module("roamq.schemes")
    return sorted(table.scheme_names())


def simulated(scheme: str, scheme_options: dict[str, str], scenario: str, seed: int) -> Iterable[Any]:
    """The records of one run."""
    from roamq.sim.scenario import load_scenario, run

    preset, changes = SCENARIOS[scenario.removesuffix(KEPT)]
    if scenario.endswith(KEPT):
        changes = {**changes, "faults": changes["faults"].replace(", keep_store = false", "")}
    overrides = {**changes, **{f"scheme.{key}": value for key, value in scheme_options.items()}}
    return run(load_scenario(preset, overrides=overrides, scheme=scheme), seed=seed).records


# --- digests -----------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """A scheme with its options, and the scenarios it runs in."""

    scheme: str
    options: dict[str, str]
    scenarios: tuple[str, ...]


def cases() -> dict[str, Case]:
    """Label -> case: every scheme of the tree with its defaults in all scenarios, then the variants."""
    found = {name: Case(name, {}, tuple(SCENARIOS)) for name in scheme_names()}
    for name, options, scenarios in VARIANTS:
        listed = ",".join(f"{key}={value}" for key, value in options.items())
        found[f"{name}({listed})"] = Case(name, options, scenarios)
    return found


def lines_of(run: Run, left_out: Container[tuple[str, str]] = ()) -> Iterator[str]:
    """The records of a run, one line of JSON each. Numbers are written with all their digits."""
    case = cases()[run.scheme]
    for record in simulated(case.scheme, case.options, run.scenario, run.seed):
        if (record[0], str(record[DETAIL]).partition(":")[0]) not in left_out:
            yield json.dumps(record)


def digest_of(run: Run, left_out: Container[tuple[str, str]] = ()) -> Digest:
    hashed, count = hashlib.blake2b(digest_size=16), 0
    try:
        for line in lines_of(run, left_out):
            hashed.update(line.encode())
            hashed.update(b"\n")
            count += 1
    except Exception as error:  # a run that fails is a difference to show, and no reason to end the others
        return Digest(0, f"{type(error).__name__}: {' '.join(str(error).split())}")
    return Digest(count, hashed.hexdigest())


def as_line(run: Run, digest: Digest) -> str:
    return f"{run.scheme:<54} {run.scenario:<12} {run.seed:>4} {digest.records:>7} {digest.text}"


def from_lines(lines: Iterable[str]) -> Iterator[tuple[Run, Digest]]:
    """What `as_line` wrote; empty lines and comments are left out."""
    for line in lines:
        if line.strip() and not line.startswith("#"):
            scheme, scenario, seed, records, text = line.split(maxsplit=4)
            yield Run(scheme, scenario, int(seed)), Digest(int(records), text.strip())


# --- comparing ---------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """Runs that are not as they were before."""

    different: list[Run]
    missing: list[Run]


def compared(before: Iterable[tuple[Run, Digest]], now: Iterable[tuple[Run, Digest]]) -> Verdict:
    """Print one line per run as soon as both sides have it, and the counts at the end."""
    old: Table = {}
    waiting = iter(before)
    counts = {"equal": 0, "different": 0, "missing": 0, "new": 0}
    result = Verdict([], [])
    for run, digest in now:
        while run not in old and (found := next(waiting, None)) is not None:
            old[found[0]] = found[1]
        there = old.pop(run, None)
        verdict = "new" if there is None else "equal" if there == digest else "different"
        counts[verdict] += 1
        print(f"{verdict:<9} {as_line(run, digest)}", flush=True)
        if verdict == "different" and there is not None:
            result.different.append(run)
            print(f"{'before':<9} {as_line(run, there)}", flush=True)
    for run, digest in itertools.chain(old.items(), waiting):
        counts["missing"] += 1
        result.missing.append(run)
        print(f"{'missing':<9} {as_line(run, digest)}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return result


def show_first_difference(run: Run, trees: tuple[Tree, Tree], left_out: list[str]) -> None:
    """Print the first record in which the two trees part."""
    arguments = ["--scheme", run.scheme, "--scenario", run.scenario, "--seed", str(run.seed), "--records"]
    arguments += [part for pair in left_out for part in ("--leave-out", pair)]
    before, now = (tree.output("benchmarks.digests", arguments).splitlines() for tree in trees)
    for number, (old, new) in enumerate(itertools.zip_longest(before, now, fillvalue="(no record)")):
        if old != new:
            print(f"\n{run.scheme} {run.scenario} {run.seed}: record {number} is the first that differs")
            print(f"  before {old}\n  now    {new}")
            return


def of_tree(tree: Tree, arguments: list[str]) -> Generator[tuple[Run, Digest], None, None]:
    """The digests of a tree, as its own process finds them. The process starts at once."""
    process = tree.start("benchmarks.digests", arguments)

    def read() -> Generator[tuple[Run, Digest], None, None]:
        with process:
            assert process.stdout is not None
            yield from from_lines(process.stdout)
        if process.returncode:
            raise SystemExit(f"{tree.name} ({tree.path}): failed with exit code {process.returncode}")

    return read()


# --- command line ------------------------------------------------------------------------------------------------


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.digests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--before", type=Path, metavar="PATH", help="a checkout of RoamQ, or a saved table, to compare with"
    )
    parser.add_argument("--scheme", action="append", help="only this scheme or variant; may be repeated")
    parser.add_argument(
        "--scenario",
        action="append",
        choices=(*SCENARIOS, *WITH_STORES_KEPT),
        help="may be repeated; the first four without it",
    )
    parser.add_argument("--seed", action="append", type=int, help="may be repeated; 1 and 2 without it")
    parser.add_argument("--records", action="store_true", help="print the records, not their digest")
    parser.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="KIND:DETAIL",
        help="records that are known to differ, such as violation:order; may be repeated",
    )
    options = parser.parse_args(argv)
    left_out = {(kind, detail) for kind, _, detail in (pair.partition(":") for pair in options.leave_out)}
    known = cases()
    schemes = options.scheme or list(known)
    unknown = [scheme for scheme in schemes if scheme not in known]
    if unknown:
        parser.error(f"--scheme {unknown[0]}: choose from {', '.join(known)}")
    chosen = itertools.product(options.scenario or SCENARIOS, schemes, options.seed or SEEDS)
    runs = [
        Run(scheme, where, seed)
        for where, scheme, seed in chosen
        if where.removesuffix(KEPT) in known[scheme].scenarios
    ]
    if options.before is not None:
        return _compare(options.before, runs, options)
    for run in runs:
        if options.records:
            sys.stdout.writelines(f"{line}\n" for line in lines_of(run, left_out))
        else:
            print(as_line(run, digest_of(run, left_out)), flush=True)
    return 0


def _selection(options: argparse.Namespace) -> Iterator[str]:
    """The options with which a child process chooses the same runs."""
    for name in ("scheme", "scenario", "seed", "leave_out"):
        for value in getattr(options, name) or ():
            yield from (f"--{name.replace('_', '-')}", str(value))


def _compare(before: Path, runs: list[Run], options: argparse.Namespace) -> int:
    selection = [*_selection(options)]
    if before.is_file():
        saved = [
            (run, digest) for run, digest in from_lines(before.read_text().splitlines()) if run in set(runs)
        ]
        return 1 if any(compared(saved, of_tree(Tree(HERE, "now"), selection))) else 0
    trees = pair(before)
    old, now = (of_tree(tree, selection) for tree in trees)  # side by side: no speed is measured here
    with closing(old), closing(now):
        result = compared(old, now)
    for run in result.different[:SHOWN]:
        show_first_difference(run, trees, options.leave_out)
    return 1 if any(result) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
