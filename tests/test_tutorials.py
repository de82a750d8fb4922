"""The tutorials, run as a newcomer would: every command of the page, in order, and its output beside what is shown.

Numbers differ from run to run, so that they are compared as `0`; words must be the same. `...` stands for any lines, or
at the end of an assignment for what an earlier command printed.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from roamq.net.ops.local import free_ports
from tests.support.waiting import POLL_S, WAIT_S

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "tutorials"
COMMAND_S_MAX = 600.0
MINIMUM = 5
"""Commands of a tutorial, at least: a page of which nothing is run proves nothing."""
END = "__end_of_command__"
PORTS = [*range(8883, 8886), *range(9001, 9004), *range(7001, 7004)]
"""Of the network that `roamq init` writes: several checkouts are tested on one machine."""
TOLD = {"PASSWORD": r"password (\S+)", "MESSAGE": r"\b(b\d:\d+)\b"}
"""Variable that a page asks the reader to set -> what of the output above it takes."""


class Step(NamedTuple):
    command: str
    shown: list[str]
    """The output that the page shows."""
    in_background: bool


def steps(page: str) -> Iterator[Step]:
    for title, block in re.findall(r"^```console([^\n]*)\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        found: list[Step] = []
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line.removeprefix("$ "), [], "terminal 1" in title))
            else:
                found[-1].shown.append(line)
        yield from found


def plain(line: str) -> str:
    """A line without what differs between runs: numbers, rules of tables, widths of columns."""
    line = re.sub(r"[─━]+", "", line)
    return " ".join(re.sub(r"\d[\d.,:]*(e-?\d+)?k?=?", "0", line).split())


def assert_shown(step: Step, output: str) -> None:
    said = [plain(line) for line in output.splitlines() if plain(line)]
    shown = [plain(line) for line in step.shown]
    at = 0
    for line in filter(None, shown):
        if line == "...":
            continue
        pattern = re.compile(re.escape(line).replace(r"\.\.\.", ".*"))
        at = next((number for number in range(at, len(said)) if pattern.fullmatch(said[number])), -1) + 1
        assert at, f"$ {step.command}\nshows on the page: {line}\nand printed:\n{output}"


class Terminal:
    """A shell that keeps its variables from command to command."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.stdin.write(f"{command}\necho {END}\n")
        self._shell.stdin.flush()
        said: list[str] = []
        for line in self._shell.stdout:
            if line.strip() == END:
                return "".join(said)
            said.append(line)
        raise AssertionError(f"the shell ended at: {command}\n{''.join(said)}")

    def close(self) -> None:
        os.killpg(self._shell.pid, signal.SIGKILL)
        assert self._shell.stdin is not None and self._shell.stdout is not None
        self._shell.wait()
        self._shell.stdin.close()
        self._shell.stdout.close()


def shown_by(terminal: Terminal, step: Step, command: str) -> str:
    """What the command printed, which is what the page shows. Records take a moment: who looks for them looks again."""
    deadline = time.monotonic() + (WAIT_S if command.startswith("roamq trace") else 0.0)
    while True:
        output = terminal.run(command)
        try:
            assert_shown(step, output)
        except AssertionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL_S)
        else:
            return output


@contextmanager
def follow(page: Path, folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Do what the page says, in a folder."""
    ports = {str(port): str(free) for port, free in zip(PORTS, free_ports(len(PORTS)), strict=True)}
    terminal = Terminal(folder, environment)
    background: list[subprocess.Popen[bytes]] = []
    printed = ""
    try:
        found = list(steps(page.read_text()))
        assert len(found) > MINIMUM
        for step in found:
            command = re.sub(
                r"\b\d{4}\b", lambda found: ports.get(found.group(), found.group()), step.command
            )
            if (asked := re.fullmatch(r"([A-Z]+)=\.\.\.", command)) is not None:
                told = re.findall(TOLD[asked.group(1)], printed)
                assert told, f"nothing above says {asked.group(1)}"
                terminal.run(f"{asked.group(1)}={told[0]}")
                continue
            if step.in_background:
                background.append(started(step, command, folder, environment))
                continue
            printed = shown_by(terminal, step, command)
            if command.startswith("roamq init"):
                config = folder / "net" / "network.toml"
                config.write_text(
                    re.sub(
                        r"\b\d{4}\b",
                        lambda found: ports.get(found.group(), found.group()),
                        config.read_text(),
                    )
                )
        yield
    finally:
        terminal.close()
        for process in background:
            process.send_signal(signal.SIGINT)
        for process in background:
            process.wait(60)


def started(step: Step, command: str, folder: Path, environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    """A command that goes on; it has started when it has printed the last line that the page shows."""
    log = folder / "terminal-1.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command.split(), cwd=folder, env=environment, stdout=file, stderr=file, start_new_session=True
        )
    deadline = time.monotonic() + COMMAND_S_MAX
    while step.shown[-1] not in log.read_text():
        assert process.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)
    assert_shown(step, log.read_text())
    return process


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Where `roamq`, `python` and the mosquitto clients are found; stand-ins take the place of absent ones."""
    tools = tmp_path / "bin"
    tools.mkdir()
    run = f"#!/bin/sh\nexec {sys.executable}"
    (tools / "roamq").write_text(f'{run} -m roamq "$@"\n')
    (tools / "python").write_text(f'{run} "$@"\n')
    (tools / "pip").write_text(
        f'{run} -m pip "$@" --no-build-isolation --no-deps --target {tmp_path / "installed"}\n'
    )
    for name in ("mosquitto_sub", "mosquitto_pub"):
        if shutil.which(name) is None:
            shutil.copy(ROOT / "tests" / "support" / "mosquitto.py", tools / name)
            text = (tools / name).read_text()
            (tools / name).write_text(f"#!{sys.executable}\n{text}")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    installed = tmp_path / "installed"
    installed.mkdir()
    paths = [str(installed), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    kept = {
        name: value for name, value in os.environ.items() if "SPARK" not in name
    }  # not the tests' own session
    return {
        **kept,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "COLUMNS": "140",
    }


@pytest.mark.live
@pytest.mark.slow
def test_operate(tmp_path: Path, environment: dict[str, str]) -> None:
    work = tmp_path / "work"
    work.mkdir()
    with follow(PAGES / "operate.md", work, environment):
        pass


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("page", ["plan", "research"])
def test_plan_and_research(tmp_path: Path, environment: dict[str, str], page: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    shutil.copytree(ROOT / "examples" / "own-scheme", work / "examples" / "own-scheme")
    with follow(PAGES / f"{page}.md", work, environment):
        pass


def test_a_page_that_shows_something_else_is_found() -> None:
    step = Step("roamq status", ["b1 ok 3 s", "...", "b2 ok"], False)
    assert_shown(step, "b1   ok 17 s\nmore\nb2  ok\n")
    with pytest.raises(AssertionError, match="shows on the page: b0 ok"):
        assert_shown(step, "b1 ok 17 s\nb2 draining\n")
    page = textwrap.dedent("""
        ```console title="terminal 1"
        $ one
        said
        ```
        ```console
        $ two
        ```
    """)
    assert list(steps(page)) == [Step("one", ["said"], True), Step("two", [], False)]
