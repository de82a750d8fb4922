"""[PRO] section 6: the Markov models of movement, which need no testbed. `pro_fit.py` goes on from their result."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from roamq.models.curves import paper_throughput
from roamq.models.markov import (
    Occupancy,
    neighboring_mobility,
    random_generator,
    random_mobility,
    stationary,
)
from roamq.models.paired import exactly
from roamq.report.exhibits import Cell, Table
from roamq.reproduce.evidence import Evidence
from roamq.reproduce.judging import Judgement, Wanted
from roamq.reproduce.registry import Outcome, claim

TIMES: Final = {"t_connect_s": 60.0, "t_disconnect_s": 12.0, "t_handoff_s": 3.0}
"""Table 1, default values."""

TESTBED: Final = {
    "B1": ["B2", "B6"],
    "B2": ["B1", "B3", "B6"],
    "B3": ["B2", "B4", "B5", "B6"],
    "B4": ["B3", "B6"],
    "B5": ["B3"],
    "B6": ["B1", "B2", "B3", "B4"],
}
"""Fig. 3, read off the printed generator."""

SUBSCRIBERS: Final = 200

TABLE_5: Final = (0.1099, 0.1648, 0.2198, 0.1099, 0.0549, 0.2198)


def random_occupancy() -> Occupancy:
    return random_mobility(len(TESTBED), **TIMES)


def neighboring_occupancy() -> Occupancy:
    return neighboring_mobility(TESTBED, **TIMES)


def cached_for(occupancy: Occupancy, neighbors: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """The share of subscribers that a broker stores messages for: those away, last connected here or at a neighbor.

    Stays end alike everywhere, so the disconnected were last at each broker in proportion to those connected there.
    """
    away = occupancy.disconnected + occupancy.handoff
    connected = dict(zip(occupancy.brokers, occupancy.connected, strict=True))
    total = sum(connected.values())
    return {
        broker: float(away * sum(connected[near] for near in {broker, *neighbors[broker]}) / total)
        for broker in occupancy.brokers
    }


@claim("PRO-ctmc-rnd")
def random_mobility_chain(_: Evidence) -> Outcome:
    occupancy = random_occupancy()
    generator = stationary(random_generator(len(TESTBED), **TIMES))
    connected = float(occupancy.connected[0])
    mean = occupancy.expected(SUBSCRIBERS)["B1"]
    spread = occupancy.deviation(SUBSCRIBERS)["B1"]
    throughput = float(paper_throughput(round(mean, 4)))
    described = neighboring_mobility({broker: list(TESTBED) for broker in TESTBED}, **TIMES)
    solved = [occupancy.handoff, occupancy.disconnected, *occupancy.connected]
    judgement = Judgement()
    for name, value, published, digit in (
        ("P", connected, 0.147679, 1e-6),
        ("pi1", occupancy.handoff, 0.025316, 1e-6),
        ("pi2", occupancy.disconnected, 0.088608, 1e-6),
        ("subscribers of 200 at a broker", mean, 29.5358, 1e-4),
        ("its messages per second", throughput, 218.983, 1e-3),
    ):
        judgement.says(
            name, exactly(value), at_least=published - digit, at_most=published + digit, named=published
        )
    judgement.says(
        "the closed form solves the printed generator (largest difference)",
        exactly(float(np.abs(generator - solved).max())),
        at_most=1e-9,
    )
    return judgement.outcome(
        f"P={connected:.6f}, pi1={occupancy.handoff:.6f}, pi2={occupancy.disconnected:.6f}; "
        f"{mean:.4f} of {SUBSCRIBERS}; {throughput:.3f} msg/s",
        note=f"the number at a broker is binomial, {mean:.1f} ± {spread:.1f}; with the chain of section 5.1.2, in "
        f"which a subscriber returns to its own broker or hands off, P is {float(described.connected[0]):.6f}",
    )


@claim("PRO-ctmc-nbr")
def neighboring_mobility_chain(_: Evidence) -> Outcome:
    occupancy = neighboring_occupancy()
    away = occupancy.disconnected + occupancy.handoff
    expected, spread = occupancy.expected(SUBSCRIBERS), occupancy.deviation(SUBSCRIBERS)
    rows: list[list[Cell]] = [
        [broker, TABLE_5[i], float(occupancy.connected[i]), expected[broker], spread[broker]]
        for i, broker in enumerate(occupancy.brokers)
    ]
    judgement = Judgement()
    for i, broker in enumerate(occupancy.brokers):
        share = float(occupancy.connected[i])
        near = {"at_least": TABLE_5[i] - 1e-4, "at_most": TABLE_5[i] + 1e-4, "named": TABLE_5[i]}
        judgement.says(broker, exactly(share), Wanted(**near))
    judgement.says("disconnect+handoff", exactly(float(away)), at_least=0.1208, at_most=0.1210, named=0.1209)
    return judgement.outcome(
        " ".join(f"{share:.4f}" for share in occupancy.connected) + f"; disconnect+handoff {away:.4f}",
        tables=[
            Table(
                title="Expected subscribers per broker under neighboring mobility (Table 5)",
                columns=["broker", "published", "ours", f"of {SUBSCRIBERS}", "standard deviation"],
                rows=rows,
            )
        ],
    )
