"""Decisions have one form and an index, and every reference to a decision or a page of the docs resolves."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
INDEX = (ROOT / "docs" / "decisions" / "README.md").read_text()
HEADINGS = ["Context", "Decision", "Consequences", "Rejected"]

TEXTS = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "scripts", "docs")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".toml", ".html", ".md"} and path != Path(__file__)
)
"""This file is left out: it holds references that are broken on purpose."""


def choices(page: Path) -> set[str]:
    """The numbers of the choices that a paper's page explains."""
    return set(re.findall(r"^### (\d{4}) ", page.read_text(), re.MULTILINE))


NUMBERS = {path.name[:4] for path in DECISIONS}
CHOICES = {page.name: choices(page) for page in (ROOT / "docs").glob("*.md")}


def broken_references(text: str) -> list[str]:
    """References to decisions (`docs/decisions/0002`, `decision 0002`), choices and pages that lead nowhere."""
    lists = re.findall(r"(?:docs/decisions/|[Dd]ecisions? )((?:\d{4}(?:, | and | to )?)+)", text)
    numbers = re.findall(r"\d{4}", " ".join(lists))
    broken = [f"decision {number}" for number in numbers if number not in NUMBERS]
    pages = re.findall(r"docs/([a-z-]+\.md)", text)
    broken += [f"docs/{page}" for page in pages if not (ROOT / "docs" / page).exists()]
    chosen = re.findall(r"docs/([a-z-]+\.md), choices? (\d{4})", text)
    broken += [f"choice {number}" for page, number in chosen if number not in CHOICES.get(page, set())]
    return broken


def anchor(heading: str) -> str:
    """The fragment by which a heading of a page is linked."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_a_decision_has_the_form(path: Path) -> None:
    text = path.read_text()

    assert re.match(
        rf"# {path.name[:4]} [A-Z\[].*\n\nStatus: (accepted|superseded)\b.*\.\n\n## Context\n", text
    )
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    assert all(body.strip() for body in re.split(r"^## .+$", text, flags=re.MULTILINE))


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.name[:4])
def test_the_index_lists_a_decision_with_its_title_and_status(path: Path) -> None:
    title, status = re.findall(r"^(?:# \d{4} |Status: )(.+)$", path.read_text(), re.MULTILINE)

    link = f"[{path.name[:4]}]({path.name})"
    rows = [row.strip("| ").split(" | ") for row in INDEX.splitlines() if link in row]
    assert [(row[1], row[3]) for row in rows] == [(title, status.removesuffix("."))]


def test_the_index_lists_every_choice_of_a_paper_and_nothing_else() -> None:
    listed = re.findall(r"^\| \[(\d{4})\]", INDEX, re.MULTILINE)

    assert listed == sorted(NUMBERS.union(*CHOICES.values()))


def test_references_to_decisions_and_pages_resolve() -> None:
    broken = {str(path.relative_to(ROOT)): broken_references(path.read_text()) for path in TEXTS}

    assert {path: references for path, references in broken.items() if references} == {}


PAGES = [*(path for path in TEXTS if path.suffix == ".md"), ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for target, fragment in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        if "://" in target:
            continue
        linked = page.parent / target if target else page
        assert linked.exists(), f"{page.name} links to {target}"
        if fragment:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
            assert fragment in map(anchor, headings), f"{page.name} links to {target}#{fragment}"


def missing_paths(text: str) -> list[str]:
    """The paths of files and folders of the repository that a text names and that do not exist."""
    named = re.findall(r"`((?:src|tests|benchmarks|scripts|examples|packaging|docs)/[\w./-]+)[`:]", text)
    return [path for path in named if not (ROOT / path).exists()]


def test_the_code_that_decisions_name_is_there() -> None:
    missing = {path.name: missing_paths(path.read_text()) for path in DECISIONS}

    assert {name: paths for name, paths in missing.items() if paths} == {}


def test_a_missing_path_is_found() -> None:
    text = "`tests/net/nowhere.py` and `tests/gone.py::test_it`, but `tests/test_decisions.py`, `src/roamq` are there."

    assert missing_paths(text) == ["tests/net/nowhere.py", "tests/gone.py"]


def test_a_broken_reference_is_found() -> None:
    text = "See docs/decisions/9999, decisions 0001 and 9998, docs/nowhere.md and docs/dis.md, choice 0095."

    assert broken_references(text) == ["decision 9999", "decision 9998", "docs/nowhere.md", "choice 0095"]
