"""Python on the executors, for the few columns that no expression of Spark can make.

Each use says why it is one. Functions get and return Arrow arrays, so nothing is converted on the way; one that
takes an iterator sees all batches of a task in order and may carry state from one to the next.
"""

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DataType


def arrow_function(
    function: Callable[..., Any], returns: DataType, *, stateful: bool = False
) -> Callable[..., Column]:
    """A function over Arrow arrays as a function over columns.

    `stateful` ones depend on the order of rows: Spark then neither moves, doubles nor skips the call.
    """
    wrapped: Any = F.arrow_udf(function, returns)  # type: ignore[attr-defined]  # missing from PySpark's stubs
    made: Callable[..., Column] = wrapped.asNondeterministic() if stateful else wrapped
    return made
