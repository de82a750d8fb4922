"""Asks live brokers every few seconds how much they store and how much they have sent over their links.

`BrokerSamples` reads `/metrics`, as operators' programs do. The answers become records of the kinds `buffer` and
`traffic`, which a simulated run writes as well, so that the same queries say what memory and traffic cost. Traffic that
a broker sends between the last question and its death is not counted.
"""

import asyncio
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families

from roamq.core.records import Record
from roamq.sim.network import LAST_HOP
from roamq.sim.recorder import Recorder

ANSWER_S_MAX = 2.0
_STORED = {"roamq_stored_events": "count", "roamq_stored_bytes": "bytes"}
"""Gauges of a broker -> the columns of a `buffer` record."""
_SENT = {
    ("roamq_link_sent_messages_total", "begun"): 0,
    ("roamq_link_sent_messages_total", "passed_on"): 1,
    ("roamq_link_sent_bytes_total", None): 2,
}
"""(name of a broker's counter, its label `way`) -> its place in the list of counters that is kept of a kind of traffic:
messages begun, messages passed on, bytes."""


class Crossing(NamedTuple):
    """Messages of one kind that brokers sent over links at about this time."""

    time_s: float
    kind: str
    messages: int
    hops: int
    bytes: int


class BrokerSamples:
    """Asks every broker for its metrics, and keeps what has been added since the question before."""

    def __init__(self, ports: Mapping[str, int], clock: Callable[[], float]) -> None:
        """`ports`: broker -> the port of its metrics."""
        self._ports = ports
        self._clock = clock
        self._counted: dict[tuple[str, str], list[int]] = {}
        """(broker, kind) -> the counters when the broker was last asked."""
        self._asked_at = 0.0
        self.levels: list[Record] = []
        """What each broker stored at each time: `buffer` records."""
        self.crossings: list[Crossing] = []
        """What each broker has sent from one time to the next."""

    async def follow(self, every_s: float, until_s: float) -> None:
        """Asks all brokers every `every_s` seconds."""
        due_s = every_s
        while due_s <= until_s:
            await asyncio.sleep(max(0.0, due_s - self._clock()))
            await self.take()
            due_s += every_s

    async def take(self) -> None:
        """Asks all brokers now. A broker that is down does not answer, and is left out."""
        now = self._clock()
        said = await asyncio.gather(*(asyncio.to_thread(_metrics_at, port) for port in self._ports.values()))
        for broker, text in zip(self._ports, said, strict=True):
            if text is not None:
                self._note(broker, text, now)
        self._asked_at = now

    def _note(self, broker: str, text: str, now: float) -> None:
        """Keeps what the metrics of a broker say, in the text format of Prometheus."""
        stored: dict[str, int] = {}
        sent: dict[str, list[int]] = {}
        for sample in (one for family in text_string_to_metric_families(text) for one in family.samples):
            if sample.name in _STORED:
                stored[_STORED[sample.name]] = int(sample.value)
            place = _SENT.get((sample.name, sample.labels.get("way")))
            if place is not None:
                sent.setdefault(sample.labels["kind"], [0, 0, 0])[place] = int(sample.value)
        self.levels.append(Record("buffer", now, broker, count=stored["count"], bytes=stored["bytes"]))
        for kind, counted in sent.items():
            before = self._counted.get((broker, kind), [0, 0, 0])
            if counted[2] < before[2]:  # the broker was killed, and its new process counts from 0
                before = [0, 0, 0]
            self._counted[broker, kind] = counted
            begun, passed_on, size = (now_ - then for now_, then in zip(counted, before, strict=True))
            middle = (self._asked_at + now) / 2
            self.crossings.append(Crossing(middle, kind, begun, begun + passed_on, size))


def last_hops(delivered: Iterable[Record], sizes: Mapping[tuple[str, int], int]) -> list[Crossing]:
    """Returns what brokers sent to clients, from the `delivered` records of what clients received.

    `sizes`: publisher and number of a message -> its bytes.
    """
    found = []
    for record in delivered:
        kind, count = LAST_HOP[record.detail or "live"]
        size = sizes[record.origin or "", record.sequence or 0]
        found.append(Crossing(record.time_s, kind, count, 1, size))
    return found


def traffic_records(crossings: Iterable[Crossing], bin_s: float) -> list[Record]:
    """Returns the crossings as `traffic` records, counted into bins of time as in a simulated run."""
    recorder = Recorder(bin_s=bin_s)
    end_s = 0.0
    for crossing in sorted(crossings):
        recorder.traffic(*crossing)
        end_s = crossing.time_s
    recorder.finish(end_s)
    return recorder.records


def _metrics_at(port: int) -> str | None:
    """Returns the metrics of the broker at this port of loopback; None if no broker answers."""
    with (
        suppress(OSError),
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=ANSWER_S_MAX) as answer,
    ):
        text: str = answer.read().decode()
        return text
    return None
