"""The import rule of docs/architecture.md: dependencies point up the page only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "roamq"

ALLOWED: dict[str, set[str]] = {
    "core": set(),
    "config": {"core"},
    "geo": {"core"},
    "overlay": {"core"},
    "schemes": {"core", "overlay", "geo"},
    "broker": {"core", "overlay", "schemes"},
    "models": set(),
    "sim": {"config", "core", "geo", "overlay", "schemes", "broker"},
    "manet": {"core", "geo", "sim"},
    "net": {"config", "core", "geo", "overlay", "schemes", "broker"},
    "fieldtest": {"config", "core", "overlay", "sim", "net"},
    "pipeline": {"config", "core", "geo", "overlay", "schemes", "sim", "manet", "models"},
    "report": {"pipeline.schemas", "models", "core", "geo"},
    "reproduce": {"core", "geo", "overlay", "schemes", "sim", "manet", "models", "pipeline", "report"},
    "console": {"core", "net", "report", "pipeline.schemas"},
    "cli": {
        *(
            "broker",
            "config",
            "fieldtest",
            "console",
            "core",
            "geo",
            "manet",
            "models",
            "net",
            "overlay",
            "pipeline",
        ),
        *("report", "reproduce", "schemes", "sim"),
    },
    "__main__": {"cli"},
}
"""Package -> what it may import of ours, besides itself."""

ONLY_IN: dict[str, set[str]] = {
    "pyspark": {"pipeline"},
    "asyncio": {"net", "console", "fieldtest"},
    "uvloop": {"net"},
    "click": {"cli"},
    "rich": {"cli"},
    "matplotlib": {"report"},
    "time": {"net", "console", "cli", "pipeline", "reproduce"},
    "random": {"sim", "manet", "fieldtest"},
    "socket": {"net", "console", "cli"},
}
"""What touches the world, or a framework -> where it may live."""

CORE_MAY_IMPORT = {"sortedcontainers"}


def imports(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
            if node.module == "roamq":
                yield from ((node.lineno, f"roamq.{alias.name}") for alias in node.names)


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py"))


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_up_the_page(path: Path) -> None:
    here = package_of(path)
    for line, name in imports(path):
        place = f"src/roamq/{path.relative_to(SOURCE)}, line {line}"
        top = name.split(".")[0]
        if name.startswith("roamq.") and here != "__init__":
            there = name.removeprefix("roamq.")
            ours = {there.split(".")[0], ".".join(there.split(".")[:2])}
            allowed = ALLOWED[here] | {here, "__version__"}
            assert ours & allowed, f"{place}: {here} must not import {name}"
        elif top in ONLY_IN:
            assert here in ONLY_IN[top], f"{place}: {top} belongs to {sorted(ONLY_IN[top])}, not to {here}"
        if here == "core" and top != "roamq":
            import sys

            known = sys.stdlib_module_names | CORE_MAY_IMPORT
            assert top in known, f"{place}: the core uses the standard library alone, not {top}"


def test_a_package_that_is_not_in_the_picture_is_noticed() -> None:
    packages = {package_of(path) for path in modules()} - {"__init__"}

    assert packages <= ALLOWED.keys()
