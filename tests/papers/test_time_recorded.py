"""[TIME] Fig. 12 on recorded connectivity: phones made here with known periods, and real ones if they are there."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.models.phase_type import MatrixExponential, exponential, with_moments
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.registry import Outcome, Verdict
from roamq.reproduce.time_recorded import NO_WIFI, WIFI, read_phone, recorded_connectivity

DATA = Path(__file__).parents[3] / "shared" / "data" / "extrasensory-wifi-onoff"


def write_phone(folder: Path, name: str, states: list[tuple[float, bool]]) -> Path:
    path = folder / f"{name}.phonestate.csv.gz"
    lines = [f"{time_s:.0f},{int(is_on)},{int(not is_on)}" for time_s, is_on in states]
    with gzip.open(path, "wt") as file:
        file.write("\n".join([f"timestamp,{WIFI},{NO_WIFI}", *lines]) + "\n")
    return path


def a_phone(folder: Path, seed: int, off: MatrixExponential) -> None:
    """400 connected and disconnected periods, seen every minute."""
    rng = np.random.default_rng(seed)
    ends = np.cumsum(np.column_stack([exponential(3600).draw(rng, 400), off.draw(rng, 400)]).ravel())
    times = np.arange(0.0, ends[-1], 60.0)
    is_on = np.searchsorted(ends, times, side="right") % 2 == 0
    write_phone(folder, f"p{seed}", list(zip(times.tolist(), is_on.tolist(), strict=True)))


def outcome(folder: Path | None) -> Outcome:
    return recorded_connectivity(ScriptedEvidence(quick=True, recordings=folder))


def test_a_phone_s_periods_end_where_its_state_changes_or_nothing_was_recorded(tmp_path: Path) -> None:
    minutes = [(0, True), (1, True), (2, False), (3, False), (4, True), (5, False), (60, False), (61, True)]
    path = write_phone(tmp_path, "p", [(60.0 * minute, is_on) for minute, is_on in minutes])

    phone = read_phone(path)

    # The first period of a stretch has no begin, the last no end.
    assert phone.off.whole_s.tolist() == [120.0]
    assert phone.on.whole_s.tolist() == [60.0]


@pytest.mark.slow
def test_exponential_periods_do_not_contradict_theorem_2(tmp_path: Path) -> None:
    for seed in range(6):
        a_phone(tmp_path, seed, exponential(3600))

    found = outcome(tmp_path)

    assert "6 of 6 phones" in found.ours
    assert "does not hold: Theorem 2 over replay at utilisation 0.05" not in found.why
    assert "does not hold: Theorem 2 over replay at utilisation 0.2" not in found.why


@pytest.mark.slow
def test_variable_periods_contradict_theorem_2(tmp_path: Path) -> None:
    """The residual disconnection is (1 + scv) / 2 times as long: 3.5 for a variability of 6."""
    for seed in range(6):
        a_phone(tmp_path, seed, with_moments(3600, 6))

    found = outcome(tmp_path)

    assert found.verdict is Verdict.DIFFERS
    assert "fit best for 0 of 6 phones" in found.why
    measured = float(found.why.split("utilisation 0.05, median over phones: ")[1].split(" ")[0])
    assert measured == pytest.approx(1 / 3.5, rel=0.35)


def test_without_recordings_the_claim_is_not_run_and_says_why(tmp_path: Path) -> None:
    assert outcome(None).verdict is Verdict.NOT_RUN
    assert "--recordings" in outcome(None).why
    result = CliRunner().invoke(cli, ["reproduce", "TIME-F12-recorded", "--recordings", str(tmp_path)])
    assert result.exit_code == 2
    assert "has no *.phonestate.csv.gz" in result.stderr


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"the recordings are not part of the repository: no {DATA}")
def test_theorem_2_on_the_recorded_phones() -> None:
    found = outcome(DATA)

    assert found.verdict is Verdict.DIFFERS
    assert "24 of 28 phones" in found.ours
    assert "exponential disconnected periods fit best for 0 of 24 phones" in found.why
