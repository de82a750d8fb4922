"""The README's promises: its first screen works as it stands, its Python runs, and its commands explain themselves."""

import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.net.ops.local import free_run
from tests.support.waiting import WAIT_S
from tests.test_tutorials import Terminal, assert_shown, environment, started, steps

__all__ = ["environment"]
"""A fixture of the tutorials: where commands are found."""

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.live
def test_the_first_screen_shows_what_happens(tmp_path: Path, environment: dict[str, str]) -> None:
    """A client that comes back at another broker finds its session; only the ports are others."""
    first = free_run(3)
    text = re.sub(r"\b288[345]\b", lambda found: str(first + int(found.group()) - 2883), README)
    (up, *rest) = steps(text[: text.index("![The console")])
    up = up._replace(shown=list(filter(None, up.shown)))
    background = started(up, up.command.partition("#")[0], tmp_path, environment)
    terminal = Terminal(tmp_path, environment)
    try:
        assert len(rest) == 3
        for step in rest:
            assert_shown(step, terminal.run(step.command))
    finally:
        terminal.close()
        background.send_signal(signal.SIGINT)
        assert background.wait(WAIT_S) == 0


@pytest.mark.parametrize("code", re.findall(r"```python\n(.*?)```", README, re.DOTALL))
def test_the_python_examples_run(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - our own text

    assert "reconnects" in capsys.readouterr().out


@pytest.mark.parametrize("command", sorted(set(re.findall(r"roamq ([a-z]+)", README)) - {"is"}))
def test_the_commands_exist_and_show_an_example(command: str) -> None:
    answer = CliRunner().invoke(cli, [command, "--help"])

    assert answer.exit_code == 0
    assert f"roamq {command}" in answer.output
