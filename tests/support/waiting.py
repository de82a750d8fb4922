"""How tests wait: for what they can observe, never for a fixed time."""

import asyncio
import time
from collections.abc import Callable

WAIT_S = 180.0
"""A test fails if something takes longer. Generous: a machine may have ten times as much to do as it can."""
POLL_S = 0.01


async def eventually(condition: Callable[..., object], what: str = "it", wait_s: float = WAIT_S) -> None:
    """Let the event loop run until the condition holds."""
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {wait_s:g} s"
        await asyncio.sleep(POLL_S)


def wait_until(condition: Callable[..., object], what: str = "it", wait_s: float = WAIT_S) -> None:
    """Block this thread until the condition holds."""
    deadline = time.monotonic() + wait_s
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {wait_s:g} s"
        time.sleep(POLL_S)
