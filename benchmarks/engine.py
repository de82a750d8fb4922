"""The engine against SimPy: customers of the same M/M/1 queue per second, in the same run.

Both simulate the same arrivals and services, drawn from equally seeded streams, and must agree on the mean time
in the system. The bar: at least 5 times SimPy.
"""

import argparse
import random
import time
from collections import deque
from collections.abc import Generator
from typing import Any

import simpy

from roamq.sim.engine import Engine

ARRIVALS_PER_S, SERVICES_PER_S = 0.8, 1.0
RATIO_MIN = 5.0


def ours(customers: int, seed: int) -> float:
    """Mean time in the system, on our engine."""
    engine = Engine()
    arrivals, services = random.Random(f"{seed}/a"), random.Random(f"{seed}/s")
    waiting: deque[float] = deque()
    total = 0.0
    left = customers
    busy = False

    def arrive() -> None:
        nonlocal left, busy
        waiting.append(engine.now)
        if not busy:
            busy = True
            engine.after(services.expovariate(SERVICES_PER_S), depart)
        left -= 1
        if left:
            engine.after(arrivals.expovariate(ARRIVALS_PER_S), arrive)

    def depart() -> None:
        nonlocal total, busy
        total += engine.now - waiting.popleft()
        if waiting:
            engine.after(services.expovariate(SERVICES_PER_S), depart)
        else:
            busy = False

    engine.after(arrivals.expovariate(ARRIVALS_PER_S), arrive)
    engine.run()
    return total / customers


def theirs(customers: int, seed: int) -> float:
    """The same queue, written as SimPy's documentation writes queues."""
    environment = simpy.Environment()
    server = simpy.Resource(environment, capacity=1)
    arrivals, services = random.Random(f"{seed}/a"), random.Random(f"{seed}/s")
    total = 0.0

    def customer() -> Generator[Any, Any, None]:
        nonlocal total
        came = environment.now
        with server.request() as request:
            yield request
            yield environment.timeout(services.expovariate(SERVICES_PER_S))
        total += environment.now - came

    def source() -> Generator[Any, Any, None]:
        for _ in range(customers):
            yield environment.timeout(arrivals.expovariate(ARRIVALS_PER_S))
            environment.process(customer())

    environment.process(source())
    environment.run()
    return total / customers


def main(argv: list[str]) -> dict[str, object]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks engine", description=__doc__)
    parser.add_argument("--customers", type=int, default=200_000)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args(argv)
    rates: dict[str, float] = {}
    means: dict[str, float] = {}
    for name, model in (("roamq", ours), ("simpy", theirs)):
        best = float("inf")
        for _ in range(options.repeat):
            begin = time.perf_counter()
            means[name] = model(options.customers, 1)
            best = min(best, time.perf_counter() - begin)
        rates[name] = options.customers / best
    assert abs(means["roamq"] - means["simpy"]) < 1e-6, "the two models differ"
    ratio = rates["roamq"] / rates["simpy"]
    print(f"M/M/1, {options.customers:,} customers, mean time in the system {means['roamq']:.3f} s")
    for name, rate in rates.items():
        print(f"  {name:6} {rate:>12,.0f} customers/s")
    print(f"  ratio  {ratio:>12.1f}  (bar: {RATIO_MIN:.0f})")
    return {"customers_per_s": rates, "ratio": ratio, "bar": RATIO_MIN}
