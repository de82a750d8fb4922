"""What all tests share: one Spark session per test process, started when first asked for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roamq.pipeline.session import QUICK_TO_COMPILE, QUICK_TO_PLAN, SparkSettings, open_session

# Spark's workers import runners of the tests by name, so they look where pytest does.
_ROOT = Path(__file__).parent.parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")])


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small embedded session: two cores, two shuffle partitions."""
    settings = SparkSettings(
        master="local[2]",
        driver_memory="1g",
        shuffle_partitions=2,
        java_options=QUICK_TO_COMPILE,
        config=QUICK_TO_PLAN,
    )
    with open_session(settings) as session:
        yield session
