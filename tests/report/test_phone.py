"""Reports on a phone, in a real browser: no page is wider than the screen, and letters in drawings can be read."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from roamq.models.paired import Estimate
from roamq.models.tariff import Tariff
from roamq.pipeline.schemas import MetricRow, SummaryRow
from roamq.report.exhibits import Film
from roamq.report.html import render
from roamq.report.manet_frames import SIZE
from roamq.report.page import Page
from roamq.report.study import report_study
from roamq.reproduce.judging import Judgement, about
from roamq.reproduce.published import PUBLISHED
from roamq.reproduce.registry import Claim
from roamq.reproduce.scorecard import Scored, page_of
from tests.support import chromium

pytestmark = pytest.mark.skipif(
    chromium.FOUND is None, reason="there is no Chromium on this machine to show pages in"
)

WIDTH_PX, HEIGHT_PX = 390, 844
SMALLEST_PX = 9.0
LETTERS = """
Math.min(...[...document.querySelectorAll("svg text, svg tspan")]
  .filter((one) => one.textContent.trim() && one.checkVisibility())
  .map((one) => {
    const m = one.getScreenCTM();
    return parseFloat(getComputedStyle(one).fontSize) * Math.hypot(m.b, m.d);
  }))
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Page]:
    with chromium.chromium(tmp_path_factory.mktemp("browser")) as page:
        page.resize(WIDTH_PX, HEIGHT_PX)
        yield page


def scorecard() -> Page:
    judgement = Judgement()
    for number in range(12):
        name = f"pro-active loses less than reactive at {number * 100}, RND (percentage points)"
        judgement.says(name, Estimate(1.9, 1.8, 2.0), about(2.0))
        judgement.says(f"{name}, in words", Estimate(1.9, 1.8, 2.0), above=1.0)
    frame = f'<svg viewBox="0 0 {SIZE:.0f} 300" font-size="11"><text x="5" y="50">broker 4</text></svg>'
    film = Film(title="One event", frames=[frame, frame], texts=["now", "then"])
    outcome = judgement.outcome("1.9 of everything, " * 8, note="a note that is long; " * 9, films=[film])
    claims = [Claim(published=one) for one in PUBLISHED[:3]]
    scored = [Scored(claim=claim, outcome=outcome) for claim in claims]
    return page_of(
        scored, [], command="roamq reproduce PRO DIS DRIP --out results/of/a/long/name", quick=False
    )


def study() -> Page:
    metrics, numbers = [], []
    for place, scheme in enumerate(("standard", "logging+on-device", "prefetching", "home-broker"), start=1):
        values = {
            "received_once": 1e6,
            "traffic_bytes": place * 1e9,
            "memory_byte_s": place * 3.6e12,
            "mobility_delay_s_mean": 1.0 / place,
            "mobility_delay_s_p95": 2.0 / place,
            "loss_pct": 0.0,
            "duplication_pct": 0.0,
            "price": float(place),
        }
        for name, value in values.items():
            numbers.append(SummaryRow("study", scheme, {}, name, "all", 3, value, 0.9 * value, 1.1 * value))
            metrics += [
                MetricRow("r", "study", scheme, {}, seed, name, "all", value * (1 + seed / 100))
                for seed in (1, 2, 3)
            ]
    tables = "ccdf connectivity daily_profile days prediction prediction_sets sites neighbor_graph"
    empty: dict[str, list[Any]] = {table: [] for table in tables.split()}
    return report_study(
        "toy", metrics, numbers, [], [], empty, tariff=Tariff(), network="6 brokers", command="study"
    ).page


@pytest.mark.parametrize("page", [scorecard, study])
def test_a_page_fits_a_phone_and_its_letters_can_be_read(
    page: object, browser: chromium.Page, tmp_path: Path
) -> None:
    assert callable(page)
    path = tmp_path / "page.html"
    path.write_text(render(page()))

    browser.open(path.as_uri())
    browser.wait_for("document.readyState === 'complete' && document.querySelector('svg') !== null")

    assert browser.run("document.documentElement.scrollWidth") <= WIDTH_PX
    assert browser.run(LETTERS) >= SMALLEST_PX
    assert browser.errors == []
