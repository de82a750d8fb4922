"""The channel: airtime, a busy medium, hidden terminals, acknowledged unicasts."""

from random import Random

import numpy as np
import pytest

from roamq.core.errors import ConfigError
from roamq.manet.protocol.codec import encode, size_of
from roamq.manet.protocol.messages import Candidates, Message, NodeId, Packet, Quit
from roamq.manet.simulation.contention import Channel, ContendedRadio
from roamq.manet.simulation.field import Field
from roamq.manet.simulation.waypoint import Standing
from roamq.models.saturation import saturation_frames_per_s
from roamq.sim.engine import Engine
from tests.support.few import few

MESSAGE = Candidates(())
PACKET = Packet(1, Quit(0, 1), (0,), (), 100.0)


class Air:
    """Nodes on a line, 100 m apart, with a range of 120 m: each hears its direct neighbors, and senses no others
    unless `sense` says so. With a window of one slot nobody counts.
    """

    def __init__(self, nodes: int, **channel: float) -> None:
        self.engine = Engine()
        positions = np.column_stack([np.arange(nodes) * 100.0, np.zeros(nodes)])
        self.field = Field(Standing(positions), range_m=120.0, delay_s_per_m=0.0)
        self.heard: list[tuple[float, NodeId, NodeId]] = []
        self.failed: list[tuple[NodeId, NodeId]] = []
        given: dict[str, float] = {"window_slots": 1, "window_slots_max": 1, "sense": 1.0, **channel}
        self.channel = Channel(**given)  # type: ignore[arg-type]
        self.radio = ContendedRadio(
            self.engine, self.field, self._receive, self._fail, self.channel, Random(1)
        )

    def _receive(self, receiver: NodeId, sender: NodeId, message: Message) -> None:
        self.heard.append((self.engine.now, receiver, sender))

    def _fail(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        self.failed.append((sender, to))


def test_a_broadcast_takes_a_difs_a_preamble_and_its_bits() -> None:
    air = Air(2, bits_per_s=1000.0, header_bytes=10)

    air.radio.broadcast(0, MESSAGE)
    air.engine.run()

    [(at, receiver, sender)] = air.heard
    assert (receiver, sender) == (1, 0)
    assert at == pytest.approx(50e-6 + 192e-6 + (10 + len(encode(MESSAGE))) * 8 / 1000.0)


def test_a_unicast_takes_rts_cts_and_an_acknowledgement_at_the_basic_rate() -> None:
    """802.11 DSSS with long preambles: 352 us for RTS, 304 us for CTS and for the acknowledgement."""
    channel = Channel()

    assert (channel.rts_s, channel.cts_s, channel.ack_s) == pytest.approx((352e-6, 304e-6, 304e-6))
    data_s = 192e-6 + 8 * (1000 + 28) / 2e6
    assert channel.exchange_s(1000) == pytest.approx(10e-6 + 304e-6 + 10e-6 + data_s + 10e-6 + 304e-6)


def test_a_long_message_is_sent_in_frames_with_a_header_each() -> None:
    channel = Channel()

    assert [channel.frames(size) for size in (0, 1500, 1501, 16384)] == [1, 1, 2, 11]
    assert channel.broadcast_s(3000) == pytest.approx(2 * channel.broadcast_s(1500) + 10e-6)


@pytest.mark.parametrize("stations", few([2, 10, 20]))
def test_stations_that_always_send_have_bianchi_s_throughput(stations: int) -> None:
    """Bianchi's saturation model of DCF with RTS and CTS; it knows no limit of attempts and no timeout for CTS."""
    engine, got = Engine(), []
    positions = np.column_stack([np.arange(stations) * 1.0, np.zeros(stations)])
    field = Field(Standing(positions), range_m=120.0, delay_s_per_m=0.0)

    def send_next(receiver: NodeId, sender: NodeId, message: Message) -> None:
        got.append(sender)
        assert isinstance(message, Packet)
        radio.unicast(sender, receiver, message)

    channel = Channel()
    radio = ContendedRadio(
        engine, field, send_next, lambda s, to, packet: radio.unicast(s, to, packet), channel, Random(1)
    )
    for node in range(stations):
        radio.unicast(node, (node + 1) % stations, PACKET)
    engine.run(until=8.0)

    expected = saturation_frames_per_s(
        stations,
        window=32,
        stages=5,
        slot_s=channel.slot_s,
        success_s=channel.rts_s + channel.exchange_s(size_of(PACKET)) + channel.difs_s,
        collision_s=channel.rts_s + channel.difs_s,
    )
    assert len(got) / 8.0 == pytest.approx(expected, rel=0.03)


def test_a_full_queue_takes_no_more_and_says_so() -> None:
    air = Air(2, queue_max=2)
    for _ in range(3):
        air.radio.unicast(0, 1, PACKET)
    air.engine.run()

    assert air.failed == [(0, 1)]
    assert air.radio.dropped == 1
    assert len(air.heard) == 2


def test_the_bytes_counted_are_those_of_the_codec() -> None:
    air = Air(3, attempts=4)

    air.radio.broadcast(0, MESSAGE)
    air.radio.unicast(0, 2, PACKET)
    air.engine.run()

    assert air.radio.sent == {"election": (1, len(encode(MESSAGE))), "quit": (4, 4 * len(encode(PACKET)))}


def test_a_node_waits_while_it_hears_another() -> None:
    air = Air(2)
    airtime = air.channel.broadcast_s(size_of(MESSAGE))

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(airtime / 2, air.radio.broadcast, 1, MESSAGE)
    air.engine.run()

    whole_s = air.channel.difs_s + airtime
    assert [heard[1:] for heard in air.heard] == [(1, 0), (0, 1)]
    assert [heard[0] for heard in air.heard] == pytest.approx([whole_s, 2 * whole_s])


def test_two_that_begin_in_the_same_slot_collide() -> None:
    air = Air(2)

    air.radio.broadcast(0, MESSAGE)
    air.radio.broadcast(1, MESSAGE)
    air.engine.run()

    assert air.heard == [], "who sends hears nothing"


def test_a_carrier_is_sensed_farther_than_a_frame_is_understood() -> None:
    """With wide carrier sense the two that spoil each other below wait for one another."""
    air = Air(3, sense=2.2)

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(air.channel.broadcast_s(size_of(MESSAGE)) / 2, air.radio.broadcast, 2, MESSAGE)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 0), (1, 2)]


def test_two_senders_that_do_not_hear_each_other_spoil_both_broadcasts_between_them() -> None:
    air = Air(3)

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(air.channel.broadcast_s(size_of(MESSAGE)) / 2, air.radio.broadcast, 2, MESSAGE)
    air.engine.run()

    assert air.heard == []


def test_senders_out_of_each_others_reach_send_at_the_same_time() -> None:
    air = Air(6)

    air.radio.broadcast(0, MESSAGE)
    air.radio.broadcast(5, MESSAGE)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 0), (4, 5)]
    assert air.heard[0][0] == air.heard[1][0]


def test_unicasts_to_one_node_reserve_the_medium_around_it() -> None:
    air = Air(3)

    air.radio.unicast(0, 1, PACKET)
    air.engine.at(air.channel.difs_s + air.channel.rts_s + 1e-4, air.radio.unicast, 2, 1, PACKET)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 0), (1, 2)]
    assert air.radio.sent["quit"][0] == 2


def test_an_rts_that_is_not_answered_is_sent_again() -> None:
    """The neighbor hears another node, which the sender does not: the RTS is spoilt, with what it overlaps."""
    air = Air(3)

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(air.channel.broadcast_s(size_of(MESSAGE)) / 2, air.radio.unicast, 2, 1, PACKET)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 2)]
    assert air.radio.sent["quit"][0] >= 2


def test_a_unicast_out_of_reach_fails_after_its_attempts() -> None:
    air = Air(3, attempts=4)

    air.radio.unicast(0, 2, PACKET)
    air.engine.run()

    assert air.failed == [(0, 2)]
    assert air.radio.sent["quit"][0] == 4
    assert air.heard == []


def test_noise_loses_its_share_of_broadcasts_and_unicasts_try_again() -> None:
    air = Air(2, loss=0.5)
    for number in range(400):
        air.engine.at(number * 0.1, air.radio.broadcast, 0, MESSAGE)
    air.engine.run()
    assert 160 <= len(air.heard) <= 240

    before = len(air.heard)
    begin = air.engine.now
    for number in range(100):
        air.engine.at(begin + 0.1 * number, air.radio.unicast, 0, 1, PACKET)
    air.engine.run()
    assert len(air.heard) - before + len(air.failed) == 100
    assert len(air.failed) <= 5


def test_an_impossible_channel_is_refused() -> None:
    with pytest.raises(ConfigError, match="loss"):
        Channel(loss=1.0)
