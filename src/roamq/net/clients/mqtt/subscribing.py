"""What a SUBSCRIBE asks for, filter by filter, and the SUBACK that answers it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from roamq.core.errors import SelectorError
from roamq.core.filters import Filter
from roamq.core.selectors import parse_selector
from roamq.net.clients.mqtt.answers import explanation
from roamq.net.clients.mqtt.codec import ReasonCode, Suback, Subscribe, SubscriptionRequest
from roamq.net.clients.mqtt.codec.topics import has_wildcard
from roamq.net.clients.mqtt.limits import Limits
from roamq.net.clients.mqtt.state import Subscription
from roamq.net.clients.mqtt.subscriptions import SubscriptionSet, asked_for

FILTER_PROPERTY: Final = "filter"
"""The user property of SUBSCRIBE that holds a selector."""


class Subscribing(msgspec.Struct, frozen=True):
    """One topic filter of a SUBSCRIBE, well-formed and supported; the client may not be allowed it."""

    subscription: Subscription
    filter: Filter
    is_new: bool
    """No subscription with this topic filter existed."""
    replay: bool
    """Send the retained messages that match ([MQTT-3.3.1-9] to -11)."""
    replaced: Filter | None
    """What the same topic filter stood for before, if its selector was another."""
    cost_bytes: int
    """Of the subscription."""


class Examined(msgspec.Struct, frozen=True):
    """A SUBSCRIBE that the protocol has examined; `subscribed` takes it with one reason per `wanted`."""

    packet_id: int
    wanted: tuple[Subscribing, ...]
    reasons: tuple[ReasonCode | None, ...]
    """One per topic filter of the packet: why it was refused already, or `None` for the next of `wanted`."""
    reason_string: str | None = None


def examine(packet: Subscribe, subscriptions: SubscriptionSet, limits: Limits) -> Examined:
    """What of a SUBSCRIBE can be granted as far as the protocol goes; the machine decides on the rest."""
    wanted: list[Subscribing] = []
    reasons: list[ReasonCode | None] = []
    new: dict[str, Filter] = {}  # wanted by this packet, and not held before
    shapes: set[str] = set()  # likewise
    selector = packet.properties.user_property(FILTER_PROPERTY)
    unreadable, told = _check_selector(selector, limits)
    if unreadable is not None:
        return Examined(packet.packet_id, (), (unreadable,) * len(packet.requests), told)
    selector_bytes, costs = subscriptions.selector_bytes, subscriptions.cost_bytes
    identifiers = packet.properties.subscription_identifiers
    for request in packet.requests:
        try:
            topic_filter = request.topic_filter
            refusal = _unsupported(packet, request, limits)
            subscription = Subscription(
                topic_filter,
                min(request.qos, limits.maximum_qos),  # [MQTT-3.2.2-10]
                request.no_local,
                request.retain_as_published,
                identifiers[0] if identifiers else 0,
                selector,
            )
            if selector:
                selector_bytes += len(selector)
                if selector_bytes > limits.selectors_bytes_max:
                    refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            held = subscriptions.filter_of(topic_filter)
            is_more = held is None and topic_filter not in new
            cost_bytes = subscription.cost_bytes
            costs += cost_bytes
            if is_more:
                if len(subscriptions) + len(new) >= limits.subscriptions_max:
                    refusal = refusal or ReasonCode.QUOTA_EXCEEDED
                if costs > limits.subscriptions_bytes_max:
                    refusal = refusal or ReasonCode.QUOTA_EXCEEDED
                if topic_filter.startswith("$share/"):
                    begun = sum(other.startswith("$share/") for other in new)
                    if subscriptions.shared + begun >= limits.shared_subscriptions_max:
                        refusal = refusal or ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                before = new.get(topic_filter) or held
                subscribing = _subscribing(request, subscription, before, cost_bytes, limits)
                shape = subscribing.filter.shape
                if shape and not subscriptions.has_shape(shape):
                    shapes.add(shape)
                    if subscriptions.shapes + len(shapes) > limits.wildcard_shapes_max:
                        shapes.discard(shape)
                        refusal = ReasonCode.QUOTA_EXCEEDED
            if refusal is None:
                wanted.append(subscribing)
                if is_more or topic_filter in new:
                    new[topic_filter] = subscribing.filter
        except SelectorError as error:
            refusal, told = ReasonCode.TOPIC_FILTER_INVALID, str(error)
        reasons.append(refusal)
    return Examined(packet.packet_id, tuple(wanted), tuple(reasons), told)


def _check_selector(selector: str | None, limits: Limits) -> tuple[ReasonCode | None, str | None]:
    """Why the selector of a SUBSCRIBE cannot be used, once for all its topic filters; nothing if it can.

    The SUBSCRIBE is valid, but we cannot do what it asks: say where the mistake is.
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


def _unsupported(packet: Subscribe, request: SubscriptionRequest, limits: Limits) -> ReasonCode | None:
    """Sections 3.2.2.3.11 to 3.2.2.3.13: what CONNACK said is not available."""
    levels_max, topic_filter = limits.topic_levels_max, request.topic_filter
    if len(topic_filter) >= levels_max and topic_filter.count("/") >= levels_max:
        return ReasonCode.TOPIC_FILTER_INVALID
    if not limits.shared_subscription_available and request.topic_filter.startswith("$share/"):
        return ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED
    if not limits.wildcard_subscription_available and has_wildcard(request.topic_filter):
        return ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED
    if packet.properties.subscription_identifiers and not limits.subscription_identifier_available:
        return ReasonCode.SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED
    return None


def _subscribing(
    request: SubscriptionRequest,
    subscription: Subscription,
    before: Filter | None,
    cost_bytes: int,
    limits: Limits,
) -> Subscribing:
    """`before`: what the topic filter stands for already, by an earlier packet or an earlier place in this one."""
    filter_ = asked_for(subscription.topic_filter, subscription.selector)
    # [MQTT-3.3.1-9] always, [MQTT-3.3.1-10] if it is new, [MQTT-3.3.1-11] never; a shared one never (4.8.2).
    replay = filter_.group is None and (
        request.retain_handling == 0 or (request.retain_handling == 1 and before is None)
    )
    return Subscribing(
        subscription=subscription,
        filter=filter_,
        is_new=before is None,
        replay=replay and limits.retain_available,
        replaced=before if before is not None and before != filter_ else None,
        cost_bytes=cost_bytes,
    )


def grant(
    examined: Examined, reasons: Sequence[ReasonCode], reason_string: str, subscriptions: SubscriptionSet
) -> Suback:
    """Keep what was granted, and answer: one packet, a reason per filter, in order.

    ([MQTT-3.8.4-1], [MQTT-3.8.4-2], [MQTT-3.8.4-5], [MQTT-3.8.4-6], [MQTT-3.8.4-7], [MQTT-3.9.3-1])
    """
    for subscribing, reason in zip(examined.wanted, reasons, strict=True):
        if not reason.failed:
            granted = subscribing.subscription
            if granted.qos != reason:
                granted = msgspec.structs.replace(granted, qos=int(reason))
            subscriptions.add(granted, subscribing.filter)
    answers = tuple(reasons)
    if len(answers) < len(examined.reasons):
        decided = iter(reasons)
        answers = tuple(next(decided) if reason is None else reason for reason in examined.reasons)
    return Suback(examined.packet_id, answers, explanation(examined.reason_string or reason_string))
