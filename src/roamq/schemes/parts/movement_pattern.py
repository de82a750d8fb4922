"""The movement pattern of a server's clients: where they go from a border cell, learned by watching them.

Paper: [PRE] section 2.3: "We can use a pre-declared movement pattern of the mobile consumer; and employ certain
heuristics to predict the possible cells where a mobile consumer may show up from a border cell". The pattern is learned
from the moves that a server sees anyway: a client reports its next cell here, or another server says that the client
is there. A trace declares it beforehand (`warm_start`).
"""

from collections.abc import Iterable
from typing import Any, Final

from roamq.core.errors import ConfigError
from roamq.core.events import BrokerId, ClientId
from roamq.geo.cells import Cell, adjacent

Row = tuple[str, str, str, float, float]
"""A row of the pipeline's transitions: before (empty: anywhere), from, to, moves, last seen."""

ANY: Final = ""
Given = tuple[str, str]
"""What a server knows of a client: its border cell, and the cell or area that it came from. Either may be `ANY`."""

PRIOR_MOVES: Final = 5.0
"""The number of moves as which less exact knowledge counts."""


class MovementPattern:
    """P(next area | border cell, cell or area before), by counting; a move that nobody has seen yet is taken for
    likely."""

    def __init__(self, me: BrokerId) -> None:
        self.me = me
        self.went: dict[Given, dict[BrokerId, float]] = {}
        """Knowledge of clients -> where they went next, with counts. Clients that stayed in the area went to `me`."""
        self._standing: dict[ClientId, tuple[Given, ...]] = {}
        """Client in this area -> what the server knows of it, the least exact first."""

    # --- learning -------------------------------------------------------------------------------------------

    def warm_start(self, rows: Iterable[Row]) -> None:
        """Count the moves of a trace, from area to area, before any others."""
        for before, here, to, moves, _ in rows:
            if here == self.me and to != self.me:
                self._count((ANY, before), BrokerId(to), moves)

    def entered(
        self,
        client: ClientId,
        cell: Cell,
        before: Cell | None,
        came_from: BrokerId | None,
        *,
        is_border: bool,
    ) -> None:
        """The client is in another cell of this area: it has not gone to another area from the cell before."""
        for given in self._standing.pop(client, ()):
            if given[0] != ANY:
                self._count(given, self.me)
        self._standing[client] = self._known(cell if is_border else None, before, came_from)

    def left(self, client: ClientId, to: BrokerId) -> None:
        """The client is at another server."""
        for given in self._standing.pop(client, ()):
            self._count(given, to)

    def forget(self, client: ClientId) -> None:
        self._standing.pop(client, None)

    def _count(self, given: Given, to: BrokerId, moves: float = 1.0) -> None:
        went = self.went.setdefault(given, {})
        went[to] = went.get(to, 0.0) + moves

    # --- asking ---------------------------------------------------------------------------------------------

    def probability(self, client: ClientId, server: BrokerId) -> float:
        """The probability that the client goes to the server next: 1 if nothing is known. The more clients were seen
        where this one is, the more their moves decide."""
        likely = 1.0
        for given in self._standing.get(client, ()):
            went = self.went.get(given, {})
            likely = (went.get(server, 0.0) + PRIOR_MOVES * likely) / (sum(went.values()) + PRIOR_MOVES)
        return likely

    def likely(
        self, client: ClientId, servers: Iterable[BrokerId], least_probability: float
    ) -> tuple[BrokerId, ...]:
        """The servers to which the client goes with at least this probability."""
        return tuple(server for server in servers if self.probability(client, server) >= least_probability)

    @staticmethod
    def _known(cell: Cell | None, before: Cell | None, came_from: BrokerId | None) -> tuple[Given, ...]:
        """What is known of a client, the least exact first: the area; the area and the one before; the border cell; the
        border cell and the cell or area before.

        The pattern ignores a cell before that does not touch this one: it says nothing about the way, and there would
        be many.
        """
        known = [(ANY, ANY)]
        if came_from is not None:
            known.append((ANY, str(came_from)))
        if cell is not None:
            known.append((str(cell), ANY))
            if before is not None and before in adjacent(cell):
                known.append((str(cell), str(before)))
            elif before is None and came_from is not None:
                known.append((str(cell), str(came_from)))
        return tuple(known)


def rows_of(values: Any) -> tuple[Row, ...]:
    """Check the option `warm_start`: rows of (from, to, moves, last seen), as in the pipeline's `neighbor_graph`, or of
    (before, from, to, moves, last seen), as in its `transitions`.

    The pattern does not use the time of the last move. A row without an area before counts for clients from anywhere.
    """
    rows: list[Row] = []
    for number, value in enumerate(values):
        try:
            *areas, moves, last_seen = value
            before, here, to = areas if len(areas) == 3 else (None, *areas)
            rows.append((str(before or ANY), str(here), str(to), float(moves), float(last_seen)))
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"scheme.warm_start[{number}]: {value!r} is neither a row of (from, to, moves, last_seen) nor of "
                "(before, from, to, moves, last_seen)"
            ) from error
    return tuple(rows)
