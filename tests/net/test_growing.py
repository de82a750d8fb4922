"""Rides through a network whose brokers come and go (`growing.py`): all comes, once and in order."""

import pytest

from roamq.core.events import BrokerId, ClientId
from roamq.net.machine import Machine
from tests.net.at_once import SlowFleet
from tests.net.growing import SCHEMES, GrowingFleet, Ride
from tests.support.few import few


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few(range(4)))
def test_nothing_is_lost_while_brokers_join_and_leave(seed: int, scheme: str, overlay: str) -> None:
    Ride(seed, scheme, faults=False, overlay=overlay).check()


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", few([0, 1, 2, 7, 8, 1026]))
def test_nothing_is_lost_while_links_are_cut_and_brokers_fall_or_begin_anew_as_well(
    seed: int, scheme: str, overlay: str
) -> None:
    Ride(seed, scheme, faults=True, overlay=overlay).check()


FOUND = [
    (
        5005,
        "standard",
        "interest",
    ),  # a broker that had left, and was started again, admitted one that joined at it
    (
        5007,
        "proactive",
        "interest",
    ),  # a broker that began anew was told that a client had been there, which had gone on
]


@pytest.mark.parametrize(("seed", "scheme", "overlay"), FOUND)
def test_rides_that_went_wrong_once(seed: int, scheme: str, overlay: str) -> None:
    Ride(seed, scheme, faults=True, overlay=overlay).check()


def test_a_broker_that_has_left_admits_nobody() -> None:
    fleet = GrowingFleet(1, "standard", 3, ring=False, handoff_timeout_s=1000.0)
    fleet.settle()
    gone = fleet.machines[BrokerId("b3")]
    fleet.leave("b3")
    fleet.settle()
    assert gone.membership.has_left
    with pytest.raises(ValueError, match="'b3' has left the network itself: ask another broker"):
        gone.membership.joining("e", ("b1",))


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_broker_that_begins_anew_does_not_take_old_news_of_itself_for_true(
    scheme: str, overlay: str
) -> None:
    """The client was at b2 and went to b1, of which b3 has not heard. b2 begins anew, and b3 tells it what it knows."""
    fleet = OldNews(1, scheme, 3, ring=False, overlay=overlay, handoff_timeout_s=1000.0)
    client = fleet.client("mover")
    client.connect("b2")
    client.subscribe("t/#", 2)
    fleet.settle()
    fleet.is_slow = True
    client.connect("b1")
    fleet.settle()
    made = fleet.machines[BrokerId("b2")].made_of
    fleet._end(BrokerId("b2"))
    fleet.machines[BrokerId("b2")] = Machine(made, fleet.now)
    fleet.hears_b3_alone = True
    fleet.settle()
    last = fleet.machines[BrokerId("b2")].directory.last_epoch(ClientId("mover"))
    assert last is not None and last.broker == "b2", "old news"
    client.connect("b2")
    fleet.is_slow = fleet.hears_b3_alone = False
    fleet.settle()
    assert all(client.present[1:])
    client.publish("t/x", b"one", 2)
    fleet.settle()
    assert client.payloads() == [b"one"]


class OldNews(GrowingFleet):
    """Frames from b1 to b3 take as long as the test likes, and those from b1 to b2."""

    is_slow = hears_b3_alone = False

    def is_open(self, source: BrokerId, target: BrokerId) -> bool:
        is_late = (self.is_slow and (source, target) == ("b1", "b3")) or (
            self.hears_b3_alone and (source, target) == ("b1", "b2")
        )
        return super().is_open(source, target) and not is_late


def test_a_broker_leaves_when_others_have_the_sessions_that_it_was_told_to_adopt_meanwhile() -> None:
    """b3 leaves; b1, which has not heard of it, is drained and tells it to adopt a session. b2 is to have it then, and
    hears from b1 that b3 has left before all of the session has come."""
    fleet = SlowFleet(1, "standard", 3, ring=False)
    away, publisher = fleet.client("x1"), fleet.client("publisher")
    away.connect("b1")
    away.subscribe("t/#", 1)
    fleet.settle()
    away.vanish()
    publisher.connect("b2")
    publisher.publish("t/x", b"1", 1)
    fleet.settle()
    b1, b2, b3 = (fleet.machines[BrokerId(f"b{number}")] for number in (1, 2, 3))

    fleet.set_slow(("b3", "b1"))
    fleet.leave("b3")
    fleet.run(lambda: b3.membership.unheard == {"b1"})
    b1.drain(fleet.now)
    fleet.run(lambda: ClientId("x1") in b3.broker.contexts)
    fleet.slow.clear()
    arriving = b2.broker.scheme.handover.whereabouts.arriving  # type: ignore[attr-defined]
    fleet.run(lambda: any(one.released for one in arriving.values()))
    fleet.set_slow(("b3", "b2"))
    fleet.run(lambda: not b3.broker.scheme.on_the_way())
    for _ in range(2_000):
        fleet.step()
    fleet.slow.clear()
    fleet.settle()
    assert "b3" not in fleet.machines
    away.connect("b2")
    fleet.settle()

    assert away.payloads() == [b"1"]
    assert away.present == [False, True]


def test_a_broker_that_has_left_takes_nothing_in_that_it_could_not_answer() -> None:
    """b1 asks b3 for a session before it hears that b3 has left; the answer would be behind b3's last word."""
    fleet = SlowFleet(1, "standard", 3, ring=False)
    fleet.settle()
    client, (b1, b3) = fleet.client("c"), map(BrokerId, ("b1", "b3"))
    leaving = fleet.machines[b3]
    fleet.leave("b3")
    fleet.run(lambda: leaving.membership.has_left)

    fleet.set_slow(("b3", "b1"), ("b2", "b1"))
    client.connect("b1", previous="b3")
    fleet.run(lambda: ClientId("c") in fleet.machines[b1].broker.contexts and not fleet.links[b1, b3])
    fleet.slow.clear()
    fleet.settle()

    assert client.device.is_open and b3 not in fleet.machines


@pytest.mark.parametrize("overlay", ["interest", "flooding"])
def test_a_broker_that_joins_at_one_that_begins_anew_is_told_by_one_that_knows(overlay: str) -> None:
    """b2 begins anew, and has heard of nobody's session when it tells e what it knows."""
    fleet = SlowFleet(1, "standard", 3, ring=False, overlay=overlay)
    client, publisher = fleet.client("c"), fleet.client("publisher")
    client.connect("b3")
    client.subscribe("t/#", 1)
    fleet.settle()
    fleet.leave("b2", "empty")
    fleet.step()
    assert not fleet.going, "it had no sessions"
    fleet.set_slow(("b1", "b2"), ("b3", "b2"))
    fleet.join("e", "b2")
    e = fleet.machines[BrokerId("e")]
    for _ in range(200):
        fleet.step()
    assert "e" not in fleet.serving and e.admission.is_stranger
    fleet.slow.clear()
    fleet.run(lambda: "e" in fleet.serving)
    client.connect("e")
    publisher.connect("b1")
    publisher.publish("t/x", b"1", 1)
    fleet.settle()

    assert client.present == [False, True] and client.payloads() == [b"1"]


def test_a_broker_that_joins_while_nobody_knows_more_is_not_kept_out() -> None:
    """b2 begins anew, and those that know more do not answer."""
    fleet = SlowFleet(1, "standard", 3, ring=False)
    fleet.settle()
    fleet.leave("b2", "empty")
    fleet.step()
    assert not fleet.going, "it had no sessions"
    fleet.set_slow(("b1", "b2"), ("b3", "b2"))
    fleet.join("e", "b2")
    client = fleet.client("c")
    fleet.run(lambda: "e" in fleet.serving)
    client.connect("e")
    fleet.run(lambda: client.device.is_open)
