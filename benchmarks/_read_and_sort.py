"""The yardstick of the pipeline: a plain Spark job that reads association files and sorts them by client and time.

python -m benchmarks._read_and_sort FOLDER    # as a job of its own, with the start of Spark
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

from roamq.pipeline.runner import warehouse_settings
from roamq.pipeline.session import open_session


def read_and_sort(spark: Any, traces: Path) -> None:
    """The same files, read with types and sorted by client and time, written nowhere."""
    rows = spark.read.schema("time bigint, client string, site string").csv(str(traces))
    rows.orderBy("client", "time").write.format("noop").mode("overwrite").save()


def main(folder: str, master: str = "local[2]", driver_memory: str = "6g") -> None:
    """The job, with the settings that the pipeline has for as many bytes."""
    traces = Path(folder)
    size = sum(file.stat().st_size for file in traces.glob("*.csv"))
    settings = warehouse_settings(traces, master=master, driver_memory=driver_memory, input_bytes=size)
    with open_session(dataclasses.replace(settings, warehouse=None)) as spark:
        read_and_sort(spark, traces)


if __name__ == "__main__":
    main(*sys.argv[1:])
