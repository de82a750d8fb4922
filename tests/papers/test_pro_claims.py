"""The verdicts of [PRO]'s claims: what the paper prints reproduces them, contrary figures do not; where parameter sets
disagree the parameter that tells them apart is named."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from roamq.pipeline.jobs import Job
from roamq.reproduce import pro, pro_figures, pro_runs, pro_sets
from roamq.reproduce.evidence import ScriptedEvidence
from roamq.reproduce.pro_judging import separating
from roamq.reproduce.pro_prior import PRIOR
from roamq.reproduce.pro_tables import PUBLISHED_DUPLICATION, PUBLISHED_LOSS, PUBLISHED_THROUGHPUT, Key
from roamq.reproduce.registry import Verdict

MIDDLE = {p.name: p.low if p.scale == "choice" else (p.low + p.high) / 2 for p in PRIOR}
CHEAP = MIDDLE | {"service.message_s": 0.003}
DEAR = MIDDLE | {"service.message_s": 0.012}


@pytest.fixture(autouse=True)
def two_sets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two parameter sets, which differ in the price of a message between brokers."""
    table = tmp_path / "sets.json"
    table.write_text(json.dumps([CHEAP, DEAR]))
    monkeypatch.setattr(pro_sets, "TABLE", table)
    pro_sets.named_sets.cache_clear()
    yield
    pro_sets.named_sets.cache_clear()


def is_dear(job: Job) -> bool:
    return float(job.payload["service"]["message_s"]) > 0.01


def as_printed(job: Job, metric: str) -> float | Mapping[str, float]:
    """What the paper prints of this run."""
    key = (job.scheme, job.params["mobility.pattern"], int(job.params["clients"]))
    handoffs = {"durable": (0.03, 0.04), "reactive": (1.2, 2.0), "proactive": (0.2, 0.3)}[job.scheme]
    latency = {"durable": 0.5, "reactive": 4.0, "proactive": 1.0}[job.scheme]
    brokers = dict.fromkeys(("b1", "b2", "b3", "b4", "b5", "b6"), 70.0)
    if metric == "processing_s":
        brokers = {b: (0.02 if b == "b5" else 0.03) + (key[1] == "RND") * 0.02 for b in brokers}
    if metric == "broker_throughput":
        brokers = {b: (300.0 if b in ("b3", "b6") else 100.0) + (key[1] == "RND") * 20.0 for b in brokers}
        brokers["b5"] *= 0.4 if key[1] == "NBR" else 1.0
    values: dict[str, Any] = {
        "throughput": PUBLISHED_THROUGHPUT[key],
        "loss_pct": PUBLISHED_LOSS[key],
        "duplication_pct": PUBLISHED_DUPLICATION[key],
        "handoff_s_at": {"40": handoffs[0], "60": handoffs[1]},
        "latency_s_mean": latency,
        "transferred_pct": 1.0 if job.scheme == "proactive" else 40.0,
        **dict.fromkeys(("busy_pct", "processing_s", "broker_throughput"), brokers),
        **dict.fromkeys(("buffer_message_s", "buffer_copies_per_message", "handoff_s_p50"), 1.0),
    }
    if job.params.get("mobility.connect_s") == pro_runs.LONG_STAY_S:
        values["throughput"] *= 1.0 if job.scheme == "reactive" else 1.03
        values["loss_pct"] *= 1.1 if job.scheme == "reactive" else 0.5
        values["duplication_pct"] *= 0.5
    found: float | Mapping[str, float] = values[metric]
    return found


def told(
    changed: Callable[[Job, str], float | None] = lambda job, metric: None, quick: bool = False
) -> ScriptedEvidence:
    """The paper's figures, but for those that `changed` gives."""

    def value(job: Job, metric: str) -> float | Mapping[str, float]:
        other = changed(job, metric)
        return as_printed(job, metric) if other is None else other

    return ScriptedEvidence(value, rows=lambda transform, jobs: [], quick=quick)


def cell(job: Job) -> Key:
    return job.scheme, job.params["mobility.pattern"], int(job.params["clients"])


@pytest.mark.parametrize(
    "check",
    [
        pro.table_2_throughput,
        pro.table_3_loss,
        pro.table_4_duplication,
        pro_figures.figure_5_overhead,
        pro_figures.figure_6_handoff_latency,
        pro_figures.figure_7_handoff_frequency,
        pro_figures.figure_8_brokers,
    ],
)
def test_what_the_paper_prints_is_reproduced(check: Callable[[ScriptedEvidence], Any]) -> None:
    outcome = check(told())

    assert outcome.verdict is Verdict.REPRODUCED, outcome.why


def test_what_was_fitted_on_is_shown_and_not_counted() -> None:
    rows = pro.table_2_throughput(told()).tables[0].rows

    fitted = {str(row[0]).rpartition(" (")[0] for row in rows if row[-1] == "calibrated on"}
    assert "reactive RND at 200" in fitted
    assert "proactive above reactive at 10, RND" in fitted
    assert not any("NBR" in one for one in fitted)


def test_table_2_depends_on_the_parameter_that_tells_the_sets_apart() -> None:
    def reversed_where_dear(job: Job, metric: str) -> float | None:
        is_it = metric == "throughput" and cell(job) == ("reactive", "NBR", 200) and is_dear(job)
        return 1500.0 if is_it else None

    outcome = pro.table_2_throughput(told(reversed_where_dear))

    assert outcome.verdict is Verdict.DEPENDS
    assert "all sentences hold together with set A, and not with set B" in outcome.why
    assert (
        "proactive above reactive at 200, NBR: holds with message_s 3 ms (at most), not with message_s 12 ms (from)"
        in outcome.why
    )


def test_table_2_differs_if_an_adverb_does_with_every_set() -> None:
    def lower(job: Job, metric: str) -> float | None:
        return 600.0 if metric == "throughput" and cell(job) == ("reactive", "NBR", 100) else None

    outcome = pro.table_2_throughput(told(lower))

    assert outcome.verdict is Verdict.DIFFERS
    assert "NBR lowers reactive at 100 slightly" in outcome.why


def test_a_set_that_does_not_fit_at_full_size_is_not_judged_over() -> None:
    """Its Table 3 is contrary, and does not matter: it is not the paper's testbed."""

    def misfit(job: Job, metric: str) -> float | None:
        if not is_dear(job):
            return None
        if metric == "throughput" and cell(job) == ("durable", "RND", 10):
            return 200.0
        return 50.0 if metric == "loss_pct" and job.scheme == "proactive" else None

    outcome = pro.table_3_loss(told(misfit))

    assert outcome.verdict is Verdict.REPRODUCED
    assert "set A" in str(outcome.tables[0].rows)
    assert "set B" not in str(outcome.tables[0].rows)


def test_where_no_set_fits_nothing_is_decided() -> None:
    outcome = pro.table_4_duplication(told(lambda job, metric: 5.0 if metric == "throughput" else None))

    assert outcome.verdict is Verdict.UNDECIDED
    assert "no parameter set fits Table 2 RND and Fig. 6" in outcome.why


def test_processors_above_what_the_paper_allows_are_told() -> None:
    busy = ScriptedEvidence(
        lambda job, metric: {"b1": 90.0} if metric == "busy_pct" else as_printed(job, metric)
    )

    assert "need at least 17% of its service times to be waiting" in pro.table_2_throughput(busy).why
    assert "busy for at most 70% of the time" in pro.table_2_throughput(told()).why


def test_the_processors_are_a_condition_of_the_paper_and_do_not_count() -> None:
    """[PRO] section 5.1.3: "kept below 75%"."""
    busy = ScriptedEvidence(
        lambda job, metric: {"b1": 90.0} if metric == "busy_pct" else as_printed(job, metric)
    )

    outcome = pro.table_4_duplication(busy)

    assert outcome.verdict is Verdict.REPRODUCED
    assert (
        "a condition of the paper's own, not counted, does not hold with set A: brokers are busy"
        in outcome.why
    )
    assert "2 are conditions" not in str(outcome.tables[0].note)
    assert "is a condition of the paper's own" in outcome.tables[0].note


@pytest.mark.parametrize(
    ("check", "scheme", "metric", "value", "says"),
    [
        (
            pro_figures.figure_5_overhead,
            "proactive",
            "transferred_pct",
            20.0,
            "pro-active has almost no message overhead at 200",
        ),
        (
            pro_figures.figure_6_handoff_latency,
            "reactive",
            "handoff_s_at",
            {"40": 1.2, "60": 0.4},
            "reactive's handoffs are by far the slowest (60%, over proactive)",
        ),
    ],
)
def test_sentences_of_sections_5_2_1_and_5_2_2_can_fail(
    check: Callable[[ScriptedEvidence], Any], scheme: str, metric: str, value: Any, says: str
) -> None:
    def changed(job: Job, asked: str) -> Any:
        is_it = (asked, job.scheme, job.params["clients"]) == (metric, scheme, "200")
        return value if is_it else as_printed(job, asked)

    outcome = check(ScriptedEvidence(changed, rows=lambda transform, jobs: []))

    assert outcome.verdict is Verdict.DIFFERS
    assert says in outcome.why


def test_table_4_wants_no_significant_difference_where_it_contradicts_itself() -> None:
    def changed(job: Job, metric: str) -> float | None:
        return 15.0 if metric == "duplication_pct" and cell(job) == ("durable", "NBR", 10) else None

    outcome = pro.table_4_duplication(told(changed))

    assert outcome.verdict is Verdict.DIFFERS
    assert "no significant difference of durable under NBR at 10" in outcome.why


@pytest.mark.parametrize(
    ("key", "loss", "says"),
    [
        (("reactive", "RND", 200), 3.0, "reactive rises from 100 to 200, RND"),
        (("proactive", "RND", 100), 2.5, "proactive falls from 10 to 100, RND"),
        (("proactive", "NBR", 100), 0.9, "proactive loses slightly less under NBR at 100"),
        (("reactive", "NBR", 200), 7.1, "reactive loses slightly less under NBR at 200"),
        (("durable", "RND", 200), 9.0, "durable about flat from 10 to 200, RND"),
    ],
)
def test_table_3_differs_if_a_sentence_does(key: Key, loss: float, says: str) -> None:
    outcome = pro.table_3_loss(
        told(lambda job, metric: loss if metric == "loss_pct" and cell(job) == key else None)
    )

    assert outcome.verdict is Verdict.DIFFERS
    assert says in outcome.why


def test_table_4_differs_with_one_duplicate() -> None:
    def repeating(job: Job, metric: str) -> float | None:
        return 0.001 if metric == "duplication_pct" and cell(job) == ("proactive", "RND", 10) else None

    assert pro.table_4_duplication(told(repeating)).verdict is Verdict.DIFFERS


@pytest.mark.parametrize("repeated", [1.71, 18.0])
def test_table_4_wants_slightly_fewer_duplicates_under_neighboring_mobility(repeated: float) -> None:
    """[PRO] section 5.3: "message duplication slightly decreases under the NBR mobility pattern"."""

    def changed(job: Job, metric: str) -> float | None:
        key = ("reactive", "NBR", 100) if repeated < 10 else ("durable", "NBR", 200)
        return repeated if metric == "duplication_pct" and cell(job) == key else None

    outcome = pro.table_4_duplication(told(changed))

    assert outcome.verdict is Verdict.DIFFERS
    assert "repeats slightly less under NBR" in outcome.why


def test_figure_7_wants_a_significant_reduction_of_loss() -> None:
    """[PRO] section 5.2.3: "the significant reduction of their message loss and duplication"."""

    def hardly(job: Job, metric: str) -> float | None:
        is_long = job.params.get("mobility.connect_s") == pro_runs.LONG_STAY_S
        key = cell(job)
        return (
            0.95 * PUBLISHED_LOSS[key] if is_long and metric == "loss_pct" and key[0] == "durable" else None
        )

    outcome = pro_figures.figure_7_handoff_frequency(told(hardly))

    assert outcome.verdict is Verdict.DIFFERS
    assert "fewer handoffs lower the loss of durable significantly: 0.95" in outcome.why


def test_figure_8_wants_much_less_at_b5() -> None:
    """[PRO] section 5.3: "broker B5 experiences much lower throughput results in the NBR pattern"."""

    def little(job: Job, metric: str) -> float | Mapping[str, float]:
        found = as_printed(job, metric)
        if metric != "broker_throughput" or cell(job)[1] != "NBR":
            return found
        assert isinstance(found, Mapping)
        return {**found, "b5": 90.0}

    outcome = pro_figures.figure_8_brokers(ScriptedEvidence(little))

    assert outcome.verdict is Verdict.DIFFERS
    assert "B5 routes much less under NBR: 0.75, wanted at most 0.5" in outcome.why


def test_figure_7_differs_if_a_gain_is_more_than_slight_or_reactive_gains() -> None:
    def much(job: Job, metric: str) -> float | None:
        is_long = job.params.get("mobility.connect_s") == pro_runs.LONG_STAY_S
        return 2000.0 if is_long and metric == "throughput" else None

    outcome = pro_figures.figure_7_handoff_frequency(told(much))

    assert outcome.verdict is Verdict.DIFFERS
    assert "raise the throughput of proactive slightly" in outcome.why
    assert "the throughput of reactive stays almost the same" in outcome.why


def test_quick_runs_the_closest_set_alone_and_every_run_can_be_replayed() -> None:
    jobs = [*pro_runs.figure_7_jobs(True), *pro_runs.fit_jobs(True)]

    assert {job.scenario for job in jobs} == {"pro-testbed"}
    assert all(job.payload["scheme"]["name"] == job.scheme for job in jobs)
    assert all(job.replay_command.startswith("roamq simulate pro-testbed --scheme ") for job in jobs)
    assert {float(job.payload["service"]["message_s"]) for job in jobs} == {0.003}
    bounded = [job for job in jobs if job.scheme == "proactive"]
    assert all(job.payload["scheme"]["queue_bytes"] == 1_000_000 for job in bounded)


def test_one_set_alone_decides_nothing() -> None:
    quick = ScriptedEvidence(
        lambda job, metric: (
            {"b1": 70.0}
            if metric == "busy_pct"
            else {"40": 1.2, "60": 0.04}
            if metric == "handoff_s_at"
            else 0.0
        ),
        quick=True,
    )

    outcome = pro.table_4_duplication(quick)

    assert outcome.verdict is Verdict.UNDECIDED
    assert outcome.why.startswith("one parameter set of 2 was run, with fewer subscribers: it says differs")


def test_the_parameter_with_the_widest_gap_is_named_first() -> None:
    near = MIDDLE | {"service.message_s": 0.003, "last_hop.ping_s": 0.5}
    far = MIDDLE | {"service.message_s": 0.014, "last_hop.ping_s": 0.6}

    assert separating([near], [far]) == (
        "holds with message_s 3 ms (at most), not with message_s 14 ms (from); ping_s would tell them apart as well"
    )
    assert separating([far], [near]).startswith(
        "holds with message_s 14 ms (at least), not with message_s 3 ms"
    )
    assert separating([near, far], [near]) == ""


def test_the_best_connected_broker_is_compared_by_the_chains_that_the_simulator_runs() -> None:
    """Both return to their own broker or hand off: B6 then stores for 24.2 of 200 subscribers under RND, not 22.8."""
    assert pro.load_of_the_center().startswith(
        "by the chains of movement B6 stores for 22.7 of 200 subscribers under NBR and for 24.2 under RND"
    )
