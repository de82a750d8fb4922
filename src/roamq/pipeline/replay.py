"""From learned tables back to a network: brokers, links, a warm start, and moves for the simulator to replay.

What leaves Spark here is small by construction: gold rows of one dataset, and the steps of the few clients and the
few hours that a simulation replays.
"""

import csv
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from scipy.sparse import coo_array
from scipy.sparse.csgraph import minimum_spanning_tree

from roamq.core.errors import ConfigError
from roamq.pipeline.silver import CONNECTED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HANDOVER_S: Final = 0.5
"""How long a client is disconnected when it changes broker, if the trace shows no gap."""

GREETING_S: Final = 1.0
"""How long a client that appears later is connected when the replay begins, so that it can subscribe."""

EXTRA_LINKS: Final = 0.5
"""Links beside the spanning tree, per broker."""

SITES_MAX: Final = 20_000


class MoveCount(NamedTuple):
    """Moves between two sites or brokers, and when the last one was, in UNIX seconds."""

    source: str
    target: str
    moves: int
    last_seen_s: float


class Site(NamedTuple):
    name: str
    x: float | None
    y: float | None
    observations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedNetwork:
    """A network of brokers that a dataset suggests."""

    brokers: tuple[str, ...]
    broker_of: Mapping[str, str]
    """Site -> the broker that serves it. A site without a place and without moves to a broker has none."""
    links: tuple[tuple[str, str], ...]
    edges: tuple[MoveCount, ...]
    """The neighbor graph between brokers: the warm start."""
    has_sites: bool = True


def learn_network(spark: "SparkSession", dataset: str, brokers: int) -> LearnedNetwork:
    """The busiest sites become brokers; every other site is served by the nearest, or by its main neighbor."""
    of_dataset = F.col("dataset") == dataset
    sites, graph = (spark.read.table(name).where(of_dataset) for name in ("sites", "neighbor_graph"))
    return network_from(sites, graph, brokers)


def network_from(sites: DataFrame, graph: DataFrame, brokers: int) -> LearnedNetwork:
    """Gold `sites` and `neighbor_graph` of one dataset -> the network that they suggest."""
    popular = sites.orderBy(F.desc("observations"), "site").limit(SITES_MAX)
    known = [Site(*row) for row in popular.select("site", "x", "y", "observations").collect()]
    if not known:
        return ring(brokers)
    rows = graph.select("from", "to", "moves", F.unix_seconds("last_seen")).orderBy(
        F.desc("moves"), "from", "to"
    )
    return network_of(known, [MoveCount(*row) for row in rows.collect()], brokers)


def network_of(sites: Sequence[Site], edges: Sequence[MoveCount], brokers: int) -> LearnedNetwork:
    """Sites by popularity and moves between them -> a network of at most so many brokers."""
    chosen = list(sites[:brokers])
    names = {site.name for site in chosen}
    broker_of = {
        site.name: home for site in sites if (home := _nearest(site, chosen, names, edges)) is not None
    }
    between: dict[tuple[str, str], tuple[int, float]] = {}
    for source, target, moves, last_seen_s in edges:
        ends = broker_of.get(source), broker_of.get(target)
        if ends[0] is not None and ends[1] is not None and ends[0] != ends[1]:
            counted, latest = between.get((ends[0], ends[1]), (0, last_seen_s))
            between[ends[0], ends[1]] = (counted + moves, max(latest, last_seen_s))
    merged = tuple(MoveCount(*ends, *rest) for ends, rest in sorted(between.items()))
    order = tuple(site.name for site in chosen)
    return LearnedNetwork(brokers=order, broker_of=broker_of, links=links_of(order, merged), edges=merged)


def _nearest(site: Site, chosen: Sequence[Site], names: set[str], edges: Sequence[MoveCount]) -> str | None:
    if site.name in names:
        return site.name
    if site.x is not None and site.y is not None:
        # A degree of longitude shrinks with latitude. Units of a floor plan are small numbers, so it hardly matters
        # there.
        x, y = site.x, site.y
        stretch = math.cos(math.radians(y)) if abs(y) <= 90 else 1.0
        placed = [
            (other.x, other.y, other.name) for other in chosen if other.x is not None and other.y is not None
        ]
        if placed:
            return min(placed, key=lambda p: (((p[0] - x) * stretch) ** 2 + (p[1] - y) ** 2, p[2]))[2]
    tied = [edge for edge in edges if edge.source == site.name and edge.target in names]
    return max(tied, key=lambda edge: (edge.moves, edge.target)).target if tied else None


def ring(brokers: int) -> LearnedNetwork:
    """A ring of brokers, for traces without sites."""
    names = tuple(f"b{number}" for number in range(1, brokers + 1))
    links = tuple(
        (names[n], names[(n + 1) % brokers]) for n in range(brokers if brokers > 2 else brokers - 1)
    )
    return LearnedNetwork(brokers=names, broker_of={}, links=links, edges=(), has_sites=False)


def links_of(brokers: Sequence[str], edges: Sequence[MoveCount]) -> tuple[tuple[str, str], ...]:
    """Links where clients move most: the spanning tree with the most moves, and the busiest other pairs."""
    if len(brokers) < 2:
        return ()
    moves: Counter[tuple[str, str]] = Counter()
    for edge in edges:
        moves[min(edge.source, edge.target), max(edge.source, edge.target)] += edge.moves
    busiest = sorted(moves, key=lambda ends: (-moves[ends], ends))
    # Brokers that nobody moves between still need a link for events: the first broker links to them, as a last choice.
    first, *others = brokers
    last_choices = [
        (first, broker) for broker in others if (min(first, broker), max(first, broker)) not in moves
    ]
    choices = [*busiest, *last_choices]
    number = {broker: n for n, broker in enumerate(brokers)}
    # The rank of a pair is its weight: no two weigh the same, so there is one lightest tree.
    ranks = np.arange(1, len(choices) + 1)
    ends = np.array([(number[source], number[target]) for source, target in choices])
    graph = coo_array((ranks, (ends[:, 0], ends[:, 1])), shape=(len(brokers), len(brokers)))
    in_tree = {int(rank) for rank in minimum_spanning_tree(graph).data}
    tree = [pair for rank, pair in enumerate(choices, 1) if rank in in_tree]
    besides = [pair for rank, pair in enumerate(busiest, 1) if rank not in in_tree]
    return (*tree, *besides[: int(len(brokers) * EXTRA_LINKS)])


def replay_steps(
    sojourns: DataFrame, network: LearnedNetwork, *, clients: int, duration_s: float, align: bool
) -> DataFrame:
    """Sojourns of one dataset -> steps (client, time_s, site, connected) of the liveliest clients.

    `align`: every client's clock starts at its first row, for traces whose clients were seen on different days;
    otherwise all share the window of that length with the most stays. A client whose first stay begins after the
    window opens had subscribed before. It connects for a moment, at the broker where it will appear, so that its
    subscriptions are known and no move is invented.
    """
    connected = sojourns.where(F.col("state") == CONNECTED).select("client", "begin", "end", "site")
    placed = connected.withColumn("broker", _broker_column(network)).where(F.col("broker").isNotNull())
    begin, end = F.unix_micros("begin") / 1e6, F.unix_micros("end") / 1e6
    if align:
        start = F.min(begin).over(Window.partitionBy("client"))
        timed = placed.withColumn("start", start)
    else:
        window = F.floor(begin / duration_s) * duration_s
        busiest = placed.groupBy(window.alias("start")).count().orderBy(F.desc("count"), "start").limit(1)
        timed = placed.crossJoin(F.broadcast(busiest.select("start")))
    inside = timed.select(
        "client", "broker", (begin - F.col("start")).alias("on"), (end - F.col("start")).alias("off")
    )
    inside = inside.where((F.col("off") > 0) & (F.col("on") < duration_s))
    liveliest = (
        inside.groupBy("client").count().orderBy(F.desc("count"), "client").limit(clients).select("client")
    )
    stays = inside.join(F.broadcast(liveliest), "client")
    by_time = Window.partitionBy("client").orderBy("on")
    reached = F.lead("on").over(by_time)
    moves_on = reached.isNotNull() & (reached - F.col("off") < HANDOVER_S)
    same = moves_on & (F.lead("broker").over(by_time) == F.col("broker"))
    came_same = (F.lag("broker").over(by_time) == F.col("broker")) & (
        F.col("on") - F.lag("off").over(by_time) < HANDOVER_S
    )
    leaves = F.when(moves_on, F.greatest("on", reached - HANDOVER_S)).otherwise(F.col("off"))
    told = stays.withColumns(
        {
            "leaves": leaves,
            "stays_on": F.coalesce(same, F.lit(False)),
            "was_here": F.coalesce(came_same, F.lit(False)),
            "is_late": F.lag("on").over(by_time).isNull() & (F.col("on") > 0),
        }
    )
    greeting = told.where("is_late").select(
        "client",
        F.inline(
            F.array(
                _step(F.lit(0.0), F.lit(True)),
                _step(F.least(F.lit(GREETING_S), F.col("on") / 2), F.lit(False)),
            )
        ),
    )
    arrivals = told.where("not was_here").select(
        "client",
        F.greatest(F.lit(0.0), "on").alias("time_s"),
        F.col("broker").alias("site"),
        F.lit(True).alias("connected"),
    )
    departures = told.where(~F.col("stays_on") & (F.col("leaves") < duration_s)).select(
        "client",
        F.col("leaves").alias("time_s"),
        F.col("broker").alias("site"),
        F.lit(False).alias("connected"),
    )
    return (
        arrivals.unionByName(departures)
        .unionByName(greeting)
        .orderBy("client", "time_s", F.desc("connected"))
    )


def _step(time_s: Column, connected: Column) -> Column:
    return F.struct(time_s.alias("time_s"), F.col("broker").alias("site"), connected.alias("connected"))


def _broker_column(network: LearnedNetwork) -> Column:
    if not network.has_sites:
        # The trace has no sites: take any broker, as [PRO]'s RND does, the same one on every run.
        number = F.pmod(F.xxhash64("client", "begin"), F.lit(len(network.brokers)))
        return F.element_at(F.array(*map(F.lit, network.brokers)), (number + 1).cast("int"))
    names = [text for pair in sorted(network.broker_of.items()) for text in pair]
    return F.element_at(F.create_map(*map(F.lit, names)), F.col("site"))


def write_steps(steps: DataFrame, path: Path) -> int:
    """Write steps as the CSV file the simulator replays; returns how many clients it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    clients: set[str] = set()
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("client", "time_s", "site", "connected"))
        for row in _rows(steps):
            clients.add(row[0])
            writer.writerow(row)
    if not clients:
        raise ConfigError("the traces hold no connected client to replay: relax the rules or give more data")
    return len(clients)


def _rows(steps: DataFrame) -> Iterator[tuple[str, str, str, str]]:
    for row in steps.toLocalIterator():
        yield row.client, f"{row.time_s:.3f}", row.site, "true" if row.connected else "false"
