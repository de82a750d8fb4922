"""The forecast of one broker, driven with a clock and a processor time of the test's own."""

from collections import Counter

import numpy as np
import pytest

from roamq.core.records import Record
from roamq.net.ops.forecast import CLIENTS_MAX, WINDOW_S, Forecast, spoken

EPOCH_S = 1.79e9
"""Brokers count seconds since 1970."""


class Processor:
    def __init__(self) -> None:
        self.used_s = 0.0

    def __call__(self) -> float:
        return self.used_s


def work(
    forecast: Forecast,
    processor: Processor,
    minutes: int,
    *,
    rate: float,
    growth: float = 0.0,
    begin: int = 0,
) -> None:
    """Minutes of `rate` messages a second, more by `growth` every minute; each takes 1 ms of work and 2 ms of delay."""
    if begin == 0:
        forecast.tick(EPOCH_S)
    for minute in range(begin, begin + minutes):
        count = round((rate + growth * minute) * WINDOW_S)
        record = Record("delivered", 0.0, "b1", "c1", detail="live", duration_s=0.002)
        forecast.count([record] * count, Counter(delivered=count))
        processor.used_s += 0.001 * count
        forecast.tick(EPOCH_S + (minute + 1) * WINDOW_S)


def test_a_steady_broker_is_predicted_and_warns_of_nothing() -> None:
    processor = Processor()
    forecast = Forecast(processor)
    work(forecast, processor, 12, rate=3.0)

    assert forecast.last is not None
    assert forecast.last.utilisation_observed == pytest.approx(0.003)
    assert forecast.last.utilisation_predicted == pytest.approx(0.003)
    assert forecast.last.delay_observed_s == pytest.approx(0.002, rel=0.35)
    assert forecast.last.delay_predicted_s == pytest.approx(forecast.last.delay_observed_s, rel=0.01)
    assert forecast.warning() is None


def test_messages_that_are_acknowledged_lower_what_the_broker_bears() -> None:
    """1 ms of work a message, so full at 900/s; as all are acknowledged, they cost a quarter more when it is behind."""
    processor = Processor()
    forecast = Forecast(processor)
    forecast.tick(EPOCH_S)
    for minute in range(12):
        count = 60 * (minute + 3)
        record = Record("delivered", 0.0, "b1", "c1", detail="live", duration_s=0.002)
        forecast.count([record] * count, Counter(delivered=count), acknowledged=count)
        processor.used_s += 0.001 * count
        forecast.tick(EPOCH_S + (minute + 1) * WINDOW_S)

    assert forecast.last is not None and forecast.last.load is not None
    assert forecast.last.load.rate_max == pytest.approx(900 / 1.25)


def test_growth_is_told_hours_before_the_broker_is_full() -> None:
    """2 ms of work a message, so full at 450/s; 5/s after 20 minutes, 2.5/s more every minute: 178 minutes are left."""
    processor = Processor()
    forecast = Forecast(lambda: 2 * processor.used_s)
    work(forecast, processor, 9, rate=2.5, growth=2.5)
    assert forecast.warning() is None, "too early to tell"
    work(forecast, processor, 3, rate=2.5, growth=2.5, begin=9)
    warning = forecast.warning()

    assert warning is not None
    assert (
        "at this growth, 150 messages/s in and out more every hour, the broker is full in 2.8 hours"
        in warning
    )
    assert "it bears about 450, and works for" in warning
    # 450/s less the 30/s of the last minute, at 2.5/s a minute.
    assert forecast.last is not None
    assert forecast.last.load is not None
    assert forecast.last.load.full_in_s == pytest.approx((450 - 30) / 2.5 * 60, rel=0.01)


def test_growth_that_begins_after_quiet_hours_is_told_before_the_broker_is_full() -> None:
    """Two hours at 100/s, then 20/s more every minute: full at 900/s, 40 minutes later."""
    processor = Processor()
    forecast = Forecast(processor)
    work(forecast, processor, 120, rate=100.0)
    assert forecast.warning() is None
    told: dict[int, float] = {}
    for minute in range(1, 41):
        work(forecast, processor, 1, rate=100.0 + 20 * minute, begin=119 + minute)
        if forecast.warning() is not None:
            assert forecast.last is not None
            assert forecast.last.load is not None
            told[minute] = forecast.last.load.full_in_s / 60

    assert min(told) <= 15
    for minute in (20, 25, 30):
        assert told[minute] == pytest.approx(40 - minute, rel=0.25)


def test_a_broker_that_is_full_says_so_though_it_grows_no_more() -> None:
    processor = Processor()
    forecast = Forecast(processor)
    work(forecast, processor, 5, rate=930.0)

    assert (
        forecast.warning() == "the broker is full: it works for 93% of the time, at 930 messages/s in and out"
    )
    assert forecast.last is not None
    assert forecast.last.load is not None
    assert forecast.last.load.full_in_s == 0


@pytest.mark.slow
def test_the_delay_of_clients_that_come_and_go_is_predicted_from_their_periods() -> None:
    """Delays are made here from periods; the forecast sees periods and live delays, and predicts the others."""
    rng = np.random.default_rng(5)
    forecast = Forecast(Processor())
    happenings: list[Record] = []
    for number in range(40):
        client, now = f"c{number}", 0.0
        while now < 7200:
            away, back = now + rng.exponential(60), 0.0
            back = away + rng.exponential(20)
            happenings.append(Record("connected", now, "b1", client))
            happenings.append(Record("disconnected", away, "b1", client, detail="closed"))
            for born in rng.uniform(now, back, rng.poisson(back - now)):
                is_live = born < away
                end = born + 0.002 if is_live else back
                detail = "live" if is_live else "stored"
                happenings.append(
                    Record("delivered", end, "b1", client, detail=detail, duration_s=float(end - born))
                )
            if (
                number % 2 and rng.random() < 0.5
            ):  # another broker took the session over, and gives it back later
                happenings.append(Record("transferred", back, "b1", client, peer="b2"))
            now = back
    forecast.tick(0.0)
    second = 0
    seen = []
    for record in sorted(happenings, key=lambda record: record.time_s):
        while second < record.time_s:
            second += 1
            forecast.tick(float(second))
            if forecast.last is not None and second % 60 == 0 and second > 1800:
                seen.append((forecast.last.delay_observed_s, forecast.last.delay_predicted_s))
        forecast.count([record], Counter([record.kind]))
        forecast.take(record)
    observed = np.median([o for o, _ in seen if o is not None])
    predicted = np.median([p for _, p in seen if p is not None])

    # P(delay > t) = 1/4 exp(-t/20) = 0.05 at 32.2 s.
    assert predicted == pytest.approx(20 * np.log(5), rel=0.15)
    assert observed == pytest.approx(predicted, rel=0.25)


def test_some_delays_of_a_long_batch_stand_for_all() -> None:
    processor = Processor()
    forecast = Forecast(processor)
    forecast.tick(0.0)
    delays_s = [0.001] * 9_000 + [0.1] * 1_000
    records = [
        Record("delivered", 0.0, "b1", "c1", detail="live", duration_s=delay_s) for delay_s in delays_s
    ]
    forecast.count(records, Counter(delivered=len(records)))
    forecast.tick(WINDOW_S)

    assert forecast.last is not None
    assert sum(forecast._live) == pytest.approx(10_000, rel=0.02)
    assert forecast.last.delay_observed_s == pytest.approx(0.1, rel=0.35), "one in ten has waited so long"


def test_clients_that_never_come_back_are_forgotten_in_the_end() -> None:
    forecast = Forecast(Processor())
    for number in range(CLIENTS_MAX + 10):
        forecast.take(Record("disconnected", float(number), "b1", f"c{number}", detail="closed"))

    assert len(forecast._since) == CLIENTS_MAX


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (10_800, "3 hours"),
        (3600, "1 hour"),
        (200_000, "2.3 days"),
        (600, "10 minutes"),
        (5, "less than a minute"),
    ],
)
def test_a_time_is_spoken_with_one_unit(seconds: float, text: str) -> None:
    assert spoken(seconds) == text
