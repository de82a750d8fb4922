"""The rides with kills of broker processes: one that hangs says who waits for what."""

import asyncio
from pathlib import Path

import pytest

from tests.net.live_kills import LiveRide

pytestmark = pytest.mark.live


def test_a_ride_that_is_not_done_says_who_waits_for_which_broker_and_message(tmp_path: Path) -> None:
    ride = LiveRide(tmp_path, 1, "standard", "process")
    ride.sent += [b"0", b"1"]
    ride.publisher.publish("t/x", b"1", 2)

    asyncio.run(ride.run(limit_s=0.01))

    told = (ride.fault() or "").splitlines()
    assert any(line.startswith("  waits for ") for line in told), told
    assert "  publisher: 1 under way; b'1' waits for PUBREC" in told
    assert "  mover: 2 have not come, the first is b'0'" in told
    for name in ("b1", "b2", "b3"):
        assert any(line.startswith(f"  {name}: ") for line in told), told
