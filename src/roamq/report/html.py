"""A page as one HTML file that needs nothing else: styles and figures are inside, and nothing is fetched."""

from importlib import resources

import jinja2
from markupsafe import Markup

from roamq import __version__
from roamq.report.charts import draw
from roamq.report.exhibits import JUDGED
from roamq.report.film import SCRIPT, STYLE, film_markup
from roamq.report.numbers import cell, looks_of
from roamq.report.page import Page

FILE_NAME = "report.html"


def render(page: Page) -> str:
    """The HTML text of a page."""
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["cell"] = cell
    environment.globals["looks_of"] = looks_of
    template = environment.from_string((resources.files("roamq.report") / "page.html").read_text())
    svgs = {}
    for number, section in enumerate(page.sections):
        for place, figure in enumerate(section.figures):
            # Drawings share one document: the ids inside each must be its own.
            prefix = f"s{number}f{place}-"
            svg = draw(figure)
            svg = svg.replace('id="', f'id="{prefix}').replace("url(#", f"url(#{prefix}")
            svgs[number, place] = Markup(svg.replace('href="#', f'href="#{prefix}'))  # noqa: S704 - our own drawing
    films = {
        (number, place): Markup(film_markup(film))  # noqa: S704 - our own markup, its texts escaped there
        for number, section in enumerate(page.sections)
        for place, film in enumerate(section.films)
    }
    return template.render(
        page=page,
        judged=JUDGED,
        shown={section.claim for section in page.sections},
        svgs=svgs,
        films=films,
        film_style=Markup(STYLE if films else ""),  # noqa: S704 - a constant
        film_script=Markup(f"<script>{SCRIPT}</script>" if films else ""),  # noqa: S704 - a constant
        version=__version__,
    )
