"""The threat model on docs/security.md: every row names a test that is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "security.md").read_text()


def test_every_threat_names_tests_that_exist() -> None:
    table = PAGE.partition("## Threats\n")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("| ")][2:]

    assert len(rows) > 20
    for row in rows:
        who, _, _, tests = [cell.strip() for cell in row.strip("|").split(" | ")]
        named = re.findall(r"`(tests/[\w/]+\.py)`", tests)
        assert named, f"the row of {who!r} names no test"
        for name in named:
            text = (ROOT / name).read_text() if (ROOT / name).is_file() else ""
            assert "def test_" in text, f"{name} of {who!r} is not there, or tests nothing"
