"""What all tests share: one Spark session per test process, started when first asked for."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.session import SparkSettings, open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small embedded session: two cores, two shuffle partitions."""
    settings = SparkSettings(
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        # Tests run many small queries once: neither optimised code nor adaptive plans pay for themselves.
        java_options="-XX:TieredStopAtLevel=1",
        config={"spark.sql.adaptive.enabled": "false"},
    )
    with open_session(settings) as session:
        yield session
