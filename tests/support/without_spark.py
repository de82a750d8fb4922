"""A plugin for `make test-fast`: tests run as on a machine that has no Spark.

Tests of the pipeline, and of claims that are computed on it, are not collected. Any other test that imports pyspark
fails.
"""

import sys
from pathlib import Path

_TESTS = Path(__file__).parent.parent
_NEED_SPARK = {
    _TESTS / "pipeline",
    _TESTS / "cli" / "test_reproduce.py",
    *(_TESTS / "papers").glob("test_*_claims.py"),
}

sys.modules["pyspark"] = None  # type: ignore[assignment]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path in _NEED_SPARK else None
