"""docs/glossary.md is in order, its references to the code exist, and the source avoids the names it rules out."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.source import SOURCE, modules, parsed, reads_the_source

pytestmark = reads_the_source

ROOT = Path(__file__).parent.parent

GONE: frozenset[str] = frozenset(
    {
        "Afresh",
        "begin_anew",
        "begun_anew",
        "go_ahead",
        "goes_ahead",
        "going_ahead",
        "got_ahead",
        "had",
        "heir",
        "heirs",
    }
    | {"next_ahead", "pump_ahead"}
)
"""The names of the glossary's third column that the source no longer contains, and must not contain again.

A name is entered here by the change that removes it; `test_removed_names_stay_removed` guards it from then on.
"""


class Entry(NamedTuple):
    word: str
    meaning: str
    avoided: str
    code: str


def entries() -> list[Entry]:
    rows = re.findall(r"^\| (.+) \|$", (ROOT / "docs" / "glossary.md").read_text(), re.MULTILINE)
    cells = [tuple(cell.strip() for cell in row.split("|")) for row in rows]
    return [Entry(*row) for row in cells[2:]]


ENTRIES = entries()
RULED_OUT = frozenset(name for entry in ENTRIES for name in re.findall(r"`([^`]+)`", entry.avoided))


def trees(package: str) -> list[ast.Module]:
    """The modules of a package below `roamq`, or the one module of that name."""
    folder = SOURCE / package
    paths = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return [parsed(path) for path in paths if path.exists()]


@cache
def defined_in(package: str) -> frozenset[str]:
    """Modules, functions, classes, constants and `Class.attribute` names that a package defines."""
    folder = SOURCE / package
    names = {path.stem for path in folder.rglob("*.py")} | {path.name for path in folder.rglob("*/")}
    for tree in trees(package):
        names |= own_names(tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                inside = own_names(node.body) | attributes_of_self(node)
                names |= {f"{node.name}.{name}" for name in inside}
    return frozenset(names)


def own_names(body: list[ast.stmt]) -> set[str]:
    names = set()
    for statement in body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign):
            names |= {target.id for target in statement.targets if isinstance(target, ast.Name)}
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            names.add(statement.target.id)
    return names


def attributes_of_self(node: ast.ClassDef) -> set[str]:
    """What methods of a class assign to `self`."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }


def identifiers(tree: ast.AST) -> set[str]:
    """Every name that a module gives or uses."""
    fields = ("name", "id", "attr", "arg")
    found = (getattr(node, field, None) for node in ast.walk(tree) for field in fields)
    return {name for name in found if isinstance(name, str)}


def contains(identifier: str, name: str) -> bool:
    """Whether `name` is the identifier, or a part of it between underscores."""
    return f"_{name}_" in f"_{identifier}_"


def test_entries_are_in_alphabetical_order_and_complete() -> None:
    words = [entry.word for entry in ENTRIES]

    assert len(words) > 80
    assert words == sorted(words, key=lambda word: word.replace("-", " ").lower())
    assert len(set(words)) == len(words)
    assert all(entry.meaning.endswith((".", ")")) for entry in ENTRIES)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.word)
def test_the_code_that_an_entry_names_exists(entry: Entry) -> None:
    package, _, name = entry.code.strip("`").partition(".")

    assert name in defined_in(package), f"docs/glossary.md, {entry.word}: roamq.{package} defines no {name}"


def test_a_removed_name_is_one_that_the_glossary_rules_out() -> None:
    assert GONE <= RULED_OUT


def test_removed_names_stay_removed() -> None:
    for path in modules():
        used = identifiers(parsed(path))
        ruled_out = sorted(one for one in used for name in GONE if contains(one, name))
        assert not ruled_out, (
            f"{path.relative_to(ROOT)} uses {ruled_out}; docs/glossary.md has the words for them"
        )


def test_a_name_is_found_as_part_of_an_identifier() -> None:
    used = identifiers(ast.parse("def _go_ahead(self, heir): self.heirs = ahead"))

    assert {
        name for name in ("go_ahead", "heir", "heirs", "head") if any(contains(one, name) for one in used)
    } == {
        "go_ahead",
        "heir",
        "heirs",
    }
