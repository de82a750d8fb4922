"""What one subscriber did: periods are those that began, and were seen, in the time that counts."""

import numpy as np
import pytest

from roamq.models.censoring import kaplan_meier
from roamq.models.histories import NO_SPANS, ClientHistory

ON_S, OFF_S = 3.0, 0.5
BEGIN_S, UNTIL_S = 3.0, 60.0


def history(connects_s: list[float], disconnects_s: list[float]) -> ClientHistory:
    return ClientHistory(
        connects_s=np.array(connects_s),
        disconnects_s=np.array(disconnects_s),
        deliveries_s=np.empty(0),
        delays_s=np.empty(0),
        begin_s=BEGIN_S,
        until_s=UNTIL_S,
    )


def test_a_period_is_cut_where_observation_ends_whatever_the_client_does_then() -> None:
    on, off = history([0.0, 5.0, 61.0], [4.0, 58.0, 62.0]).periods

    assert on.lengths_s.tolist() == [53.0]
    assert on.whole.tolist() == [True]
    assert off.lengths_s.tolist() == [1.0, 2.0]
    assert off.whole.tolist() == [True, False], "it connected at 61 s, which nobody asks for"


def test_a_period_that_began_before_the_time_that_counts_is_left_out() -> None:
    """A client that was away while everything started."""
    on, off = history([0.5, 10.0], [0.7, 20.0]).periods

    assert on.lengths_s.tolist() == [10.0]
    assert off.lengths_s.tolist() == [40.0]
    assert off.whole.tolist() == [False]


def test_the_mean_periods_of_clients_that_all_connect_at_the_end_are_the_true_ones() -> None:
    """At the end of a field test everybody connects for what is still owed, and vanishes when it has come."""
    rng = np.random.default_rng(3)
    on, off = NO_SPANS, NO_SPANS
    for _ in range(600):
        connects, disconnects, now = [0.0], list[float](), 0.0
        while now < UNTIL_S:
            now += rng.exponential(ON_S)
            if now < UNTIL_S:
                disconnects.append(now)
                now += rng.exponential(OFF_S)
                if now < UNTIL_S:
                    connects.append(now)
        if len(connects) == len(disconnects):
            connects.append(UNTIL_S + 0.1)
        disconnects.append(UNTIL_S + 1.5)
        periods = history(connects, disconnects).periods
        on, off = on.joined(periods[0]), off.joined(periods[1])

    for spans, mean_s in ((on, ON_S), (off, OFF_S)):
        survival = kaplan_meier(spans.lengths_s, spans.whole)
        # 1% is the standard error of a mean of ten thousand periods; cut periods taken as whole are 5% of them.
        assert survival.mean_s() == pytest.approx(mean_s, rel=0.035)
