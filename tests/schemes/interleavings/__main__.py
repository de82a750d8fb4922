"""Explore further than the tests do: `python -m tests.schemes.interleavings --moves 2 --scheme proactive`."""

import argparse
import sys
import time

from tests.schemes.interleavings.explore import explore
from tests.schemes.interleavings.plans import plans


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.schemes.interleavings", description=__doc__)
    parser.add_argument("--scheme", default="proactive", help="which scheme (default: proactive)")
    parser.add_argument("--moves", type=int, default=2, help="moves of the client after its first connection")
    parser.add_argument("--says", default="c", help="brokers at which events are published, such as 'ca'")
    parser.add_argument("--states", type=int, default=1_000_000, help="give up a plan after so many states")
    arguments = parser.parse_args()
    began, states, incomplete = time.monotonic(), 0, 0
    for plan in plans(arguments.scheme, moves=arguments.moves, says=arguments.says):
        result = explore(plan.world, max_states=arguments.states)
        states += result.states
        incomplete += not result.complete
        extent = "all" if result.complete else "the first"
        say(f"{plan}: {extent} {result.states} states, {result.ends} ends")
        if result.finding is not None:
            say(str(result.finding))
            return 1
    say(
        f"{states} states in {time.monotonic() - began:.0f} s, {incomplete} plans not to their end; nothing found"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
