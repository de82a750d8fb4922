"""What is explored: itineraries of one client, an event from a broker, and what the brokers and the client know."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tests.schemes.interleavings.explore import itineraries
from tests.schemes.interleavings.world import World, topology_of

ALL_EDGES = (("a", "b"), ("b", "c"), ("a", "c"))
SOME_EDGES = (("a", "b"),)


@dataclass(frozen=True, slots=True)
class Plan:
    """One world to explore."""

    scheme: str
    itinerary: tuple[str, ...]
    says: str
    known: tuple[tuple[str, str], ...] = ()
    shows_epoch: bool = True
    links: str = "triangle"
    overlay: str = "flooding"
    late_after_s: float | None = None
    """With 0, contexts go without whatever may come late: as if the brokers that it comes from were down, each until
    any later moment."""
    sends_heads: bool = False
    tells_last_read: bool = False
    falls: int = 0
    """How many brokers fall, each at any moment."""
    advertised: bool = False
    """Whether brokers say whether what the client wants is published there."""

    def world(self) -> World:
        return World(
            self.scheme,
            self.itinerary,
            self.says,
            topology=topology_of(self.links, self.says if self.advertised else None),
            overlay=self.overlay,
            known=self.known,
            shows_epoch=self.shows_epoch,
            late_after_s=self.late_after_s,
            sends_heads=self.sends_heads,
            tells_last_read=self.tells_last_read,
            falls=self.falls,
        )

    def __str__(self) -> str:
        way = " ".join(step.removeprefix("go ") for step in self.itinerary if step != "vanish")
        edges = ",".join(one + other for one, other in self.known) or "none"
        shows = "epoch" if self.shows_epoch else "no epoch"
        links = self.links if self.overlay == "flooding" else f"{self.links}, {self.overlay}"
        links += "" if self.late_after_s is None else ", what comes late follows"
        ending = " then leaves" if self.itinerary[-1] == "leave" else ""
        if self.sends_heads:
            links += ", heads"
        if self.tells_last_read:
            links += ", last read"
        if self.advertised:
            links += ", advertised"
        if self.falls:
            links += f", {self.falls} falls"
        return (
            f"{self.scheme} {way}{ending}, events at {self.says or 'none'}, knows {edges}, {shows}, {links}"
        )


def plans(
    scheme: str, *, moves: int, says: str = "c", overlay: str = "flooding", sends_heads: bool = False
) -> Iterator[Plan]:
    """Every itinerary of `moves` moves; with and without known neighbors, shown epochs and a direct link.

    Routing by interest is explored on a square as well, where some paths have a broker in the middle.
    """
    for plan in _flooded_plans(scheme, moves=moves, says=says):
        yield replace(plan, overlay=overlay, sends_heads=sends_heads)
    if overlay != "flooding":
        known = SOME_EDGES if scheme == "proactive" else ()
        for itinerary in itineraries(moves):
            yield Plan(
                scheme, itinerary, says, known, links="square", overlay=overlay, sends_heads=sends_heads
            )


def _flooded_plans(scheme: str, *, moves: int, says: str) -> Iterator[Plan]:
    for itinerary in itineraries(moves):
        if scheme != "proactive":
            yield Plan(scheme, itinerary, says)
            yield Plan(scheme, itinerary, says, links="line")
            continue
        for known in (ALL_EDGES, SOME_EDGES, ()):
            yield Plan(scheme, itinerary, says, known)
        yield Plan(scheme, itinerary, says, ALL_EDGES, shows_epoch=False)
        yield Plan(scheme, itinerary, says, SOME_EDGES, links="line")
        yield Plan(scheme, (*itinerary, "leave"), says, SOME_EDGES)


BORDERS = (
    ("go a", "near b", "vanish", "go b"),
    ("go a", "near b c", "vanish", "go b"),
    ("go a", "near b", "vanish", "go a", "vanish", "go b"),
    ("go a", "near b", "vanish", "go b", "near a", "vanish", "go a"),
    ("go a", "near b", "vanish", "go b", "near c", "vanish", "go c"),
    ("go a", "near b", "vanish", "go c", "vanish", "go b"),
    ("go a", "near b", "vanish", "go b", "leave"),
    ("go a", "near b", "vanish", "try c", "go b"),
    ("go a", "near b", "vanish", "try b", "go c"),
    ("go a", "near b c", "vanish", "try c", "go b"),
    ("go a", "near b", "vanish", "try a", "go b"),
)
"""Ways across borders. A client that tries a broker and hears nothing goes on as if it had not been there."""


def border_plans(*, says: str = "c", late_after_s: float | None = None, falls: int = 0) -> Iterator[Plan]:
    """Pre-handoff, with virtual consumers that are told what their client had read."""
    for way in BORDERS:
        for overlay in ("flooding", "interest"):
            for shows_epoch in (True, False):
                yield Plan(
                    "prehandoff",
                    way,
                    says,
                    shows_epoch=shows_epoch,
                    overlay=overlay,
                    late_after_s=late_after_s,
                    tells_last_read=True,
                    falls=falls,
                )
