"""A session has an owner: whoever knows the client id of another user's session gets nothing by it."""

import pytest

from roamq.core.events import BrokerId
from roamq.net.clients.mqtt.codec import Disconnect, ReasonCode
from roamq.net.ops.settings import AccessRules
from tests.net.fleet import Fleet, FleetClient

SCHEMES = ["standard", "proactive", "prefetching", "logging", "home-broker", "prehandoff"]


def anns_session(fleet: Fleet, *, at: str = "b1") -> FleetClient:
    """Ann has subscribed to a secret, and is away."""
    ann = fleet.client("phone", user="ann")
    ann.connect(at)
    ann.subscribe("secret/#", 2)
    fleet.settle()
    return ann


def thief(fleet: Fleet, user: str | None = "bob") -> FleetClient:
    client = fleet.client("phone", user=user)
    client.may_be_refused = True
    return client


def tell(fleet: Fleet, payload: bytes, at: str = "b3") -> None:
    publisher = fleet.client(f"publisher of {payload!r}", user="ann")
    publisher.connect(at)
    publisher.publish("secret/plan", payload, 2)
    fleet.settle()


def was_refused(client: FleetClient) -> bool:
    refused = client.device.refused
    return refused is not None and refused.reason is ReasonCode.NOT_AUTHORIZED


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("user", ["bob", None])
@pytest.mark.parametrize("away", [False, True])
def test_another_user_gets_nothing_at_any_broker(
    scheme: str, clean: bool, user: str | None, away: bool
) -> None:
    fleet = Fleet(1, scheme)
    ann = anns_session(fleet)
    if away:
        ann.vanish()
        fleet.settle()

    for broker in ("b1", "b2", "b3"):
        bob = thief(fleet, user)
        bob.connect(broker, clean=clean)
        fleet.settle()
        assert was_refused(bob), broker
        assert bob.received == []
        bob.vanish()
    tell(fleet, b"attack at dawn")
    if away:
        ann.connect("b2")
        fleet.settle()

    assert ann.payloads() == [b"attack at dawn"]
    assert ann.device.closed_because is None, "nobody has cut her connection"
    assert ann.present[1:] == ([True] if away else [])
    refused = [record for record in fleet.records if record.kind == "refused"]
    assert [(record.broker, record.detail) for record in refused] == [
        (broker, "session_owner") for broker in ("b1", "b2", "b3")
    ]
    assert len(fleet.notices) == 3 and "phone" in fleet.notices[0]


def test_a_session_without_a_user_is_nobody_elses_either() -> None:
    fleet = Fleet(2, "proactive")
    nameless = fleet.client("sensor")
    nameless.connect("b1")
    nameless.subscribe("secret/#", 1)
    fleet.settle()

    mallory = fleet.client("sensor", user="mallory")
    mallory.may_be_refused = True
    mallory.connect("b2")
    fleet.settle()

    assert was_refused(mallory)
    nameless.connect("b3")
    fleet.settle()
    assert nameless.present == [False, True]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("clean", [False, True])
def test_the_owners_broker_is_out_of_reach(scheme: str, clean: bool) -> None:
    """b2 and b3 have heard whose the session is."""
    fleet = Fleet(3, scheme)
    ann = anns_session(fleet)
    ann.vanish()
    fleet.settle()
    tell(fleet, b"stored for ann")
    fleet.cut = {frozenset(map(BrokerId, pair)) for pair in (("b1", "b2"), ("b1", "b3"))}

    bob = thief(fleet)
    bob.connect("b2", clean=clean)
    fleet.settle()
    fleet.cut = set()
    fleet.settle()

    assert was_refused(bob)
    ann.connect("b3")
    fleet.settle()
    assert ann.payloads() == [b"stored for ann"]


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("clean", [False, True])
@pytest.mark.parametrize("previous", ["b1", None])
def test_a_broker_that_has_not_heard_of_the_session_learns_better(
    scheme: str, clean: bool, previous: str | None
) -> None:
    """Cut off before Ann came, b2 takes Bob for the first; when the links are back the session is Ann's alone."""
    fleet = Fleet(4, scheme)
    fleet.cut = {frozenset(map(BrokerId, pair)) for pair in (("b1", "b2"), ("b2", "b3"))}
    ann = anns_session(fleet)
    ann.vanish()
    fleet.settle()
    tell(fleet, b"for ann")

    bob = thief(fleet)
    bob.connect("b2", clean=clean, previous=previous)
    bob.subscribe("public/#", 2)
    for _ in range(2000):
        fleet.step()
    fleet.cut = set()
    fleet.settle()
    bobs = fleet.client("bobs publisher")
    bobs.connect("b2")
    bobs.publish("public/x", b"for bob", 2)
    fleet.settle()
    tell(fleet, b"for ann again")
    ann.connect("b3")
    fleet.settle()

    assert [payload for payload in bob.payloads() if b"ann" in payload] == []
    closed = bob.device.closed_because
    assert was_refused(bob) or (isinstance(closed, Disconnect) and closed.reason is ReasonCode.NOT_AUTHORIZED)
    assert ann.payloads() == [b"for ann", b"for ann again"]
    assert ann.present == [False, True]


@pytest.mark.parametrize("scheme", ["standard", "proactive"])
def test_a_client_id_is_free_again_when_the_session_is_over(scheme: str) -> None:
    """Ann ends her session; the news reaches b3 after the news of Bob's."""
    fleet = Fleet(5, scheme)
    ann = anns_session(fleet)
    fleet.cut = {frozenset(map(BrokerId, ("b1", "b3")))}
    ann.device.lost()
    ann.up.clear()
    ann._say(b"\xe0\x07\x00\x05\x11\x00\x00\x00\x00")  # DISCONNECT with a session expiry of 0
    fleet.settle()

    bob = fleet.client("phone", user="bob")
    bob.connect("b2")
    bob.subscribe("public/#", 1)
    fleet.settle()
    fleet.cut = set()
    fleet.settle()
    bob.connect("b3")
    fleet.settle()

    assert bob.present == [False, True]


@pytest.mark.parametrize("new_user", ["anna", "*"])
def test_an_operator_renames_a_user(new_user: str) -> None:
    renamed = AccessRules(renamed={"ann": new_user})
    fleet = Fleet(6, "proactive", access=renamed)
    ann = anns_session(fleet)
    ann.vanish()
    fleet.settle()
    tell(fleet, b"kept")

    anna = fleet.client("phone", user="anna")
    anna.connect("b2")
    fleet.settle()
    bob = thief(fleet)
    bob.connect("b3")
    fleet.settle()

    assert anna.present == [True]
    assert anna.payloads() == [b"kept"]
    assert was_refused(bob), "from now on the session is anna's"


def rename(fleet: Fleet, *brokers: str) -> None:
    """An operator reloads these brokers with a file in which ann is called anna."""
    for broker in brokers:
        machine = fleet.machines[BrokerId(broker)]
        machine.set_rules(AccessRules(renamed={"ann": "anna"}), fleet.now, gone=["ann"])


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("home", ["b1", "b2"])
@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize("is_back", [False, True])
def test_brokers_hear_of_a_rename_one_after_the_other(
    scheme: str, home: str, is_cut: bool, is_back: bool
) -> None:
    """Anna comes where the new name is known, while the other brokers still take the session for ann's. `is_back`: she
    comes by her old name after that, where it still counts."""
    fleet = Fleet(7, scheme)
    ann = anns_session(fleet, at=home)
    ann.vanish()
    fleet.settle()
    tell(fleet, b"kept")
    rename(fleet, "b1")
    fleet.settle()
    if is_cut:
        fleet.cut = {frozenset(map(BrokerId, ("b1", "b3")))}

    anna = fleet.client("phone", user="anna")
    anna.connect("b1")
    fleet.settle()
    fleet.cut = set()
    fleet.settle()
    assert anna.device.closed_because is None, "nobody has cut her connection"
    assert anna.present == [True]
    assert anna.payloads() == [b"kept"]
    anna.vanish()
    fleet.settle()
    if is_back:
        late = thief(fleet, "ann")
        late.connect("b3")
        fleet.settle()
        late.vanish()
        fleet.settle()
    rename(fleet, "b2", "b3")
    fleet.settle()
    publisher = fleet.client("publisher of later", user="bob")
    publisher.connect("b3")
    publisher.publish("secret/plan", b"later", 2)
    fleet.settle()
    anna.connect("b3")
    fleet.settle()

    assert anna.present == [True, True]
    assert anna.payloads() == [b"kept", b"later"]
    bob = thief(fleet)
    for broker in ("b1", "b2", "b3"):
        bob.connect(broker)
        fleet.settle()
        assert was_refused(bob), broker
        bob.vanish()
