"""Customers a second through the queueing simulation, beside Ciw in the same run.

    python -m benchmarks.queueing [customers]

Two models, the same in both: M/M/1, and the ON/OFF centre of [TIME] Fig. 7. Ciw has no server that follows an
alternating process, so the ON/OFF centre is put to it as the paper itself defines it: one `off` customer, with
preemptive priority over events, circulates between a delay (the connected period) and the server (the
disconnected one). Both report the mean response time, which is printed beside Theorem 2.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import ciw
from rich.console import Console
from rich.table import Table

from roamq.models.queueing import Centre
from roamq.sim.queueing import SimulatedCentre, exponential, simulate

DEMAND_S: Final = 0.125
PERIOD_S: Final = 20.0
RATES: Final = {"M/M/1": 4.0, "ON/OFF": 2.0}


def ours(model: str, customers: int) -> tuple[int, float]:
    """(customers served, mean response)."""
    periods = exponential(PERIOD_S) if model == "ON/OFF" else None
    centre = SimulatedCentre(service=exponential(DEMAND_S), on=periods, off=periods)
    run = simulate([centre], seed=1, rate=RATES[model], until_s=customers / RATES[model])
    return run.customers, run.mean_s()


def ciws(model: str, customers: int) -> tuple[int, float]:
    ciw.seed(1)
    simulation = ciw.Simulation(_ciw_network(model))
    simulation.simulate_until_max_time(customers / RATES[model])
    records = [
        record
        for record in simulation.get_all_records(only=["service"])
        if record.customer_class == "Event" and record.node == 1
    ]
    responses = [record.exit_date - record.arrival_date for record in records]
    return len(records), sum(responses) / len(responses)


def _ciw_network(model: str) -> Any:
    rate, service = RATES[model], ciw.dists.Exponential(rate=1 / DEMAND_S)
    if model == "M/M/1":
        return ciw.create_network(
            arrival_distributions={"Event": [ciw.dists.Exponential(rate=rate)]},
            service_distributions={"Event": [service]},
            routing={"Event": [[0.0]]},
            number_of_servers=[1],
        )
    period = ciw.dists.Exponential(rate=1 / PERIOD_S)
    return ciw.create_network(
        arrival_distributions={
            "Off": [None, ciw.dists.Sequential([0.0, float("inf")])],
            "Event": [ciw.dists.Exponential(rate=rate), None],
        },
        service_distributions={"Off": [period, period], "Event": [service, service]},
        routing={"Off": [[0.0, 1.0], [1.0, 0.0]], "Event": [[0.0, 0.0], [0.0, 0.0]]},
        number_of_servers=[1, float("inf")],
        priority_classes=({"Off": 0, "Event": 1}, ["resume", False]),
    )


def measure(work: Callable[[], tuple[int, float]], repeat: int) -> tuple[float, float]:
    """Customers a second, the best of a few runs since the others were disturbed, and the mean response."""
    best, response_s = 0.0, 0.0
    for _ in range(repeat):
        begin = time.perf_counter()
        served, response_s = work()
        best = max(best, served / (time.perf_counter() - begin))
    return best, response_s


def main(argv: list[str]) -> dict[str, object]:
    customers = int(argv[0]) if argv else 400_000
    table = Table(title="Queueing: customers a second")
    for column in ("model", "RoamQ", "Ciw", "ratio", "mean response s: theory", "RoamQ", "Ciw"):
        table.add_column(column, justify="left" if column == "model" else "right")
    results: dict[str, object] = {}
    for model, rate in RATES.items():
        off_s = PERIOD_S if model == "ON/OFF" else 0.0
        theory_s = Centre(
            name=model, rate=rate, demand_s=DEMAND_S, t_on_s=PERIOD_S, t_off_s=off_s
        ).response_s()
        speed, response_s = measure(lambda m=model: ours(m, customers), 3)  # type: ignore[misc]
        peer_speed, peer_response_s = measure(lambda m=model: ciws(m, customers // 20), 3)  # type: ignore[misc]
        results[model] = {
            "customers_per_s": round(speed),
            "ciw_customers_per_s": round(peer_speed),
            "ratio": round(speed / peer_speed, 1),
            "response_s": {"theory": theory_s, "roamq": response_s, "ciw": peer_response_s},
        }
        table.add_row(
            model,
            f"{speed:,.0f}",
            f"{peer_speed:,.0f}",
            f"{speed / peer_speed:.1f}x",
            f"{theory_s:.3f}",
            f"{response_s:.3f}",
            f"{peer_response_s:.3f}",
        )
    Console().print(table)
    return results


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
