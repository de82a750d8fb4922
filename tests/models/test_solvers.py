"""The models beside solvers that are not ours, on a few of the networks of `python -m benchmarks.solvers`."""

import pytest

pytest.importorskip("ciw", reason="Ciw is not installed")
pytest.importorskip("simpy", reason="SimPy is not installed")

from benchmarks.solvers import NAMES, compared

from tests.support.few import few


@pytest.mark.parametrize(
    ("name", "events", "tolerance"),
    few(
        [
            ("buffer of five events", 4000, 0.0),
            ("alarms before others", 4000, 0.0),
            ("bursts: fast uplink, slow centre", 4000, 0.06),
            ("two centres, other flows", 2500, 0.0),
            ("tree of five brokers", 2500, 0.03),
            ("ring of four brokers", 2500, 0.03),
        ]
    ),
)
def test_a_model_and_an_independent_simulation_agree(name: str, events: int, tolerance: float) -> None:
    """Within the error of the simulation, which must be small, and what an approximation may be off besides."""
    found = compared(name, events=events, runs=4)

    assert found.half_width < 0.25 * found.independent, f"{found} is too vague for a test"
    # 1.5 times the half of a 95% interval over four runs: 99%.
    assert found.model == pytest.approx(
        found.independent, abs=1.5 * found.half_width + tolerance * found.independent
    )


def test_there_are_at_least_ten_networks() -> None:
    assert len(set(NAMES)) >= 10
