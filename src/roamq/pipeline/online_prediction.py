"""Next-site prediction that learns on, and that knows how long a client has been at its site.

`prediction` counts moves on training days and tests on later ones. Two things help beyond that: how long a client has
stayed (whoever drives through a cell goes on, whoever turns around stays longer), and what was learned on the test days
before the move in question. Both need the moves in time order, which no window can count: a function reads the moves
from one site after the other and keeps its counts. One task reads all moves from a site, and holds no more than the
counts of that site.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType

from roamq.pipeline.conform import conform, struct_of
from roamq.pipeline.prediction import split_by_day
from roamq.pipeline.schemas import RANKED_TESTS
from roamq.pipeline.vectorised import arrow_function

PREDICTORS: Final = ("dwell-backoff", "online-1", "online-2-backoff", "online-dwell-backoff")
"""Last two sites and dwell, trained; learned on: last site, last two sites, last two sites and dwell."""
RANKED: Final = "predictor string, rank bigint, size bigint"

Counts = defaultdict[tuple[object, ...], Counter[str]]
"""Context -> how often clients went where from this site."""


def ranked_in_order(moves: DataFrame, time_zone: str, test_share: float) -> DataFrame:
    """Moves -> `schemas.RANKED_TESTS` of `PREDICTORS`: the rank of each test move's target at the time of the move.

    Each predictor lists the sites of its longest context first, the most frequent first, then what shorter contexts
    add: last two sites and dwell, last two sites, last site. A target to which nobody went from that site is on no
    list. The dwell counts by powers of two of a second.
    """
    split = split_by_day(moves, time_zone, test_share)
    by_client = Window.partitionBy("dataset", "client").orderBy("time", "left_at")
    stayed_s = (F.unix_micros("left_at") - F.unix_micros(F.lag("time").over(by_client))) / 1_000_000
    # The first stay of a client has no begin, and no length.
    dwell = F.coalesce(F.floor(F.log2(F.greatest(stayed_s, F.lit(1.0)))), F.lit(-1)).cast("int")
    totals = split.groupBy("dataset").agg(F.count_if(~F.col("is_test")).alias("train_moves"))
    ordered = (
        split.withColumn("dwell", dwell)
        .repartition("dataset", "from")
        .sortWithinPartitions("dataset", "from", "time", "client", "left_at", "to")
    )
    rank = arrow_function(_ranks, ArrayType(struct_of(RANKED)), stateful=True)
    place = F.concat_ws("\0", "dataset", "from")
    ranked = ordered.withColumn("ranks", rank(place, "before", "dwell", "to", "is_test"))
    tested = ranked.select("dataset", "first_test_day", F.inline("ranks"))
    counted = tested.groupBy("dataset", "predictor", "first_test_day", "rank", "size").agg(
        F.count("*").alias("n")
    )
    return conform(counted.join(F.broadcast(totals), "dataset"), RANKED_TESTS)


def _ranks(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
    """Moves sorted by the site they leave and by time -> per test move the rank and the size of each list."""
    here: object = None
    trained: Counts = defaultdict(Counter)
    learned: Counts = defaultdict(Counter)
    for columns in batches:
        found: list[list[dict[str, Any]]] = []
        for place, before, dwell, to, is_test in zip(*(c.to_pylist() for c in columns), strict=True):
            if place != here:
                here, trained, learned = place, defaultdict(Counter), defaultdict(Counter)
            contexts: list[tuple[object, ...]] = [(before, dwell), (before,), ()]
            if is_test:
                lists = (
                    [trained[context] for context in contexts],
                    [learned[context] for context in contexts[2:]],
                    [learned[context] for context in contexts[1:]],
                    [learned[context] for context in contexts],
                )
                ranks = (rank_in(counts, to) for counts in lists)
                found.append(
                    [
                        {"predictor": name, "rank": rank, "size": size}
                        for name, (rank, size) in zip(PREDICTORS, ranks, strict=True)
                    ]
                )
            else:
                found.append([])
            for context in contexts:
                learned[context][to] += 1
                if not is_test:
                    trained[context][to] += 1
        yield pa.array(found, _ARROW)


_ARROW: Final = pa.list_(pa.struct([("predictor", pa.string()), ("rank", pa.int64()), ("size", pa.int64())]))


def rank_in(lists: Iterable[Counter[str]], target: str) -> tuple[int | None, int]:
    """The rank of a target in lists that follow each other, each without what those before it hold, and how many sites
    they hold together. The most frequent comes first, equal counts in the order of names.
    """
    listed: set[str] = set()
    rank: int | None = None
    for counts in lists:
        n = counts.get(target, 0)
        if rank is None and n:
            better = sum(
                (m > n or (m == n and site < target)) and site not in listed for site, m in counts.items()
            )
            rank = len(listed) + better + 1
        listed.update(counts)
    return rank, len(listed)
