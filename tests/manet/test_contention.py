"""The channel: airtime, a busy medium, hidden terminals, acknowledged unicasts."""

from random import Random

import numpy as np
import pytest

from roamq.core.errors import ConfigError
from roamq.manet.contention import Channel, ContendedRadio
from roamq.manet.field import Field
from roamq.manet.messages import Candidates, Message, NodeId, Packet, Quit
from roamq.manet.waypoint import Standing
from roamq.sim.engine import Engine

MESSAGE = Candidates(())
PACKET = Packet(1, Quit(0, 1), (0,), (), 100.0, 8)


class Air:
    """Nodes on a line, 100 m apart, with a range of 120 m: each hears its direct neighbors."""

    def __init__(self, nodes: int, **channel: float) -> None:
        self.engine = Engine()
        positions = np.column_stack([np.arange(nodes) * 100.0, np.zeros(nodes)])
        self.field = Field(Standing(positions), range_m=120.0, delay_s_per_m=0.0)
        self.heard: list[tuple[float, NodeId, NodeId]] = []
        self.failed: list[tuple[NodeId, NodeId]] = []
        self.channel = Channel(window_slots=1, **channel)  # type: ignore[arg-type]
        self.radio = ContendedRadio(
            self.engine, self.field, self._receive, self._fail, self.channel, Random(1)
        )

    def _receive(self, receiver: NodeId, sender: NodeId, message: Message) -> None:
        self.heard.append((self.engine.now, receiver, sender))

    def _fail(self, sender: NodeId, to: NodeId, packet: Packet) -> None:
        self.failed.append((sender, to))


def test_a_transmission_takes_its_airtime() -> None:
    air = Air(2, bits_per_s=1000.0, overhead_s=0.5)

    air.radio.broadcast(0, MESSAGE)
    air.engine.run()

    assert air.heard == [(0.5 + MESSAGE.size_bytes * 8 / 1000.0, 1, 0)]


def test_a_node_waits_while_it_hears_another() -> None:
    air = Air(2)
    airtime = air.channel.airtime_s(MESSAGE)

    air.radio.broadcast(0, MESSAGE)
    air.radio.broadcast(1, MESSAGE)
    air.engine.run()

    assert air.heard == [(airtime, 1, 0), (2 * airtime, 0, 1)]


def test_two_senders_that_do_not_hear_each_other_spoil_both_broadcasts_between_them() -> None:
    air = Air(3)

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(air.channel.airtime_s(MESSAGE) / 2, air.radio.broadcast, 2, MESSAGE)
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
    air.radio.unicast(2, 1, PACKET)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 0), (1, 2)]
    assert air.radio.sent["quit"][0] == 2


def test_a_unicast_waits_for_a_neighbor_that_hears_another() -> None:
    """The neighbor would not answer an RTS; without waiting the two would spoil each other at it."""
    air = Air(3)

    air.radio.broadcast(0, MESSAGE)
    air.engine.at(air.channel.airtime_s(MESSAGE) / 2, air.radio.unicast, 2, 1, PACKET)
    air.engine.run()

    assert [(receiver, sender) for _, receiver, sender in air.heard] == [(1, 0), (1, 2)]
    assert air.radio.sent["quit"][0] == 1


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
    for _ in range(100):
        air.radio.unicast(0, 1, PACKET)
    air.engine.run()
    assert len(air.heard) - before + len(air.failed) == 100
    assert len(air.failed) <= 5


def test_an_impossible_channel_is_refused() -> None:
    with pytest.raises(ConfigError, match="loss"):
        Channel(loss=1.0)
