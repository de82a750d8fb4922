"""SUBSCRIBE and UNSUBSCRIBE: options, content filters, shared groups, limits, answers."""

from dataclasses import replace

import pytest

from roamq.core.events import ClientId
from roamq.core.filters import Filter
from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    Connect,
    Disconnect,
    Properties,
    ReasonCode,
    Suback,
    Subscribe,
    SubscriptionRequest,
    Unsuback,
    Unsubscribe,
    Version,
)
from roamq.net.clients.mqtt.inputs import Closed
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.outbound import DeliveryOutcome
from roamq.net.clients.mqtt.state import Subscription, dump, load
from roamq.net.clients.mqtt.subscribing import Examined
from tests.net.clients.mqtt.peer import NOW, Peer, event


def opened(
    version: Version = Version.V5, limits: Limits | None = None, connect: Properties = NO_PROPERTIES
) -> Peer:
    peer = Peer(version, limits)
    peer.open(Connect(version=version, client_id="c", properties=connect))
    return peer


def examine(peer: Peer, *requests: SubscriptionRequest, properties: Properties = NO_PROPERTIES) -> Examined:
    (packet,) = peer.send(Subscribe(5, requests, properties))
    assert isinstance(packet, Subscribe)
    return peer.connection.examine(packet)


def with_filter(selector: str) -> Properties:
    return Properties(user_properties=(("filter", selector),))


@pytest.mark.parametrize("version", Version)
def test_one_answer_per_filter_in_order(version: Version) -> None:
    """[MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.9.3-1]; in 3.1.1 all failures are 0x80."""
    peer = opened(version)
    examined = examine(
        peer, *(SubscriptionRequest(name, qos) for name, qos in (("a", 2), ("b", 1), ("c", 0)))
    )
    peer.connection.subscribed(examined, [ReasonCode(1), ReasonCode.NOT_AUTHORIZED, ReasonCode(0)])
    failed = ReasonCode.NOT_AUTHORIZED if version is Version.V5 else ReasonCode.UNSPECIFIED_ERROR
    assert peer.received() == [Suback(5, (ReasonCode(1), failed, ReasonCode(0)))]
    assert peer.connection.state.subscriptions == {"a": Subscription("a", 1), "c": Subscription("c", 0)}


def test_options_and_identifier_are_kept_and_travel() -> None:
    peer = opened()
    peer.subscribe(
        "a",
        1,
        Properties(subscription_identifiers=(9,)),
        no_local=True,
        retain_as_published=True,
        retain_handling=2,
    )
    expected = {"a": Subscription("a", 1, True, True, 9)}
    assert peer.connection.state.subscriptions == expected
    assert load(dump(peer.connection.state)).subscriptions == expected


def test_the_same_filter_again_replaces() -> None:
    """[MQTT-3.8.4-3]"""
    peer = opened()
    peer.subscribe("a", 2)
    again = examine(peer, SubscriptionRequest("a", 0), properties=with_filter("x = 1")).wanted[0]
    assert (again.is_new, again.replaced, again.filter) == (False, Filter("a"), Filter("a", "x = 1"))
    same = examine(peer, SubscriptionRequest("a", 0)).wanted[0]
    assert same.replaced is None


@pytest.mark.parametrize(
    ("handling", "existed", "replay"),
    [
        (0, False, True),
        (0, True, True),
        (1, False, True),
        (1, True, False),
        (2, False, False),
        (2, True, False),
    ],
)
def test_retain_handling(handling: int, existed: bool, replay: bool) -> None:
    """[MQTT-3.3.1-9], [MQTT-3.3.1-10], [MQTT-3.3.1-11]"""
    peer = opened()
    if existed:
        peer.subscribe("a")
    wanted = examine(peer, SubscriptionRequest("a", 0, retain_handling=handling)).wanted[0]
    assert wanted.replay is replay


def test_the_same_filter_twice_in_a_packet_is_new_once() -> None:
    """[MQTT-3.8.4-5]: as if they had come one after the other."""
    one = SubscriptionRequest("a", 0, retain_handling=1)
    examined = examine(opened(limits=Limits(subscriptions_max=1)), one, one)
    assert [(wanted.is_new, wanted.replay) for wanted in examined.wanted] == [(True, True), (False, False)]


def test_a_shared_subscription_names_its_group_and_gets_no_replay() -> None:
    peer = opened()
    wanted = examine(peer, SubscriptionRequest("$share/g/a/#", 1)).wanted[0]
    assert (wanted.filter, wanted.replay) == (Filter("a/#", None, "g"), False)
    peer.subscribe("$share/g/a/#", 1)
    assert peer.connection.deliver(event(topic="a/b", qos=2), NOW) is DeliveryOutcome.UNWANTED
    assigned = replace(event(topic="a/b", qos=2), assigned={"$share/g/a/#": peer.connection.state.client_id})
    assert peer.connection.deliver(assigned, NOW) is DeliveryOutcome.IN_FLIGHT
    assert [packet.qos for packet in peer.published()] == [1]


def test_an_event_counts_for_the_group_it_was_assigned_in_alone() -> None:
    """No Local hides an own message; a group in which another member got it does not bring it back."""
    peer = opened()
    me = peer.connection.state.client_id
    peer.subscribe("$share/g/a/#", 0)
    peer.subscribe("$share/h/a/#", 2)
    assigned = replace(
        event(topic="a/b", qos=2), assigned={"$share/g/a/#": me, "$share/h/a/#": ClientId("other")}
    )
    assert peer.connection.deliver(assigned, NOW) is DeliveryOutcome.DONE
    assert [packet.qos for packet in peer.published()] == [0]


def test_an_own_subscription_explains_an_event_before_a_shared_one() -> None:
    peer = opened()
    peer.subscribe("$share/g/a", 2, Properties(subscription_identifiers=(1,)))
    peer.subscribe("a", 0, Properties(subscription_identifiers=(2,)))
    peer.connection.deliver(event(topic="a", qos=2), NOW)
    (packet,) = peer.published()
    assert (packet.qos, packet.properties.subscription_identifiers) == (0, (2,))


def test_a_content_filter_decides_on_attributes() -> None:
    peer = opened()
    peer.subscribe("stocks/+", 1, with_filter("price < 1600 AND brand = 'IBM'"))
    cheap, dear = {"price": 1500, "brand": "IBM"}, {"price": 1700, "brand": "IBM"}
    assert peer.connection.deliver(event(1, "stocks/a", attributes=cheap), NOW) is DeliveryOutcome.IN_FLIGHT
    assert peer.connection.deliver(event(2, "stocks/a", attributes=dear), NOW) is DeliveryOutcome.UNWANTED


def test_a_bad_selector_is_answered_with_where_the_mistake_is() -> None:
    peer = opened()
    examined = examine(peer, SubscriptionRequest("a", 0), properties=with_filter("price <"))
    assert examined.wanted == ()
    peer.connection.subscribed(examined, [])
    (suback,) = peer.received()
    assert isinstance(suback, Suback)
    assert suback.reasons == (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,)
    assert "position 7" in (suback.properties.reason_string or "")
    assert peer.connection.state.subscriptions == {}


def test_who_wants_no_explanations_gets_none() -> None:
    """[MQTT-3.1.2-29]"""
    peer = opened(connect=Properties(request_problem_information=False))
    peer.connection.subscribed(examine(peer, SubscriptionRequest("a"), properties=with_filter("price <")), [])
    assert peer.received() == [Suback(5, (ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR,))]


def test_an_explanation_too_long_for_the_client_is_left_out() -> None:
    """[MQTT-3.9.2-1]"""
    peer = opened(connect=Properties(maximum_packet_size=40))
    peer.connection.subscribed(examine(peer, SubscriptionRequest("a")), [ReasonCode.NOT_AUTHORIZED], "x" * 50)
    assert peer.received() == [Suback(5, (ReasonCode.NOT_AUTHORIZED,))]


@pytest.mark.parametrize(
    ("topic_filter", "properties", "limits", "reason"),
    [
        (
            "$share/g/a",
            NO_PROPERTIES,
            Limits(shared_subscription_available=False),
            ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED,
        ),
        (
            "a/#",
            NO_PROPERTIES,
            Limits(wildcard_subscription_available=False),
            ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED,
        ),
        (
            "a",
            Properties(subscription_identifiers=(1,)),
            Limits(subscription_identifier_available=False),
            ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED,
        ),
        ("a", NO_PROPERTIES, Limits(subscriptions_max=0), ReasonCode.QUOTA_EXCEEDED),
    ],
)
def test_what_is_not_offered_is_refused(
    topic_filter: str, properties: Properties, limits: Limits, reason: ReasonCode
) -> None:
    examined = examine(opened(limits=limits), SubscriptionRequest(topic_filter), properties=properties)
    assert (examined.wanted, examined.reasons) == ((), (reason,))


def test_a_full_session_may_still_replace() -> None:
    peer = opened(limits=Limits(subscriptions_max=1))
    peer.subscribe("a")
    examined = examine(peer, SubscriptionRequest("b"), SubscriptionRequest("a"))
    assert examined.reasons == (ReasonCode.QUOTA_EXCEEDED, None)


def test_a_session_places_wildcards_in_so_many_ways_and_no_more() -> None:
    """However deep: a topic is matched by one topic filter of each shape at most, so an event costs little."""
    peer = opened(limits=Limits(wildcard_shapes_max=3))
    first = ("a/+", "b/+", "$share/g/c/+", "+/a", "x/+/#", "b/+/#", "+/+", "plain/topic", "a/+")
    reasons = examine(peer, *(SubscriptionRequest(one, 0) for one in first)).reasons
    full = ReasonCode.QUOTA_EXCEEDED
    assert reasons == (None, None, None, None, None, None, full, None, None)

    for topic_filter in ("a/+", "b/+", "+/a", "x/+/#", "y/1", "y/2"):
        peer.subscribe(topic_filter, 0)
    assert examine(peer, SubscriptionRequest("+/+", 0)).reasons == (full,)
    assert examine(peer, SubscriptionRequest("z/+", 0)).reasons == (None,)
    for topic_filter in ("a/+", "+/a"):
        peer.connection.subscriptions.remove(topic_filter)
    assert examine(peer, SubscriptionRequest("+/+", 0)).reasons == (None,)
    peer.connection.subscriptions.remove("b/+")
    assert examine(peer, SubscriptionRequest("+/+", 0), SubscriptionRequest("#", 0)).reasons == (None, None)


def test_a_lower_maximum_qos_is_granted_not_refused() -> None:
    """[MQTT-3.2.2-10]"""
    wanted = examine(opened(limits=Limits(maximum_qos=1)), SubscriptionRequest("a", 2)).wanted[0]
    assert wanted.subscription.qos == 1


@pytest.mark.parametrize("version", Version)
def test_unsubscribe(version: Version) -> None:
    """[MQTT-3.10.4-1], -4, -5, -6; [MQTT-3.11.3-1]"""
    peer = opened(version)
    peer.subscribe("a/+")
    peer.subscribe("$share/g/b")
    (packet,) = peer.send(Unsubscribe(8, ("a/b", "a/+", "$share/g/b", "a/+")))
    assert isinstance(packet, Unsubscribe)
    assert peer.connection.unsubscribe(packet) == [Filter("a/+"), Filter("b", None, "g")]
    none, gone = ReasonCode.NO_SUBSCRIPTION_EXISTED, ReasonCode.SUCCESS
    assert peer.received() == [Unsuback(8, (none, gone, gone, none) if version is Version.V5 else ())]
    assert peer.connection.state.subscriptions == {}
    assert peer.connection.deliver(event(topic="a/b"), NOW) is DeliveryOutcome.UNWANTED


def test_subscribe_and_unsubscribe_in_one_read_stay_in_order() -> None:
    peer = opened()
    first, second = peer.send(Subscribe(1, (SubscriptionRequest("a"),)), Unsubscribe(2, ("a",)))
    assert isinstance(first, Subscribe)
    assert isinstance(second, Unsubscribe)
    peer.connection.subscribed(peer.connection.examine(first), [ReasonCode(0)])
    assert peer.connection.unsubscribe(second) == [Filter("a")]
    assert peer.connection.state.subscriptions == {}


@pytest.mark.parametrize("topic_filter", ["\u00e9" * 32_750 + "#", "'" * 65_500 + "#"])
def test_a_mistake_in_a_very_long_filter_still_fits_its_answer(topic_filter: str) -> None:
    """What we quote from the client must not make a string longer than MQTT can carry."""
    peer = opened()
    (closed,) = peer.send(Subscribe(5, (SubscriptionRequest(topic_filter),)))
    assert isinstance(closed, Closed)
    (disconnect,) = peer.received()
    assert isinstance(disconnect, Disconnect)
    assert disconnect.reason is ReasonCode.TOPIC_FILTER_INVALID


def test_a_mistake_in_a_very_long_selector_still_fits_its_answer() -> None:
    peer = opened()
    examined = examine(peer, SubscriptionRequest("a"), properties=with_filter("price < " + "'" * 65_501))
    peer.connection.subscribed(examined, [])
    (suback,) = peer.received()
    assert isinstance(suback, Suback)
    assert "longer than 8192" in (suback.properties.reason_string or "")
