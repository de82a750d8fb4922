"""Progress: on a terminal a bar that tells the truth, elsewhere a plain line a minute, no more."""

import re

import pytest

from roamq.cli.progress import progress


def test_elsewhere_than_on_a_terminal_there_is_a_line_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with progress("simulating", clock=lambda: now) as report:
        for number in range(13):
            now = number * 10.0
            report(number, 13)

    assert capsys.readouterr().err == ("simulating: 6 of 13 after 60 s\nsimulating: 12 of 13 after 120 s\n")


def test_a_phase_is_named_when_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    with progress("waiting", clock=lambda: now) as report:
        report.phase("starting Spark")
        report.phase("simulating")
        now = 61.0
        report(1, 2)

    assert capsys.readouterr().err == "starting Spark ...\nsimulating ...\nsimulating: 1 of 2 after 61 s\n"


def test_a_phase_of_unknown_length_shows_no_count_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    with progress("simulating") as report:
        report(8, 8)
        report.phase("measuring")

    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    last = next(line for line in reversed(re.split(r"[\r\n]", shown)) if "measuring" in line)
    assert "/" not in last
