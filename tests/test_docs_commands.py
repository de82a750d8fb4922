"""Every `roamq` command that README and docs show exists, with every option it is shown with."""

import re
import shlex
from pathlib import Path

import click
import pytest

from roamq.cli.main import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(text: str) -> list[str]:
    """The `roamq ...` command lines of a page: in code blocks, indented lines and inline code."""
    fenced = re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip().removeprefix("$ ") for block in fenced for line in block.splitlines()]
    prose = re.sub(r"^```[a-z]*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines += re.findall(r"^ {4,}(roamq .*)$", prose, re.MULTILINE)
    lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", prose)]
    return sorted({re.split(r"\s{2,}|\s#", line)[0] for line in lines if re.match(r"roamq [a-z]", line)})


def unknown_parts(line: str) -> list[str]:
    """The words of a command line that name no command, and the options that its command does not have."""
    words = shlex.split(line)[1:]
    command: click.Command = cli
    context = click.Context(cli)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            return [words[0]]
        command, words = found, words[1:]
        context = click.Context(command, parent=context)
    known = {
        name
        for parameter in command.get_params(context)
        for name in parameter.opts + parameter.secondary_opts
    }
    return [word for word in words if word.startswith("--") and word.split("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    unknown = {line: unknown_parts(line) for line in commands(page.read_text())}

    assert {line: parts for line, parts in unknown.items() if parts} == {}


def test_the_pages_show_many_commands() -> None:
    assert len({line for page in PAGES for line in commands(page.read_text())}) > 60


def test_what_does_not_exist_is_found() -> None:
    assert unknown_parts("roamq fly --fast") == ["fly"]
    assert unknown_parts("roamq simulate testbed --schema standard") == ["--schema"]
    assert unknown_parts("roamq pipeline run --traces a.csv --format wifi") == []
