"""The threat model and the findings on docs/security.md: every row names a test that is there."""

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


def test_every_finding_names_tests_that_exist() -> None:
    table = PAGE.partition("## What a review found\n")[2].partition("\n## ")[0]
    rows = [
        [cell.strip() for cell in row.strip("|").split(" | ")]
        for row in table.splitlines()
        if row.startswith("| ") and not row.startswith("| ---")
    ][1:]

    found = [row[0] for row in rows]
    assert {*map(str, range(1, 22)), "Also", "Unclear", "Default", *(f"M{n}" for n in range(1, 7))} <= set(
        found
    )
    for finding, _, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", tests)
        assert named, f"the row of finding {finding} names no test"
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(), f"{file} has no {test}, of finding {finding}"


def test_the_default_durability_is_named_where_people_choose_it() -> None:
    text = (ROOT / "docs" / "live.md").read_text().partition("## Choose a durability\n")[2]
    chosen = " ".join(text.partition("\n## ")[0].split())

    assert "The default, `process`, does **not** survive a power failure" in chosen
    assert "| `process` (default) |" in chosen
