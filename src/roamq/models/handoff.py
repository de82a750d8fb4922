"""What a mobility scheme adds to a disconnection: the trips between brokers before the first stored event.

A client that reconnects waits until its context is where it is. The schemes differ in how many messages, one after the
other, that takes: none where the new broker holds the context already. The added time is part of the time away, so it
enters the OFF period of the client's ON/OFF centre.
"""

import math
from dataclasses import dataclass
from typing import Final

from roamq.models.queueing import Centre

TRIPS: Final = {
    "standard": 4,
    "standard+on-device": 2,
    "logging": 4,
    "reactive": 4,
    "prefetching": 4,
    "proactive": 4,
    "prehandoff": 4,
    "home-broker": 2,
}
"""Messages between brokers, one after the other, from the reconnection to the first stored event: request,
subscriptions, release and stored events; with subscriptions on the device only the last two; to the home broker and
back."""

PREDICTS: Final = frozenset({"prefetching", "proactive", "prehandoff"})
"""Schemes that bring the context before the client: a hit needs no trip."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """The distances of a network, and where clients reconnect."""

    link_s: float
    """One-way delay of a link between brokers."""
    last_hop_s: float
    """One-way delay between a client and its broker."""
    hops: float = 1.0
    """Links between the old and the new broker."""
    home_hops: float = 2.0
    """Links between a client's home broker and the one that it visits."""
    move_share: float = 1.0
    """Share of reconnections that are at another broker."""
    hit_share: float = 0.8
    """Share of moves for which a scheme that predicts has the context in place."""

    def __post_init__(self) -> None:
        for field in ("link_s", "last_hop_s", "hops", "home_hops"):
            if not (getattr(self, field) >= 0 and math.isfinite(getattr(self, field))):
                raise ValueError(f"{field}: must not be negative, is {getattr(self, field)}")
        for field in ("move_share", "hit_share"):
            if not 0 <= getattr(self, field) <= 1:
                raise ValueError(f"{field}: {getattr(self, field)} is not in [0, 1]")


def handoff_s(scheme: str, network: Distances) -> float:
    """The mean time from the reconnection to the first stored event."""
    if scheme not in TRIPS:
        raise ValueError(f"scheme: unknown {scheme}; known are {', '.join(TRIPS)}")
    hops = network.home_hops if scheme == "home-broker" else network.hops
    misses = 1 - network.hit_share if scheme in PREDICTS else 1.0
    trips_s = TRIPS[scheme] * hops * network.link_s * network.move_share * misses
    return 2 * network.last_hop_s + trips_s


def broker_centre(
    *, clients: int, rate: float, messages_per_move: float, moves_per_s: float, demand_s: float
) -> Centre:
    """A broker with so many clients: it handles every event of theirs, and every message of their moves."""
    per_client = rate + messages_per_move * moves_per_s
    return Centre(name="broker", rate=clients * per_client, demand_s=demand_s)


def delay_s(
    scheme: str, network: Distances, *, rate: float, demand_s: float, t_on_s: float, t_off_s: float
) -> float:
    """The mean delay of a client's events at its ON/OFF centre, the handoff included; Theorem 2 of [TIME]."""
    return Centre(
        name=scheme,
        rate=rate,
        demand_s=demand_s,
        t_on_s=t_on_s,
        t_off_s=t_off_s + handoff_s(scheme, network),
    ).response_s()
