"""The match index against a plain scan of the same filters, in the same run.

Filters are mixed: by topic alone (exact and with wildcards), by content alone, and both; contents use every
kind of predicate. Events are drawn from the same world, so that most find something. The bar: at 100,000
filters and a match set of at most 0.1%, the index is at least 50 times faster than the scan, and adding and
removing do not grow with the number of filters by more than its logarithm.
"""

import argparse
import random
import time
import tracemalloc
from dataclasses import asdict, dataclass

from roamq.core.events import BrokerId, Event, EventId, Value
from roamq.core.filters import Filter
from roamq.core.matching import MatchIndex

SIZES = (1_000, 10_000, 100_000)
RATIO_MIN = 50.0
MATCHED_MAX = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    filters: int
    scan_us: float
    index_us: float
    ratio: float
    add_us: float
    remove_us: float
    bytes_per_filter: float
    matched_fraction: float


def _topic(draw: random.Random) -> str:
    return f"site/{draw.randrange(400)}/line/{draw.randrange(50)}/{draw.choice(('state', 'alarm', 'count'))}"


def _topic_filter(draw: random.Random) -> str:
    levels = _topic(draw).split("/")
    kind = draw.random()
    if kind < 0.15:
        levels[3] = "+"
    elif kind < 0.30:
        levels[4] = "+"
    elif kind < 0.40:
        levels = [*levels[:4], "#"]
    elif kind < 0.42:
        levels[1] = "+"
    return "/".join(levels)


def _selector(draw: random.Random) -> str:
    product, brand = draw.randrange(2000), draw.randrange(300)
    low = draw.uniform(0, 10_000)
    price = f"price BETWEEN {low:.2f} AND {low + draw.expovariate(1 / 20):.2f}"
    kind = draw.randrange(6)
    if kind == 0:
        return f"product = 'p{product}' AND price < {low:.0f}"
    if kind == 1:
        return f"brand = 'b{brand}' AND {price}"
    if kind == 2:
        return price
    if kind == 3:
        return f"code LIKE 'c{draw.randrange(100_000):05d}%' AND brand <> 'b{brand}'"
    if kind == 4:
        sold = draw.choice(("TRUE", "FALSE"))
        return f"product IN ('p{product}', 'p{draw.randrange(2000)}') AND sold = {sold}"
    return f"load > {99.9 + draw.random():.3f} AND price > {low:.2f}"


def mixed_filters(count: int, draw: random.Random) -> list[Filter]:
    """A third each by topic, by content, and by both."""
    made = []
    for i in range(count):
        topic = "#" if i % 3 == 1 else _topic_filter(draw)
        made.append(Filter.parse(topic, _selector(draw) if i % 3 else None))
    return made


def events(count: int, draw: random.Random) -> list[Event]:
    made = []
    for sequence in range(count):
        attributes: dict[str, Value] = {
            "product": f"p{draw.randrange(2000)}",
            "brand": f"b{draw.randrange(300)}",
            "code": f"c{draw.randrange(10_000_000):07d}",
            "price": round(draw.uniform(0, 10_000), 2),
            "load": round(draw.uniform(0, 100), 3),
            "sold": draw.random() < 0.5,
        }
        id_ = EventId(BrokerId("bench"), sequence)
        made.append(Event(id=id_, topic=_topic(draw), attributes=attributes))
    return made


def measure(size: int, *, seed: int, scanned: int, matched: int) -> Row:
    """One row: the scan sees the first `scanned` of `matched` events, and both must agree on them."""
    draw = random.Random(seed)
    filters = mixed_filters(size, draw)
    seen = events(matched, draw)

    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    measured: MatchIndex[int] = MatchIndex()
    for key, filter_ in enumerate(filters):
        measured.add(key, filter_)
    bytes_per_filter = (tracemalloc.get_traced_memory()[0] - before) / size
    tracemalloc.stop()

    index: MatchIndex[int] = MatchIndex()  # again, since tracing slows the building
    begin = time.perf_counter()
    for key, filter_ in enumerate(filters):
        index.add(key, filter_)
    add_s = time.perf_counter() - begin

    begin = time.perf_counter()
    by_scan = [
        [key for key, filter_ in enumerate(filters) if filter_.matches(event)] for event in seen[:scanned]
    ]
    scan_s = (time.perf_counter() - begin) / scanned

    begin = time.perf_counter()
    by_index = [index.match(event) for event in seen]
    index_s = (time.perf_counter() - begin) / matched
    assert by_index[:scanned] == by_scan, "the index and the scan disagree"

    order = list(enumerate(filters))
    draw.shuffle(order)
    removed = order[: max(1, size // 2)]
    begin = time.perf_counter()
    for key, filter_ in removed:
        index.remove(key, filter_)
    remove_s = time.perf_counter() - begin

    return Row(
        filters=size,
        scan_us=scan_s * 1e6,
        index_us=index_s * 1e6,
        ratio=scan_s / index_s,
        add_us=add_s / size * 1e6,
        remove_us=remove_s / len(removed) * 1e6,
        bytes_per_filter=bytes_per_filter,
        matched_fraction=sum(map(len, by_index)) / matched / size,
    )


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="benchmarks matching", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="numbers of filters")
    parser.add_argument("--events", type=int, default=2_000, help="events matched by the index")
    parser.add_argument("--scanned", type=int, default=20, help="events matched by the scan too")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(argv)
    scanned = min(args.scanned, args.events)

    print("match index against a plain scan, mixed filters; microseconds per event or per filter")
    print("  filters       scan    index    ratio     add  remove   bytes   matched")
    rows = []
    for size in args.sizes:
        row = measure(size, seed=args.seed, scanned=scanned, matched=args.events)
        rows.append(row)
        times = f"{row.scan_us:>10,.0f} {row.index_us:>8.1f} {row.ratio:>7.0f}x"
        changes = f"{row.add_us:>7.1f} {row.remove_us:>7.1f} {row.bytes_per_filter:>7.0f}"
        print(f"{row.filters:>9,} {times} {changes} {row.matched_fraction:>9.4%}")
    last = rows[-1]
    passed = last.ratio >= RATIO_MIN and last.matched_fraction <= MATCHED_MAX
    print(
        f"bar: at least {RATIO_MIN:.0f}x at {last.filters:,} filters with at most {MATCHED_MAX:.1%} matched: "
        f"{'passed' if passed else 'MISSED'}"
    )
    return {"rows": [asdict(row) for row in rows], "ratio_min": RATIO_MIN, "passed": passed}


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
