"""The examples of docs/filters.md run."""

import doctest
from pathlib import Path


def test_the_examples_of_the_page_on_filters_run() -> None:
    page = Path(__file__).parents[2] / "docs" / "filters.md"

    failed, attempted = doctest.testfile(str(page), module_relative=False)

    assert attempted > 4
    assert failed == 0
