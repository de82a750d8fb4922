"""The saturation throughput of 802.11's DCF with RTS and CTS (Bianchi, IEEE JSAC 18(3), 2000).

Stations in one cell always have a frame to send. A station sends in a slot with probability tau, and its frame collides
with probability p; each follows from the other.
"""

from scipy.optimize import brentq


def attempt_probability(stations: int, window: int, stages: int) -> tuple[float, float]:
    """tau and p for stations whose window of so many slots doubles up to `stages` times."""

    def tau_of(p: float) -> float:
        doubled = sum((2 * p) ** stage for stage in range(stages))  # stays finite at p = 1/2
        return 2 / (1 + window + p * window * doubled)

    p = brentq(lambda p: 1 - (1 - tau_of(p)) ** (stations - 1) - p, 0.0, 1.0 - 1e-12) if stations > 1 else 0.0
    return tau_of(float(p)), float(p)


def saturation_frames_per_s(
    stations: int, *, window: int, stages: int, slot_s: float, success_s: float, collision_s: float
) -> float:
    """Frames that get through in a second. `success_s` and `collision_s` are how long one, or a collision, keeps the
    channel busy, the following DIFS included."""
    tau, _ = attempt_probability(stations, window, stages)
    some = 1 - (1 - tau) ** stations
    one = stations * tau * (1 - tau) ** (stations - 1)
    mean_s = (1 - some) * slot_s + one * success_s + (some - one) * collision_s
    return one / mean_s
