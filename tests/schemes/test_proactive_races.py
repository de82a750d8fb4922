"""The race stories of [PRO] section 4.1, each played in exactly the order in which the paper tells it.

S is the client; a is the paper's Bj, b is Bk, and c is Bi, a neighbor that both know.
"""

from typing import cast

from roamq.core.context import Context, Mode
from roamq.core.events import BrokerId
from roamq.schemes.proactive import ProActive
from tests.schemes.interleavings.explore import run_on
from tests.schemes.interleavings.world import CLIENT, World

A, B, C = BrokerId("a"), BrokerId("b"), BrokerId("c")
TRIANGLE = [("a", "b"), ("b", "c"), ("a", "c")]


def scheme(world: World, broker: BrokerId) -> ProActive:
    return cast("ProActive", world.brokers[broker].scheme)


def copy_at(world: World, broker: BrokerId) -> Context | None:
    return scheme(world, broker).copies.get(CLIENT)


def moved_to_b(world: World) -> None:
    """S was at a, whose neighbors are active, and is at b now; a does not know yet."""
    world.tell("go a")
    world.settle()
    world.tell("vanish")
    world.settle()
    world.tell("go b")


def ends_well(world: World, broker: str) -> None:
    """S arrives, an event is published, and everything is in order."""
    world.tell(f"go {broker}")
    world.publish(A)
    run_on(world)
    assert world.broken_now() is None
    assert world.broken_at_rest() is None


def test_deactivate_and_activate() -> None:
    """ "It is possible that the Sub(S) are activated to support the movement of S from Bk and then deactivated
    based on the request issued by Bj. [...] Bj would not be allowed to deactivate the Sub(S) since Bk gained
    control of the Sub(S) just after performing the activate request."
    """
    world = World("proactive", (), known=TRIANGLE)
    moved_to_b(world)
    world.settle("ba")  # a hears of it, and issues its deactivate request to c
    world.tell("vanish")  # at the same time S disconnects from b, which issues its activate request
    world.settle("bc")  # c performs the activate request first ...
    world.settle("ac")  # ... and then gets the deactivate request

    copy = copy_at(world, C)
    assert copy is not None
    assert copy.mode is Mode.ACTIVE
    assert copy.epoch.broker == B, "b has control"
    ends_well(world, "c")


def test_deactivate_before_activate() -> None:
    """The other order: the deactivate request is performed, and then the activate request."""
    world = World("proactive", (), known=TRIANGLE)
    moved_to_b(world)
    world.settle("ba")
    world.tell("vanish")
    world.settle("ac")
    passive = copy_at(world, C)
    assert passive is not None
    assert passive.mode is Mode.PASSIVE

    world.settle("bc")

    copy = copy_at(world, C)
    assert copy is not None
    assert (copy.mode, copy.epoch.broker) == (Mode.ACTIVE, B)
    ends_well(world, "c")


def handed_off_to_a_broker_that_meets_c_later() -> World:
    """a must delete the copy at c, which is no neighbor of b; and just then it becomes one."""
    world = World("proactive", (), known=[("a", "b"), ("a", "c")])
    moved_to_b(world)
    world.settle("ba")  # a issues its delete request to c
    scheme(world, B).neighborhood.learn(
        C
    )  # "one or more of those brokers become Bk's neighbors just after notifying Bj"
    return world


def test_delete_and_activate() -> None:
    """ "When the activate request is performed, broker Bk gains control over the Sub(S) and thus the delete
    request is ignored."
    """
    world = handed_off_to_a_broker_that_meets_c_later()
    world.tell("vanish")
    world.settle("bc")  # the activate request first ...
    world.settle("ac")  # ... and then the delete request

    copy = copy_at(world, C)
    assert copy is not None
    assert (copy.mode, copy.epoch.broker) == (Mode.ACTIVE, B)
    ends_well(world, "c")


def test_an_activate_request_that_finds_nothing_asks_for_the_context() -> None:
    """ "In case the activate request could not find the Sub(S), Bk will be notified and asked to deliver
    Context(S) prior to S arrival."
    """
    world = handed_off_to_a_broker_that_meets_c_later()
    world.settle("ac")
    assert copy_at(world, C) is None

    world.tell("vanish")
    world.settle()

    copy = copy_at(world, C)
    assert copy is not None
    assert copy.mode is Mode.ACTIVE
    assert copy.local_queue is None, "whole before S arrives"
    ends_well(world, "c")


def test_unsubscribe_and_deactivate() -> None:
    """ "The delete operation here has a special privilege to remove subscriptions without examining the control
    attribute of the subscriptions since the subscriber is leaving for good."
    """
    world = World("proactive", (), known=TRIANGLE)
    moved_to_b(world)
    world.settle("ba", "ab")  # "just after the old broker Bj has been informed, S may decide to unsubscribe"
    world.tell("leave")
    world.settle("bc")  # the delete request comes while a still has control over the active copy at c
    assert copy_at(world, C) is None

    world.settle()

    assert world.broken_at_rest() is None
    assert [copy_at(world, broker) for broker in (A, B, C)] == [None, None, None]


def test_time_out_and_activate() -> None:
    """ "If S disconnects from Bk and at the same time Bj reaches its timeout interval, we again have conflicting
    concurrent requests (activate and delete) [...] the delete request here does not have special privilege".
    """
    world = World("proactive", (), known=TRIANGLE, options={"timeout_s": 60.0})
    moved_to_b(world)  # "Bj for some reasons has not been informed"
    world.tell("vanish", "timeout a")
    world.settle("bc")
    world.settle("ac")

    copy = copy_at(world, C)
    assert copy is not None
    assert (copy.mode, copy.epoch.broker) == (Mode.ACTIVE, B)
    ends_well(world, "c")


# --- what the paper's rule does not settle (docs/decisions/0040 to 0042) -----------------------------------------


def test_the_broker_id_alone_does_not_tell_an_old_copy() -> None:
    """Counter-example to "If Context(S) is found in the local buffer of Bj": S came back to a, read, and left again.

    c still holds the copy that a activated the first time, and the broker id on it is right. Serving it would
    repeat what S has read at a. The epoch that S shows is not that of the copy.
    """
    world = World("proactive", (), known=TRIANGLE)
    world.tell("go a")
    world.settle()
    world.tell("vanish")
    world.publish(A)
    world.settle()  # the copy at c is active and holds the event
    world.tell("go a")
    world.step("read")  # S reads it at a; the deactivate request is under way
    world.tell("vanish", "go c")
    assert scheme(world, C).whereabouts.incomplete, "c does not serve the old copy, it asks for the context"

    run_on(world)

    assert world.read == world.owed
    assert world.broken_at_rest() is None


def test_a_client_that_shows_no_epoch_is_served_after_one_question() -> None:
    """The same, with a client that cannot show its epoch: c asks a before it delivers anything."""
    world = World("proactive", (), known=TRIANGLE, shows_epoch=False)
    world.tell("go a")
    world.settle()
    world.tell("vanish")
    world.publish(A)
    world.settle()
    world.tell("go a")
    world.step("read")
    world.tell("vanish", "go c")
    assert not world.inbox

    run_on(world)

    assert world.read == world.owed
    assert world.broken_at_rest() is None


def test_a_copy_that_may_still_be_on_its_way_is_deleted_by_who_sent_it() -> None:
    """Counter-example to leaving copies to the next broker: its delete request may overtake the copy itself.

    a sends a passive copy to c over a slow link; S moves to b, which is left with c, and on; b's delete request
    arrives at c before a's copy, which would then stay for ever. a leaves to b only what c has acknowledged.
    """
    world = World("proactive", (), known=TRIANGLE)
    world.tell("go a")  # the copies for b and c are under way
    world.settle("ab", "ba", "bc", "cb")
    world.tell("go b")
    world.settle("ab", "ba", "bc", "cb")
    world.tell("leave")
    world.settle("ab", "ba", "bc", "cb")

    world.settle()  # now what a sent to c arrives

    assert world.broken_at_rest() is None
