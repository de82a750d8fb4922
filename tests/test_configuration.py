"""Every field that a user can set is read by something: a knob that turns nothing is worse than none."""

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.support.source import SOURCE, nodes, reads_the_source

pytestmark = reads_the_source

FILES = {
    ("net",): (
        "net/ops/configuration.py",
        "net/ops/options.py",
        "net/ops/settings.py",
        "net/ops/tables.py",
        "net/clients/tokens.py",
        "net/clients/mqtt/limits.py",
    ),
    ("sim", "cli"): (
        "sim/options.py",
        "sim/scenario.py",
        "sim/streets.py",
        "sim/mobility.py",
        "sim/workload.py",
    ),
    ("pipeline",): ("pipeline/session.py",),
}
"""The packages that read a configuration, and the files that declare it."""


def declared(path: Path) -> Iterator[tuple[str, str]]:
    """Class and field of every class of parameters in a file."""
    for node in nodes(path):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = {
            base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases
        }
        if bases & {"Struct", "Options"} or node.name.endswith(("Options", "Settings")):
            for entry in node.body:
                if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name):
                    yield node.name, entry.target.id


def reads(*packages: Path) -> Counter[str]:
    """How often each attribute is read in packages; a name that is written as a string counts as well (`getattr`)."""
    found: Counter[str] = Counter()
    for path in (path for package in packages for path in package.rglob("*.py")):
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found[node.attr] += 1
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found[node.value] += 1
    return found


def test_every_field_of_the_configuration_is_read() -> None:
    """A name that several classes declare has to be read as often as it is declared."""
    unread = []
    for packages, files in FILES.items():
        read = reads(*(SOURCE / package for package in packages))
        owners: defaultdict[str, list[str]] = defaultdict(list)
        for file in files:
            for name, field in declared(SOURCE / file):
                owners[field].append(f"{file}: {name}.{field}")
        unread += [owner for field, of in owners.items() if read[field] < len(of) for owner in of]

    assert unread == []


def test_every_option_of_a_scheme_is_read() -> None:
    read = reads(SOURCE)
    unread = [
        f"{path.name}: {name}.{field}"
        for path in (SOURCE / "schemes").rglob("*.py")
        for name, field in declared(path)
        if name.endswith("Options") and not read[field]
    ]

    assert unread == []


def test_a_field_that_nobody_reads_is_noticed(tmp_path: Path) -> None:
    """A comparison that cannot fail would prove nothing."""
    file = tmp_path / "settings.py"
    file.write_text(
        "class Settings(Struct):\n    used: int = 1\n    unused: int = 2\n\nprint(Settings().used)\n"
    )

    assert [field for _, field in declared(file) if not reads(tmp_path)[field]] == ["unused"]
