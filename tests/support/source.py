"""The source, as tests that read it see it: every module is parsed once in a process.

Such tests stand in the xdist group `source`, so that one process runs them all.
"""

import ast
import functools
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "src" / "roamq"

reads_the_source = pytest.mark.xdist_group("source")


@functools.cache
def modules() -> list[Path]:
    """Every module of `roamq`."""
    return sorted(SOURCE.rglob("*.py"))


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a module, as `ast.walk` gives them."""
    return tuple(ast.walk(parsed(path)))
