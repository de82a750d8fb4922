"""Virtual time."""

import pytest

from roamq.sim.engine import Engine


def test_actions_run_by_time_then_order_of_scheduling() -> None:
    engine = Engine()
    ran: list[object] = []
    engine.at(2.0, ran.append, "late")
    engine.at(1.0, ran.append, "first")
    engine.at(1.0, ran.append, "second")

    assert engine.run() == 3
    assert ran == ["first", "second", "late"]
    assert engine.now == 2.0


def test_run_until_stops_after_that_time_and_keeps_the_rest() -> None:
    engine = Engine()
    ran: list[object] = []
    engine.at(1.0, ran.append, 1)
    engine.at(3.0, ran.append, 3)

    engine.run(until=2.0)

    assert (ran, engine.now, engine.pending()) == ([1], 2.0, 1)


def test_an_action_may_schedule_more() -> None:
    engine = Engine()
    times: list[float] = []

    def tick(left: int) -> None:
        times.append(engine.now)
        if left:
            engine.after(0.5, tick, left - 1)

    engine.after(0.0, tick, 3)
    engine.run()

    assert times == [0.0, 0.5, 1.0, 1.5]


def test_the_past_cannot_be_changed() -> None:
    engine = Engine()
    engine.run(until=5.0)

    with pytest.raises(AssertionError):
        engine.at(4.0, print)
