"""Link messages per second in the 85-broker hierarchy of [DIS] with 800 moving clients; matching and checking on.

The peer is a bare loop in the same run: an engine that only schedules and executes as many empty actions as the
simulation has link messages. What is left between the two is brokers, matching, contexts and checkers.
"""

import argparse
import time

from roamq.sim.engine import Engine
from roamq.sim.scenario import load_scenario, run


def bare(actions: int) -> float:
    """Seconds for an engine that does nothing, as often."""
    engine = Engine()
    for number in range(1000):
        engine.at(number / 1000, again, engine, actions // 1000)
    begin = time.perf_counter()
    engine.run()
    return time.perf_counter() - begin


def again(engine: Engine, left: int) -> None:
    if left > 1:
        engine.after(1.0, again, engine, left - 1)


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks hierarchy", description=__doc__)
    parser.add_argument("--clients", type=int, default=800)
    parser.add_argument("--duration-s", type=float, default=3600.0)
    options = parser.parse_args(argv)
    scenario = load_scenario(
        "random", overrides={"clients": str(options.clients), "duration_s": str(options.duration_s)}
    )
    begin = time.perf_counter()
    result = run(scenario, seed=1)
    seconds = time.perf_counter() - begin
    assert result.violations == [], result.violations
    crossings = sum(r.hops or 0 for r in result.records if r.kind == "traffic")
    idle = bare(crossings)
    print(
        f"{options.clients} clients, {options.duration_s:.0f} simulated seconds, scheme {scenario.scheme_name}"
    )
    print(f"  {crossings:,} link messages in {seconds:.2f} s: {crossings / seconds:,.0f} per second")
    print(f"  a bare engine does as many empty actions in {idle:.2f} s: ratio {seconds / idle:.1f}")
    return {"link_messages": crossings, "per_s": crossings / seconds, "times_bare_engine": seconds / idle}
