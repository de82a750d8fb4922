"""How far a client has read, per origin: a position, and what it has read ahead of the position.

A client may acknowledge an event before an earlier one of the same origin: a message of QoS 1 before one of QoS 2 whose
exchange takes longer. The position, which has no gaps, stays before the earlier one. Events read above the position are
kept as ranges of sequences, the ends included. Two ranges have an unread event between them that is stored for the
client, so there are no more ranges than stored events, however long the earlier event waits.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Final

from roamq.core.events import BrokerId, EventId

Position = dict[BrokerId, int]
"""Per origin, the last sequence consumed. Absent means none."""

Range = tuple[int, int]
ReadAhead = Mapping[BrokerId, tuple[Range, ...]]
"""Per origin, the ranges that were consumed above the position, in order. Absent means none."""
AheadRows = tuple[tuple[BrokerId, int, int], ...]
"""A `ReadAhead` in a message: rows of an origin and the ends of one range."""

NOTHING_AHEAD: Final[ReadAhead] = {}
"""The value that nearly all contexts share. A `ReadAhead` is replaced, never changed."""


def advance(numbers: Position, event_id: tuple[BrokerId, int]) -> None:
    """Advance the origin's number to this event's sequence, if it is lower."""
    origin, sequence = event_id
    if sequence > numbers.get(origin, 0):
        numbers[origin] = sequence


def is_ahead(ahead: ReadAhead, event_id: tuple[BrokerId, int]) -> bool:
    """Whether the client has read this event, above its position."""
    origin, sequence = event_id
    ranges = ahead.get(origin, ())
    place = bisect_left(ranges, (sequence + 1, 0))
    return place > 0 and sequence <= ranges[place - 1][1]


def rows_of(ahead: ReadAhead) -> AheadRows:
    return tuple((origin, *one) for origin, ranges in sorted(ahead.items()) for one in ranges)


def joined(rows: Iterable[tuple[BrokerId, int, int]]) -> ReadAhead:
    """The ranges of several connections as one `ReadAhead`: ranges that overlap are united."""
    found: dict[BrokerId, list[Range]] = {}
    for origin, first, last in sorted(
        (origin, first, last) for origin, first, last in rows
    ):  # rows that came over a link are lists
        ranges = found.setdefault(origin, [])
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(last, ranges[-1][1]))
        else:
            ranges.append((first, last))
    return {origin: tuple(ranges) for origin, ranges in found.items()} or NOTHING_AHEAD


def settle(position: Position, rows: AheadRows, unread: Iterable[EventId]) -> ReadAhead:
    """The events read ahead, in as few ranges as possible; the position advances over those that follow no unread one.

    `unread` are the events that are stored for the client. It waits for no other events between two ranges, or below
    the first: the events of one origin come in sequence, and these have come.
    """
    waiting: dict[BrokerId, list[int]] = {}
    for origin, sequence in unread:
        waiting.setdefault(origin, []).append(sequence)
    settled: dict[BrokerId, tuple[Range, ...]] = {}
    for origin, ranges in joined(rows).items():
        left = sorted(waiting.get(origin, ()))
        fewer: list[Range] = []
        for first, last in ranges:
            before = bisect_left(left, first)
            if before == 0:
                advance(position, (origin, last))
            elif fewer and bisect_left(left, fewer[-1][0]) == before:
                fewer[-1] = (fewer[-1][0], last)
            else:
                fewer.append((first, last))
        if fewer:
            settled[origin] = tuple(fewer)
    return above(settled, position)


def above(ahead: ReadAhead, position: Position) -> ReadAhead:
    """The part of `ahead` that is still above the position."""
    for origin in [one for one in ahead if ahead[one][0][1] <= position.get(one, 0)]:
        passed = bisect_right(ahead[origin], position[origin], key=itemgetter(1))
        ahead = {**ahead, origin: ahead[origin][passed:]}
    return {origin: ranges for origin, ranges in ahead.items() if ranges} or NOTHING_AHEAD
