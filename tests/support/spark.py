"""One Spark session per test process, started when a test first asks for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from roamq.pipeline.session import (
    NOTHING_TO_COMPILE,
    QUICK_TO_COMPILE,
    QUICK_TO_PLAN,
    SparkSettings,
    open_session,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A small embedded session: two cores, two shuffle partitions, and queries that are not compiled."""
    settings = SparkSettings(
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        java_options=QUICK_TO_COMPILE,
        config=QUICK_TO_PLAN | NOTHING_TO_COMPILE,
    )
    with open_session(settings) as session:
        yield session
