"""docs/architecture.md names functions that exist."""

import re
from pathlib import Path

from tests.support.source import reads_the_source
from tests.test_glossary import defined_in

pytestmark = reads_the_source

PAGE = Path(__file__).parent.parent / "docs" / "architecture.md"
PACKAGES = ("core", "overlay", "broker", "schemes", "net")


def test_the_ways_through_the_code_name_methods_that_exist() -> None:
    named = set(re.findall(r"`([A-Z]\w+\.\w+)`", PAGE.read_text()))
    defined = frozenset().union(*map(defined_in, PACKAGES))

    assert len(named) > 30
    assert named <= defined, sorted(named - defined)
