"""What is explored: itineraries of one client, an event from a broker, and what the brokers and the client know."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.schemes.interleavings.explore import itineraries
from tests.schemes.interleavings.world import LINE, TRIANGLE, World

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
    line: bool = False

    def world(self) -> World:
        return World(
            self.scheme,
            self.itinerary,
            self.says,
            topology=LINE if self.line else TRIANGLE,
            known=self.known,
            shows_epoch=self.shows_epoch,
        )

    def __str__(self) -> str:
        way = " ".join(step.removeprefix("go ") for step in self.itinerary if step != "vanish")
        edges = ",".join(one + other for one, other in self.known) or "none"
        shows = "epoch" if self.shows_epoch else "no epoch"
        links = "line" if self.line else "triangle"
        ending = " then leaves" if self.itinerary[-1] == "leave" else ""
        return (
            f"{self.scheme} {way}{ending}, events at {self.says or 'none'}, knows {edges}, {shows}, {links}"
        )


def plans(scheme: str, *, moves: int, says: str = "c") -> Iterator[Plan]:
    """Every itinerary of `moves` moves; with and without known neighbors, shown epochs and a direct link."""
    for itinerary in itineraries(moves):
        if scheme != "proactive":
            yield Plan(scheme, itinerary, says)
            yield Plan(scheme, itinerary, says, line=True)
            continue
        for known in (ALL_EDGES, SOME_EDGES, ()):
            yield Plan(scheme, itinerary, says, known)
        yield Plan(scheme, itinerary, says, ALL_EDGES, shows_epoch=False)
        yield Plan(scheme, itinerary, says, SOME_EDGES, line=True)
        yield Plan(scheme, (*itinerary, "leave"), says, SOME_EDGES)
