"""The documentation site: it builds without a warning, needs nothing from elsewhere, and its reference is complete."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

from roamq.cli.main import COMMANDS
from roamq.core.records import KINDS
from roamq.net.ops.tables import TABLES
from roamq.pipeline.schemas import DERIVED
from roamq.schemes.table import scheme_names

ROOT = Path(__file__).parent.parent
BUILD_S_MAX = 600.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
    )
    assert built.returncode == 0, built.stderr
    return folder


class Assets(HTMLParser):
    """What a page loads by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        address = values.get("src") if tag in ("script", "img", "iframe", "source") else None
        if tag == "link" and values.get("rel") != "canonical":
            address = values.get("href")
        if address:
            self.found.append(address)


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    for page in pages:
        assets = Assets()
        assets.feed(page.read_text())
        assert [one for one in assets.found if re.match(r"(https?:)?//", one)] == [], page.name


@pytest.mark.slow
def test_the_reference_has_every_field_command_record_and_table(site: Path) -> None:
    def text(name: str) -> str:
        return (site / "reference" / f"{name}.html").read_text()

    configuration = text("configuration")
    for kind in TABLES.values():
        for field in msgspec.structs.fields(kind):
            assert f"<code>{field.name}</code>" in configuration
    assert all(f"roamq {name}" in text("commands") for name in COMMANDS)
    assert all(f"<code>{kind}</code>" in text("records") for kind in KINDS)
    assert all(f"<code>{name}</code>" in text("tables") for name in DERIVED)
    assert all(f"<code>{name}</code>" in text("scenarios") for name in scheme_names())
    assert "/api/where/{client}" in text("http") and "roamq_handoff_seconds" in text("broker-metrics")
    assert "on_connect" in text("python-schemes") and "sweep" in text("python-pipeline")
