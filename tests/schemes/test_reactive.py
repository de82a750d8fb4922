"""The paper's reactive scheme: safe with all its switches on, and lossy the way the paper says without them."""

import pytest

from roamq.sim.scenario import RunResult, load_scenario, run


def hurried(seed: int, **switches: str) -> RunResult:
    overrides = {
        "clients": "8",
        "duration_s": "60",
        "drain_s": "600",
        "mobility.connect_s": "2",
        "mobility.disconnect_s": "1",
        "mobility.handoff_s": "0.2",
        "link.delay_s": "0.05",
        "link.jitter_s": "0.5",
        "workload.rate": "20",
    }
    overrides |= {f"scheme.{name}": value for name, value in switches.items()}
    return run(load_scenario("testbed", scheme="reactive", overrides=overrides), seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_with_every_care_it_is_the_standard_scheme(seed: int) -> None:
    result = hurried(seed, fenced="true", deduplicated="true", followed="true")

    assert result.lost() == []
    assert result.duplicated() == []
    assert result.reordered() == []
    assert result.violations == []


def test_without_a_fence_events_between_two_brokers_are_lost() -> None:
    result = hurried(1, deduplicated="true", followed="true")

    assert result.lost() != []
    assert result.duplicated() == []


def test_without_removing_duplicates_there_are_some() -> None:
    result = hurried(1, fenced="true", followed="true")

    assert result.duplicated() != []
    assert result.lost() == []


def test_a_transfer_that_cannot_catch_up_loses_what_comes_late() -> None:
    """[PRO] section 5.2.1: "the state transfer protocol cannot catch up with the moving subscribers"."""
    result = hurried(1, fenced="true", deduplicated="true")

    late = [record for record in result.records if record.kind == "dropped" and record.detail == "late"]
    assert late != []
    assert result.lost() != []


def test_a_bounded_queue_loses_and_no_bound_does_not() -> None:
    careful = {"fenced": "true", "deduplicated": "true", "followed": "true"}

    bounded = hurried(2, queue_bytes="1000", **careful)

    assert any(record.detail == "queue_full" for record in bounded.records if record.kind == "dropped")
    assert bounded.lost() != []
    assert hurried(2, **careful).lost() == []
