"""`roamq plan` holds an answer with bursts against a simulation of the same path."""

import json
import re
from dataclasses import replace

import pytest
from click.testing import CliRunner

from roamq.cli.main import cli
from roamq.cli.plan.warnings import (
    EVENTS,
    RUNS,
    Compared,
    SimulatedPath,
    held_against_simulation,
    warned,
)
from roamq.models.bursts import SolvedCentre, solve_path
from roamq.models.phase_type import with_moments
from roamq.models.queueing import Centre


def row(
    *demands_s: float, t_on_s: float = 60.0, t_off_s: float = 60.0, rate: float = 1.0
) -> list[SolvedCentre]:
    """A publisher, and centres behind it; the demands are of one event a second."""
    demands = [demand_s / rate for demand_s in demands_s]
    first = Centre(name="publisher", rate=rate, demand_s=demands[0], t_on_s=t_on_s, t_off_s=t_off_s)
    behind = [Centre(name=f"b{i}", rate=rate, demand_s=d) for i, d in enumerate(demands[1:], start=1)]
    return solve_path([first, *behind])


def test_a_good_approximation_is_not_warned_of() -> None:
    assert warned(row(0.001, 0.4)) == []


def test_a_path_without_bursts_is_not_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be simulated")

    monkeypatch.setattr("roamq.sim.tandem.passages", simulated)

    assert warned(row(0.1, 0.4, t_off_s=0.0)) == []
    assert warned(row(0.1, 1.4)) == [], "saturated: there is no answer to warn of"


def test_a_wrong_answer_is_told_with_the_right_one() -> None:
    """An answer that somebody has spoilt: the second centre takes half as long again."""
    solved = row(0.001, 0.4, t_on_s=25.0, t_off_s=30.0)
    right_s = sum(part.law.mean() for part in solved if part.law is not None)
    assert solved[1].law is not None
    spoilt = replace(solved[1], law=with_moments(solved[1].law.mean() + 0.3 * right_s, 1.0))
    [said] = [text for text in warned([solved[0], spoilt]) if "mean" in text]
    told = re.search(r"off by \+(\d+)%: a simulation gives (\S+) s in place of (\S+) s", said)

    assert told is not None, said
    assert int(told[1]) == pytest.approx(30, abs=5)
    assert float(told[2]) == pytest.approx(right_s, rel=0.05)
    assert float(told[3]) == pytest.approx(1.3 * right_s, rel=0.01)


@pytest.mark.parametrize(
    ("model_s", "half_width", "said"),
    [
        (10.5, 0.04, ""),
        (
            9.3,
            0.05,
            "may be off by more than 10%: a simulation gives 10 s in place of 9.3 s, to ±5% after 800,000",
        ),
        (11.5, 0.04, "is off by +15%"),
        (10.8, 0.01, ""),
        (8.9, 0.09, "may be off by more than 10%"),
    ],
)
def test_silence_means_that_the_interval_of_the_error_is_within_a_tenth(
    model_s: float, half_width: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of 7% that is known to 5% only may be one of 12%: on one random path it was."""
    found = Compared("mean", model_s, 10.0, half_width)
    monkeypatch.setattr(
        "roamq.cli.plan.warnings.held_against_simulation", lambda *_, **__: ([found], 800_000)
    )
    warnings = warned(row(0.001, 0.4))

    assert [said in text for text in warnings] == ([True] if said else [])


def test_runs_are_added_until_the_interval_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation whose answers are off by 9% on average, and by much more or less in one run."""
    solved = row(0.001, 0.4)
    mean_s = sum(part.law.mean() for part in solved if part.law is not None)
    seeds = list[int]()

    def run(self: SimulatedPath, events: int, seed: int) -> None:
        seeds.append(seed)
        off = (1.09 + 0.03 * (-1) ** seed) * mean_s
        for values in (*self._plain, *self._multiples):
            values.append(off)

    monkeypatch.setattr(SimulatedPath, "run", run)
    found, events = held_against_simulation(solved, on_scv=1.0, off_scv=1.0)

    assert RUNS[0] < len(seeds) < RUNS[1], "8.3% off: four runs give ±5%, twelve ±1.7%"
    assert seeds == list(range(len(seeds)))
    assert events == len(seeds) * EVENTS
    assert found[0].error == pytest.approx(1 / 1.09 - 1)
    assert found[0].half_width < 0.1 + found[0].error
    assert found[0].is_good


def test_a_large_backlog_is_simulated_with_larger_events() -> None:
    """The same path with a hundred times as many events, each a hundredth of the work: nearly the same answers."""
    few, _ = held_against_simulation(row(0.001, 0.4), on_scv=1.0, off_scv=1.0)
    many, _ = held_against_simulation(row(0.001, 0.4, rate=100.0), on_scv=1.0, off_scv=1.0)

    for one, other in zip(few, many, strict=True):
        assert one.half_width < 0.1
        assert other.half_width < 0.1
        assert other.simulated_s == pytest.approx(one.simulated_s, rel=0.2)
        assert abs(other.error) < 0.15


@pytest.mark.parametrize("many", [["--sweep", "rate=1:3:2"], ["--solve-for", "rate", "--target", "mean=60"]])
@pytest.mark.slow
def test_sweeps_and_questions_asked_backwards_warn_as_well(
    many: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roamq.cli.plan.path.warned", lambda *_, **__: ["it is off by +30%"])
    result = CliRunner().invoke(cli, ["plan", "response-time", "--publisher-off-s", "20", *many])

    assert result.exit_code == 0, result.output
    assert "take the answer with care: at rate = " in result.output


def test_a_program_hears_the_warnings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = Compared("mean", 13.0, 10.0, 0.01)
    monkeypatch.setattr(
        "roamq.cli.plan.warnings.held_against_simulation", lambda *_, **__: ([wrong], 400_000)
    )
    result = CliRunner().invoke(cli, ["plan", "response-time", "--publisher-off-s", "20", "--json"])

    [note] = json.loads(result.stdout)["notes"]
    assert note.startswith("take the answer with care: ")
    assert "off by +30%" in note
