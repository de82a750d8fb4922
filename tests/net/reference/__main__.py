"""`python -m tests.net.reference --sequences 1000`: random sequences against one broker and three in turn.

Three brokers in turn have links of random delay, under every scheme and overlay. A sequence on which network and model
disagree is shrunk and printed; `--seed N --sequences 1` plays it again. The end, or SIGTERM, says how many were played
of each kind.
"""

import argparse
import signal
import sys
import time
from collections import Counter

from roamq.build import OVERLAYS
from tests.net.reference.explore import ONE, THREE, Setting, explore


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sequences", type=int, default=1000, help="of each kind of network and scheme")
    parser.add_argument("--seed", type=int, default=0, help="of the first sequence")
    parser.add_argument("--length", type=int, default=20, help="how many actions a sequence has at most")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--one", action="store_true", help="one broker alone")
    parser.add_argument("--three", action="store_true", help="three brokers in turn alone")
    parser.add_argument("--overlay", choices=OVERLAYS, help="how events are routed; default: each way")
    options = parser.parse_args()
    settings = [*([] if options.three else [ONE]), *([] if options.one else THREE)]
    if options.overlay is not None:
        settings = [s for s in settings if s.overlay == options.overlay or s.brokers == 1]
    played, failed = Counter[Setting](), Counter[Setting]()
    stop: list[bool] = []
    until = time.monotonic() + options.seconds
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    for seed in range(options.seed, options.seed + options.sequences):
        for setting in settings:
            found = explore(seed, setting, options.length)
            played[setting] += 1
            if found is not None:
                failed[setting] += 1
                say(found)
        if stop or time.monotonic() > until:
            break
    for setting, number in played.items():
        say(f"{setting}: {number} sequences, {failed[setting]} disagreements")
    say(f"{played.total()} sequences up to seed {seed}, {failed.total()} disagreements")
    sys.exit(failed.total() > 0)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


main()
