"""Priorities, inverse questions and intervals, against formulas, plain simulations and sampling."""

import heapq
import math
from collections.abc import Mapping

import numpy as np
import pytest

from roamq.models import phase_type as pt
from roamq.models.buffers import finite
from roamq.models.intermittent import IntermittentQueue
from roamq.models.inverse import interval, meet_target
from roamq.models.priorities import EventClass, mean_responses_s
from roamq.models.queueing import Centre

ALARMS = EventClass(name="alarms", rate=1.0, demand_s=0.05)
NEWS = EventClass(name="news", rate=2.0, demand_s=0.2)


def test_preemptive_mm1_is_the_textbook_formula() -> None:
    """Gross and Harris: T_k = D_k / (1 - s_{k-1}) + sum_{i<=k} rho_i D_i / ((1 - s_{k-1}) (1 - s_k))."""
    low = EventClass(name="low", rate=0.5, demand_s=0.4)
    answers = mean_responses_s([ALARMS, NEWS, low])
    above, work = 0.0, 0.0
    for part, answer in zip([ALARMS, NEWS, low], answers, strict=True):
        load = part.rate * part.demand_s
        work += load * part.demand_s
        expected = part.demand_s / (1 - above) + work / ((1 - above) * (1 - above - load))
        above += load
        assert answer == pytest.approx(expected)


def test_alarms_do_not_notice_the_news() -> None:
    alarms, news = mean_responses_s([ALARMS, NEWS], t_on_s=20, t_off_s=10)
    alone = Centre(name="c", rate=1.0, demand_s=0.05, t_on_s=20, t_off_s=10)

    assert alarms == pytest.approx(alone.response_s())
    assert news is not None
    assert news > alone.response_s()
    crowd = EventClass(name="crowd", rate=9.0, demand_s=0.2)
    assert mean_responses_s([ALARMS, crowd], t_on_s=20, t_off_s=10) == [
        pytest.approx(alone.response_s()),
        None,
    ]


def serve_by_priority(seed: int, until_s: float, t_on_s: float, t_off_s: float) -> list[list[float]]:
    """An ON/OFF server by small steps of events: (priority, arrival, work left) in a heap; the head is served."""
    rng = np.random.default_rng(seed)
    arrivals = sorted(
        (float(time), kind)
        for kind, part in enumerate((ALARMS, NEWS))
        for time in np.cumsum(rng.exponential(1 / part.rate, int(1.2 * part.rate * until_s) + 50))
        if time < until_s
    )
    demands = (ALARMS.demand_s, NEWS.demand_s)
    heap: list[list[float]] = []
    responses: list[list[float]] = [[], []]
    now, is_on, index = 0.0, True, 0
    switch = float(rng.exponential(t_on_s))
    while index < len(arrivals) or heap:
        arrival = arrivals[index][0] if index < len(arrivals) else math.inf
        done = now + heap[0][2] if heap and is_on else math.inf
        due = min(arrival, switch, done)
        if heap and is_on:
            heap[0][2] -= due - now
        now = due
        if due == done:
            kind, born, _ = heapq.heappop(heap)
            responses[int(kind)].append(now - born)
        elif due == switch:
            is_on = not is_on
            switch = now + float(rng.exponential(t_on_s if is_on else t_off_s))
        else:
            kind = arrivals[index][1]
            heapq.heappush(heap, [kind, now, float(rng.exponential(demands[kind]))])
            index += 1
    return responses


def test_priorities_at_an_on_off_centre_match_a_plain_simulation() -> None:
    expected = mean_responses_s([ALARMS, NEWS], t_on_s=6, t_off_s=3)
    runs = [serve_by_priority(seed, 3000.0, 6.0, 3.0) for seed in range(12)]
    for kind, answer in enumerate(expected):
        means = [float(np.mean(run[kind])) for run in runs]
        error = float(np.std(means, ddof=1)) / math.sqrt(len(means))
        assert error < 0.06 * float(np.mean(means))
        assert answer == pytest.approx(float(np.mean(means)), abs=4 * error)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["drop-newest", "drop-oldest"])
def test_a_full_buffer_loses_the_same_share_whom_ever_it_drops(policy: str) -> None:
    """A queue of events in a list, served one by one, with room for 6."""
    queue = IntermittentQueue(
        rate=2, service=pt.exponential(0.2), on=pt.exponential(6), off=pt.exponential(6)
    )
    expected = finite(queue, 6)
    losses, responses = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        now, is_on, waiting, lost, arrived, times = 0.0, True, list[float](), 0, 0, list[float]()
        while arrived < 12_000:
            rates = [2.0, 5.0 if is_on and waiting else 0.0, 1 / 6]
            now += float(rng.exponential(1 / sum(rates)))
            match int(rng.choice(3, p=np.array(rates) / sum(rates))):
                case 0:
                    arrived += 1
                    if len(waiting) < 6:
                        waiting.append(now)
                    elif policy == "drop-newest":
                        lost += 1
                    else:
                        lost += 1
                        del waiting[1]
                        waiting.append(now)
                case 1:
                    times.append(now - waiting.pop(0))
                case _:
                    is_on = not is_on
        losses.append(lost / arrived)
        responses.append(float(np.mean(times)))

    error = float(np.std(losses, ddof=1)) / math.sqrt(10)
    assert expected.loss == pytest.approx(float(np.mean(losses)), abs=4 * error)
    if policy == "drop-newest":
        error = float(np.std(responses, ddof=1)) / math.sqrt(10)
        assert expected.response_s == pytest.approx(float(np.mean(responses)), abs=4 * error)
    else:
        assert float(np.mean(responses)) < expected.response_s


def on_off_s(rate: float) -> float | None:
    centre = Centre(name="c", rate=rate, demand_s=0.0625, t_on_s=60, t_off_s=60)
    return None if centre.is_saturated else centre.response_s()


def test_the_largest_rate_is_that_of_the_closed_form() -> None:
    """Theorem 2 solved for the rate by hand."""
    found = meet_target(on_off_s, 60.0, low=1e-6, high=1000.0)
    expected = (1 - (30 + 0.125) / 60) / 0.125

    assert found.value == pytest.approx(expected, rel=1e-5)
    assert found.answer == pytest.approx(60.0, rel=1e-5)
    assert not found.is_bound


def test_an_answer_that_falls_is_met_by_the_smallest_value() -> None:
    assert meet_target(lambda x: 100 / x, 5.0, low=1, high=1000).value == pytest.approx(20.0, rel=1e-5)
    assert meet_target(lambda x: 3 * x, 100.0, low=1, high=1000, is_whole=True).value == 33
    assert meet_target(lambda x: x, 9.0, low=1, high=5).is_bound
    with pytest.raises(ValueError, match="target: not met anywhere between 1 and 5; the best, at 1, is 1"):
        meet_target(lambda x: x, 0.5, low=1, high=5)
    with pytest.raises(ValueError, match="saturated"):
        meet_target(lambda _: None, 0.5, low=1, high=5)


def test_the_delta_method_against_sampling() -> None:
    """The parameters drawn 20,000 times with their errors."""

    def response(values: Mapping[str, float]) -> float | None:
        centre = Centre(name="c", rate=values["rate"], demand_s=0.0625, t_on_s=60, t_off_s=values["t_off_s"])
        return None if centre.is_saturated else centre.response_s()

    values, errors = {"rate": 2.0, "t_off_s": 60.0}, {"rate": 0.05, "t_off_s": 0.07}
    rng = np.random.default_rng(1)
    drawn = [
        response({name: values[name] * math.exp(errors[name] * rng.standard_normal()) for name in values})
        for _ in range(20_000)
    ]
    found = interval(response, values, errors)

    assert found is not None
    known = [value for value in drawn if value is not None]
    assert found[0] == pytest.approx(float(np.quantile(known, 0.025)), rel=0.03)
    assert found[1] == pytest.approx(float(np.quantile(known, 0.975)), rel=0.03)
    assert interval(response, {"rate": 7.9, "t_off_s": 60.0}, errors) is None, "one error away it saturates"
