"""The README's promises: its Python runs, and its commands explain themselves."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own text

    assert "reconnects" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(set(re.findall(r"roamq ([a-z]+)", README)) - {"is"}))
def test_the_commands_exist_and_show_an_example(command: str) -> None:
    answer = CliRunner().invoke(cli, [command, "--help"])

    assert answer.exit_code == 0
    assert f"roamq {command}" in answer.output
