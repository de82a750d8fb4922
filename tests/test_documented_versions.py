"""The versions in docs/live.md (Upgrades) are those of the program."""

from pathlib import Path

from roamq.core.records import RECORDS_VERSION, VERSION_KEY
from roamq.net.durable import before, journal, snapshot
from roamq.net.links.protocol import NEWEST, OLDEST
from roamq.pipeline import ledger

LIVE = Path(__file__).parents[1] / "docs" / "live.md"


def documented() -> dict[str, tuple[str, str]]:
    """What has a version -> the version, and what this release reads."""
    text = LIVE.read_text().split("\n## Upgrades\n")[1].split("\n\n- ")[0]
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    return {what.strip(): (version.strip(), read.strip()) for what, version, read in rows[2:]}


def test_the_documented_versions_are_those_of_the_program() -> None:
    oldest, newest = before.FORMAT.decode(), snapshot.FORMAT.decode()
    begins = {
        "snapshot": (f"`{newest}`;", f"{oldest[-1]} and {newest[-1]}"),
        "journal": (f"`{journal.MAGIC.decode()}`,", journal.MAGIC.decode()[-1]),
        "link": (f"{NEWEST};", f"{OLDEST} to {NEWEST}:"),
        "records": (
            f"{RECORDS_VERSION}, in each file's metadata (`{VERSION_KEY}`, ",
            f"{RECORDS_VERSION}, and files that say none",
        ),
        "warehouse": (
            f"{ledger.FORMAT}, in each commit of its ledger (`{ledger.FORMAT_KEY}`, `{ledger.RELEASE_KEY}`)",
            f"{ledger.FORMAT}, and those that say none",
        ),
    }

    told = documented()

    assert told.keys() == begins.keys()
    for what, (version, read) in begins.items():
        assert told[what][0].startswith(version), what
        assert told[what][1].startswith(read), what
