"""`roamq bench roaming`: what it refuses, and what it prints of clients on streets."""

import pytest

from roamq.cli.main import main
from roamq.cli.roaming import print_hits


@pytest.mark.parametrize("more", [["--pattern", "NBR"], ["--faults"]])
def test_streets_have_neither_patterns_nor_faults(
    more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "roaming", "--streets", *more])

    assert ended.value.code == 2
    assert "leave out --pattern and --faults" in capsys.readouterr().err


def test_hits_and_delays_stand_in_one_line_for_each_world(capsys: pytest.CaptureFixture[str]) -> None:
    def waits(scheme: str, median_s: float) -> dict[str, object]:
        return {"scheme": scheme, "moved": 12, "moved_median_s": median_s, "moved_p95_s": 0.05}

    def measured(metric: str, mean: float) -> dict[str, object]:
        return {"scheme": "prehandoff streets live", "metric": metric, "mean": mean}

    print_hits(
        [waits("standard streets live", 0.04), waits("prehandoff streets live", 0.007)],
        [measured("handoffs", 40.0), measured("hit_pct", 97.5)],
    )

    printed = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["prehandoff", "streets", "live", "40", "97.5", "12", "7.0", "50.0"] in printed
    assert ["standard", "streets", "live", "-", "-", "12", "40.0", "50.0"] in printed
