"""The throughput benchmark, at a size that shows that it works; how fast anything is, is not for a test to say."""

import asyncio
import shutil

import pytest

from roamq.core.errors import RoamqError
from roamq.net.bench import brokers
from roamq.net.bench.load import Load, LoadSubscriber, publish_packet
from roamq.net.bench.throughput import Result, Shape, compare, ratio


@pytest.mark.live
def test_every_delivery_of_a_closed_loop_arrives_and_is_counted() -> None:
    shapes = [Shape(2, 3, 40)]
    results = compare([brokers.ROAMQ], shapes=shapes, seconds=0.3, rounds=1)
    assert [(result.broker, result.qos) for result in results] == [("roamq", 0), ("roamq", 1)]
    assert all(result.rate > 0 and result.cpu_us > 0 for result in results)


@pytest.mark.live
@pytest.mark.skipif(
    shutil.which("mosquitto", path="/usr/sbin:/usr/bin") is None, reason="mosquitto is not installed"
)
def test_another_broker_is_measured_by_the_same_load() -> None:
    results = compare([brokers.MOSQUITTO], shapes=[Shape(1, 1, 40)], qualities=(1,), seconds=0.3, rounds=1)
    assert results[0].broker == "mosquitto" and results[0].rate > 0


def test_a_broker_that_cannot_be_had_is_noted_and_left_out() -> None:
    def missing(folder: object) -> tuple[list[str], int]:
        raise brokers.UnavailableError("it is not installed")

    notes: list[str] = []
    results = compare([brokers.BenchBroker("ghost", missing)], shapes=[], on_note=notes.append)
    assert results == [] and notes == ["left out: it is not installed"]


def test_a_broker_that_ends_as_it_starts_is_an_error_with_its_last_words(tmp_path: object) -> None:
    candidate = brokers.BenchBroker("broken", lambda folder: (["sh", "-c", "echo no room; exit 3"], 1))
    with pytest.raises(RoamqError, match="no room"):
        compare([candidate], shapes=[])


def test_ratios_are_of_the_same_load_only() -> None:
    one, other = Shape(1, 1, 10), Shape(1, 100, 10)
    results = [
        Result("a", one, 0, 300.0, 1.0, 0.1),
        Result("b", one, 0, 100.0, 1.0, 0.1),
        Result("b", other, 0, 100.0, 1.0, 0.1),
    ]
    assert ratio(results, "a", "b", one, 0) == 3.0
    assert ratio(results, "a", "b", other, 0) is None


def test_a_subscriber_counts_and_acknowledges_packets_however_they_are_cut() -> None:
    class Written:
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: bytes) -> None:
            self.data += data

    async def scenario() -> tuple[int, bytes]:
        packets = [publish_packet("bench/000", b"x" * 10, 1, number) for number in (7, 300, 65535)]
        counts: list[int] = []
        subscriber = LoadSubscriber(
            "s",
            "bench/+",
            1,
            len(packets[0]),
            len(packets[0]) - 12,
            on_received=counts.append,
            on_lost=lambda: None,
        )
        written = Written()
        subscriber.transport = written  # type: ignore[assignment]
        subscriber.data_received(b"\x20\x02\x00\x00\x90\x03\x00\x01\x01")
        stream = b"".join(packets)
        for at in range(0, len(stream), 5):
            subscriber.data_received(stream[at : at + 5])
        assert sum(counts) == subscriber.received
        return subscriber.received, written.data

    received, answers = asyncio.run(scenario())
    assert received == 3
    assert answers == b"\x40\x02\x00\x07\x40\x02\x01\x2c\x40\x02\xff\xff"


def test_a_load_is_the_same_after_its_way_to_the_generator() -> None:
    import msgspec

    load = Load(port=1, publishers=1, subscribers=100, qos=1)
    assert msgspec.json.decode(msgspec.json.encode(load), type=Load) == load
