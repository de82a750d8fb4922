"""Parameters of which `make test-fast` runs the first alone; `make test` runs all."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(values: Iterable[Any], count: int = 1) -> list[Any]:
    """The values as parameters; all but the first `count` are marked `slow`. A plain tuple is several arguments."""
    return [
        value if number < count else _slow(*value) if type(value) is tuple else _slow(value)
        for number, value in enumerate(values)
    ]


def _slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)
