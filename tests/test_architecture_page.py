"""docs/architecture.md names functions that exist, in the order in which a publish and a handoff call them."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from roamq.core.events import BrokerId
from roamq.net.ops.settings import AccessRules, Rule
from tests.net.fleet import Fleet
from tests.net.test_heads import carry, exchange
from tests.support.source import SOURCE, reads_the_source
from tests.test_glossary import defined_in

pytestmark = reads_the_source

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
PACKAGES = ("core", "overlay", "broker", "schemes", "net")
FIRST, SECOND = BrokerId("b1"), BrokerId("b2")
AROUND_THE_MACHINE = ("Shell.", "LiveBroker.")
"""A fleet of machines has no shell: that these exist is all that is tested."""
FINISH = "Machine._finish"
"""A publish leaves nothing for it to do here."""


def test_the_page_names_methods_that_exist() -> None:
    named = set(re.findall(r"`([A-Z]\w+\.\w+)`", PAGE.read_text()))
    defined = frozenset().union(*map(defined_in, PACKAGES))

    assert len(named) > 30
    assert named <= defined, sorted(named - defined)


def test_a_publish_takes_the_way_that_the_page_describes() -> None:
    rules = AccessRules(rules=(Rule(topics=("t/#",)),))
    fleet = Fleet(1, "standard", 2, overlay="interest", access=rules)
    publisher, subscriber, far = (fleet.client(name) for name in ("publisher", "subscriber", "far"))
    for client, at in ((publisher, FIRST), (subscriber, FIRST), (far, SECOND)):
        client.connect(at)
    for client in (subscriber, far):
        client.subscribe("t/#", 1)
    fleet.settle()
    publisher.publish("t/x", b"news", 1)

    steps, elsewhere = _steps("The way of one QoS 1 publish")
    here = called(lambda: fleet._to_broker(publisher))
    fleet.take_outputs()
    there = called(lambda: fleet._frame(FIRST, SECOND))

    assert len(steps) == 8
    steps[6].remove(FINISH)
    assert_in_order([name for step in steps for name in step], here)
    assert_in_order([*elsewhere, *steps[4], *steps[6]], there)


def test_a_handoff_takes_the_way_that_the_page_describes() -> None:
    fleet = Fleet(1, "standard", 2, overlay="interest", handoff_timeout_s=1000.0)
    mover, publisher = fleet.client("mover"), fleet.client("publisher")
    publisher.connect(FIRST)
    mover.connect(FIRST)
    mover.subscribe("t/#", 1)
    fleet.settle()
    mover.vanish()
    publisher.publish("t/x", b"stored", 1)
    fleet.settle()
    mover.connect(SECOND)

    steps, _ = _steps("The way of one handoff")
    ways = [called(lambda: exchange(fleet, mover))]
    ways.append(called(lambda: carry(fleet, SECOND, FIRST)))
    publisher.publish("t/x", b"meanwhile", 1)  # reaches the new broker behind what the old one has sent
    answer = called(lambda: carry(fleet, FIRST, SECOND))
    ways += [answer, answer]
    exchange(fleet, publisher)
    ways.append(called(lambda: carry(fleet, SECOND, FIRST)))
    ways.append(called(lambda: carry(fleet, FIRST, SECOND)))

    assert len(steps) == len(ways) == 6
    for step, way in zip(steps, ways, strict=True):
        assert_in_order(step, way)
    fleet.settle()
    exchange(fleet, mover)
    assert mover.payloads() == [b"stored", b"meanwhile"]


def _steps(title: str) -> tuple[list[list[str]], list[str]]:
    """What each numbered step of a section names, in order, and what the text behind the steps does."""
    section = PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    numbered = re.split(r"\n\d\. ", section)
    last, _, behind = numbered[-1].partition("\n\n")
    return [_names(step) for step in (*numbered[1:-1], last)], _names(behind)


def _names(text: str) -> list[str]:
    """Methods and functions; messages and classes are not called."""
    found = re.findall(r"`((?:[A-Z]\w+\.)?[a-z_]\w+)`", text)
    return [name for name in found if name != "standard" and not name.startswith(AROUND_THE_MACHINE)]


def called(act: Callable[[], object]) -> list[str]:
    """The functions of RoamQ that are called, in order."""
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(SOURCE)):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return calls


def assert_in_order(names: list[str], way: list[str]) -> None:
    left = iter(way)
    for name in names:
        assert name in left, f"{name} is not called, or earlier than the page says"
