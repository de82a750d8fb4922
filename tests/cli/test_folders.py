"""Folders and files that cannot be written are named before the work begins, with exit code 2."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from roamq.cli.main import cli


def called(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments)


@pytest.mark.parametrize(
    "command",
    [
        ("simulate", "testbed"),
        ("simulate", "drip"),
        ("demo",),
        ("reproduce", "TIME-F7", "--quick"),
        ("study", "--dataset", "walks"),
        ("bench", "roaming", "--quick"),
    ],
    ids=lambda words: words[-1],
)
def test_results_that_cannot_be_written_are_refused_before_anything_runs(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    """A file stands where the folder should be, so that it is refused whoever runs the test."""
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "out"

    result = called(*command, "--out", str(out))

    assert result.exit_code == 2
    assert result.output == f"roamq: --out {out}: cannot be written: Not a directory; name another folder\n"


@pytest.mark.parametrize(
    "words",
    [
        ("init", "{path}"),
        ("up", "--data", "{path}"),
        ("up", "--data={path}"),
        ("plan", "response-time", "--preset", "metro-1", "--figure", "{path}/figure.png"),
    ],
    ids=lambda words: " ".join(words),
)
def test_a_path_that_was_typed_is_named_with_what_is_wrong(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = str(tmp_path / "file" / "net")

    result = called(*(word.format(path=path) for word in words))

    assert result.exit_code == 2
    assert result.output.startswith(f"roamq: {tmp_path / 'file'}")
    assert result.output.endswith(": Not a directory\n")


def test_a_file_that_nobody_has_typed_is_not_the_operators_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "/nowhere/of/ours")

    monkeypatch.setattr("roamq.sim.scenario.presets", fails)

    result = called("simulate", "--list")

    assert result.exit_code == 1
    assert "unexpected FileNotFoundError" in result.output
