"""The verdicts of [PRO]'s claims: the paper's own figures reproduce them, contrary ones do not."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from roamq.pipeline.jobs import Job
from roamq.pipeline.results import Measured
from roamq.reproduce import pro, pro_runs
from roamq.reproduce.pro_figures import figure_7_handoff_frequency
from roamq.reproduce.pro_tables import PUBLISHED_DUPLICATION, PUBLISHED_LOSS, PUBLISHED_THROUGHPUT, Key
from roamq.reproduce.pro_transfer import swept, transfer_costs
from roamq.reproduce.registry import Verdict


class Told:
    """Evidence that says what a test tells it to; runs with other bounds lose `spare`."""

    quick = False
    beyond = False

    def __init__(self, metric: str, cells: Mapping[Key, float], spare: float = 0.0) -> None:
        self.metric = metric
        self.cells = cells
        self.spare = spare

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        rows = {}
        for job in jobs:
            key = (job.scheme, job.params["mobility.pattern"], int(job.params["clients"]))
            usual = dict(pro_runs.BOUNDS[job.scheme]).items() <= job.params.items()
            mean = self.cells[key] if usual else self.spare
            for metric in metrics or ():
                params = dict(job.params)
                rows[metric, tuple(sorted(params.items())), job.scheme] = Measured(
                    job.scenario, job.scheme, params, metric, "all", 5, mean, mean, mean
                )
        return list(rows.values())

    def rows(self, transform: Any, jobs: Iterable[Job]) -> list[dict[str, Any]]:
        raise NotImplementedError


def changed(cells: Mapping[Key, float], key: Key, value: float) -> dict[Key, float]:
    return {**cells, key: value}


def test_table_2_as_printed_is_reproduced() -> None:
    outcome = pro.table_2_throughput(Told("throughput", PUBLISHED_THROUGHPUT))

    assert outcome.verdict is Verdict.REPRODUCED
    assert "proactive +14.5/+18.1/+21.1%" in outcome.ours


def test_table_2_differs_if_the_order_does() -> None:
    cells = changed(PUBLISHED_THROUGHPUT, ("durable", "NBR", 100), 5000.0)

    outcome = pro.table_2_throughput(Told("throughput", cells))

    assert outcome.verdict is Verdict.DIFFERS
    assert "100 subscribers, NBR" in outcome.why
    assert "at 12 ms reactive comes to 664/981 RND, 664/953 NBR msg/s at 100/200" in outcome.why
    assert "durable has a fixed cost" not in outcome.why, "at 10 the order holds"


def test_table_3_as_printed_is_reproduced() -> None:
    assert pro.table_3_loss(Told("loss_pct", PUBLISHED_LOSS)).verdict is Verdict.REPRODUCED


def test_table_3_differs_if_reactive_falls_or_a_large_buffer_loses() -> None:
    falling = changed(PUBLISHED_LOSS, ("reactive", "RND", 200), 3.0)

    assert pro.table_3_loss(Told("loss_pct", falling)).verdict is Verdict.DIFFERS
    assert pro.table_3_loss(Told("loss_pct", PUBLISHED_LOSS, spare=0.1)).verdict is Verdict.DIFFERS


def test_table_4_as_printed_is_reproduced_and_not_with_one_duplicate() -> None:
    repeating = changed(PUBLISHED_DUPLICATION, ("proactive", "RND", 10), 0.001)

    assert pro.table_4_duplication(Told("d", PUBLISHED_DUPLICATION)).verdict is Verdict.REPRODUCED
    assert pro.table_4_duplication(Told("d", repeating)).verdict is Verdict.DIFFERS


def test_every_run_is_of_the_preset_and_can_be_replayed() -> None:
    jobs = [*pro.loss_jobs(True), *pro_runs.figure_7_jobs(True), *pro_runs.figure_5_jobs(True)]

    assert {job.scenario for job in jobs} == {"pro-testbed"}
    assert all(job.payload["scheme"]["name"] == job.scheme for job in jobs)
    assert all(job.replay_command.startswith("roamq simulate pro-testbed --scheme ") for job in jobs)
    bounded = [job for job in pro_runs.table_jobs(True) if job.scheme == "proactive"]
    assert all(job.payload["scheme"]["queue_bytes"] == 1_000_000 for job in bounded)
    free = pro_runs.unbounded_jobs(True)
    assert all(job.payload["scheme"].get("queue_bytes") is None for job in free)


class Swept(Told):
    """Reactive whose throughput is 1 / (cost of a transferred message x handoffs), as when nothing else costs."""

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        rows = {}
        for job in jobs:
            cost = float(job.payload["service"]["transfer_s"])
            handoffs = 1.0 if job.params.get("mobility.connect_s") else 2.0
            values = {"throughput": 1 / (cost * handoffs), "transferred_pct": 100 * cost, "loss_pct": 0.0}
            for metric in metrics or ():
                rows[metric, cost, handoffs] = Measured(
                    job.scenario, job.scheme, dict(job.params), metric, "all", 1, values[metric], None, None
                )
        return list(rows.values())


def test_the_cost_of_a_transfer_is_swept_around_the_testbeds_own() -> None:
    costs = transfer_costs(Swept("", {}))

    assert [cost.message_s for cost in costs] == [0.002, 0.012, 0.0162, 0.065]
    assert [round(cost.gain_pct) for cost in costs] == [100, 100, 100, 100]
    assert (
        swept(costs, "share_pct", "so")
        == "; with 2/12/16.2/65 ms for each message of a transfer (250/42/31/8 msg/s) 0.2/1.2/1.62/6.5% so"
    )
    assert swept(costs[:1], "share_pct", "so") == ""


class Frequencies(Told):
    """What a test says of each scheme with short and with long stays; `longer` is what longer queues lose."""

    def __init__(
        self, short: Mapping[str, float], long: Mapping[str, float], loss: tuple[float, float]
    ) -> None:
        self.throughput = {False: short, True: long}
        self.loss = {False: loss[0], True: loss[1]}

    def summary(self, jobs: Iterable[Job], metrics: Sequence[str] | None = None) -> list[Measured]:
        rows = {}
        for job in jobs:
            long = job.params.get("mobility.connect_s") == pro_runs.LONG_STAY_S
            longer = job.params.get("scheme.queue_bytes") == pro_runs.LONGER_QUEUE_BYTES
            values = {
                "throughput": self.throughput[long][job.scheme],
                "loss_pct": 0.125 if longer else self.loss[long],
                "duplication_pct": 0.0,
                "transferred_pct": 7.0,
            }
            for metric in metrics or ():
                key = (metric, job.scheme, tuple(sorted(job.params.items())))
                rows[key] = Measured(
                    job.scenario, job.scheme, dict(job.params), metric, "all", 1, values[metric], None, None
                )
        return list(rows.values())


def test_figure_7_as_the_paper_tells_it_is_reproduced() -> None:
    short = {"durable": 800.0, "reactive": 980.0, "proactive": 1170.0}
    long = {"durable": 850.0, "reactive": 985.0, "proactive": 1200.0}

    outcome = figure_7_handoff_frequency(Frequencies(short, long, loss=(2.0, 1.0)))

    assert outcome.verdict is Verdict.REPRODUCED, outcome.why
    assert "reactive +0.5%" in outcome.ours


def test_figure_7_says_what_was_tried_where_it_differs() -> None:
    short = {"durable": 800.0, "reactive": 900.0, "proactive": 1000.0}
    long = {"durable": 850.0, "reactive": 1350.0, "proactive": 1500.0}

    outcome = figure_7_handoff_frequency(Frequencies(short, long, loss=(1.0, 1.5)))

    assert outcome.verdict is Verdict.DIFFERS
    assert "reactive gains 50% as well" in outcome.why
    assert "with 2/12/16.2/65 ms for each message" in outcome.why
    assert "with 1.64 MB pro-active loses 0.12%, with short stays 1.00%" in outcome.why
