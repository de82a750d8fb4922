"""Tables on a terminal."""

import pytest

from roamq.cli.output import print_table

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
