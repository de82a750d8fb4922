"""Collects what happens in a simulated run: records, and traffic counted into bins.

Traffic is counted, not listed: a run of the hierarchy has millions of link messages, and every metric on them is
a sum per kind and bin.
"""

from collections.abc import Iterable

from roamq.core.records import Record

LEVELS: dict[str, frozenset[str]] = {
    "all": frozenset(),
    "moves": frozenset({"published", "delivered", "mode"}),
    "traffic": frozenset(
        {"published", "delivered", "mode", "connected", "disconnected", "handoff", "transferred"}
    ),
}
"""Record level -> the kinds of record that it leaves out."""


class Recorder:
    """Collects the records of one run, in order."""

    def __init__(self, level: str = "all", bin_s: float = 60.0) -> None:
        self.records: list[Record] = []
        self.skipped = LEVELS[level]
        self.bin_s = bin_s
        self._bin_end = bin_s
        self._cells: dict[str, list[int]] = {}
        self.record_event_rows = "delivered" not in self.skipped

    def record(self, record: Record) -> None:
        if record.kind not in self.skipped:
            self.records.append(record)

    def traffic(self, now: float, kind: str, count: int, hops: int, size: int) -> None:
        """Counts messages that begin their way (`count`) and link traversals (`hops`)."""
        if now >= self._bin_end:
            self.close_bin(now)
        cell = self._cells.get(kind)
        if cell is None:
            cell = self._cells[kind] = [0, 0, 0]
        cell[0] += count
        cell[1] += hops
        cell[2] += size

    def close_bin(self, now: float) -> None:
        """Writes the records of the present bin, and begins the bin that holds `now`."""
        for kind in sorted(self._cells):
            count, hops, size = self._cells[kind]
            self.records.append(
                Record("traffic", self._bin_end, detail=kind, count=count, hops=hops, bytes=size)
            )
        self._cells.clear()
        self._bin_end = (now // self.bin_s + 1) * self.bin_s

    def finish(self, now: float, more: Iterable[Record] = ()) -> None:
        self.close_bin(now)
        for record in more:
            self.record(record)
