"""What [PRO] does not print of its testbed: a declared range for each parameter, and why.

A verdict must hold for every set of these parameters that fits what the paper prints (`pro_identify.py` finds such
sets), not for one set that somebody assumed. Ranges were declared from the paper's own figures before any fit.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc


class Unprinted(NamedTuple):
    """A parameter that the paper does not print."""

    name: str
    low: float
    high: float
    scale: str
    """`log`, `linear`, `whole` (numbers, by their logarithm) or `choice` (no or yes)."""
    why: str


PRIOR: Final = (
    Unprinted(
        "service.event_s",
        0.008,
        0.018,
        "log",
        "Table 2 at 10 subscribers: 16 to 20 ms between publications, hardly anything but the event itself",
    ),
    Unprinted(
        "service.delivery_s",
        0.0003,
        0.003,
        "log",
        "Table 2: 14 ms more with 190 subscribers, of whom 28 are at a broker and 20% match",
    ),
    Unprinted("service.buffer_s", 0.0001, 0.0012, "log", "durable of Table 2: 0.73 ms per stored message"),
    Unprinted(
        "service.store_s", 0.0, 0.006, "linear", "durable is 4 ms slower than pro-active at 10 subscribers"
    ),
    Unprinted("service.subscription_s", 0.0, 0.03, "linear", "not said; a few changes per second and broker"),
    Unprinted(
        "service.message_s",
        0.002,
        0.016,
        "log",
        "a message between brokers: more than storing one, no more than handling an event",
    ),
    Unprinted("service.flow_bytes", 20e3, 1e6, "log", "flow control acts before the 1 MB of Table 1 is full"),
    Unprinted("workload.payload_bytes", 2000, 8000, "log", "no size of a message is given"),
    Unprinted(
        "last_hop.in_flight", 1, 16, "whole", "JMS consumers acknowledge; how many at a time is not said"
    ),
    Unprinted("last_hop.ping_s", 0.2, 2.0, "log", "section 4.1: generic pings, periodically"),
    Unprinted("weak", 0.7, 1.0, "linear", "section 6.4: B3 and B4 have lower hardware; not by how much"),
    Unprinted("last_hop.redelivers", 0, 1, "choice", "is what was sent and not acknowledged sent again?"),
    Unprinted(
        "mobility.elsewhere", 0, 1, "choice", "RND: 'a different broker' and 'all six' in one section (5.1.2)"
    ),
    Unprinted(
        "scheme.fallback",
        0,
        1,
        "choice",
        "'in reactive manner': with the losses of the reactive scheme of section 1, or without (yes)",
    ),
)
"""What the paper leaves open of its testbed."""

NAMES: Final = tuple(parameter.name for parameter in PRIOR)

ParameterSet = Mapping[str, float]
"""Name of a parameter -> its value; of a choice 0 (no) or 1 (yes)."""

Floats = NDArray[np.float64]


def at(point: Floats) -> dict[str, float]:
    """The parameter set at a point of the unit cube."""
    found = {}
    for parameter, share in zip(PRIOR, point, strict=True):
        low, high, scale = parameter.low, parameter.high, parameter.scale
        if scale == "choice":
            value = float(share >= 0.5)
        elif scale == "linear":
            value = low + share * (high - low)
        else:
            value = low * (high / low) ** share
        found[parameter.name] = float(round(value)) if scale == "whole" else float(f"{value:.3g}")
    return found


def point_of(chosen: ParameterSet) -> Floats:
    """Where a parameter set lies in the unit cube; the inverse of `at` but for rounding."""
    shares = []
    for parameter in PRIOR:
        low, high, value = parameter.low, parameter.high, chosen[parameter.name]
        if parameter.scale in ("choice", "linear"):
            shares.append((value - low) / (high - low))
        else:
            shares.append(float(np.log(value / low) / np.log(high / low)))
    return np.array(shares)


def designed(count: int, *, seed: int = 0) -> Floats:
    """Points that fill the unit cube evenly: a scrambled Sobol sequence."""
    sequence = qmc.Sobol(len(PRIOR), rng=seed)
    return np.asarray(sequence.random_base2(math.ceil(math.log2(count)))[:count])


def overrides_of(chosen: ParameterSet, scheme: str) -> dict[str, str]:
    """The set as `--set` overrides of the scenario, for one scheme."""
    found = {}
    for name, value in chosen.items():
        if name == "weak":
            found["service.speed"] = f"{{ b3 = {value:g}, b4 = {value:g} }}"
        elif name == "scheme.fallback":
            if scheme == "proactive":
                found[name] = '"standard"' if value else '"reactive"'
        elif name in ("last_hop.redelivers", "mobility.elsewhere"):
            found[name] = "true" if value else "false"
        elif name in ("service.flow_bytes", "workload.payload_bytes", "last_hop.in_flight"):
            found[name] = str(round(value))
        else:
            found[name] = f"{value:g}"
    return found


def told(name: str, value: float) -> str:
    """A parameter with its value, for a reader: `message_s 8 ms`."""
    short = "speed of B3 and B4" if name == "weak" else name.partition(".")[2]
    if name == "scheme.fallback":
        return f"{short} {'standard' if value else 'reactive'}"
    if next(p for p in PRIOR if p.name == name).scale == "choice":
        return f"{short} {'yes' if value else 'no'}"
    if name.startswith("service.") and name.endswith("_s"):
        return f"{short} {1000 * value:.3g} ms"
    return f"{short} {value:g}"


def outside(chosen: ParameterSet) -> Sequence[str]:
    """The parameters that lie outside of their range; none for a set that the prior allows."""
    return [p.name for p in PRIOR if not p.low <= chosen[p.name] <= p.high]
