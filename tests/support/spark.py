"""One Spark session, started when a test first asks for it. The tests that ask for it run in one process, one after the
other: a session of its own in each process would compile the same code again, on the same cores.
"""

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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


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
