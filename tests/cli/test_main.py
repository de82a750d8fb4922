"""The frame of the command line: fast help, one clear line for what a person got wrong, exit codes."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from roamq.cli import main
from roamq.cli.groups import first_sentence
from roamq.core.errors import ConfigError
from roamq.net.ops.local import local_network


def test_help_lists_commands_without_importing_spark() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from roamq.cli.main import cli\n"
        "result = CliRunner().invoke(cli, ['--help']); print(result.output)\n"
        "assert result.exit_code == 0\n"
        "heavy = {'pyspark', 'matplotlib', 'pandas', 'pyarrow', 'scipy', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "simulate" in done.stdout


@pytest.mark.parametrize("name", ["simulate", "reproduce", "report", "demo"])
def test_every_command_shows_an_example(name: str) -> None:
    result = CliRunner().invoke(main.cli, [name, "--help"])

    assert result.exit_code == 0
    assert f"Example{'s' if 'Examples' in result.output else ''}:\n" in result.output
    assert f"  roamq {name}" in result.output
    assert "--json" in result.output


def test_a_misspelt_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(main.cli, ["simulte"])

    assert result.exit_code == 2
    assert (
        result.stderr == "roamq: no command 'simulte'; did you mean 'simulate'? (`roamq --help` lists them)\n"
    )


def failing_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    def command() -> None:
        raise error

    monkeypatch.setattr(main.LazyGroup, "get_command", lambda *_: command)


def test_what_the_operator_got_wrong_is_one_line_and_exit_code_2(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(ConfigError("busy.toml, line 3: clients: expected `int`"), monkeypatch)

    result = CliRunner().invoke(main.cli, ["demo"])

    assert (result.exit_code, result.stderr) == (2, "roamq: busy.toml, line 3: clients: expected `int`\n")


def test_a_bug_is_a_short_line_and_debug_shows_where(monkeypatch: pytest.MonkeyPatch) -> None:
    failing_with(ZeroDivisionError("division by zero"), monkeypatch)

    short = CliRunner().invoke(main.cli, ["demo"])
    debug = CliRunner().invoke(main.cli, ["--debug", "demo"])

    assert short.exit_code == 1
    assert short.stderr == (
        "roamq: unexpected ZeroDivisionError: division by zero (`roamq --debug ...` shows where)\n"
    )
    assert debug.exit_code == 1
    assert "Traceback (most recent call last)" in debug.stderr


@pytest.mark.parametrize("words", [("password", "--password"), ("where",), ("kick",)], ids=" ".join)
def test_a_word_that_is_not_utf_8_is_named(words: tuple[str, ...], tmp_path: Path) -> None:
    word = os.fsdecode(b"car-\xff")
    path = tmp_path / "network.toml"
    path.write_text(local_network(1))
    more = [] if words[0] == "password" else [str(path)]

    result = CliRunner().invoke(main.cli, [*words, word, *more])

    assert result.exit_code == 2
    assert result.output == "roamq: 'car-\\udcff': has bytes that are not UTF-8; write it as text\n"


def test_ctrl_c_ends_with_130_and_says_what_was_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("roamq.pipeline.sweep.jobs_of", interrupted)
    ended = CliRunner().invoke(main.cli, ["simulate", "testbed", "--scheme", "standard"])
    assert ended.exit_code == 130
    assert "roamq: interrupted; finished runs are kept" in ended.output

    monkeypatch.setattr("roamq.sim.scenario.run", interrupted)
    replayed = CliRunner().invoke(main.cli, ["simulate", "testbed", "--scheme", "standard", "--seed=1"])
    assert replayed.exit_code == 130
    assert replayed.output == "\nroamq: interrupted\n", "one run has no folder, and is not gone on with"


@pytest.mark.parametrize("name", ["plan", "pipeline", "bench"])
def test_subcommands_are_listed_with_their_whole_sentence(name: str) -> None:
    shown = " ".join(CliRunner().invoke(main.cli, [name, "--help"]).output.partition("Commands:")[2].split())

    assert "..." not in shown
    assert first_sentence("Costs ([DIS] Eq. 1-5). More.\n\nAnd more.") == "Costs ([DIS] Eq. 1-5)."
