"""Synthetic city traces of any size, written with Spark: who was associated where, in the format `associations`.

A city is a square of sites. Every client lives at a site, works at a site nearer the centre, commutes along the
streets in
the morning and back in the evening, goes out for lunch on some days, is silent at night and now and then for an
hour. Nothing is drawn from a generator with a state: every choice is a hash of the seed and of what it is about,
so the traces are the same for any number of cores, and one client's rows need no other row.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MONDAY: Final = 1_704_067_200
"""2024-01-01 00:00:00 UTC, where all cities begin."""

SLOT_S: Final = 300
DAY_BEGINS_S: Final = 6 * 3600
DAY_ENDS_S: Final = 23 * 3600
SLOTS: Final = (DAY_ENDS_S - DAY_BEGINS_S) // SLOT_S
SLOTS_PER_HOP: Final = 1
SILENT_HOURS: Final = 0.08
MISSED_ROWS: Final = 0.02
LUNCHES: Final = 0.5

ROWS_PER_CLIENT_DAY: Final = SLOTS * (1 - SILENT_HOURS) * (1 - MISSED_ROWS)


@dataclass(frozen=True, slots=True, kw_only=True)
class City:
    """The size of a city; the seed says which one of that size."""

    clients: int
    days: int
    sites: int = 400
    seed: int = 1

    def __post_init__(self) -> None:
        if min(self.clients, self.days) < 1 or self.sites < 2:
            raise ConfigError("a city has at least one client, one day and two sites")

    @classmethod
    def with_rows(cls, rows: int, *, days: int = 10, sites: int = 400, seed: int = 1) -> "City":
        """A city whose traces have about so many rows."""
        return cls(
            clients=max(1, round(rows / (days * ROWS_PER_CLIENT_DAY))), days=days, sites=sites, seed=seed
        )

    @property
    def side(self) -> int:
        """Streets in each direction."""
        return max(1, int(self.sites**0.5))


def city_traces(spark: "SparkSession", city: City, partitions: int) -> DataFrame:
    """Rows (time, client, site) of a city: time in UNIX seconds, in the order of days and clients."""
    draw = _Draw(city.seed)
    side = F.lit(city.side)
    people = spark.range(0, city.clients * city.days, 1, partitions).select(
        (F.col("id") % city.clients).alias("client"), F.floor(F.col("id") / city.clients).alias("day")
    )
    home_row, home_column = draw.below(side, "home row", "client"), draw.below(side, "home column", "client")
    # The mean of two draws lies nearer the centre than one: offices cluster, homes do not.
    work_row, work_column = (
        draw.central(side, "work row", "client"),
        draw.central(side, "work column", "client"),
    )
    leaves = F.lit(12) + draw.below(F.lit(24), "leaves", "client", "day")
    returns = F.lit(126) + draw.below(F.lit(30), "returns", "client", "day")
    lunch = F.when(
        draw.share("lunch", "client", "day") < LUNCHES, draw.below(F.lit(12), "table", "client", "day")
    )
    plans = people.withColumns(
        {
            "home_row": home_row,
            "home_column": home_column,
            "work_row": work_row,
            "work_column": work_column,
            "leaves": leaves,
            "returns": returns,
            "lunch": lunch,
            "slot": F.explode(F.sequence(F.lit(0), F.lit(SLOTS - 1))),
        }
    )
    hour = F.floor(F.col("slot") * SLOT_S / 3600)
    is_seen = (draw.share("silent", "client", "day", hour) >= SILENT_HOURS) & (
        draw.share("missed", "client", "day", "slot") >= MISSED_ROWS
    )
    row, column = _place()
    second = (
        F.lit(MONDAY + DAY_BEGINS_S)
        + F.col("day") * 86_400
        + F.col("slot") * SLOT_S
        + draw.below(F.lit(SLOT_S), "second", "client", "day", "slot")
    )
    site = F.concat(F.lit("s"), (row * side + column).cast("string"))
    return plans.where(is_seen).select(
        second.alias("time"),
        F.concat(F.lit("c"), F.col("client").cast("string")).alias("client"),
        site.alias("site"),
    )


def write_city(spark: "SparkSession", city: City, out: Path | str, *, files: int = 8) -> None:
    """Write the traces of a city as CSV files without a header; what lay in the folder goes."""
    city_traces(spark, city, files).write.mode("overwrite").csv(str(out))


def _place() -> tuple[Column, Column]:
    """Where a client is in a slot: along the streets, first up and down, then across."""
    down, across = F.col("work_row") - F.col("home_row"), F.col("work_column") - F.col("home_column")
    out = F.greatest(F.lit(0), F.col("slot") - F.col("leaves"))
    back = F.greatest(F.lit(0), F.col("slot") - F.col("returns"))
    distance = F.abs(down) + F.abs(across)
    # Steps away from home: growing in the morning, full all day, shrinking in the evening.
    steps = F.least(F.floor(out / SLOTS_PER_HOP), distance) - F.least(F.floor(back / SLOTS_PER_HOP), distance)
    vertical = F.least(steps, F.abs(down))
    horizontal = F.greatest(F.lit(0), steps - F.abs(down))
    # Lunch is one street away from work, for half an hour to an hour around noon.
    begins = F.lit(72) + F.col("lunch")
    is_lunch = F.col("lunch").isNotNull() & F.col("slot").between(begins, begins + 8) & (steps == distance)
    aside = F.when(is_lunch & (F.col("work_column") > 0), -1).otherwise(0)
    row = F.col("home_row") + F.signum(down) * vertical
    column = F.col("home_column") + F.signum(across) * horizontal + aside
    return row.cast("int"), column.cast("int")


class _Draw:
    """Choices as hashes: the same seed and subject, the same choice."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def share(self, what: str, *about: str | Column) -> Column:
        """Uniform in [0, 1)."""
        hashed = F.xxhash64(
            F.lit(self._seed), F.lit(what), *(F.col(a) if isinstance(a, str) else a for a in about)
        )
        return F.pmod(hashed, F.lit(1 << 40)) / float(1 << 40)

    def below(self, limit: Column, what: str, *about: str | Column) -> Column:
        """A whole number from 0, below the limit."""
        return F.floor(self.share(what, *about) * limit)

    def central(self, limit: Column, what: str, *about: str | Column) -> Column:
        """A whole number below the limit, in the middle more often than at the ends."""
        both = self.share(what, *about) + self.share(f"{what} again", *about)
        return F.floor(both / 2 * limit)
