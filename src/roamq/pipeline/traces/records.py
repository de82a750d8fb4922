"""RoamQ's own records, as campaigns and live brokers write them: Parquet in a folder that grows.

They are rows already, so reading them is a matter of types; what can be wrong is the content. Connections and
disconnections among them are observations like any other: a simulated or live network is a trace of itself.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from roamq.core.errors import ConfigError
from roamq.core.records import KINDS, RECORDS_VERSION, VERSION_KEY
from roamq.pipeline.conform import conform, struct_of
from roamq.pipeline.rules import Rules
from roamq.pipeline.schemas import OBSERVATIONS
from roamq.pipeline.traces.base import LATEST_S, TraceFormat, parsed, refuse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = (
    "run_id string, kind string, time_s double, broker string, client string, origin string, sequence bigint, "
    "peer string, detail string, count bigint, hops bigint, bytes bigint, duration_s double"
)
_NEVER_S = 1e9
TOO_NEW: Final = "its records are of version "
"""How the reason begins for which a file waits for a newer release."""


def version_of(path: Path) -> int:
    """The version that a file says its records are of; 0: it says none, as files of simulations."""
    import pyarrow.parquet as pq

    return int((pq.read_metadata(path).metadata or {}).get(VERSION_KEY.encode(), 0))


def count(path: Path) -> int:
    """The rows of a file, by its end. Raises `ConfigError` if they mean something that this release does not know."""
    import pyarrow.parquet as pq

    footer = pq.read_metadata(path)
    told = footer.metadata or {}
    if int(told.get(VERSION_KEY.encode(), 0)) > RECORDS_VERSION:
        version = told[VERSION_KEY.encode()].decode()
        release = told.get(b"roamq.release", b"unknown").decode()
        raise ConfigError(
            f"{TOO_NEW}{version}, written by release {release}, and this release reads up to {RECORDS_VERSION}: "
            "upgrade RoamQ here, and read the folder again"
        )
    return int(footer.num_rows)


def read(spark: "SparkSession", paths: str | list[str], *, base: str | None = None) -> DataFrame:
    """Rows of Parquet files, with the file and the place in it; `run_id` may be the name of a folder within `base`."""
    reader = spark.read.schema(struct_of(FIELDS))
    if base is not None:
        reader = reader.option("basePath", base)
    rows = reader.parquet(*([paths] if isinstance(paths, str) else paths))
    return rows.select(
        F.col("_metadata.file_path").alias("file"), F.col("_metadata.row_index").alias("position"), "*"
    )


def parse(rows: DataFrame) -> DataFrame:
    names = [column.split(" ")[0] for column in FIELDS.split(", ")]
    kind = F.coalesce("kind", F.lit("missing"))
    reason = refuse(
        (~kind.isin(*KINDS), F.concat(F.lit("kind is unknown: "), kind)),
        (F.col("time_s").isNull(), "time is missing"),
        (~((F.col("time_s") >= 0) & (F.col("time_s") < LATEST_S)), "time is outside 1970 to 2100"),
        (kind.isin("delivered", "connected", "disconnected") & F.col("client").isNull(), "client is missing"),
    )
    valued = rows.withColumn("value", F.to_json(F.struct(*names)))
    return parsed(valued, reason, **{name: F.col(name) for name in names})


def observe(rows: DataFrame, rules: Rules) -> DataFrame:
    """A client connects at a broker and leaves it; runs are kept apart, and a run begins at the epoch."""
    changes = rows.where(F.col("kind").isin("connected", "disconnected"))
    is_connected = F.col("kind") == "connected"
    return conform(
        changes.select(
            F.concat_ws("/", "run_id", "client").alias("client"),
            F.lit("all").alias("client_class"),
            F.timestamp_micros((F.col("time_s") * 1_000_000).cast("bigint")).alias("time"),
            F.col("position").alias("tie"),
            F.when(is_connected, F.col("broker")).alias("site"),
            is_connected.alias("connected"),
            F.lit(None).cast("double").alias("x"),
            F.lit(None).cast("double").alias("y"),
        ),
        OBSERVATIONS,
    )


RECORDS = TraceFormat(
    name="records",
    about="RoamQ's own records, of simulations and live brokers: a folder of Parquet files",
    fields=FIELDS,
    parse=parse,
    observe=observe,
    read=read,
    count=count,
    # Records name every disconnection, so silence means nothing.
    rules=Rules(at_one_instant="all", gap_s=_NEVER_S),
)
