"""Contracts as Spark wants them: the types of `schemas` as Spark types, and frames held to them."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from roamq.pipeline.schemas import fields

TYPES: dict[str, T.DataType] = {
    "string": T.StringType(),
    "bigint": T.LongType(),
    "int": T.IntegerType(),
    "double": T.DoubleType(),
    "boolean": T.BooleanType(),
    "timestamp": T.TimestampType(),
    "date": T.DateType(),
    "map<string,double>": T.MapType(T.StringType(), T.DoubleType()),
    "map<string,string>": T.MapType(T.StringType(), T.StringType()),
}


def conform(frame: DataFrame, contract: str) -> DataFrame:
    """The frame with exactly the contract's columns, in its order and types; other columns are dropped.

    This is a `select`, because `DataFrame.to` asks the server at once, which the query of a declared table may not.
    """
    return frame.select(*(F.col(field.name).cast(field.dataType) for field in struct_of(contract)))


def struct_of(contract: str) -> T.StructType:
    """A contract as a Spark type. Spark's own parser sits in the server, which a pipeline's query may not ask."""
    return T.StructType([T.StructField(name, TYPES[kind]) for name, kind in fields(contract).items()])
