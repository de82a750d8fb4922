"""`python -m benchmarks.identify_pro`: find values for what [PRO] does not print, so that our runs show what it prints.

A *set* has a value for each parameter that the paper leaves open. A set is accepted if short simulations with it come
near enough to Table 2 (RND) and Fig. 6 of the paper. The command runs sets in waves:

1. the sets of the table that `roamq reproduce PRO` uses,
2. `--first` sets that are spread over all that is possible,
3. `--next` sets that promise most after what was seen, far apart from each other; once for each `--next`,
4. for every combination of the parameters that are a yes or a no, the set that promises most.

It prints the closest sets of each wave with their distance. `--write` puts accepted sets into the table. All runs are
one Spark campaign: a command that was stopped goes on where it was.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roamq.pipeline.campaign import read_campaign, run_campaign
from roamq.pipeline.results import per_run
from roamq.pipeline.session import SparkSettings, open_session
from roamq.reproduce import pro_prior
from roamq.reproduce.pro_identify import (
    METRICS,
    TARGETS,
    Figures,
    distance,
    figures_of,
    next_wave,
    short_jobs,
    spread_out,
    wave_by_choice,
)
from roamq.reproduce.pro_prior import ParameterSet
from roamq.reproduce.pro_sets import TABLE, named_sets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--first", type=int, default=32, help="sets that are spread over all that is possible"
    )
    parser.add_argument(
        "--next",
        type=int,
        action="append",
        help="sets of a further wave; may be repeated (three waves of 10)",
    )
    parser.add_argument("--out", type=Path, default=Path("identify-out"), help="folder of the campaign")
    parser.add_argument(
        "--keep", type=int, default=6, help="how many accepted sets --write takes, far apart from each other"
    )
    parser.add_argument(
        "--check", action="store_true", help=f"run no waves, but the sets of {TABLE.name}, in short runs"
    )
    parser.add_argument("--master", default=SparkSettings().master, help="where Spark runs its tasks")
    parser.add_argument("--write", action="store_true", help=f"write the accepted sets to {TABLE.name}")
    options = parser.parse_args(argv)
    known: list[tuple[ParameterSet, Figures]] = []
    with open_session(SparkSettings(master=options.master)) as spark:
        table = [dict(chosen) for chosen in named_sets().values()]
        waves = [0] if options.check else [0, options.first, *(options.next or [10, 10, 10]), 0]
        for number, count in enumerate(waves):
            if number == 0:
                sets = table
            elif number == len(waves) - 1:
                sets = wave_by_choice(known, seed=number)
            elif number == 1:
                sets = [pro_prior.at(point) for point in pro_prior.designed(count)]
            else:
                sets = next_wave(known, count, seed=number)
            found = simulated(spark, sets, (200,) if number == 1 else (10, 100, 200), options.out)
            known += found
            accepted = sum(is_accepted(figures) for _, figures in found)
            print(f"{f'wave {number}' if number else 'the table'}: {len(sets)} sets, {accepted} accepted")
            for chosen, figures in sorted(found, key=lambda one: distance(one[1])[0])[:12]:
                print(line_of(chosen, figures), flush=True)
    fitting = sorted((one for one in known if is_accepted(one[1])), key=lambda one: distance(one[1])[0])
    print(f"{len(known)} sets were run, {len(fitting)} accepted")
    if options.write:
        kept = [dict(chosen) for chosen in spread_out(fitting, options.keep)]
        TABLE.write_text(json.dumps(kept, indent=2) + "\n")
        print(f"{len(kept)} sets written to {TABLE.name}")
    return 0 if fitting else 1


def simulated(
    spark: "SparkSession", sets: Sequence[ParameterSet], populations: tuple[int, ...], out: Path
) -> list[tuple[ParameterSet, Figures]]:
    """Run each set with so many clients, unless the campaign has that run already; the figures that came of it."""
    jobs = {index: short_jobs(chosen, populations) for index, chosen in enumerate(sets)}
    every = [job for some in jobs.values() for job in some]
    run_campaign(spark, every, out, progress=lambda done, of: print(f"{done}/{of}", file=sys.stderr))
    rows = per_run(read_campaign(spark, out, [job.run_id for job in every]), METRICS)
    return [(sets[index], figures_of(rows, some)) for index, some in jobs.items()]


def is_accepted(figures: Figures) -> bool:
    """All targets were measured, and each is within its factor."""
    return len(figures) == len(TARGETS) and distance(figures)[0] <= 1


def line_of(chosen: ParameterSet, figures: Figures) -> str:
    worst, which = distance(figures)
    values = " ".join(f"{figures.get(target.name, float('nan')):.4g}" for target in TARGETS)
    told = ", ".join(pro_prior.told(name, value) for name, value in chosen.items())
    return f"{worst:.2f} ({which}): {values} | {told}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
