"""The table of rules in docs/mqtt.md names tests that exist, rules that exist, and leaves none of ours out."""

import ast
import functools
import re
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "mqtt.md"


def read(table: str) -> dict[str, int]:
    """Section -> how many numbered conformance statements a standard has there."""
    return {section: int(count) for section, count in re.findall(r"([\d.]+): (\d+)", table)}


MQTT_5: Final = read(
    """
    1.5.4: 3, 1.5.5: 1, 1.5.7: 1, 2.1.3: 1, 2.2.1: 6, 2.2.2: 1, 3.1.0: 2, 3.1.2: 30
    3.1.3: 12, 3.1.4: 6, 3.2.0: 2, 3.2.2: 22, 3.3.1: 13, 3.3.2: 20, 3.3.4: 10, 3.4.2: 3
    3.5.2: 3, 3.6.1: 1, 3.6.2: 3, 3.7.2: 3, 3.8.1: 1, 3.8.3: 5, 3.8.4: 8, 3.9.2: 2
    3.9.3: 2, 3.10.1: 1, 3.10.3: 2, 3.10.4: 6, 3.11.2: 2, 3.11.3: 2, 3.12.4: 1, 3.14.0: 1
    3.14.1: 1, 3.14.2: 4, 3.14.4: 3, 3.15.1: 1, 3.15.2: 3, 4.1.0: 2, 4.2.0: 1, 4.3.1: 1
    4.3.2: 5, 4.3.3: 13, 4.4.0: 2, 4.5.0: 2, 4.6.0: 6, 4.7.0: 1, 4.7.1: 2, 4.7.2: 1
    4.7.3: 4, 4.8.2: 6, 4.9.0: 3, 4.12.0: 7, 4.12.1: 2, 4.13.1: 1, 4.13.2: 1, 6.0.0: 4
    """
)
MQTT_311: Final = read(
    """
    1.5.3: 3, 2.2.2: 2, 2.3.1: 7, 3.1.0: 2, 3.1.2: 24, 3.1.3: 11, 3.1.4: 5, 3.2.0: 1
    3.2.2: 6, 3.3.1: 12, 3.3.2: 3, 3.3.4: 1, 3.3.5: 2, 3.6.1: 1, 3.8.1: 1, 3.8.3: 4
    3.8.4: 6, 3.9.3: 2, 3.10.1: 1, 3.10.3: 2, 3.10.4: 6, 3.12.4: 1, 3.14.1: 1, 3.14.4: 3
    4.1.0: 2, 4.3.1: 1, 4.3.2: 2, 4.3.3: 2, 4.4.0: 1, 4.5.0: 2, 4.6.0: 6, 4.7.1: 3
    4.7.2: 1, 4.7.3: 4, 4.8.0: 2, 6.0.0: 4
    """
)
OURS_5: Final = """
3.1.2-4 to 3.1.2-15, 3.1.2-22, 3.1.2-23, 3.1.2-26, 3.1.2-27,
3.1.3-2, 3.1.3-6 to 3.1.3-10, 3.1.4-3 to 3.1.4-6, 3.2.0-1, 3.2.0-2,
3.2.2-2, 3.2.2-3, 3.2.2-6, 3.2.2-7, 3.2.2-12, 3.2.2-13, 3.2.2-16, 3.3.1-1 to 3.3.1-3, 3.3.1-5 to 3.3.1-13,
3.3.2-4 to 3.3.2-7, 3.3.2-15 to 3.3.2-18, 3.3.2-20,
3.3.4-2 to 3.3.4-5, 3.3.4-9, 3.3.4-10, 3.8.3-3, 3.8.3-4, 3.8.4-3, 3.8.4-4, 3.8.4-8,
3.10.4-1 to 3.10.4-3, 3.14.2-2, 3.14.4-3, 4.1.0-1, 4.1.0-2, 4.3.1-1, 4.3.2-1 to 4.3.2-5, 4.3.3-1 to 4.3.3-13,
4.4.0-1, 4.4.0-2, 4.5.0-1, 4.6.0-5, 4.6.0-6, 4.7.2-1, 4.8.2-1 to 4.8.2-6, 4.9.0-1 to 4.9.0-3
"""
"""What MQTT 5 asks of a server about sessions, wills, retained messages, shared subscriptions and takeovers."""
OURS_311: Final = """
3.1.2-4 to 3.1.2-17, 3.1.2-24, 3.1.3-2, 3.1.3-6, 3.1.3-8, 3.1.3-9, 3.1.4-2 to 3.1.4-5, 3.2.0-1, 3.2.2-1 to 3.2.2-5,
3.3.1-1 to 3.3.1-3, 3.3.1-5 to 3.3.1-12, 3.3.5-1, 3.8.4-3, 3.8.4-6, 3.10.4-1 to 3.10.4-3, 3.14.4-3, 4.1.0-1, 4.1.0-2,
4.3.1-1, 4.3.2-1, 4.3.2-2, 4.3.3-1, 4.3.3-2, 4.4.0-1, 4.5.0-1, 4.6.0-1 to 4.6.0-6, 4.7.2-1
"""


def rows() -> list[list[str]]:
    text = DOCS.read_text().split("### Rule by rule")[1].split("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def numbers(cell: str) -> list[str]:
    """The rules of a cell, one by one; sections have no number."""
    found = []
    for part in filter(None, cell.replace("\n", " ").strip().split(",")):
        one = part.strip()
        if one.startswith("section "):
            assert re.fullmatch(r"section \d(\.\d+)+", one), one
            continue
        assert re.fullmatch(r"(\d(?:\.\d+){2})-(\d+)( to \1-(\d+))?", one), one
        section, _, rest = one.partition("-")
        first, last = int(rest.split()[0]), int(rest.rpartition("-")[2])
        found += [f"{section}-{number}" for number in range(first, last + 1)]
    return found


@functools.cache
def functions(module: str) -> set[str]:
    (path,) = Path(__file__).parent.rglob(f"{module}.py")
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_every_rule_names_a_test_that_exists() -> None:
    found = rows()
    assert len(found) > 30
    for rule, _, what, _, tests in found:
        named = re.findall(r"`(test_\w+)\.(\w+)`", tests)
        assert named, f"no test for {rule}: {what}"
        for module, function in named:
            assert function in functions(module), f"{module} has no {function} ({rule})"


@pytest.mark.parametrize(
    ("column", "standard", "ours"), [(0, MQTT_5, OURS_5), (1, MQTT_311, OURS_311)], ids=["5", "3.1.1"]
)
def test_the_rules_are_those_of_the_standard_and_none_of_ours_is_missing(
    column: int, standard: dict[str, int], ours: str
) -> None:
    listed = [number for row in rows() for number in numbers(row[column])]
    for number in listed:
        section, _, place = number.partition("-")
        assert 1 <= int(place) <= standard.get(section, 0), f"there is no {number}"
    assert set(numbers(ours)) - set(listed) == set()


def test_no_rule_of_mqtt_5_stands_twice() -> None:
    listed = [number for row in rows() for number in numbers(row[0])]
    assert sorted(listed) == sorted(set(listed))


def test_the_code_cites_rules_that_exist() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for section, place in re.findall(r"\[MQTT-([\d.]+)-(\d+)\]", path.read_text()):
            assert 1 <= int(place) <= MQTT_5.get(section, 0), f"{path.name}: there is no {section}-{place}"
