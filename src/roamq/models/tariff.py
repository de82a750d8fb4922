"""The tariff: what traffic, memory and delay cost, so that one price compares schemes. Users set it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

UNITS: Final = {
    "traffic": "a GB over a link",
    "memory": "a GB stored for an hour",
    "delay": "an hour by which a message is late",
}
"""What each rate is the price of."""

BYTES_PER_GB: Final = 1e9
SECONDS_PER_HOUR: Final = 3600.0
MESSAGES: Final = 1e6
"""Prices are per million messages that clients received, each counted once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tariff:
    """The price of a unit of each cost, in one currency of the user's."""

    traffic: float = 0.1
    memory: float = 0.01
    delay: float = 0.01

    @classmethod
    def parse(cls, text: str) -> Self:
        """`traffic=0.1,delay=2`; what is not named keeps its default. Raises `ValueError` with the remedy."""
        given: dict[str, float] = {}
        for pair in filter(None, (part.strip() for part in text.split(","))):
            name, separator, value = pair.partition("=")
            if name not in UNITS or not separator:
                raise ValueError(
                    f"{pair!r} is not NAME=PRICE; names: {', '.join(UNITS)}; write, for example, traffic=0.1,delay=2"
                )
            if name in given:
                raise ValueError(f"{name} is named twice; leave one price out")
            try:
                given[name] = float(value)
            except ValueError:
                raise ValueError(f"{name} is {value!r}; write a number, such as {name}=0.1") from None
            if not 0 <= given[name] < float("inf"):
                raise ValueError(f"{name} is {value}; a price is 0 or more, and finite")
        return replace(cls(), **given)

    @property
    def rates(self) -> dict[str, float]:
        return {name: float(getattr(self, name)) for name in UNITS}

    def __str__(self) -> str:
        return ", ".join(f"{name}={rate:g}" for name, rate in self.rates.items())


def amounts(measured: Mapping[str, float]) -> dict[str, float]:
    """Metrics of a run -> how many units of each cost a million messages took."""
    per_message = MESSAGES / measured["received_once"]
    return {
        "traffic": measured["traffic_bytes"] / BYTES_PER_GB * per_message,
        "memory": measured["memory_byte_s"] / BYTES_PER_GB / SECONDS_PER_HOUR * per_message,
        "delay": measured["mobility_delay_s_mean"] / SECONDS_PER_HOUR * MESSAGES,
    }
