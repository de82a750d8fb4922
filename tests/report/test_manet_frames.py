"""Frames of a mobile network, and the film they make."""

from xml.etree import ElementTree

import numpy as np
import pytest

from roamq.report.exhibits import Film, Section
from roamq.report.film import film_markup
from roamq.report.html import render
from roamq.report.manet_frames import ROLE_COLORS, MobileBrokerScene, frame, voronoi_cells
from roamq.report.page import Page, read_page, write_page

SVG = "{http://www.w3.org/2000/svg}"

SCENE = MobileBrokerScene(
    side_m=100.0,
    positions=[(10.0, 10.0), (90.0, 90.0), (40.0, 45.0), (60.0, 55.0), (20.0, 30.0)],
    local_broker=[0, 1, 0, 1, None],
    brokers=[0, 1],
    bridges=[(2, 3)],
    copies={0: "source", 1: "destination"},
    waiting=[4],
    served=[3],
)


def circles(svg: str) -> list[dict[str, str]]:
    return [element.attrib for element in ElementTree.fromstring(svg).iter(f"{SVG}circle")]  # noqa: S314 - our own


def test_a_frame_shows_regions_nodes_bridges_copies_and_subscribers() -> None:
    root = ElementTree.fromstring(frame(SCENE))  # noqa: S314 - our own

    assert len(list(root.iter(f"{SVG}polygon"))) == 2
    assert len(list(root.iter(f"{SVG}line"))) == 1
    drawn = circles(frame(SCENE))
    assert sum(circle["r"] == "3" for circle in drawn) == 5 + 1, "five nodes, and one in the legend"
    copies = [circle["fill"] for circle in drawn if circle["r"] == "12"]
    assert copies == [ROLE_COLORS["source"], ROLE_COLORS["destination"]]
    assert [circle["cx"] for circle in drawn if circle["r"] == "8"] == ["112", "336"]


def test_a_node_has_the_color_of_its_broker() -> None:
    colors = [circle["fill"] for circle in circles(frame(SCENE)) if circle["r"] == "3"][:5]

    assert colors[0] == colors[2] != colors[1] == colors[3]
    assert colors[4] == "#fff"


@pytest.mark.parametrize("seed", range(5))
def test_cells_fill_the_square_and_hold_what_is_nearest(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(0.0, 100.0, size=(12, 2))
    cells = voronoi_cells(points, 100.0)

    def area(cell: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        x, y = cell[:, 0], cell[:, 1]
        return 0.5 * abs(float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))

    assert sum(area(cell) for cell in cells) == pytest.approx(100.0**2)
    for point, cell in zip(points, cells, strict=True):
        inside = 0.999 * cell + 0.001 * point  # a little inside its corners
        nearest = np.argmin(np.linalg.norm(points[None] - inside[:, None], axis=2), axis=1)
        assert all(np.array_equal(points[index], point) for index in nearest)


def test_a_film_shows_its_first_frame_and_escapes_its_texts() -> None:
    markup = film_markup(Film(title="A & B", frames=["<svg>1</svg>", "<svg>2</svg>"], texts=["<one>", "two"]))

    assert markup.count("frame shown") == 1
    assert 'max="1"' in markup
    assert "&lt;one&gt;" in markup
    assert "A &amp; B" in markup


def test_a_page_with_a_film_survives_its_file_and_carries_the_player_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    film = Film(title="t", frames=[frame(SCENE)], texts=["at rest"], caption="c")
    page = Page(title="P", sections=[Section(title="S", films=[film, film])])
    folder = tmp_path_factory.mktemp("page")
    write_page(page, folder)

    html = render(read_page(folder))

    assert html.count("at rest") == 2
    assert html.count("<script>") == 1
    assert "<script>" not in render(Page(title="P"))
