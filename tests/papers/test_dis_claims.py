"""The checks of [DIS]'s claims, on made-up measurements: each sentence can fail, and runs are shared."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured
from roamq.reproduce import dis, dis_parts, dis_random
from roamq.reproduce.dis_runs import SCHEMES
from roamq.reproduce.registry import Verdict

PUBLISHED = {"standard": 0.8, "logging": 0.6, "prefetching": 0.01, "home-broker": 6.0}


class MadeUp:
    """Evidence whose values a test decides: `value(job, metric)`."""

    quick = False
    beyond = False

    def __init__(self, value: Callable[[Job, str], dict[str, float] | float]) -> None:
        self.value = value

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        rows: dict[tuple[str, str, str, str, str], Measured] = {}
        for job in jobs:
            for metric in metrics or ():
                value = self.value(job, metric)
                by_entity = value if isinstance(value, dict) else {"all": value}
                for entity, mean in by_entity.items():
                    key = (job.scenario, job.scheme, str(job.params), metric, entity)
                    params = dict(job.params)
                    rows[key] = Measured(
                        job.scenario, job.scheme, params, metric, entity, 5, mean, mean * 0.9, mean * 1.1
                    )
        return list(rows.values())

    def rows(self, transform: object, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        raise AssertionError("no claim of DIS asks for rows")


def as_published(job: Job, metric: str) -> float:
    share = int(job.params["clients"]) / 800
    return PUBLISHED[job.scheme] * (0.5 + share / 2) * (2.9 if metric == "overhead_peak" else 1)


def test_the_paper_s_own_values_reproduce_figure_3() -> None:
    outcome = dis.average_overhead_in_commute(MadeUp(as_published))

    assert outcome.verdict is Verdict.REPRODUCED, outcome.why
    assert "standard 0.8" in outcome.ours
    assert [series.name for series in outcome.figures[0].series] == [*SCHEMES, "standard"]


@pytest.mark.parametrize(
    ("scheme", "factor", "sentence"),
    [
        ("standard", 2.0, "about 0.8"),
        ("logging", 2.0, "logging is below"),
        ("prefetching", 20.0, "near 0"),
        ("home-broker", 0.2, "far above"),
    ],
)
def test_figure_3_says_which_sentence_fails(scheme: str, factor: float, sentence: str) -> None:
    def value(job: Job, metric: str) -> float:
        return as_published(job, metric) * (factor if job.scheme == scheme else 1)

    outcome = dis.average_overhead_in_commute(MadeUp(value))

    assert outcome.verdict is Verdict.DIFFERS
    assert sentence in outcome.why


def test_figure_4_compares_peak_and_average() -> None:
    def value(job: Job, metric: str) -> dict[str, float] | float:
        if metric.endswith("_in_bin"):
            unicast = {"600.0": 0.0, "8700.0": 400.0, "9900.0": 500.0, "11400.0": 1600.0}
            return unicast if metric.startswith("unicast") else {b: hops + 100 for b, hops in unicast.items()}
        home = 2 if job.scheme == "home-broker" and metric == "overhead_peak" else 1
        return as_published(job, metric if peaks else "overhead") * home

    peaks = True
    outcome = dis.peak_overhead_in_commute(MadeUp(value))
    assert outcome.verdict is Verdict.REPRODUCED, outcome.why
    assert "stays at 16, and until 6:30 and 7 pm its average is 2.0 and 3.0" in outcome.why
    peaks = False
    flat = dis.peak_overhead_in_commute(MadeUp(value))
    assert flat.verdict is Verdict.DIFFERS
    assert "3 x its average" in flat.why


def timeline(job: Job, metric: str) -> dict[str, float]:
    """Transfers from 5 to 7 pm, in bins from 4 pm on; a home broker goes on forwarding."""
    bins = [300.0 * n for n in range(1, 55)]
    busy = {b: max(0.0, 3600 - abs(b - 7200)) for b in bins}
    unicast = {b: busy[b] + (5000 if job.scheme == "home-broker" else 0) for b in bins}
    values = {
        "handoffs_in_bin": busy,
        "unicast_hops_in_bin": {b: 0.0 if job.scheme == "prefetching" else unicast[b] for b in bins},
        "hops_in_bin": {b: 1000 + unicast[b] for b in bins},
    }
    return {str(b): value for b, value in values[metric].items()}


def test_figure_5_follows_the_transfers_and_ends_with_them() -> None:
    outcome = dis.cost_over_time_in_commute(MadeUp(timeline))
    assert outcome.verdict is Verdict.REPRODUCED, outcome.why

    def lingering(job: Job, metric: str) -> dict[str, float]:
        found = timeline(job, metric)
        return {b: v + 50 for b, v in found.items()} if metric == "unicast_hops_in_bin" else found

    assert dis.cost_over_time_in_commute(MadeUp(lingering)).verdict is Verdict.DIFFERS


def test_figure_8_notices_a_log_size_that_matters() -> None:
    def value(job: Job, metric: str) -> float:
        return 0.7 - fall * (int(job.params.get("scheme.log_size", "1000")) - 800) / 400

    fall = 0.02
    assert dis_random.effect_of_the_log_size(MadeUp(value)).verdict is Verdict.REPRODUCED
    fall = 0.2
    assert dis_random.effect_of_the_log_size(MadeUp(value)).verdict is Verdict.DIFFERS


def test_what_differs_is_explained_by_runs_with_one_choice_made_otherwise() -> None:
    def value(job: Job, metric: str) -> dict[str, float] | float:
        if metric == "broker_subscribers":
            return {"b1": 30.0, "b2": 20.0, "b3": 25.0, "b4": 5.0}
        turned, endless = "mobility.edge" in job.params, job.params.get("scheme.log_size") == "1000000"
        rises = 0.0 if turned else 0.4
        growth = 1 - rises * (1 - int(job.params["clients"]) / 800)
        return PUBLISHED[job.scheme] * growth * (0.5 if endless else 1)

    plain = MadeUp(value)
    thorough = MadeUp(value)
    thorough.beyond = True

    assert "69% of the subscribers" in dis_random.average_overhead_in_random(plain).why
    outcome = dis_random.average_overhead_in_random(thorough)
    assert "it would go from 0.60 to 0.60, x 1.00" in outcome.why
    assert [table.title.partition(":")[0] for table in outcome.tables] == ["Beyond the paper", "Why"]


def test_the_share_of_subscription_migration_is_checked_by_scenario() -> None:
    shares = {"commute": 0.4, "random": 2.2, "pervasive": 58.0}

    def value(job: Job, metric: str) -> dict[str, float] | float:
        if metric == "hops_of_kind":
            return {"context": 30.0, "mobile_subscribe": 20.0, "closing": 20.0}
        if metric == "unicast_hops":
            return 100.0
        return shares[job.scenario] + (5 if job.scheme == "prefetching" else 0)

    outcome = dis_parts.share_of_subscription_migration(MadeUp(value))
    assert outcome.verdict is Verdict.REPRODUCED
    assert "would come to 62%" in outcome.why
    shares["pervasive"] = 20.0
    assert dis_parts.share_of_subscription_migration(MadeUp(value)).verdict is Verdict.DIFFERS


def test_the_model_is_compared_with_counted_messages() -> None:
    """Rates of 100 / 27 events a minute, 20 minutes away: 74 events and three messages per reconnection."""
    rate = 100 / 27 / 60
    events = {
        "standard": rate * 1200.1,
        "logging": rate * 800,
        "prefetching": 0.0,
        "home-broker": rate * 2400,
    }

    def value(job: Job, metric: str) -> dict[str, float] | float:
        if metric in ("transfers", "reconnects"):
            return 100.0
        kinds = {"stored_event": 100 * events[job.scheme]}
        if job.scheme != "home-broker":
            kinds |= {"context": 100.0, "mobile_subscribe": 300.0, "mobile_unsubscribe": 300.0}
        return kinds

    outcome = dis_parts.prediction_beside_the_simulated_count(MadeUp(value))
    assert outcome.verdict is Verdict.REPRODUCED, outcome.why
    events["standard"] /= 2
    assert dis_parts.prediction_beside_the_simulated_count(MadeUp(value)).verdict is Verdict.DIFFERS


def test_claims_share_their_runs() -> None:
    figure_6 = {job.run_id for job in dis.random_jobs(False)}
    assert len(figure_6) == len(SCHEMES) * 4 * 5
    assert {job.run_id for job in dis_parts.model_jobs(False)} <= figure_6
    log_of_1000 = [job for job in dis_random.log_size_jobs(False) if "scheme.log_size" not in job.params]
    assert {job.run_id for job in log_of_1000} <= figure_6


def test_quick_runs_are_few_and_small() -> None:
    quick = {
        job.run_id: job
        for jobs in (
            dis.commute_jobs,
            dis.random_jobs,
            dis_random.locality_jobs,
            dis_random.log_size_jobs,
            dis.pervasive_jobs,
            dis_parts.share_jobs,
            dis_parts.cover_jobs,
        )
        for job in jobs(True)
    }
    assert len(quick) < 80
    assert max(int(job.params["clients"]) for job in quick.values()) <= 100


def test_every_claim_of_the_paper_has_a_check() -> None:
    from roamq.reproduce.registry import select

    assert [c.id for c in select(["DIS"]) if c.check is None] == []


def test_where_a_ratio_levels_off_is_found_from_its_growth() -> None:
    xs = (3200, 6400, 12800, 20000)

    limit, nine_tenths = dis_random.level(xs, [3 * x / (2000 + x) for x in xs])

    assert limit == pytest.approx(3)
    assert nine_tenths == pytest.approx(18_000)


def test_a_ratio_that_grows_with_the_population_has_no_level() -> None:
    xs = (3200, 6400, 12800, 20000)

    assert dis_random.level(xs, [x**1.1 for x in xs])[0] == float("inf")
