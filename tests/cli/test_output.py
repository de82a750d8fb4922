"""Tables on a terminal, and JSON for programs."""

import json
import os

import pytest

from roamq.cli.output import column_widths, print_json, print_table

COLUMNS = ["", "scheme", "lost %", "twice %", "wait ms", "late ms", "MB", "MB s", "price"]
WIDEST = [
    "10=",
    "prefetching+on-device",
    "0.0844",
    "0.0151",
    "0.0151",
    "0.0635",
    "0.0618",
    "0.0779",
    "0.0123",
]


def test_the_ranking_of_a_study_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(COLUMNS, [WIDEST], numeric=COLUMNS[2:], narrow=True)

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert all(text in lines[-2] or text in lines[-1] for text in WIDEST), "no cell is broken"


def test_a_table_that_is_too_wide_breaks_no_word(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamq.cli.output.WIDTH_ELSEWHERE", 80)
    columns = ["brokers", "clients at busy times", "utilisation", "in transit", "mean response s"]
    columns += ["response s at 95%", "buffer MiB", "meets targets"]
    row = [30, 1073, 0.7123, 1.683e-09, 10.44, 73.32, 27.16, "no: utilisation"]
    print_table(columns, [row], numeric=columns[:-1])

    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 80
    assert {"utilisation", "response", "1.683e-09", "brokers"} <= set(text.split())


@pytest.mark.parametrize(
    ("width", "widths"),
    [
        (40, [5, 16]),  # all fits
        (19, [5, 9]),  # the long column is broken between its words
        (14, [5, 4]),  # no room but for the longest words
        (13, None),  # not even that
    ],
)
def test_columns_share_the_width_of_the_terminal(width: int, widths: list[int] | None) -> None:
    lines = [["north", "two and one more"], ["b", "one"]]
    assert column_widths(lines, width, blanks=3) == widths


def test_json_is_text_whatever_a_file_is_called(capsys: pytest.CaptureFixture[str]) -> None:
    name = os.fsdecode(b"caf\xc3\xa9-\xff")
    print_json({"file": name})
    written = capsys.readouterr().out

    assert json.loads(written.encode()) == {"file": name}
    print_json({"file": "café"})
    assert "café" in capsys.readouterr().out
