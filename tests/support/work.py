"""How much work a call does, counted: the same on an idle machine and on a busy one."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(call: Callable[[], object]) -> int:
    """The number of lines of Python that a call runs, in all functions that it calls."""
    count = 0

    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "line":
            count += 1
        return on_line

    before = sys.gettrace()
    sys.settrace(on_line)
    try:
        call()
    finally:
        sys.settrace(before)
    return count
