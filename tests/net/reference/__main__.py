"""`python -m tests.net.reference --sequences 1000`: random sequences against one broker and three in turn.

Of each of the two kinds of networks as many sequences are played, one for each seed. Three brokers have links of random
delay; each seed has the next scheme and overlay, so that all get as many. `--every`: each seed has all of them.

A sequence on which network and model disagree is shrunk and printed; `--seed N --sequences 1 --every` plays it again.
With `--journal FILE` the run can be ended and begun again: what was played of the same program is not played again. The
last line says how many were played, and by which program.
"""

import argparse
import resource
import signal
import sys
import time
from pathlib import Path

from roamq.build import OVERLAYS
from tests.net.network import SCHEMES
from tests.net.reference.campaign import Campaign, Choice, program


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sequences", type=int, default=1000, help="how many seeds, for each kind of network"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument(
        "--length", type=int, default=20, help="how many actions are drawn for a sequence at most"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--journal", type=Path, help="the file that says what was played")
    parser.add_argument("--one", action="store_true", help="one broker alone")
    parser.add_argument("--three", action="store_true", help="three brokers in turn alone")
    parser.add_argument("--every", action="store_true", help="each seed under every scheme and overlay")
    parser.add_argument("--scheme", choices=SCHEMES, help="this scheme alone")
    parser.add_argument("--overlay", choices=OVERLAYS, help="this way to route events alone")
    options = parser.parse_args()
    kinds = [*(["one"] if not options.three else []), *(["three"] if not options.one else [])]
    choice = Choice(options.length, options.every, options.scheme, options.overlay)
    campaign = Campaign(choice, options.journal)
    signal.signal(signal.SIGTERM, lambda *_: campaign.stop())
    began = time.monotonic()
    for found in campaign.run(kinds, options.seed, options.sequences, options.processes, options.seconds):
        say(found)
    took_s = time.monotonic() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor_s = sum(one.ru_utime + one.ru_stime for one in used)
    for setting, number in sorted(campaign.played.items()):
        say(f"{setting}: {number} sequences")
    totals = ", ".join(f"{kind}: {number} sequences" for kind, number in sorted(campaign.totals.items()))
    took = f"{took_s:.0f} s, {processor_s:.0f} s of processors"
    say(f"{totals}; {campaign.disagreements} disagreements; program {program()}; {took}")
    sys.exit(campaign.disagreements > 0)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
