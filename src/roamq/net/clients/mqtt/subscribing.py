"""The reading of a SUBSCRIBE, filter by filter, and the SUBACK that answers it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter
from roamq.core.selectors import parse_selector
from roamq.net.clients.mqtt.answers import explanation
from roamq.net.clients.mqtt.codec import (
    NO_PROPERTIES,
    ReasonCode,
    Suback,
    Subscribe,
    SubscriptionRequest,
)
from roamq.net.clients.mqtt.codec.reason_codes import FAILED
from roamq.net.clients.mqtt.codec.topics import SHARE_PREFIX, has_wildcard
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.state import Subscription
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet, asked_for

FILTER_PROPERTY: Final = "filter"
"""The user property of SUBSCRIBE that holds a selector."""
_QUOTA_EXCEEDED: Final = ReasonCode.QUOTA_EXCEEDED


class Subscribing(msgspec.Struct, frozen=True, gc=False):
    """One topic filter of a SUBSCRIBE, well-formed and supported; the rules may still forbid it."""

    subscription: Subscription
    filter: Filter
    is_new: bool
    """Whether no subscription with this topic filter existed."""
    replay: bool
    """Whether to send the retained messages that match ([MQTT-3.3.1-9] to -11)."""
    replaced: Filter | None
    """The filter that the same topic filter asked for before, if its selector was another."""
    cost_bytes: int
    """Bytes of memory that the subscription takes."""


class Examined(msgspec.Struct, frozen=True, gc=False):
    """A SUBSCRIBE that the protocol has examined; `subscribed` takes it with one reason per `wanted`."""

    packet_id: int
    wanted: tuple[Subscribing, ...]
    reasons: tuple[ReasonCode | None, ...]
    """One per topic filter of the packet: the reason why it is refused already, or None for the next of `wanted`."""
    reason_string: str | None = None


def examine(packet: Subscribe, subscriptions: SubscriptionSet, limits: Limits) -> Examined:
    """The part of a SUBSCRIBE that the protocol allows; the machine decides on the rest."""
    wanted: list[Subscribing] = []
    reasons: list[ReasonCode | None] = []
    new: dict[str, Filter] = {}  # in this packet, and not held before
    shapes: set[str] | None = None  # likewise; counted only if there may be too many
    selector, identifier, told = None, 0, None
    if packet.properties is not NO_PROPERTIES:
        selector = packet.properties.user_property(FILTER_PROPERTY)
        unreadable, told = _check_selector(selector, limits)
        if unreadable is not None:
            return Examined(packet.packet_id, (), (unreadable,) * len(packet.requests), told)
        if packet.properties.subscription_identifiers:
            identifier = packet.properties.subscription_identifiers[0]
    filters, count = subscriptions.filters, len(subscriptions)
    costs, selector_bytes = subscriptions.cost_bytes, subscriptions.selector_bytes
    qos_max, shapes_max = limits.maximum_qos, limits.wildcard_shapes_max
    for request in packet.requests:
        try:
            topic_filter, qos = request.topic_filter, request.qos
            refusal = _unsupported(packet, topic_filter, limits)
            subscription = Subscription(
                topic_filter,
                qos if qos <= qos_max else qos_max,  # [MQTT-3.2.2-10]
                request.no_local,
                request.retain_as_published,
                identifier,
                selector,
            )
            if selector:
                selector_bytes += len(selector)
                if selector_bytes > limits.selectors_bytes_max:
                    refusal = refusal or _QUOTA_EXCEEDED
            held = filters.get(topic_filter)
            before = new.get(topic_filter) if held is None else held
            cost_bytes = subscription.cost_bytes
            costs += cost_bytes
            if before is None:
                if count + len(new) >= limits.subscriptions_max or costs > limits.subscriptions_bytes_max:
                    refusal = refusal or _QUOTA_EXCEEDED
                if topic_filter.startswith(SHARE_PREFIX):
                    begun = sum(other.startswith(SHARE_PREFIX) for other in new)
                    if subscriptions.shared + begun >= limits.shared_subscriptions_max:
                        refusal = refusal or _QUOTA_EXCEEDED
            if refusal is None:
                subscribing = _subscribing(request, subscription, before, cost_bytes, limits)
                if count + len(wanted) >= shapes_max and subscribing.filter.shape:
                    if shapes is None:
                        shapes = {shape for one in wanted if (shape := one.filter.shape)}
                        shapes = {shape for shape in shapes if not subscriptions.has_shape(shape)}
                    if not _has_room_for_shape(subscribing.filter.shape, subscriptions, shapes, shapes_max):
                        refusal = _QUOTA_EXCEEDED
            if refusal is None:
                wanted.append(subscribing)
                if held is None:
                    new[topic_filter] = subscribing.filter
        except SelectorError as error:
            refusal, told = ReasonCode.TOPIC_FILTER_INVALID, str(error)
        reasons.append(refusal)
    return Examined(packet.packet_id, tuple(wanted), tuple(reasons), told)


def _has_room_for_shape(shape: str, subscriptions: SubscriptionSet, begun: set[str], most: int) -> bool:
    """Whether wildcards may be placed in this way. `begun`: other ways that the same packet has begun; a new one is
    added."""
    if subscriptions.has_shape(shape) or shape in begun:
        return True
    if subscriptions.shapes + len(begun) >= most:
        return False
    begun.add(shape)
    return True


def _check_selector(selector: str | None, limits: Limits) -> tuple[ReasonCode | None, str | None]:
    """The reason why the selector of a SUBSCRIBE cannot be used, for all its topic filters; None if it can be.

    The SUBSCRIBE is valid, but the broker cannot do what it asks: the text says where the mistake is.
    """
    if not selector or not selector.strip():
        return None, None
    if len(selector) > limits.selector_bytes_max:
        reason = f"a selector is longer than {limits.selector_bytes_max} characters"
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, reason
    try:
        parse_selector(selector)
    except SelectorError as error:
        return ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR, str(error)
    return None, None


def _unsupported(packet: Subscribe, topic_filter: str, limits: Limits) -> ReasonCode | None:
    """The reason why CONNACK, or the limit of levels, rules a topic filter out (sections 3.2.2.3.11 to 3.2.2.3.13)."""
    levels_max = limits.topic_levels_max
    if len(topic_filter) >= levels_max and topic_filter.count("/") >= levels_max:
        return ReasonCode.TOPIC_FILTER_INVALID
    if not limits.shared_subscription_available and topic_filter.startswith(SHARE_PREFIX):
        return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if not limits.wildcard_subscription_available and has_wildcard(topic_filter):
        return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    if not limits.subscription_identifier_available and packet.properties.subscription_identifiers:
        return ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
    return None


def _subscribing(
    request: SubscriptionRequest,
    subscription: Subscription,
    before: Filter | None,
    cost_bytes: int,
    limits: Limits,
) -> Subscribing:
    """`before`: the filter that the topic filter asks for already, by an earlier packet or earlier in this one."""
    filter_ = asked_for(subscription.topic_filter, subscription.selector)
    # [MQTT-3.3.1-9] always, [MQTT-3.3.1-10] if it is new, [MQTT-3.3.1-11] never; a shared one never (4.8.2).
    handling, is_new = request.retain_handling, before is None
    replay = (
        limits.retain_available and filter_.group is None and (not handling or (handling == 1 and is_new))
    )
    replaced = before if not is_new and before != filter_ else None
    return Subscribing(subscription, filter_, is_new, replay, replaced, cost_bytes)


def grant(
    examined: Examined, reasons: Sequence[ReasonCode], reason_string: str, subscriptions: SubscriptionSet
) -> Suback:
    """Keep the granted subscriptions, and answer: one packet, a reason per filter, in order.

    ([MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.8.4-7], [MQTT-3.9.3-1])
    """
    assert len(reasons) == len(examined.wanted)
    for subscribing, reason in zip(examined.wanted, reasons):  # noqa: B905 - the keyword would take longer than the rest
        if reason < FAILED:
            granted, cost_bytes = subscribing.subscription, subscribing.cost_bytes
            if granted.qos != reason:
                granted = msgspec.structs.replace(granted, qos=int(reason))
            subscriptions.add(granted, subscribing.filter, cost_bytes)
    answers = tuple(reasons)
    if len(answers) < len(examined.reasons):
        decided = iter(reasons)
        answers = tuple(next(decided) if reason is None else reason for reason in examined.reasons)
    told = examined.reason_string or reason_string
    return Suback(examined.packet_id, answers, explanation(told) if told else NO_PROPERTIES)
