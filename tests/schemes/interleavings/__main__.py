"""Explore further than the tests do: `python -m tests.schemes.interleavings --moves 2 --scheme proactive`."""

import argparse
import multiprocessing
import sys
import time
from dataclasses import replace
from functools import partial

from tests.schemes.interleavings.explore import Exploration, explore
from tests.schemes.interleavings.plans import Plan, border_plans, plans


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def explored(plan: Plan, max_states: int) -> Exploration:
    return explore(plan.world, max_states=max_states)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.schemes.interleavings", description=__doc__)
    parser.add_argument("--scheme", default="proactive", help="which scheme (default: proactive)")
    parser.add_argument("--moves", type=int, default=2, help="moves of the client after its first connection")
    parser.add_argument("--says", default="c", help="brokers at which events are published, such as 'ca'")
    parser.add_argument("--overlay", default="flooding", help="flooding or interest (default: flooding)")
    parser.add_argument("--late", action="store_true", help="contexts go without events that come late")
    parser.add_argument("--heads", action="store_true", help="what is stored goes as soon as it is asked for")
    parser.add_argument("--borders", action="store_true", help="ways across borders, under prehandoff")
    parser.add_argument("--falls", type=int, default=0, help="brokers that fall, each at any moment")
    parser.add_argument(
        "--advertised",
        action="store_true",
        help="brokers say that events are published at those of --says alone",
    )
    parser.add_argument("--states", type=int, default=1_000_000, help="give up a plan after so many states")
    parser.add_argument("--jobs", type=int, default=None, help="plans at a time (default: one per core)")
    arguments = parser.parse_args()
    began, states, steps, ends, incomplete = time.monotonic(), 0, 0, 0, 0
    chosen = list(
        plans(
            arguments.scheme,
            moves=arguments.moves,
            says=arguments.says,
            overlay=arguments.overlay,
            sends_heads=arguments.heads,
        )
    )
    if arguments.borders:
        chosen = list(border_plans(says=arguments.says))
    if arguments.falls:
        chosen = [replace(plan, falls=arguments.falls) for plan in chosen]
    if arguments.advertised:
        chosen = [replace(plan, advertised=True) for plan in chosen]
    if arguments.late:
        chosen = [replace(plan, late_after_s=0.0) for plan in chosen]
    with multiprocessing.Pool(arguments.jobs) as pool:
        results = pool.imap(partial(explored, max_states=arguments.states), chosen)
        for plan, result in zip(chosen, results, strict=True):
            states += result.states
            steps += result.steps
            ends += result.ends
            incomplete += not result.complete
            extent = "all" if result.complete else "the first"
            say(f"{plan}: {extent} {result.states} states, {result.ends} ends")
            if result.finding is not None:
                say(str(result.finding))
                return 1
    say(
        f"{states} states, {ends} ends, {steps} steps in {time.monotonic() - began:.0f} s, "
        f"{incomplete} plans not to their end; nothing found"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
