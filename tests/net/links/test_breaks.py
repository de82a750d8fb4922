"""A link whose connections break, in every order (`breaks.py`): each frame is taken once, in order, and confirmed."""

from typing import Any

import pytest

from roamq.core.events import BrokerId
from roamq.net.links.outboxes import Outboxes
from roamq.net.links.protocol import LinkSession
from tests.net.links.breaks import Breaks, explore


@pytest.mark.parametrize(("breaks", "reroutes", "says"), [(1, 0, (1, 1)), (0, 1, (1, 0)), (2, 0, (1, 0))])
def test_every_frame_is_taken_once_and_in_order_whenever_connections_break(
    breaks: int, reroutes: int, says: tuple[int, int]
) -> None:
    found = explore(lambda: Breaks(breaks, reroutes, says), 4_000)

    assert found.what is None, found
    assert found.ends, "some way has come to an end"


def take_all(self: Outboxes, neighbour: BrokerId, sequence: int) -> bool:
    self.received[neighbour] = sequence
    return True


@pytest.mark.parametrize(
    ("owner", "name", "instead", "what"),
    [
        (Outboxes, "is_news", take_all, "took"),
        (LinkSession, "told_received", property(lambda self: 1 << 40, lambda self, value: None), "keeps"),
    ],
    ids=["what comes again is taken again", "nothing is confirmed that HELLO did not say"],
)
def test_the_explorer_notices(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, instead: Any, what: str
) -> None:
    monkeypatch.setattr(owner, name, instead, raising=False)

    found = explore(lambda: Breaks(1, 0, (1, 1)), 4_000)

    assert found.what is not None
    assert what in found.what
