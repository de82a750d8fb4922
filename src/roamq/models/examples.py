"""The worked examples that [TIME] prints: end-to-end response times of five scenarios (Table 3).

`roamq plan response-time --preset` knows them by name, and `roamq reproduce` checks their figures.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from roamq.models.network import EndToEndPath

DEMAND_S: Final = 0.0625
"""At every centre."""

ALWAYS: Final = (math.inf, 0.0)
"""Connected without interruption."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPath:
    """One row of Table 3, with the rate that its figures need."""

    name: str
    publisher: tuple[float, float]
    """Mean connected and disconnected period, in seconds."""
    subscriber: tuple[float, float]
    rate: float
    printed_rate: float
    analysis_s: float
    """The response time that the paper's analysis gives."""
    simulation_s: float
    """The response time that the paper's simulation gives."""

    def path(self) -> "EndToEndPath":
        """Algorithm 1 on p4 - B3 - B10 - B19 - s1."""
        from roamq.models.network import PublishingPeer, SubscribingPeer, compose_path

        publisher = PublishingPeer(
            name="p4",
            broker="B3",
            rates={"events": self.rate},
            demand_s=DEMAND_S,
            t_on_s=self.publisher[0],
            t_off_s=self.publisher[1],
        )
        subscriber = SubscribingPeer(
            name="s1",
            broker="B19",
            topics=("events",),
            demand_s=DEMAND_S,
            processing_s=DEMAND_S,
            t_on_s=self.subscriber[0],
            t_off_s=self.subscriber[1],
        )
        return compose_path(
            publisher,
            ["B3", "B10", "B19"],
            subscriber,
            rate=self.rate,
            demand_in_s=DEMAND_S,
            demand_out_s=DEMAND_S,
        )

    def printed_path(self) -> "EndToEndPath":
        """What Table 3 sums: brokers without their `out` centres (docs/time.md, choice 0063)."""
        from roamq.models.network import EndToEndPath

        return EndToEndPath(tuple(centre for centre in self.path().centres if " out to " not in centre.name))


TABLE_3: Final = (
    PublishedPath(
        name="metro-1",
        publisher=(109.0, 121.5),
        subscriber=(146.3, 96.0),
        rate=1.0,
        printed_rate=1.0,
        analysis_s=116.76,
        simulation_s=118.7,
    ),
    PublishedPath(
        name="metro-2",
        publisher=(292.1, 78.7),
        subscriber=(155.8, 72.1),
        rate=1.0,
        printed_rate=1.0,
        analysis_s=43.7,
        simulation_s=45.3,
    ),
    PublishedPath(
        name="voluntary-1",
        publisher=(60.0, 600.0),
        subscriber=(30.0, 900.0),
        rate=0.1,
        printed_rate=0.5,
        analysis_s=28.31 * 60,
        simulation_s=27.82 * 60,
    ),
    PublishedPath(
        name="voluntary-2",
        publisher=ALWAYS,
        subscriber=(30.0, 900.0),
        rate=0.1,
        printed_rate=0.5,
        analysis_s=18.03 * 60,
        simulation_s=17.61 * 60,
    ),
    PublishedPath(
        name="degraded",
        publisher=(1.0, 1.0),
        subscriber=(1.5, 1.5),
        rate=2.0,
        printed_rate=2.0,
        analysis_s=2.26,
        simulation_s=2.41,
    ),
)
