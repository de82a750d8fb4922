"""The film's player in a real browser: the slider shows its frame, the button plays and stops, nothing is an error."""

import re
import subprocess
from pathlib import Path

import pytest

from roamq.report.exhibits import Film, Section
from roamq.report.html import render
from roamq.report.page import Page
from tests.support import chromium

PLAYED_S = 3.0

pytestmark = pytest.mark.skipif(
    chromium.FOUND is None, reason="there is no Chromium on this machine to play films in"
)


def after(script: str, tmp_path: Path) -> str:
    """The page's document when the script has run in it, and some seconds have passed."""
    film = Film(title="t", frames=[f"<svg>{n}</svg>" for n in range(4)], texts=list("abcd"), caption="c")
    text = render(Page(title="P", sections=[Section(title="S", films=[film, film])]))
    watch = "<script>window.onerror = (what) => { document.documentElement.dataset.error = what; };</script>"
    page = tmp_path / "page.html"
    page.write_text(
        text.replace("<head>", f"<head>{watch}", 1).replace("</body>", f"<script>{script}</script></body>")
    )
    assert chromium.FOUND is not None
    command = [chromium.FOUND, *chromium.QUIET, f"--user-data-dir={tmp_path}/profile"]
    command += [f"--virtual-time-budget={PLAYED_S * 1000:.0f}", "--dump-dom", page.as_uri()]
    document = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "data-error" not in document
    return document


def shown(document: str) -> list[int]:
    """The number of the frame that each film shows."""
    films = document.split('<div class="film">')[1:]
    return [
        [" shown" in kinds for kinds in re.findall(r'class="frame([^"]*)"', film)].index(True)
        for film in films
    ]


@pytest.mark.slow
def test_the_slider_shows_its_frame_and_no_other_film_moves(tmp_path: Path) -> None:
    script = (
        "const s = document.querySelector('.film input'); s.value = 2; s.dispatchEvent(new Event('input'));"
    )
    assert shown(after(script, tmp_path)) == [2, 0]


@pytest.mark.slow
def test_the_button_plays_and_stops(tmp_path: Path) -> None:
    document = after("document.querySelectorAll('.film button')[1].click();", tmp_path)
    first, second = shown(document)
    assert first == 0
    assert second in (1, 2, 3)
    assert document.count(">Stop</button>") == 1
    twice = "const b = document.querySelector('.film button'); b.click(); b.click();"
    document = after(twice, tmp_path)
    assert shown(document) == [0, 0]
    assert ">Stop</button>" not in document
